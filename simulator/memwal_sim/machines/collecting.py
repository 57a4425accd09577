"""The collector beside everything that it could take something away from."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ..workloads import collecting
from .engine import FAR, EngineMachine, Far, Work, weighted
from .merging import FLUSHING, WRITING
from .region_life import READER, working

_SPARING = {"collect": {"retain_versions": 1, "time_travel": "snapshot"}}
"""It goes past a tag that is older than a merge; otherwise that keeps nearly everything."""
_JOBS: st.SearchStrategy[Work] = st.sampled_from(
    (
        ("collector", {"script": [{"merge": None}, _SPARING]}),
        ("merger", {}),
        ("collector", {}),
        ("snapshotter", {}),
        ("collector", {"script": [{"collect": {"retain_versions": 2}}]}),
        ("collector", {"script": [{"collect": {"time_travel": "snapshot"}}]}),
    )
)
_READERS: st.SearchStrategy[Work] = st.sampled_from(
    (("version-reader", {}), ("reader", {"script": [{"read_eventually": None}]}), ("tagger", {}))
)


class Collecting(EngineMachine):
    """Collectors, and readers that are pinned to versions, beside mergers, snapshot builders, writers and readers.

    A collector that expires versions starts only while no other process is at work and no request is under way: it has
    no grace time, and that is what it would be for (AMB-92). A process that starts later sees the versions left.
    """

    workload = collecting.WORKLOAD
    revisions = ("B", "A", "R")
    works = weighted((2, FLUSHING), (1, working("writer", WRITING, 4)), (2, _JOBS), (2, READER), (1, _READERS))
    others = weighted((3, _JOBS), (1, working("writer", WRITING, 4)))

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

    @precondition(lambda self: self.has_room)
    @rule(
        target=EngineMachine.processes,
        stalled=st.one_of(
            st.tuples(FLUSHING, st.tuples(st.just("changes"), st.integers(2, 9))),
            st.tuples(READER, st.tuples(st.just("requests"), st.integers(1, 30))),
        ),
        job=_JOBS,
    )
    def collect_meanwhile(self, stalled: tuple[Work, Far], job: Work) -> str:
        """A flush or a strong read stalls in the middle; a job is done; and it runs to its end."""
        (role, arguments), far = stalled
        process = self.enter(role, far, **arguments)
        self.enter(job[0], ("end", 0), **job[1])
        self.judge()
        self.run_to_end(process)
        return process
