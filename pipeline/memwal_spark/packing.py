"""Rows on their way to the task of their region: as Arrow bytes, so that Spark moves few rows and sorts none.

A task that reads divides its rows by region, a chunk at a time, and hands on the rows of each region as one row of
Spark's: the bytes of an Arrow stream, in sequence order, and how many rows they stand for. The task of the region puts
these runs in order. What is more than it may hold waits in files, each in order too, and is merged from there. Where
rows that others of their key are above need not be written, they are left out wherever rows meet.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from memwal import cellwise
from memwal.errors import InvalidArgument
from memwal.key_codes import Codes
from memwal.keys import repeated
from memwal.region.sequences import comparable

from .errors import sentences
from .settling import settle
from .values import as_text
from .write import check_given, check_regions

TASK, ROWS, GIVEN = "task", "rows", "given"
PACKED = f"{TASK} int, {ROWS} binary, {GIVEN} bigint"
"""Columns of packed rows, in Spark's words: the number of the task, what it gets, and of how many rows that is left."""
CHUNK_BYTES = 32 << 20
"""A chunk is divided when it has so many bytes."""
WRITE_ROWS = 1 << 16
"""Most rows of one write, which has `CHUNK_BYTES` at most, too."""
HELD_BYTES = 64 << 20
"""What a task holds of rows that are not in order yet."""
_PIECE_BYTES = 1 << 20
"""Of each file so much is read at a time."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How rows find the tasks of their regions."""

    key: tuple[str, ...]
    sequence_by: str
    values: Callable[[pa.Table], pa.Table] | None
    """Computes the region values of rows; None for a table without a region spec."""
    region_column: str | None
    """Column with the region ids then."""
    buckets: int | None
    """How many there are, where the spec is one bucket field: the bucket is the number of the task, and rows without
    one have a task behind these."""
    known: tuple[str, ...]
    """Region values as texts, or region ids, in the order of their tasks; of no account where there are buckets."""
    standing_only: bool = False
    """Whether rows are left out that a row of their key and task in the same chunk is above; see `standing`."""

    def pack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of Spark's, each with a run of one task. Raises PySparkException."""
        with sentences():
            for rows in chunks(batches):
                yield from self._divided(rows)
        settle()

    def _divided(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        check_given(self.key, rows, self.sequence_by)
        tasks = self._tasks(rows)
        by = pa.table([tasks, comparable(rows[self.sequence_by])], names=["task", "sequence"])
        order = pc.sort_indices(by, [("task", "ascending"), ("sequence", "ascending")]).to_numpy()
        numbers = tasks.to_numpy()[order]
        ends = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
        given = [order[start:end] for start, end in pairwise(ends)]
        left = [self._standing(rows, run) for run in given] if self.standing_only else given
        rows = cellwise.at(rows, np.concatenate(left))
        start = 0
        for number, came, kept in zip(numbers[ends[:-1]], given, left, strict=True):
            run = _bytes(rows.slice(start, len(kept)))
            start += len(kept)
            told = [pa.array([number]), pa.array([run]), pa.array([len(came)])]
            yield pa.record_batch(told, names=[TASK, ROWS, GIVEN])

    def _standing(self, rows: pa.Table, run: Codes) -> Codes:
        """Those of the positions ``run`` whose rows stand; they are of one task, in sequence order."""
        told = rows.select([*self.key, self.sequence_by]).take(pa.array(run))
        return run[standing(told, self.key, self.sequence_by)]

    def _tasks(self, rows: pa.Table) -> pa.Array:
        """Number of each row's task."""
        if self.values is None:
            assert self.region_column is not None, "route has looked"
            check_regions(rows[self.region_column])
            texts = rows[self.region_column].combine_chunks()
        else:
            values = self.values(rows)
            if self.buckets is not None:
                return pc.fill_null(values.column(0).combine_chunks(), self.buckets).cast(pa.int32())
            texts = as_text(values)
        found = pc.index_in(texts, pa.array(self.known, texts.type))
        if found.null_count:
            raise InvalidArgument(
                "[MEMWAL_OTHER_REGIONS] Spark computed the rows twice, and they had other regions the second time: "
                "write rows that do not change, for example after df.persist()"
            )
        return found


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows, in tables of some batches each."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def standing(rows: pa.Table, key: Sequence[str], by: str) -> Codes:
    """Positions of the rows that no other row of their ``key`` is above, of rows in the order of ``by``.

    Of one key they all have the same sequence: which one of them stands is for the writer to say.
    """
    places: Codes = np.arange(rows.num_rows)
    several = repeated(rows.select(list(key)))
    if several is None:
        return places
    order, number = several
    last = order[np.append(number[1:] != number[:-1], True)][number]
    sequence = comparable(rows[by])
    below = pc.not_equal(*(sequence.take(pa.array(at)) for at in (order, last))).to_numpy()
    return np.delete(places, order[below])


def unpacked(
    packed: Iterable[pa.RecordBatch], by: str, *, key: Sequence[str] = (), held_bytes: int = HELD_BYTES
) -> Iterator[pa.RecordBatch]:
    """All rows of a task in the order of ``by``, in batches of at most `WRITE_ROWS`.

    With a ``key`` only those that stand among the rows that are put in order together. Holds about ``held_bytes`` of
    them, and what sorting that takes; the rest waits in files of Spark's local folder.
    """
    with ExitStack() as until_read:
        folder: Path | None = None
        parts: list[Iterator[pa.Table]] = []
        held: list[pa.Table] = []
        size = 0
        for run in (pa.ipc.open_stream(run.as_buffer()).read_all() for batch in packed for run in batch.column(ROWS)):
            held.append(run)
            size += run.nbytes
            if size >= held_bytes:
                if folder is None:
                    place = tempfile.TemporaryDirectory(prefix="memwal-", dir=_local_folder())
                    folder = Path(until_read.enter_context(place))
                parts.append(_stored(_ordered(held, by, key), folder / f"{len(parts)}.arrow"))
                held, size = [], 0
        if held:
            parts.append(_pieces(_ordered(held, by, key)))
        for rows in _merged(parts, by, key):
            yield from rows.to_batches(max_chunksize=WRITE_ROWS)


def _merged(parts: Sequence[Iterator[pa.Table]], by: str, key: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of ``parts``, each of which is in order, in order."""
    if len(parts) == 1:
        yield from parts[0]
        return
    heads = {number: next(part) for number, part in enumerate(parts)}
    while heads:
        # Up to the end of the head that ends first all rows are there.
        columns = {number: comparable(head[by]) for number, head in heads.items()}
        end = pc.min(pa.chunked_array([column.slice(len(column) - 1).combine_chunks() for column in columns.values()]))
        taken, left = [], {}
        for number, head in heads.items():
            count = pc.sum(pc.less_equal(columns[number], end)).as_py()
            taken.append(head.slice(0, count))
            rest = head.slice(count) if count < head.num_rows else next(parts[number], None)
            if rest is not None:
                left[number] = rest
        yield _ordered(taken, by, key)
        heads = left


def _ordered(runs: Sequence[pa.Table], by: str, key: Sequence[str]) -> pa.Table:
    rows = pa.concat_tables(runs).combine_chunks()
    sequence = comparable(rows[by])
    if not pc.all(pc.less_equal(sequence.slice(0, len(sequence) - 1), sequence.slice(1))).as_py():
        rows = cellwise.at(rows, pc.sort_indices(sequence).to_numpy())
    return cellwise.at(rows, standing(rows, key, by)) if key else rows


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    most = min(WRITE_ROWS, max(1, CHUNK_BYTES * rows.num_rows // max(1, rows.nbytes)))
    for start in range(0, rows.num_rows, most):
        yield rows.slice(start, most)


def _stored(rows: pa.Table, file: Path) -> Iterator[pa.Table]:
    """The same rows, which wait in ``file`` until they are asked for."""
    piece = max(1, _PIECE_BYTES * rows.num_rows // max(1, rows.nbytes))
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as stored:
        stored.write_table(rows, max_chunksize=piece)
    return _read(file)


def _read(file: Path) -> Iterator[pa.Table]:
    with pa.memory_map(str(file)) as source:
        stored = pa.ipc.open_file(source)
        for number in range(stored.num_record_batches):
            yield pa.Table.from_batches([stored.get_batch(number)])


def _bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def _local_folder() -> str | None:
    """One of the folders that Spark gives its workers for such files; None outside of Spark."""
    folders = [name for name in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if name]
    return folders[os.getpid() % len(folders)] if folders else None
