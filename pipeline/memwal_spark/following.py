"""The streaming source: what the WALs of a table get, as rows with what happened to them.

An offset names of each region the position before which everything was read. Spark keeps the offsets at which batches
end, and asks again where to start until the first batch is done: so that offset of the first end names the start too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from memwal.errors import InvalidArgument
from memwal.ids import RegionId
from memwal.read.changes import LogGone
from memwal.read.cut import CutGone, Split
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from .options import for_following
from .place import open_table
from .types import batches_in_spark, in_spark

if TYPE_CHECKING:
    from memwal import Table
    from pyspark.sql.types import StructType

CHANGE = pa.schema(
    [
        pa.field("_change_type", pa.string(), nullable=False),
        pa.field("_region", pa.string()),
        pa.field("_epoch", pa.int64()),
        pa.field("_position", pa.int64()),
        pa.field("_row", pa.int64()),
    ]
)
"""Columns beside the table's: ``upsert`` or ``delete``; region, epoch and position of the WAL entry; place in it.

All but the first are NULL for rows of a snapshot.
"""
UPSERT, DELETE = "upsert", "delete"

Positions = Mapping[str, int]
"""By region, the position of the next entry to read."""

_LOG = logging.getLogger(__name__)
_AGAIN = "start again with a new checkpoint and startingFrom=snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """Entries of one region's WAL, up to before ``end``."""

    region: str
    start: int
    end: int


