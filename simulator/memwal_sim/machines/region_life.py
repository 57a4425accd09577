"""The life of one region under revisions A, B and R."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ..workloads import region
from .engine import EngineMachine, Work, weighted

_PUTS = st.sampled_from(({"put": ["a"]}, {"put": ["a", "b"]}, {"put": ["b"]}))
_RARE = st.sampled_from(
    ({"delete": ["a"]}, {"freeze": None}, {"flush_frozen": None}, {"open": None}, {"read_with_memory": None})
)
STEPS = weighted((3, _PUTS), (2, st.just({"flush": None})), (1, _RARE))
"""Steps of a writer."""


def working(role: str, steps: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[Work]:
    """Processes of ``role`` that take some of ``steps``; some of them continue where one fails."""
    script = st.lists(steps, min_size=1, max_size=most)
    return st.builds(
        lambda told, more: (role, {"script": told, **more}), script, st.sampled_from(({}, {"insists": True}))
    )


READER: st.SearchStrategy[Work] = st.just(("reader", {}))


class RegionLife(EngineMachine):
    """Writers that claim one region, put, delete (R), flush, stall and die; strong readers beside them."""

    workload = region.WORKLOAD
    revisions = ("B", "A", "R")
    works = weighted((4, working("writer", STEPS, 3)), (1, READER))
