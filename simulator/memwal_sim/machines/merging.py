"""A region and its base table under concurrent jobs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ..plays import merging
from .engine import FAR, EngineMachine, Far
from .region_life import script

WORK = st.lists(
    st.sampled_from([{"put": ["a"]}, {"put": ["a", "b"]}, {"flush": None}, {"flush": None}, {"delete": ["a"]}]),
    min_size=2,
    max_size=5,
)
"""Scripts of writers that flush often."""


class Merging(EngineMachine):
    """Mergers and snapshot builders beside writers and strong readers."""

    play = merging.PLAY
    revisions = ("A", "B", "R")

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR, steps=WORK)
    def open_a_writer(self, far: Far, steps: list[dict[str, Any]]) -> str:
        """A writer opens the region and does some work."""
        told = script(self.name_of_next("writer"), steps, deletes=self.setting.revision.tombstones)
        return self.enter("writer", far, script=told, collected=True)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR)
    def merge(self, far: Far) -> str:
        """A merger starts."""
        return self.enter("merger", far)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR)
    def build_a_snapshot(self, far: Far) -> str:
        """A snapshot builder starts."""
        return self.enter("snapshotter", far)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR)
    def read(self, far: Far) -> str:
        """A reader of the whole table."""
        return self.enter("reader", far, times=1)