class StreamPart(InputPartition):  # type: ignore[misc] # pyspark's own types are not read
    """What one task reads: a `LogRange`, or a split of the snapshot."""

    def __init__(self, value: LogRange | Split) -> None:
        super().__init__(value)


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc] # see above
    """The changes of a table, one task for each region that has some."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = for_following(options)
        self._schema = schema
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as below
        """What was asked for; the first `latestOffset` says what that is."""
        return {"start": self._options.start}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """A WAL entry is a file."""
        most = self._options.entries_most
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes from now on is left to the next run."""
        self._target = _ends(self._table())

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the WALs end."""
        return {"regions": _ends(self._table())}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; ``start`` itself if there is nothing new."""
        table, first = self._table(), "start" in start
        if first and start["start"] == "snapshot":
            named = table.plan_read()[0].cut.named()
            return {"regions": named["ends"], "snapshot": named}
        ends = self._target if self._target is not None else _ends(table)
        at = self._begin(table, start["start"], ends) if first else start["regions"]
        _check_same_table(at, ends)
        wanted = {region: (at.get(region, int(table.revision.first_position)), end) for region, end in ends.items()}
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        reached = {**at, **_shares({region: span for region, span in wanted.items() if span[1] > span[0]}, most)}
        if first:
            return {"regions": reached, "from": at}
        return {"regions": reached} if reached != at else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The snapshot's splits, or a range of each region that has something new."""
        table = self._table()
        if "start" in start and "snapshot" in end:
            try:
                columns = [name for name in self._schema.fieldNames() if name in table.schema.names]
                return [StreamPart(split) for split in table.plan_read_again(end["snapshot"], columns)]
            except CutGone as gone:
                raise InvalidArgument(f"[MEMWAL_CUT_GONE] the snapshot was collected: {gone}; {_AGAIN}") from gone
        begin = end["from"] if "start" in start else start["regions"]
        first = int(table.revision.first_position)
        spans = {region: (begin.get(region, first), until) for region, until in sorted(end["regions"].items())}
        return [
            StreamPart(LogRange(region=region, start=at, end=until))
            for region, (at, until) in spans.items()
            if until > at
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, those of a region in the order of its WAL."""
        value, table = partition.value, self._table()
        parts = _snapshot(table, value) if isinstance(value, Split) else self._changes(table, value)
        yield from batches_in_spark(parts, self._schema)

    def _changes(self, table: Table, span: LogRange) -> Iterator[pa.Table]:
        at = span.start
        while at < span.end:
            try:
                for entry in table.log_entries(span.region, at, span.end):
                    kinds = pa.chunked_array(
                        [pa.array([UPSERT, DELETE]).take(entry.deleted.combine_chunks().cast("int8"))]
                    )
                    yield _with_changes(entry.rows, kinds, span.region, int(entry.epoch), int(entry.position))
                return
            except LogGone as gone:
                if self._options.fail_on_data_loss:
                    raise InvalidArgument(f"[MEMWAL_LOG_GONE] {_gone(gone)}") from gone
                _LOG.warning("entries of region %s before %d were collected before they were read", *_lost(gone))
                at = int(gone.first)

    def _begin(self, table: Table, start: str, ends: Positions) -> dict[str, int]:
        return dict(ends) if start == "latest" else {str(r): int(at) for r, at in table.log_starts().items()}

    def _table(self) -> Table:
        return open_table(self._options.place)


def follow_schema(options: Mapping[str, str]) -> StructType:
    """Columns of a stream of changes: the table's, and `CHANGE`."""
    table = open_table(for_following(options).place)
    taken = [name for name in CHANGE.names if name in table.schema.names]
    if taken:
        raise InvalidArgument(
            f"[MEMWAL_SCHEMA] the table has columns {taken}, whose names a stream of changes needs: rename them"
        )
    columns = [field.remove_metadata() for field in table.schema]
    return in_spark(pa.schema([*columns, *CHANGE]))


def _ends(table: Table) -> dict[str, int]:
    return {str(region): int(end) for region, end in table.log_ends().items()}


def _check_same_table(at: Positions, ends: Positions) -> None:
    """Raise InvalidArgument if a region that was read is gone, or has less than was read."""
    for region, position in at.items():
        if ends.get(region, -1) < position:
            there = f"it ends at {ends[region]}" if region in ends else "there is no such region"
            raise InvalidArgument(
                f"[MEMWAL_OTHER_TABLE] region {region} was read up to {position}, and {there}: the table was created "
                f"again or restored from a copy; {_AGAIN}"
            )


def _shares(wanted: Mapping[str, tuple[int, int]], most: int | None) -> dict[str, int]:
    """Where to stop in each region, after ``most`` entries of all; the region with the most left comes first."""
    stops, left = {}, most
    behind = sorted(wanted, key=lambda region: (wanted[region][0] - wanted[region][1], region))
    for number, region in enumerate(behind):
        at, end = wanted[region]
        share = end - at if left is None else min(end - at, -(-left // (len(behind) - number)))
        left = None if left is None else left - share
        stops[region] = at + share
    return stops


def _snapshot(table: Table, split: Split) -> Iterator[pa.Table]:
    try:
        for rows in table.batches_of(split):
            yield _with_changes(rows, pa.chunked_array([pa.repeat(UPSERT, rows.num_rows)]), None, None, None)
    except CutGone as gone:
        raise InvalidArgument(f"[MEMWAL_CUT_GONE] the snapshot was collected: {gone}; {_AGAIN}") from gone


def _with_changes(
    rows: pa.Table, kinds: pa.ChunkedArray, region: str | None, epoch: int | None, position: int | None
) -> pa.Table:
    count = rows.num_rows
    places = pa.nulls(count, pa.int64()) if position is None else pa.array(range(count), pa.int64())
    told = ((region, pa.string()), (epoch, pa.int64()), (position, pa.int64()))
    values = (pa.repeat(pa.scalar(value, kind), count) for value, kind in told)
    columns = dict(zip(CHANGE.names, (kinds, *values, places), strict=True))
    return pa.table({**dict(zip(rows.schema.names, rows.columns, strict=True)), **columns})


def _gone(gone: LogGone) -> str:
    return (
        f"entry {gone.position} of region {gone.region} was collected before it was read; the WAL continues at "
        f"{gone.first}. {_AGAIN[0].upper()}{_AGAIN[1:]}, or set failOnDataLoss=false to continue without the rows "
        "between. gc with a longer retain_age_ms keeps entries for streams that stand still"
    )


def _lost(gone: LogGone) -> tuple[RegionId, int]:
    return gone.region, int(gone.first)
