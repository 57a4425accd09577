"""The collector beside everything that it could take something away from."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from .engine import FAR, EngineMachine, Far
from .merging import Merging


class Collecting(Merging):
    """Collectors, and readers that are pinned to versions, beside mergers, snapshot builders, writers and readers.

    A collector that expires versions starts only while nobody else is at work and no request is under way: it has no
    grace time, and that is what it would be for (AMB-92). Whoever starts later sees the versions that it leaves.
    """

    @property
    def is_quiet(self) -> bool:
        """Nobody is at work."""
        return not self.living and not self.landing

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR)
    def collect(self, far: Far) -> str:
        """A collector that expires no version starts."""
        return self.enter("collector", far, versions=None)

    @precondition(lambda self: self.is_quiet)
    @rule(target=EngineMachine.processes, far=FAR, versions=st.integers(1, 3))
    def expire(self, far: Far, versions: int) -> str:
        """A collector that expires versions starts."""
        return self.enter("collector", far, versions=versions)

    @precondition(lambda self: self.has_room)
    @rule(target=EngineMachine.processes, far=FAR, times=st.integers(1, 3))
    def pin_a_version(self, far: Far, times: int) -> str:
        """A reader of the version that is the newest when it begins."""
        return self.enter("version-reader", far, times=times)
