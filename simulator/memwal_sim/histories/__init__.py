"""Histories of clients, and whether a correct store can have answered so; usable without the simulator.

`history` is the form that every process keeps, `operations` the same as registers, one per key, and as a file;
`verdicts` judges those. `history` imports nothing: the judge of the conformance suite reads it, and must not import the
engine.
"""
