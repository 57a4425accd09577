"""Mutation testing by hand: for each clause, a change of the source that breaks it, and a test that has to notice.

`mutants` reads what is written down and what was seen, `trials` makes it so again. Nothing of it is installed with the
package: mutants change a checkout's sources and are killed by its tests.
"""
