"""What planned faults do inside of Spark's tasks, and the data source that has them.

Attempts of a task tell each other by small files beside the fault's evidence how far they are. An attempt that waits
for another one gives up after `WAIT_S`: then the fault did not happen, and the event log says so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
import pyarrow as pa
from memwal import cellwise
from memwal.words import counted
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from .faults import Fault
from .foreign import ForeignWriter
from .foreign_task import ForeignDataWriter
from .options import TableOption, for_writing
from .place import open_table
from .route import sources_of
from .source import MemWalWriter
from .streaming import BatchPart, MemWalStreamWriter
from .watching import WatchedRows
from .write import context

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "memwal_with_faults"
STRIKES, WATCH, FOREIGN, TASKS = "plannedFaults", "watchedRows", "foreignWriter", "taskReport"
"""Options of this format beside those of `memwal`: as JSON `Strikes`, what `memwal_spark.watching` notes, and which
other implementation writes (`memwal_spark.foreign`); of a stream the file that receives what its tasks wrote."""
ACKNOWLEDGED = "acknowledged"
"""What an orphan says of a put that it must not make."""
NOBODY = "the region was never claimed"
"""What an orphan says that had no claim to put after."""
WAIT_S = 100.0
"""How long an attempt waits for another one."""
POLL_S = 0.05


class PlannedFault(Exception):
    """Raised inside a task, on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strikes:
    """The faults of a job, and what they need to know of the cluster."""

    faults: tuple[Fault, ...] = ()
    shuffled: str | None = None
    """Folder of what tasks hand to each other."""
    driver: int | None = None
    """Group of processes of the driver."""

    def to_json(self) -> str:
        """Value of option `STRIKES`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Strikes:
        """The value that `to_json` gave."""
        told: dict[str, Any] = json.loads(text)
        return cls(**{**told, "faults": tuple(Fault(**fault) for fault in told["faults"])})


class SourceWithFaults(DataSource):  # type: ignore[misc] # pyspark's own types are not read
    """The data source `memwal` for writing, with faults in some tasks, and notes of what all of them write."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> WriterWithFaults:
        """The writer of `memwal` with the options `STRIKES` and `WATCH` around it; without `WATCH` nothing is noted."""
        options = self._inner_options()
        foreign = self.options.get(FOREIGN)
        inner: DataSourceArrowWriter
        if foreign is None:
            inner = MemWalWriter(options, schema, overwrite=overwrite)
        else:
            inner = ForeignDataWriter(options, schema, ForeignWriter(**json.loads(foreign)))
        strikes = Strikes.from_json(self.options[STRIKES])
        return WriterWithFaults(inner, strikes, for_writing(options).place, self._watched())

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriterWithNotes:  # noqa: N802 - Spark's name
        """The streaming writer of `memwal`, with notes."""
        inner = MemWalStreamWriter(self._inner_options(), schema, overwrite=overwrite)
        return StreamWriterWithNotes(inner, self._watched(), self.options.get(TASKS))

    def _inner_options(self) -> dict[str, str]:
        own = tuple(name.lower() for name in (STRIKES, WATCH, FOREIGN, TASKS))
        return {name: value for name, value in self.options.items() if name.lower() not in own}

    def _watched(self) -> WatchedRows | None:
        watched = self.options.get(WATCH)
        return None if watched is None else WatchedRows(**json.loads(watched))


