"""Region specs under running writers."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ..plays import routing
from .engine import FAR, EngineMachine, Far

KEYS = st.sampled_from(["a", "b"])


class Routing(EngineMachine):
    """Writers of old and new specs beside processes that change them, drain regions, and read."""

    play = routing.PLAY
    revisions = ("B", "R")

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR, key=KEYS, puts=st.integers(1, 2), flush=st.booleans())
    def write(self, far: Far, key: str, puts: int, flush: bool) -> str:
        """A writer looks up the region of a key, opens it and puts."""
        name = self.name_of_next("writer")
        values = [f"{name}.{number}" for number in range(1, puts + 1)]
        return self.enter("writer", far, key=key, values=values, flush=flush)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR)
    def drain(self, far: Far) -> str:
        """Somebody flushes and merges all regions."""
        return self.enter("drainer", far)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR, buckets=st.sampled_from([1, 2, 7]))
    def change_the_spec(self, far: Far, buckets: int) -> str:
        """Somebody makes another spec govern new writes."""
        return self.enter("changer", far, buckets=buckets)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR)
    def read(self, far: Far) -> str:
        """A reader of the whole table."""
        return self.enter("reader", far, times=1)
