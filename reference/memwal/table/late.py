"""Rows of a fragment that are chosen by some of their columns: of the other columns only chosen rows are read.

Where most rows are chosen, and in small fragments, reading all columns at once is cheaper, and is done instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import cellwise
from ..codec.data_file import Decoder
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..keys import Mask
from . import read
from .held_pages import Held, parts_at, parts_of
from .reuse import Addresses
from .state import TableState
from .stored_file import Rows, StoredFile, at_hand, decoder, narrowed, opened

Offsets = npt.NDArray[np.int64]
"""Offsets of rows in their fragment, ascending. Shape (rows,)."""


SPARSE = 16
"""Rows that lie further apart than this are decoded one by one; else all between the first and the last are."""
GATHERED_ROWS = 1 << 13
"""As many rows that stay are waited for before other columns of them are read."""
APART_ROWS = 1 << 13
"""Fewest rows of a fragment that are worth reading some columns before others."""


Judge = Callable[[pa.Table], Mask]
"""Says of each of some rows whether it stays."""


def agreed(rows: pa.Table, judges: Sequence[Judge]) -> Mask:
    """Which of ``rows`` all ``judges`` let stay; each is asked for those only that the ones before it did."""
    found = np.ones(rows.num_rows, np.bool_)
    for number, judge in enumerate(judges, start=1):
        if not rows.num_rows:
            break
        stays = judge(rows)
        if stays.all():
            continue  # all that came so far go on to the next judge
        if len(stays) == len(found):
            found &= stays
        else:
            found[found] = stays
        if number < len(judges):
            rows = cellwise.where(rows, stays)
    return found


@dataclass(frozen=True, slots=True)
class Stage:
    """A question about rows, asked of those that all stages before it let stay."""

    columns: tuple[str, ...]
    """Columns that tell; at least one."""
    mask: Judge
    """Which of some rows stay. It is asked once for each row, in the order of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChoice:
    """Which rows of a stream are wanted."""

    stages: tuple[Stage, ...]
    """At least one. Each may have columns of those before it."""
    few: bool = False
    """Whether few rows are expected to be wanted, so that the columns of later stages are worth reading apart."""
    gone: Addresses | None = None
    """Addresses of rows of which no stage is asked: all that are deleted, and others. Ascending; None: the deleted."""

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """``names``, and the columns of all stages, each once."""
        return tuple(dict.fromkeys(chain(names, *(stage.columns for stage in self.stages))))

    async def live(self, io: Io, state: TableState, fragment: table_pb2.DataFragment) -> Mask:
        """Of which rows of the fragment stages are asked. Shape (rows,)."""
        live = np.ones(fragment.physical_rows, np.bool_)
        if self.gone is None:
            live[await read.deleted_offsets(io, fragment, state)] = False
        else:
            ends = np.array([fragment.id, fragment.id + 1], np.uint64) << np.uint64(32)
            first, end = np.searchsorted(self.gone, ends)
            live[self.gone[first:end] & np.uint64(0xFFFFFFFF)] = False
        return live


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
    steps = _steps(choice, columns)
    names = [name for step in steps for name in step.more]
    files = await read.open_files(io, state, fragment, names)
    apart = choice.few and len(steps[0].more) < len(names) and fragment.physical_rows >= APART_ROWS
    if apart:
        files = [await at_hand(io, file) for file in files]
    else:
        steps = [_Step(stage=step.stage, more=() if number else tuple(names)) for number, step in enumerate(steps)]
    first, *later = steps
    located = any(step.more for step in later)
    gathered = _Gathered(backwards=backwards)
    live: Mask | None = None
    with ExitStack() as stack:
        for step in later:
            if step.more:
                held = narrowed_to(io, state, fragment, files, step.more)
                step.late = LateColumns(io, state, fragment, step.more, held, backwards=backwards)
                stack.callback(step.late.close)
        looked_at = narrowed_to(io, state, fragment, files, first.more) if apart else files
        async for start, batch in read.placed_batches(io, state, fragment, first.more, looked_at, backwards=backwards):
            if live is None:
                live = await choice.live(io, state, fragment)
            stays = _staying(batch, live[start : start + batch.num_rows], first)
            if stays.any():
                offsets = start + np.flatnonzero(stays) if located else None
                gathered.add(batch if stays.all() else cellwise.where(batch, stays), offsets)
            if gathered.rows >= (GATHERED_ROWS if located else 1):
                async for found in _further(*gathered.taken(), later):
                    yield found.select(list(columns))
        if gathered.rows:
            async for found in _further(*gathered.taken(), later):
                yield found.select(list(columns))


