"""Random schedules: one history at a time instead of all of them, for scopes that are too large to explore in full.

Read in this order: `unfolding` (a world as a graph of states that grows under the feet of its walkers), `walking` (one
run), `draws` and `mishaps` (where chance comes from, and what it does besides choosing), `uniform`, `pct`, `swarm` and
`by_hypothesis` (the strategies), `hunting` (runs until something is found).
"""
