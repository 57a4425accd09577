"""A task whose writer is another implementation: the rows, checks and report of any task, and puts through an adapter.

What is acknowledged is noted claim by claim, in a file that outlives the task, so that the judge can hold it against
the bytes. Writers of the protocol compare no sequences: where the region was written before, rows that are not newer
than what is stored are left out here, by a strong read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
from memwal import cellwise
from memwal.keys import last_of_each
from memwal.region.sequences import PutResult
from pyspark.sql.datasource import WriterCommitMessage

from .errors import sentences
from .foreign import ForeignProcess, ForeignWriter, stream
from .options import TableOption, WriteOptions
from .place import open_table
from .source import MemWalWriter
from .write import RegionTask, context

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memwal import Table, Writer
    from memwal.ids import RegionId
    from pyspark.sql.types import StructType

PREPARED = 1
"""Epoch of a region that the job has claimed once, so that its manifest says of which region spec it is."""
DELETED = "deleted"
_STORED, _PLACE = "memwal.stored_sequence", "memwal.place"


class AcknowledgedRows:
    """The file of one claim; each acknowledgement is in it before the next request is sent."""

    def __init__(self, folder: Path, region: str, epoch: int, attempt: int, schema: pa.Schema, order: str) -> None:
        """``attempt``: whose file it is; ``schema``: key columns and the column that orders the rows of a key."""
        told = {"region": region, "epoch": str(epoch), "order": order}
        self._schema = schema.append(pa.field(DELETED, pa.bool_())).with_metadata(told)
        name = f"{region}-{epoch}-{attempt}.arrows"
        self._file = (folder / name).open("wb", buffering=0)
        self._writer = pa.ipc.new_stream(self._file, self._schema)

    def add(self, rows: pa.Table, *, deleted: bool) -> None:
        """Note that ``rows`` are acknowledged."""
        marks = pa.array([deleted] * rows.num_rows, pa.bool_())
        kept = cellwise.converted(rows, pa.schema(list(self._schema)[:-1]))
        self._writer.write_table(kept.append_column(DELETED, marks).cast(self._schema))

    def close(self) -> None:
        """End the stream."""
        self._writer.close()
        self._file.close()


class ForeignRegionWriter:
    """What `RegionTask` asks of a writer, by an adapter. A context manager: has all stored, unless the body fails."""

    def __init__(
        self, process: ForeignProcess, writer: ForeignWriter, place: TableOption, region: str, by: str, attempt: int
    ) -> None:
        self._process, self._writer, self._by, self._attempt = process, writer, by, attempt
        self._table = table = open_table(place)
        self.region_id = region
        before = stored_epoch(table, region)
        opened = process.call("writer.open", {"table": place.path, "region_id": region})
        self._handle = opened["writer"]
        self._compares = before > PREPARED
        self._notes = self._begin()
        self.position_next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._close()
        finally:
            self._notes.close()

    def _begin(self) -> AcknowledgedRows:
        """The notes of the claim that the region has now."""
        names = dict.fromkeys([*self._table.primary_key, self._by])
        schema = pa.schema([pa.field(name, self._table.schema.field(name).type) for name in names])
        self.epoch = stored_epoch(self._table, self.region_id)
        folder = Path(self._writer.acknowledged)
        return AcknowledgedRows(folder, self.region_id, self.epoch, self._attempt, schema, self._by)

    def put(self, rows: pa.Table, *, durable: bool = True) -> PutResult:
        """Put those of ``rows`` that are newer than what is stored."""
        wanted, result = self._compared(rows)
        if wanted.num_rows:
            params = {"writer": self._handle, "rows": stream(wanted), "durable": durable}
            self._process.call("writer.put", params)
            self._notes.add(wanted, deleted=False)
        return result

    def delete(self, rows: pa.Table, *, durable: bool = True) -> PutResult:
        """Delete the keys of ``rows``, which have the sequence too, where what is stored is older."""
        wanted, result = self._compared(rows)
        if wanted.num_rows:
            keys = wanted.select(list(self._table.primary_key))
            self._process.call("writer.delete", {"writer": self._handle, "keys": stream(keys), "durable": durable})
            self._notes.add(wanted, deleted=True)
        return result

    def flush(self) -> int | None:
        """Flush the MemTable; an implementation may have to claim its region again for that."""
        told = self._process.call("writer.flush_memtable", {"writer": self._handle})
        if stored_epoch(self._table, self.region_id) != self.epoch:
            self._notes.close()
            self._notes = self._begin()
        return None if told.get("generation") is None else int(told["generation"])

    def _close(self) -> None:
        self._process.call("writer.close", {"writer": self._handle})
        self.epoch = stored_epoch(self._table, self.region_id)
        self.position_next = next(
            (int(end) for name, end in self._table.log_ends().items() if name == self.region_id), 0
        )

    def _compared(self, rows: pa.Table) -> tuple[pa.Table, PutResult]:
        """What is to be written of ``rows``, which are in sequence order: the last row of each key that is not late."""
        if not self._compares:
            return rows, PutResult(rows.num_rows)
        key = list(self._table.primary_key)
        self._table.refresh()
        stored = self._table.get(last_of_each(rows.select(key), key), columns=[*key, self._by])
        places = rows.select([*key, self._by]).append_column(_PLACE, pa.array(range(rows.num_rows)))
        both = places.join(stored.rename_columns([*key, _STORED]), keys=key).sort_by(_PLACE)
        newer = rows.filter(pc.fill_null(pc.greater(both[self._by], both[_STORED]), True))
        last = last_of_each(newer, key)
        late = rows.num_rows - newer.num_rows
        return last, PutResult(newer.num_rows, late, newer.num_rows - last.num_rows)


def stored_epoch(table: Table, region: str) -> int:
    """Epoch of the region's newest manifest; 0 without one."""
    table.refresh()
    found = next(each for each in table.regions() if str(each.region_id) == region)
    return 0 if found.manifest is None else int(found.manifest.epoch)


class ForeignTask(RegionTask):
    """Writes the rows of one task through an adapter. Use once."""

    def __init__(self, options: WriteOptions, writer: ForeignWriter) -> None:
        super().__init__(options)
        self._foreign = writer

    @contextmanager
    def _open(self, table: Table, region: RegionId) -> Iterator[Writer]:  # noqa: ARG002
        place, by = self._options.place, self._options.sequence_by
        attempt = context().taskAttemptId()
        with (
            ForeignProcess(self._foreign, dies_with_us=True) as process,
            ForeignRegionWriter(process, self._foreign, place, str(region), by, attempt) as writer,
        ):
            yield cast("Writer", writer)  # it has what a task without marks asks of one


class ForeignDataWriter(MemWalWriter):
    """The writer of the format `memwal`, whose tasks have another implementation write."""

    def __init__(self, options: Mapping[str, str], schema: StructType, writer: ForeignWriter) -> None:
        super().__init__(options, schema, overwrite=False)
        self._writer = writer

    @sentences()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return ForeignTask(self._options, self._writer).run(iterator)
