"""The soak: the engine's own writers, jobs and readers in virtual time, for days, on a store with latency and faults.

Read in this order: `settings` (what a soak is), `store` and `network` (what it runs on), `actor` (a protocol coroutine
in virtual time), `roles` (who runs), `history` and `guard` (what must hold), `run` (from settings to a result),
`samples`, `plots` and `page` (what is shown). `counting`, `costs` and `capacity` answer what a store would see.
"""
