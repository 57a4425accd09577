"""Simulation of the MemWAL engine: a simulated store, and drivers that explore, break and replay protocol code.

Read in this order: `store` (contents and requests), `outcomes` (what may happen to a request), `process` and `trie` (a
process as a tree of replies), `world` and `explorer` (all interleavings), `oracles` (what must hold), `scenario` (what
is run), `bugs` (what must be found), `trace` and `replay` (what was found, for ever).
"""
