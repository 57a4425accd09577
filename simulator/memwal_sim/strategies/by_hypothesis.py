"""Schedules as examples of a property test: Hypothesis draws each choice, and shrinks what it finds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from memwal.errors import InvalidArgument

from .strategy import Terms
from .unfolding import Lanes
from .walking import NEVER, Walk, walk

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

NORMAL_SHARE = 24
"""Of so many and a few choices for a request's fate, these are the normal one."""

SHRINKS_MAX = 2000
"""Runs that shrink what was found, about; counted, not timed, so that equal seeds shrink to equal runs."""

Seen = Callable[[Walk], bool]
"""Is told each run; True: no more of them."""


class _FoundError(Exception):
    """A run violates something: what makes Hypothesis shrink it."""


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
    """The shortest violating run that Hypothesis comes to, or None if ``runs_max`` runs violate nothing.

    ``seen`` is told each run up to the first that violates something; those of shrinking come after.
    Raises `InvalidArgument` if Hypothesis is not installed.
    """
    if find_spec("hypothesis") is None:
        raise InvalidArgument("the strategy hypothesis needs the package hypothesis, which comes with memwal[dev]")
    import hypothesis
    from hypothesis import strategies as st

    found: list[Walk] = []
    shrinks = 0

    def play(data: DataObject) -> None:
        nonlocal shrinks

        def pick(lanes: Lanes) -> int:
            lane: int = data.draw(st.sampled_from(lanes))
            return lane

        run = walk(terms.unfolding, pick, _DrawnFaults(data, terms.faults))
        if found:
            shrinks += 1
        over = shrinks >= SHRINKS_MAX if found else seen(run)
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
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=tuple(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    with suppress(_FoundError, _OverError):
        hypothesis.seed(seed)(settings(hypothesis.given(st.data())(play)))()
    return min(found, key=lambda run: len(run.keys), default=None)
