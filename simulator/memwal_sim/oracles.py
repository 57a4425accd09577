"""Oracles: what must hold in every reachable state.

An oracle judges (contents, ghosts) as if every process had crashed there, and is a pure function of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from memwal.effects import StoreRequest
from memwal.violations import Violation

from .book import Book
from .process import STORE_LIMIT, Ended, Process
from .store import Contents, perform
from .trie import AT_END, ROOT, Trie
from .world import Oracle, said, says

RECOVERY = "recovery succeeds"
INSPECTION = "the store can be inspected"


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The outcome of recovery on some contents."""

    end: Ended
    stuck: bool = False
    """It did not end within the limit of requests."""


@dataclass(frozen=True, slots=True)
class Asking:
    """An `Oracle` that says what it looks at, so that an explorer knows which changes it cannot see."""

    judge: Callable[[Contents, Any], Violation | None]
    requests: Sequence[StoreRequest[Any]] = ()
    """All that it has asked the store for so far: it grows."""

    def __call__(self, contents: Contents, ghosts: Any) -> Violation | None:
        return self.judge(contents, ghosts)


class Recovery:
    """A process that is run, alone and without faults, on any contents; engine code runs once per local history."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._book = Book()
        self._trie = Trie(process, self._book)
        self._known: dict[Contents, RecoveryResult] = {}

    @property
    def requests(self) -> Sequence[StoreRequest[Any]]:
        """All requests that it made so far, on whatever contents: it grows."""
        return self._book.requests

    def __call__(self, contents: Contents) -> RecoveryResult:
        """How the process ends when it starts on ``contents``, which stay as they are."""
        known = self._known.get(contents)
        if known is None:
            known = self._known[contents] = self._run(contents)
        return known

    def _run(self, contents: Contents) -> RecoveryResult:
        trie, book, node = self._trie, self._book, ROOT
        for _ in range(STORE_LIMIT):
            request = trie.requests[node]
            if request == AT_END:
                return RecoveryResult(trie.ends[node])
            contents, reply = perform(contents, book.requests[request])
            node = trie.child(node, book.reply_id(reply))
        return RecoveryResult(Ended(), stuck=True)


def after_crash(
    process: Process,
    judge: Callable[[Any, Any], Violation | None],
    *,
    clause: str = "WRITER-013",
    name: str = RECOVERY,
) -> Oracle:
    """The oracle that runs ``process`` on the contents and has ``judge`` compare its result with the ghosts.

    A process that fails or does not end is a violation by itself: of ``clause``, by the oracle ``name``.
    """
    recovery = Recovery(process)

    def oracle(contents: Contents, ghosts: Any) -> Violation | None:
        recovered = recovery(contents)
        if recovered.stuck:
            return Violation(clause, name, f"{process.name} made {STORE_LIMIT} requests and did not end")
        failure = recovered.end.failure
        if failure is not None:
            return Violation(clause, name, f"{process.name} failed with {failure.kind}: {failure.text}")
        return judge(recovered.end.result, ghosts)

    oracle.__name__ = f"after a crash: {process.name}"
    judged = said(judge)
    return oracle if judged is None else says(name, *judged)(oracle)


def inspected(process: Process, names: Sequence[str]) -> tuple[Oracle, ...]:
    """Oracles for a ``process`` that reads the store and returns violations of invariants: one for each of ``names``.

    One oracle more says whether the process came to its end.
    """
    inspection = Recovery(process)

    def ends(contents: Contents, _ghosts: Any) -> Violation | None:
        seen = inspection(contents)
        if seen.stuck or seen.end.failure is None:
            return Violation("ENGINE", INSPECTION, "the inspection did not end") if seen.stuck else None
        failure = seen.end.failure
        return Violation(failure.clause, INSPECTION, f"the inspection failed with {failure.kind}: {failure.text}")

    def holds(name: str) -> Oracle:
        def oracle(contents: Contents, _ghosts: Any) -> Violation | None:
            found: Sequence[Violation] = inspection(contents).end.result or ()  # type: ignore[assignment]
            return next((each for each in found if each.oracle == name), None)

        oracle.__name__ = name
        return says(name)(oracle)

    ends.__name__ = INSPECTION
    return (says(INSPECTION)(ends), *map(holds, names))
