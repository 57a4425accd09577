"""Changes that are repeated until their outcome is known, and what is said where it stays unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from memwal import confirm
from memwal.effects import Io, Protocol, StoreRequest
from memwal.errors import Outcome, OutcomeUnknown, StorageError, Throttled
from memwal.revisions import STRICT

from .kit.ground import Ground

IO = Io("t", interpretation=STRICT)
CHANGES: dict[str, Callable[[], Protocol[None]]] = {
    "create": lambda: confirm.create(IO, "a", b"x"),
    "create unconditionally": lambda: confirm.create_unconditionally(IO, "a", b"x"),
    "copy": lambda: confirm.copy(Io("s", interpretation=STRICT), IO, "a"),
    "delete": lambda: confirm.delete(IO, "a"),
    "rename": lambda: confirm.rename(IO, "b", "a", b"x"),
}
EACH = pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))


def ending(change: Callable[[], Protocol[None]], *answers: Outcome) -> tuple[Outcome, int]:
    """How ``change`` ends where its attempts are answered so, the last answer for ever; and how many it made."""
    ground = Ground()

    def fault(_: StoreRequest[Any]) -> Outcome:
        return answers[min(len(ground.asked), len(answers)) - 1]

    ground.before = fault
    with pytest.raises(Outcome) as caught:
        ground.run(change())
    return caught.value, len(ground.asked)


@EACH
@pytest.mark.clause("AMB-14")
def test_a_change_that_was_not_answered_once_has_no_known_outcome_however_it_ends(
    change: Callable[[], Protocol[None]],
) -> None:
    for answers, attempts in (
        ((OutcomeUnknown("a"), Throttled("a")), confirm.ATTEMPTS),
        ((Throttled("a"), OutcomeUnknown("a"), Throttled("a")), confirm.ATTEMPTS),
        ((OutcomeUnknown("a"), StorageError("a", "permission denied")), 2),
        ((OutcomeUnknown("a"),), confirm.ATTEMPTS),
    ):
        outcome, made = ending(change, *answers)
        assert (type(outcome), made) == (OutcomeUnknown, attempts)


@EACH
@pytest.mark.clause("AMB-14")
def test_a_change_whose_every_attempt_was_refused_has_not_happened(change: Callable[[], Protocol[None]]) -> None:
    for answers, kind, attempts in (
        ((Throttled("a"),), Throttled, confirm.ATTEMPTS),
        ((Throttled("a"), StorageError("a", "disk full")), StorageError, 2),
    ):
        outcome, made = ending(change, *answers)
        assert (type(outcome), made) == (kind, attempts)