class WriterWithFaults(DataSourceArrowWriter):  # type: ignore[misc] # pyspark's own types are not read
    """Hands every call on to the real writer; strikes attempts of the tasks that the faults name."""

    def __init__(
        self, inner: DataSourceArrowWriter, strikes: Strikes, place: TableOption, rows: WatchedRows | None
    ) -> None:
        self._inner = inner
        self._strikes = strikes
        self._place = place
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        task = context()
        blow: Blow | None = None
        for fault in self._strikes.faults:
            if fault.partition == task.partitionId():
                blow = Blow(fault, self._strikes, self._place, task.attemptNumber())
                iterator = blow.given(iterator)
        if self._rows is not None:
            iterator = self._rows.noted(iterator)
        if blow is None:
            return self._inner.write(iterator)
        return blow.written(lambda: self._inner.write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """As the real writer."""
        self._inner.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """As the real writer."""
        self._inner.abort(messages)


class StreamWriterWithNotes(DataSourceStreamArrowWriter):  # type: ignore[misc] # pyspark's own types are not read
    """Hands every call on to the real writer, and notes what is written."""

    def __init__(self, inner: DataSourceStreamArrowWriter, rows: WatchedRows | None, tasks: str | None) -> None:
        self._inner = inner
        self._rows = rows
        self._tasks = tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows of a batch."""
        if self._rows is None:
            return self._inner.write(iterator)
        return self._rows.noted_whole(iterator, self._inner.write)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """As the real writer; then what the tasks wrote is added to the report of the stream."""
        self._inner.commit(messages, batchId)
        if self._tasks is None:
            return
        file = Path(self._tasks)
        tasks: list[Any] = json.loads(file.read_text())["tasks"] if file.is_file() else []
        tasks += [asdict(part) for each in messages if isinstance(each, BatchPart) for part in each.regions]
        file.write_text(json.dumps({"complete": True, "tasks": tasks}, indent=1))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """As the real writer."""
        self._inner.abort(messages, batchId)


class Blow:
    """One fault, in one attempt of its task."""

    def __init__(self, fault: Fault, strikes: Strikes, place: TableOption, attempt: int = 0) -> None:
        self._fault, self._strikes, self._place = fault, strikes, place
        self._evidence = Path(fault.evidence)
        # A copy may be here before its original, whose process is slow to start.
        self._first = attempt == 0 if fault.kind in ("copy-wins", "original-wins") else self._is_first()
        self._orphaned = False

    def _is_first(self) -> bool:
        """Whether no other attempt of the task came before: attempt numbers begin again with each stage and driver."""
        try:
            self._evidence.with_suffix(".first").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def given(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that this attempt gets."""
        if self._fault.kind == "original-wins":
            return batches if self._first else self._hung(batches)
        if self._first:
            return self._struck(batches)
        return self._later(batches) if self._fault.kind == "copy-wins" else batches

    def written(self, write: Callable[[], WriterCommitMessage]) -> WriterCommitMessage:
        """What the attempt reports."""
        try:
            done = write()
        except Exception as refused:
            if self._orphaned:
                self._end_orphan(str(refused))
            raise
        if self._fault.kind == "original-wins" and self._first:
            note_regions(self._evidence, self._place)
            self._wait(self._copy_claimed.exists)
        return done

    @property
    def _copy_claimed(self) -> Path:
        return self._evidence.with_suffix(".copy")

    def _struck(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in breaking(batches, self._fault, self._strike):
            yield rows
            if self._orphaned:
                self._end_orphan(ACKNOWLEDGED)

    def _later(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows, once the original stands still."""
        self._wait(self._evidence.exists)
        yield from batches

    def _hung(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Some rows, once the original has put all; nothing after them, until this process is killed."""
        self._wait(self._evidence.exists)
        yield from breaking(batches, self._fault, lambda rest: self._hang())

    def _hang(self) -> None:
        self._copy_claimed.touch()
        self._sleep()

    def _strike(self, rest: pa.RecordBatch) -> None:
        """Break what is to be broken; ``rest``: the next rows of the task."""
        note_regions(self._evidence, self._place)
        kind = self._fault.kind
        if kind == "worker-kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "executor-kill":
            os.kill(parent_of(os.getppid()), signal.SIGKILL)
        elif kind == "driver-kill":
            assert self._strikes.driver is not None, "this fault is planned for drivers of their own only"
            os.killpg(self._strikes.driver, signal.SIGKILL)
        elif kind == "copy-wins":
            self._sleep()
        elif kind == "orphan":
            self._live_on(rest)
        else:
            if kind == "stage-retry":
                self._lose_what_is_shuffled()
            raise PlannedFault(
                f"planned: partition {self._fault.partition} fails after {counted(self._fault.rows, 'row')}"
            )

    def _lose_what_is_shuffled(self) -> None:
        assert self._strikes.shuffled is not None, "this fault is planned for a cluster only"
        for file in Path(self._strikes.shuffled).rglob("shuffle_*"):
            file.unlink(missing_ok=True)

    def _live_on(self, rest: pa.RecordBatch) -> None:
        """Kill the executor, outlive it, and return when the task's successor has claimed the region.

        Its claim is complete with its first entry (AMB-24): what is put before that is replayed, and rightly taken.
        """
        region = self._region(rest)
        epoch, last = standing(self._place, region)
        daemon = os.getppid()
        executor = parent_of(daemon)
        os.setsid()
        self._orphaned = True
        os.kill(executor, signal.SIGKILL)
        os.kill(daemon, signal.SIGKILL)

        def claimed() -> bool:
            now = standing(self._place, region)
            return now[0] > epoch and now[1] > last

        if not self._wait(claimed):
            self._end_orphan(NOBODY)

    def _region(self, rows: pa.RecordBatch) -> str:
        """The region of the task."""
        table = open_table(self._place)
        wanted = pa.schema([pa.field(name, table.schema.field(name).type) for name in sources_of(table)])
        first = pa.Table.from_batches([rows.slice(0, 1)])
        (values,) = table.region_values(cellwise.converted(first, wanted)).to_pylist()
        return str(table.register_region(values))

    def _end_orphan(self, outcome: str) -> None:
        told = {"at": time.time(), "pid": os.getpid(), "outcome": outcome}
        self._evidence.with_suffix(".orphan").write_text(json.dumps(told))
        os._exit(0)

    def _wait(self, there: Callable[[], bool]) -> bool:
        ends = time.monotonic() + WAIT_S
        while time.monotonic() < ends:
            if there():
                return True
            time.sleep(POLL_S)
        return False

    def _sleep(self) -> None:
        time.sleep(WAIT_S)
        raise PlannedFault(f"planned: no kill reached partition {self._fault.partition}")


def breaking(
    batches: Iterator[pa.RecordBatch],
    fault: Fault,
    strike: Callable[[pa.RecordBatch], None],
) -> Iterator[pa.RecordBatch]:
    """The first rows of ``batches`` in small batches, and then the fault; fewer rows than planned come unharmed.

    ``strike`` gets the next rows, and where it returns these come too.
    """
    piece, left = max(1, fault.rows // fault.puts), fault.rows
    for batch in batches:
        start = 0
        while start < batch.num_rows and left:
            part = batch.slice(start, min(piece, left))
            yield part
            start += part.num_rows
            left -= part.num_rows
        if not left:
            rest = batch.slice(start) if start < batch.num_rows else next(batches, batch.slice(0, 0))
            strike(rest)
            yield rest


def note_regions(evidence: Path, place: TableOption) -> None:
    """Store how many generations each region has flushed."""
    flushed = {r.region_id: r.manifest.generation_current - 1 for r in open_table(place).regions() if r.manifest}
    new = evidence.with_suffix(".new")
    new.write_text(json.dumps({"generations": flushed}))
    new.rename(evidence)


def standing(place: TableOption, region: str) -> tuple[int, int]:
    """The epoch of a region and the position of its last WAL entry; 0 if it was never claimed, -1 if none is there."""
    epochs = {str(each.region_id): int(each.manifest.epoch) for each in open_table(place).regions() if each.manifest}
    if region not in epochs:
        return 0, -1
    found = memwal.inspect(place.path, region=region, entries=0, storage_options=place.storage or None)
    last = next(dict(node.fields)["last"] for node in found.all() if node.kind == "wal")
    return epochs[region], last if isinstance(last, int) else -1


def parent_of(process: int) -> int:
    """The id of a process's parent."""
    stat = Path(f"/proc/{process}/stat")
    if stat.is_file():
        return int(stat.read_text().rpartition(")")[2].split()[1])
    asked = ["/bin/ps", "-o", "ppid=", "-p", str(process)]
    return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
