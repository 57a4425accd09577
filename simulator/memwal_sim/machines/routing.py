"""Region specs under running writers."""

from __future__ import annotations

from hypothesis import strategies as st

from ..workloads import routing
from .engine import EngineMachine, Work, weighted
from .region_life import READER, working


def _writing(key: str) -> st.SearchStrategy[Work]:
    """A writer of one key: the region that it has opened is that of its key."""
    steps = ({"put": key}, {"flush": None}, {"close": None}, {"merge": None})
    return working("writer", st.sampled_from(steps), 4)


_ADMINISTERING: st.SearchStrategy[Work] = st.sampled_from(
    (
        ("administrator", {"script": [{"add_spec": 7}]}),
        ("administrator", {"script": [{"add_spec": 7}, {"put": "a"}]}),
        ("administrator", {"script": [{"add_spec": 2}]}),
        ("administrator", {"script": [{"remove_spec": 1}]}),
        ("drainer", {}),
        ("snapshotter", {}),
    )
)


class Routing(EngineMachine):
    """Writers of old and new specs beside processes that change them, drain regions, and read."""

    workload = routing.WORKLOAD
    revisions = ("B", "R")
    works = weighted((2, _writing("a")), (1, _writing("b")), (3, _ADMINISTERING), (1, READER))
