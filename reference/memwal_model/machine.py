"""The abstract machine of one region: what a store and its processes know, and the steps that change it.

It is in four parts, each of which reads from top to bottom: `state`, and the steps of the `writer`, of what works on
the base `table`, and of the `reader`. What goes wrong where a text is read literally is apart, in `literal`. Names of
variables say what they stand for: `w`, `v` writers, `p`, `q` positions, `x`, `y` epochs, `g` generations, `t`, `u`
table versions, `n` manifest versions, `k` keys, `m` mergers, `b` index builders, `i`, `j` maintained indexes, `r`
readers. There are any number of each.

A step is atomic: it is one request to the store, or what a process does with an answer. A request that is answered
late, twice or never needs no steps of its own: it is sent in one step and carried out in another, which may come at
any time, or never.

Source: MemWAL revisions A and B; the readings are those of SPEC_NOTES, by their AMB numbers.
"""

from __future__ import annotations

from . import writer  # isort: split

from . import table  # isort: split

from . import reader  # isort: split

from . import literal
from .form import ACTIONS, ASSUMPTIONS, FIELDS, INITIAL

__all__ = ["ACTIONS", "ASSUMPTIONS", "FIELDS", "INITIAL", "literal", "reader", "table", "writer"]