def among(rows: pa.Table, choice: RowChoice, more: Sequence[str]) -> pa.Table:
    """Those of ``rows``, in write order, that ``choice`` wants; it is shown columns ``more`` besides its own."""
    for stage in choice.stages:
        stays = stage.mask(rows.select(list(dict.fromkeys([*stage.columns, *more]))))
        rows = rows if stays.all() else cellwise.where(rows, stays)
    return rows


@dataclass(slots=True, kw_only=True)
class _Gathered:
    """Rows of several batches that the first stage lets stay, and where they are.

    What reads more of them takes about as long for a few as for some thousand.
    """

    backwards: bool
    """Whether the last batch comes first."""
    rows: int = 0
    _parts: list[tuple[pa.Table, Offsets | None]] = field(default_factory=list)

    def add(self, rows: pa.Table, offsets: Offsets | None) -> None:
        """``offsets``: None if no later step reads more of them."""
        self._parts.append((rows, offsets))
        self.rows += rows.num_rows

    def taken(self) -> tuple[pa.Table, Offsets | None]:
        """All of them in row order; then there are none."""
        parts = self._parts[::-1] if self.backwards else self._parts
        self._parts, self.rows = [], 0
        places = [offsets for _, offsets in parts if offsets is not None]
        return pa.concat_tables([rows for rows, _ in parts]), np.concatenate(places) if places else None


@dataclass(slots=True, kw_only=True)
class _Step:
    """A stage, or after all of them the rest of the columns."""

    stage: Stage | None
    more: tuple[str, ...]
    """Columns that no step before it has read."""
    late: LateColumns | None = None
    """What reads them; None if there are none, and for the first step, whose columns are read of all rows."""


def _steps(choice: RowChoice, columns: Sequence[str]) -> list[_Step]:
    known: set[str] = set()
    steps = []
    for stage, names in [*((stage, stage.columns) for stage in choice.stages), (None, columns)]:
        more = tuple(name for name in dict.fromkeys(names) if name not in known)
        known.update(more)
        steps.append(_Step(stage=stage, more=more))
    return steps


def _staying(rows: pa.Table, live: Mask, step: _Step) -> Mask:
    """Which of the ``live`` ones of ``rows`` the stage of ``step`` lets stay; it is asked of those only."""
    if step.stage is None:
        return live
    columns, every = list(step.stage.columns), live.all()
    found = step.stage.mask(rows.select(columns) if every else cellwise.where(rows.select(columns), live))
    if every:
        return found
    stays = live.copy()
    stays[stays] = found
    return stays


async def _further(rows: pa.Table, offsets: Offsets | None, steps: Sequence[_Step]) -> AsyncIterator[pa.Table]:
    """Those of ``rows`` that all ``steps`` let stay, with the columns of these too.

    ``offsets``: where the rows are; None if no step reads more of them.
    """
    if not steps:
        yield rows
        return
    step, *later = steps
    if step.late is None:
        stays = _staying(rows, np.ones(rows.num_rows, np.bool_), step)
        if stays.any():
            there = offsets[stays] if offsets is not None else None
            async for found in _further(rows if stays.all() else cellwise.where(rows, stays), there, later):
                yield found
        return
    assert offsets is not None, "rows are located where some step reads more of them"
    read_here = [replace(step, late=None), *later]
    async for start, others in step.late.at(offsets):
        here = rows.slice(start, others.num_rows)
        wider = pa.table([*here.columns, *others.columns], names=[*here.schema.names, *others.schema.names])
        async for found in _further(wider, offsets[start : start + others.num_rows], read_here):
            yield found


