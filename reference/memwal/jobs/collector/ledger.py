"""Carrying decisions out, or only writing them down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ... import confirm
from ...effects import Io
from ...errors import NotFound
from .decision import Decision


@dataclass(slots=True)
class Ledger:
    """What one call decided so far, and whether it acts on it."""

    dry_run: bool
    """Then no request changes anything."""
    sizes: bool
    """Whether the objects that go are measured, one HEAD each."""
    report: bool = True
    """Whether decisions are kept: a run over a large table makes one for everything that it looks at."""
    decisions: list[Decision] = field(default_factory=list)

    def enter(self, decision: Decision) -> None:
        """Write a decision down whose objects were deleted otherwise, or stay."""
        if self.report:
            self.decisions.append(decision)

    async def measured(self, io: Io, decision: Decision, names: Sequence[str]) -> Decision:
        """``decision`` with the size of ``names``, the objects that it is about, if they go and sizes are wanted."""
        if not (decision.collected and self.sizes):
            return decision
        return replace(decision, size_bytes=sum([await _size(io, name) for name in names]))

    async def carry_out(self, io: Io, decision: Decision, names: Sequence[str]) -> None:
        """Write ``decision`` down and, if it says so, delete ``names`` (relative to ``io``) in their order."""
        decision = await self.measured(io, decision, names)
        if decision.collected and not self.dry_run:
            await io.note("collecting", kind=decision.kind, name=decision.name)
            for name in names:
                await confirm.delete(io, name)
        self.enter(decision)


async def _size(io: Io, name: str) -> int:
    try:
        return await io.head(name)
    except NotFound:
        return 0
