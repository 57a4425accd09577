"""The claims of a run: who has opened a writer of which region, and whether another one has since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..protocol import Json


@dataclass(slots=True)
class Claims:
    """Answers to ``writer.open``, and how many have been sent without one."""

    answers: dict[str, Json] = field(default_factory=dict)
    """Actor and writer -> the answer to its claim, in the order of answers."""
    unanswered: int = 0
    """So many claims ended without an answer, or have not ended; each may have been made."""

    def sent(self) -> None:
        """A claim is on its way."""
        self.unanswered += 1

    def answered(self, writer: str, answer: Json) -> None:
        """A claim was made. A process that is started anew may use the name of a writer again."""
        self.unanswered -= 1
        self.answers.pop(writer, None)
        self.answers[writer] = answer

    def of(self, writer: str) -> tuple[str, int] | None:
        """Region and epoch of a writer; None where it did not tell its epoch."""
        claim = self.answers.get(writer, {})
        return (claim["region_id"], int(claim["epoch"])) if "epoch" in claim else None

    def flushed(self, writer: str, stored_epoch: Callable[[str], int]) -> None:
        """A flush has ended: an adapter whose flush is a close and a new claim has raised the epoch by itself."""
        own = self.of(writer)
        if own is not None and not self.followed(writer):
            self.answers[writer] = self.answers[writer] | {"epoch": str(max(own[1], stored_epoch(own[0])))}

    def followed(self, writer: str) -> bool:
        """Whether another claim of the region was answered after that of ``writer``."""
        if writer not in self.answers:
            return False
        region = self.answers[writer]["region_id"]
        return [name for name, answer in self.answers.items() if answer["region_id"] == region][-1] != writer

    def overtaken(self, writer: str, stored_epoch: Callable[[str], int]) -> bool:
        """Whether a claim that has not answered has raised the epoch of a region above that of ``writer``."""
        own = self.of(writer)
        return self.unanswered > 0 and own is not None and stored_epoch(own[0]) > own[1]
