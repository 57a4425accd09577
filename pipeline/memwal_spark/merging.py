"""A merger that works while Spark writes: in the driver, again and again, until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

import memwal
from memwal.errors import Conflict
from memwal.ids import Generation, RegionId

from .beside import Beside


@dataclass(frozen=True, slots=True, kw_only=True)
class MergerProgress:
    """What a merger did so far."""

    passes: int
    """Calls of ``merge`` that ended."""
    generations: int
    rows: int
    conflicts: int
    """Passes that lost their commit to another one and were begun again."""


class BackgroundMerger:
    """Context manager: merges every flushed generation of the table at ``path`` from a thread of its own.

    ``tell`` receives the progress after each pass that merged something, ``note`` what was merged. Errors: as `Beside`
    has them.
    """

    def __init__(
        self,
        path: str,
        tell: Callable[[MergerProgress], None],
        note: Callable[[Sequence[tuple[RegionId, Generation]]], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._tell, self._note = tell, note
        self._merged = MergerProgress(passes=0, generations=0, rows=0, conflicts=0)
        self._beside = Beside("merger", self._pass)

    @property
    def merged(self) -> MergerProgress:
        """Progress; final once the context was left."""
        return self._merged

    def __enter__(self) -> BackgroundMerger:
        self._beside.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._beside.__exit__(kind, error, trace)

    def _pass(self) -> None:
        before = self._merged
        try:
            report = memwal.open(self._path).merge()
        except Conflict as conflict:
            if not conflict.retryable:
                raise
            generations, rows, conflicts = 0, 0, 1
        else:
            generations, rows, conflicts = len(report.merged), report.rows, 0
            self._note(report.merged)
        self._merged = MergerProgress(
            passes=before.passes + 1,
            generations=before.generations + generations,
            rows=before.rows + rows,
            conflicts=before.conflicts + conflicts,
        )
        if generations:
            self._tell(self._merged)
