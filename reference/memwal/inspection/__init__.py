"""Looking into a table or one of its files, for people and for programs: what is there, and what of it is damaged.

Nothing is judged here but whether an object can be read; `memwal.invariants` holds objects against each other. No rows
are read, and no native reader is asked, so that any bytes can be looked into.
"""
