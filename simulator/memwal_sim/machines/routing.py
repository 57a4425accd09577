"""Region specs under running writers."""

from __future__ import annotations

from hypothesis import strategies as st

from ..plays import routing
from .engine import EngineMachine, Work, weighted
from .region_life import READER, working

_WRITING = st.sampled_from(
    ({"put": "a"}, {"put": "b"}, {"flush": None}, {"close": None}, {"merge": None}, {"add_spec": 7})
)
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

    play = routing.PLAY
    revisions = ("B", "R")
    works = weighted((3, working("writer", _WRITING, 4)), (3, _ADMINISTERING), (1, READER))
