"""Rows of a fragment that are chosen by some of their columns: of the other columns only chosen rows are read.

Where most rows are chosen, and in small fragments, reading all columns at once is cheaper, and is done instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import cellwise
from ..codec.data_file import Decoder
from ..codec.file_layout import Range
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..keys import Mask
from . import read
from .state import TableState
from .stored_file import Rows, StoredFile, at_hand, fetched, narrowed, open_ranges

Offsets = npt.NDArray[np.int64]
"""Offsets of rows in their fragment, ascending. Shape (rows,)."""


SPARSE = 16
"""Rows that lie further apart than this are decoded one by one; else all between the first and the last are."""
APART_ROWS = 1 << 13
"""Fewest rows of a fragment that are worth reading some columns before others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChoice:
    """Which rows of a stream are wanted."""

    columns: tuple[str, ...]
    """Columns that tell; at least one."""
    mask: Callable[[pa.Table], Mask]
    """Which of some rows are wanted. It is asked once for each row, in the order of the stream."""
    few: bool = False
    """Whether few rows are expected to be wanted, so that the other columns are worth reading apart."""


async def chosen_batches(
    io: Io,
    state: TableState,
    fragment: table_pb2.DataFragment,
    columns: Sequence[str],
    choice: RowChoice,
    *,
    backwards: bool,
) -> AsyncIterator[pa.Table]:
    """``columns`` of those live rows of the fragment that ``choice`` wants, in batches as `read.batches` gives them."""
    names = list(dict.fromkeys([*choice.columns, *columns]))
    rest = [name for name in names if name not in choice.columns]
    files = await read.open_files(io, state, fragment, names)
    apart = choice.few and bool(rest) and fragment.physical_rows >= APART_ROWS
    looked_at = list(choice.columns) if apart else names
    if apart:
        files = [await at_hand(io, file) for file in files]
    live: Mask | None = None
    with ExitStack() as stack:
        late = LateColumns(io, state, fragment, rest, narrowed_to(io, state, fragment, files, rest))
        stack.callback(late.close)
        first = narrowed_to(io, state, fragment, files, looked_at) if apart else files
        async for start, batch in read.placed_batches(io, state, fragment, looked_at, first, backwards=backwards):
            if live is None:
                live = await read.live_rows(io, state, fragment)
            here = live[start : start + batch.num_rows]
            rows = batch if here.all() else cellwise.where(batch, here)
            wanted = choice.mask(rows.select(list(choice.columns)))
            if not wanted.any():
                continue
            found = rows if wanted.all() else cellwise.where(rows, wanted)
            if not apart:
                yield found.select(list(columns))
                continue
            at = 0
            async for others in late.at(start + np.flatnonzero(here)[wanted]):
                part = found.slice(at, others.num_rows)
                at += others.num_rows
                yield pa.table([*part.columns, *others.columns], names=[*looked_at, *rest]).select(list(columns))


def narrowed_to(
    io: Io, state: TableState, fragment: table_pb2.DataFragment, files: Iterable[StoredFile], names: Sequence[str]
) -> list[StoredFile]:
    """``files`` for those of their columns only that are among ``names``."""
    messages = {read.file_path(io, state, message): message for message in fragment.files}
    own = ((file, [name for name in file.columns if name in names]) for file in files)
    return [narrowed(file, messages[file.name], held, state.fields) for file, held in own if held]


@dataclass(slots=True)
class LateColumns:
    """Some columns of a fragment, of which rows are read here and there. Pages that were fetched stay for a while."""

    io: Io
    state: TableState
    fragment: table_pb2.DataFragment
    names: Sequence[str]
    files: Sequence[StoredFile]
    """Those that hold ``names``."""
    rows: int = read.FIRST_ROWS
    """Of the next batch: the first one shows how large a row is."""
    _open: dict[str, _Pages] = field(default_factory=dict)

    async def at(self, offsets: Offsets) -> AsyncIterator[pa.Table]:
        """The rows at ``offsets``, in that order, in batches of bounded size."""
        shape = pa.schema([self.state.schema.field(name) for name in self.names])
        while len(offsets):
            here, offsets = offsets[: self.rows], offsets[self.rows :]
            parts = [await self._of(file, here) for file in self.files]
            found = read.joined(self.io, self.files, parts, shape, len(here))
            self.rows = read.rows_of(len(here), found.nbytes)
            yield found

    async def _of(self, file: StoredFile, offsets: Offsets) -> pa.Table:
        held = self._open.get(file.name)
        if held is None:
            held = self._open[file.name] = _Pages(file)
        return await held.at(self.io, self.fragment, offsets)

    def close(self) -> None:
        """Drop what was fetched."""
        for held in self._open.values():
            held.close()


@dataclass(slots=True)
class _Pages:
    """Pages of one file that were fetched, and their reader."""

    file: StoredFile
    reader: Rows | None = None
    ranges: set[Range] = field(default_factory=set)
    size_bytes: int = 0

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader, self.ranges, self.size_bytes = None, set(), 0

    async def at(self, io: Io, fragment: table_pb2.DataFragment, offsets: Offsets) -> pa.Table:
        """The rows at ``offsets``: what is missing of their pages is fetched."""
        first, span = int(offsets[0]), int(offsets[-1] - offsets[0]) + 1
        apart = span > SPARSE * len(offsets)
        read_rows = offsets if apart else np.arange(first, first + span)
        if self.file.layout is None:
            reader = await self._whole(io, fragment, offsets)
        else:
            reader = await self._paged(io, fragment, self.file.layout.pages_of(self.file.indices, read_rows))
        found = reader.take(offsets) if apart else reader.read(first, span)
        if len(read_rows) > len(offsets):
            found = cellwise.at(found, offsets - first)
        return found.select(list(reader.columns or ()))

    async def _paged(self, io: Io, fragment: table_pb2.DataFragment, wanted: frozenset[Range]) -> Decoder:
        missing = wanted - self.ranges
        if self.size_bytes + sum(size for _, size in missing) > read.FETCH_BYTES:
            self.close()
            missing = wanted
        if not isinstance(self.reader, Decoder):
            self.reader = read.checked(io, fragment, self.file, await open_ranges(io, self.file, missing))
        elif missing:
            self.reader.add(await fetched(io, self.file, missing))
        self.ranges |= missing
        self.size_bytes += sum(size for _, size in missing)
        return self.reader

    async def _whole(self, io: Io, fragment: table_pb2.DataFragment, offsets: Offsets) -> Rows:
        """All of a small file, once; of one before version 2 what holds these rows."""
        if self.reader is None or self.file.paged:
            self.close()
            first, end = (int(offsets[0]), int(offsets[-1]) + 1) if self.file.paged else (0, fragment.physical_rows)
            self.reader = await read.decoder_of(io, fragment, self.file, first, end)
        return self.reader
