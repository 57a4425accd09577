"""Schedules as examples of a property test: Hypothesis draws each choice.

Hypothesis could shrink what it finds too, by thousands of runs that say little of schedules;
`memwal_sim.traces.shrinking` does it for every strategy, and knows what a process and a fault are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from memwal.errors import InvalidArgument

from ..exploring.unfolding import Lanes
from .strategy import Terms
from .walking import NEVER, Walk, walk

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

NORMAL_SHARE = 24
"""Of so many and a few choices for a request's fate, these are the normal one."""

Seen = Callable[[Walk], bool]
"""Is told each run; True: no more of them."""


class _FoundError(Exception):
    """A run violates something: what ends Hypothesis's search."""


class _OverError(BaseException):
    """The hunt has met a limit. Hypothesis takes an `Exception` for a failure of the property."""


class _DrawnFaults:
    """Faults that Hypothesis draws, as long as there is a budget."""

    def __init__(self, data: DataObject, budget: int) -> None:
        self._data = data
        self._left = budget
        self.due = 0 if budget else NEVER

    def fate(self, step: int, possible: tuple[int, ...]) -> int:  # noqa: ARG002 - of the protocol `Faults`
        from hypothesis import strategies as st

        if not possible:
            return 0
        fate: int = self._data.draw(st.sampled_from((*[0] * NORMAL_SHARE, *possible)))
        if fate:
            self._left -= 1
            self.due = 0 if self._left else NEVER
        return fate


def search(terms: Terms, seed: int, runs_max: int, seen: Seen) -> Walk | None:
    """The first violating run that Hypothesis comes to, or None if ``runs_max`` runs violate nothing.

    ``seen`` is told each run, that one included.
    Raises `InvalidArgument` if Hypothesis is not installed.
    """
    if find_spec("hypothesis") is None:
        raise InvalidArgument("the strategy hypothesis needs the package hypothesis: pip install 'memwal[machines]'")
    import hypothesis
    from hypothesis import strategies as st

    found: list[Walk] = []

    def one_walk(data: DataObject) -> None:

        def pick(lanes: Lanes) -> int:
            lane: int = data.draw(st.sampled_from(lanes))
            return lane

        run = walk(terms.unfolding, pick, _DrawnFaults(data, terms.faults))
        if found:
            raise _FoundError
        over = seen(run)
        if run.violation is not None:
            found.append(run)
            raise _FoundError
        if over:
            raise _OverError

    settings = hypothesis.settings(
        max_examples=runs_max,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=tuple(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    with suppress(_FoundError, _OverError):
        hypothesis.seed(seed)(settings(hypothesis.given(st.data())(one_walk)))()
    return found[0] if found else None
