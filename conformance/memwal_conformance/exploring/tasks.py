"""Marks of finished tasks in a life: which ones were stored, and what has to be known of them from then on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..protocol import Json
from .asking import WrongAnswer

APPLICATION = "life"
Call = Callable[[str, Json], Json]
"""Sends a message, with its parameters, and gives the answer."""


@dataclass(slots=True)
class TaskMarks:
    """Batches of one application whose task was finished in the first region, each under a number of its own."""

    begun: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    """Those that were acknowledged."""

    def finish(self, call: Call, writer: str, number: int) -> None:
        """Have a mark stored; ``number``: of the operation."""
        batch = 10 * (number + 1)
        self.begun.append(batch)
        call("task.finish", {"writer": writer, **_task(batch)})
        self.stored.append(batch)

    def asked(self, call: Call, table: str, region_id: str) -> list[WrongAnswer]:
        """Ask for every mark that is stored, for an older batch, and for tasks that were not finished."""
        stored, begun = list(self.stored), list(self.begun)
        older = [(max(stored) - 1, 1)] if stored else []
        newer = [(max(begun, default=0), 1), (max(begun, default=0) + 1, 0)]
        wrong = []
        for right, tasks in ((True, [(batch, 0) for batch in stored] + older), (False, newer)):
            for batch, partition in tasks:
                done = call("task.done", {"table": table, "region_id": region_id, **_task(batch, partition)})["done"]
                if done is not right and (right or begun == self.begun):
                    wrong.append(_wrong(batch, partition, right=right, stored=stored))
        return wrong


def _task(batch: int, partition: int = 0) -> Json:
    return {"application": APPLICATION, "batch": batch, "partition": partition}


def _wrong(batch: int, partition: int, *, right: bool, stored: list[int]) -> WrongAnswer:
    words = "a task that was finished, or is older than one, is not known" if right else "a task counts as finished"
    detail = f"{words}: batch {batch}, partition {partition}; finished in partition 0: {stored}"
    return WrongAnswer(words=words, detail=detail, clauses=())
