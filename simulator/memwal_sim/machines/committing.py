"""Concurrent transactions of one table."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ..plays import committing
from .engine import FAR, EngineMachine, Far

STEPS = st.lists(
    st.sampled_from(
        [{"append": ["a"]}, {"append": ["a", "b"]}, {"upsert": ["a"]}, {"upsert": ["b"]}, {"delete": ["a"]}]
    ),
    min_size=1,
    max_size=3,
)


class Committing(EngineMachine):
    """Processes that append, upsert, delete and set keys of the config of one table, and readers."""

    play = committing.PLAY

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR, steps=STEPS)
    def commit(self, far: Far, steps: list[dict[str, Any]]) -> str:
        """A process makes some commits."""
        name = self.name_of_next("committer")
        told: list[dict[str, Any]] = []
        for number, step in enumerate(steps, 1):
            ((what, keys),) = step.items()
            told.append({what: keys if what == "delete" else dict.fromkeys(keys, f"{name}.{number}")})
        return self.enter("committer", far, script=told)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR)
    def configure(self, far: Far) -> str:
        """A process sets a key of the config."""
        return self.enter("configurer", far)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR, times=st.integers(1, 2))
    def read(self, far: Far, times: int) -> str:
        """A reader of the newest version."""
        return self.enter("reader", far, times=times)
