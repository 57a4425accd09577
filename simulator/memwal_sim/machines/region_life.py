"""The life of one region under revisions A, B and R."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ..plays import region
from .engine import FAR, EngineMachine, Far

KEYS = st.sampled_from(["a", "b"])
STEPS = st.one_of(
    st.builds(lambda keys: {"put": keys}, st.lists(KEYS, min_size=1, max_size=2, unique=True)),
    st.just({"flush": None}),
    st.builds(lambda key: {"delete": [key]}, KEYS),
)
"""Steps of a writer; the values that it puts are named after it."""


def script(name: str, steps: list[dict[str, Any]], *, deletes: bool) -> list[dict[str, Any]]:
    """``steps`` with a value of its own for each put; deletes become puts where there are none (A, B)."""
    told = []
    for number, step in enumerate(steps, 1):
        ((what, keys),) = step.items()
        if what == "put" or (what == "delete" and not deletes):
            step = {"put": dict.fromkeys(keys, f"{name}.{number}")}
        told.append(step)
    return told


class RegionLife(EngineMachine):
    """Writers that claim one region, put, delete (R), flush, stall and die; strong readers beside them."""

    play = region.PLAY
    revisions = ("A", "B", "R")

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR, steps=st.lists(STEPS, min_size=1, max_size=4))
    def open_a_writer(self, far: Far, steps: list[dict[str, Any]]) -> str:
        """A writer opens the region and does some work, whoever else does."""
        told = script(self.name_of_next("writer"), steps, deletes=self.setting.revision.tombstones)
        return self.enter("writer", far, script=told)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR, times=st.integers(1, 2))
    def read(self, far: Far, times: int) -> str:
        """A reader of the whole table."""
        return self.enter("reader", far, times=times)
