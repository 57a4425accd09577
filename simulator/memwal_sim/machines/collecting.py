"""The collector beside everything that it could take something away from."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ..plays import collecting
from .engine import FAR, EngineMachine, Far, Work, weighted
from .merging import WRITING
from .region_life import working

_JOBS: st.SearchStrategy[Work] = st.sampled_from(
    (
        ("merger", {}),
        ("collector", {}),
        ("snapshotter", {}),
        ("collector", {"script": [{"merge": None}, {"collect": {}}]}),
        ("collector", {"script": [{"collect": {"time_travel": "snapshot"}}]}),
    )
)
_READERS: st.SearchStrategy[Work] = st.sampled_from(
    (("reader", {}), ("version-reader", {}), ("reader", {"script": [{"read_eventually": None}]}), ("tagger", {}))
)


class Collecting(EngineMachine):
    """Collectors, and readers that are pinned to versions, beside mergers, snapshot builders, writers and readers.

    A collector that expires versions starts only while nobody else is at work and no request is under way: it has no
    grace time, and that is what it would be for (AMB-92). Whoever starts later sees the versions that it leaves.
    """

    play = collecting.PLAY
    revisions = ("B", "A", "R")
    works = weighted((2, working("writer", WRITING, 4)), (3, _JOBS), (2, _READERS))

    @precondition(lambda self: self.is_quiet)
    @rule(
        target=EngineMachine.processes,
        far=FAR,
        versions=st.integers(1, 3),
        time_travel=st.sampled_from(("progress", "snapshot")),
    )
    def expire(self, far: Far, versions: int, time_travel: str) -> str:
        """A collector that expires versions starts."""
        policy = {"retain_versions": versions, "time_travel": time_travel}
        return self.enter("collector", far, script=[{"collect": policy}])
