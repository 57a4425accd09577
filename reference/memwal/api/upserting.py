"""Writing rows of any region: each goes to the one that the region spec says, through a writer that stays open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Literal

import pyarrow as pa

from ..errors import InvalidArgument, MemwalError
from ..index.region_values import RegionKey
from ..region.sequences import PutResult, SequenceBy
from .writer import Writer

Share = tuple[RegionKey, Mapping[str, object] | None, pa.Table]
"""What tells a region from others, its region values by field id (None: the one manual region), and rows of it."""
Claim = Callable[[Sequence[Mapping[str, object] | None], SequenceBy | None], Sequence[Writer]]
"""Opens the writers of the regions with these values."""


class OpenWriters:
    """The writers that `Table.upsert` and `Table.delete` keep open: one for each region that they have written to."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._open: dict[RegionKey, Writer] = {}
        self._sequence: SequenceBy | None = None
        """What all of them order rows by."""

    def write(
        self, shares: Sequence[Share], sequence: SequenceBy | None, action: Literal["put", "delete"]
    ) -> PutResult:
        """Write each share as one atomic write; if one fails all are closed, so that the next call claims anew."""
        if sequence != self._sequence:
            self.close()
            self._sequence = sequence
        unclaimed = [(key, values) for key, values, _ in shares if key not in self._open]
        if unclaimed:
            try:
                writers = self._claim([values for _, values in unclaimed], sequence)
            except MemwalError:
                with self.closing():
                    raise
            self._open |= {key: writer for (key, _), writer in zip(unclaimed, writers, strict=True)}
        done: list[PutResult] = []
        for key, _, rows in shares:
            writer = self._open[key]
            try:
                done.append(writer.put(rows) if action == "put" else writer.delete(rows))
            except MemwalError as failure:
                if done:
                    failure.add_note(f"regions that have their rows: {len(done)}; writing these again does no harm")
                if isinstance(failure, InvalidArgument):
                    raise
                with self.closing():
                    raise
        sums = {name: sum(getattr(each, name) for each in done) for name in ("rows", "late", "replaced")}
        return PutResult(**sums)

    def __bool__(self) -> bool:
        """Whether any is open."""
        return bool(self._open)

    def close(self) -> None:
        """Close all of them, also if one fails; raises the first failure, with a note of each further one."""
        with self.closing():
            pass

    def closing(self) -> ExitStack:
        """A block at whose end all are closed; a failure of that becomes a note of the error that ended the block."""
        stack = ExitStack()
        while self._open:
            stack.push(self._open.popitem()[1])
        return stack