def narrowed_to(
    io: Io, state: TableState, fragment: table_pb2.DataFragment, files: Iterable[StoredFile], names: Sequence[str]
) -> list[StoredFile]:
    """``files`` for those of their columns only that are among ``names``."""
    messages = {read.file_path(io, state, message): message for message in fragment.files}
    own = ((file, [name for name in file.columns if name in names]) for file in files)
    return [narrowed(file, messages[file.name], held, state.fields) for file, held in own if held]


@dataclass(slots=True)
class LateColumns:
    """Some columns of a fragment, of which rows are read here and there. What was fetched stays for a while."""

    io: Io
    state: TableState
    fragment: table_pb2.DataFragment
    names: Sequence[str]
    files: Sequence[StoredFile]
    """Those that hold ``names``."""
    rows: int = read.FIRST_ROWS
    """Of the next batch: the first one shows how large a row is."""
    backwards: bool = False
    """Whether the last batch comes first; the rows of each are in row order as ever."""
    _open: dict[str, _Chunks] = field(default_factory=dict)

    async def at(self, offsets: Offsets) -> AsyncIterator[tuple[int, pa.Table]]:
        """The rows at ``offsets``, which ascend, in batches of bounded size, each with where it begins among them."""
        shape = pa.schema([self.state.schema.field(name) for name in self.names])
        start, end = 0, len(offsets)
        while start < end:
            first, last = (max(start, end - self.rows), end) if self.backwards else (start, min(end, start + self.rows))
            parts = [await self._of(file, offsets[first:last]) for file in self.files]
            found = read.joined(self.io, self.files, parts, shape, last - first)
            self.rows = read.rows_of(last - first, found.nbytes)
            yield first, found
            start, end = (start, first) if self.backwards else (last, end)

    async def _of(self, file: StoredFile, offsets: Offsets) -> pa.Table:
        held = self._open.get(file.name)
        if held is None:
            held = self._open[file.name] = _Chunks(file)
        return await held.at(self.io, self.fragment, offsets)

    def close(self) -> None:
        """Drop what was fetched."""
        for held in self._open.values():
            held.close()


@dataclass(slots=True)
class _Chunks:
    """Parts of one file that were fetched, and their reader."""

    file: StoredFile
    reader: Rows | None = None
    held: Held = field(default_factory=Held)

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader, self.held = None, Held()

    async def at(self, io: Io, fragment: table_pb2.DataFragment, offsets: Offsets) -> pa.Table:
        """The rows at ``offsets``: what is missing of what holds them is fetched."""
        first, span = int(offsets[0]), int(offsets[-1] - offsets[0]) + 1
        apart = span > SPARSE * len(offsets)
        if self.file.layout is None:
            reader = await self._whole(io, fragment, offsets)
        else:
            reader = await self._paged(io, fragment, offsets if apart else np.arange(first, first + span), apart=apart)
        found = reader.take(offsets) if apart else reader.read(first, span)
        if not apart and span > len(offsets):
            found = cellwise.at(found, offsets - first)
        return found.select(list(reader.columns or ()))

    async def _paged(self, io: Io, fragment: table_pb2.DataFragment, rows: Offsets, *, apart: bool) -> Decoder:
        if self.held.size_bytes > read.FETCH_BYTES:
            self.close()
        file, fetch = self.file, parts_at if apart else parts_of
        if isinstance(self.reader, Decoder):
            if not self.reader.opened:
                self.reader.add(await fetch(io, file, rows.astype(np.uint64), self.held))
            return self.reader
        whole = await opened(io, file.name, file.size_bytes)
        found = whole or [*file.ends, *await fetch(io, file, rows.astype(np.uint64), self.held)]
        self.reader = read.checked(io, fragment, file, decoder(io, file, found))
        return self.reader

    async def _whole(self, io: Io, fragment: table_pb2.DataFragment, offsets: Offsets) -> Rows:
        """All of a small file, once; of one before version 2 what holds these rows."""
        if self.reader is None or self.file.paged:
            self.close()
            first, end = (int(offsets[0]), int(offsets[-1]) + 1) if self.file.paged else (0, fragment.physical_rows)
            self.reader = await read.decoder_of(io, fragment, self.file, first, end)
        return self.reader
