"""Another implementation as the writer: what is told of it, and that planted faults are found under their clauses.

The writer of a task is driven here without Spark, as two attempts of one task would drive it: the first one is killed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import memwal
import pyarrow as pa
import pyarrow.parquet
import pytest
from memwal.errors import InvalidArgument
from memwal.region.sequences import PutResult
from memwal_spark import validate
from memwal_spark.change_log import ChangeLog
from memwal_spark.folder import Folder
from memwal_spark.foreign import ForeignFailed, ForeignProcess, ForeignWriter
from memwal_spark.foreign_run import ForeignRun, working_writer
from memwal_spark.foreign_task import ForeignRegionWriter
from memwal_spark.job import Job
from memwal_spark.logs import Flights
from memwal_spark.options import TableOption
from memwal_spark.progress import PhaseProgress
from rich.console import Console

BROKEN = f"{sys.executable} -m memwal_conformance.proving.broken"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("parts", pa.list_(pa.int32())),
    ]
)


def rows(sequences: Iterable[int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": n % 7, "seq": n, "text": str(n), "parts": [n]} for n in sequences], SCHEMA)


@contextmanager
def opened(writer: ForeignWriter, place: TableOption, region: str, attempt: int) -> Iterator[ForeignRegionWriter]:
    """The writer of one attempt; it is killed if the body fails."""
    with (
        ForeignProcess(writer, dies_with_us=True) as process,
        ForeignRegionWriter(process, writer, place, region, "seq", attempt) as opened,
    ):
        yield opened


def run(tmp_path: Path, command: str, revision: str = "B") -> tuple[list[PutResult], list[str]]:
    """What the second attempt does, put by put, and what is found; the first is killed behind a flush."""
    folder = Folder(tmp_path)
    folder.clear()
    memwal.create(folder.table, SCHEMA, primary_key=["id"], revision=revision, spec=memwal.bucket("bucket", "id", 1))
    log = ChangeLog(name="log", key=("id",), sequence="seq", schema=SCHEMA, rows=40, region_by=("id",))
    pa.parquet.write_table(rows(range(40)), folder.log)
    found = working_writer(command, revision, folder, log, PhaseProgress(Console(stderr=True)))
    assert isinstance(found, ForeignRun)
    found.prepare([{"bucket": 0}])
    (region,) = (str(each.region_id) for each in memwal.open(folder.table).regions())
    place = TableOption(path=str(folder.table))
    with suppress(ZeroDivisionError), opened(found.writer, place, region, 0) as first:
        for at in (0, 10):
            first.put(rows(range(at, at + 10)))
        first.flush()
        first.put(rows(range(20, 30)))
        raise ZeroDivisionError
    with opened(found.writer, place, region, 1) as second:
        done = [second.put(rows(range(first, first + 10))) for first in (0, 10, 20)]
        done.append(second.put(rows((28, 30, 31, 37))))
        second.flush()
    found.ask_regions()
    found.judge("when it has written")
    found.overtake()
    found.flush()
    found.judge("in the end")
    return done, [finding for phase in found.judged for finding in phase.findings]


@pytest.mark.parametrize(
    ("planted", "clause", "words"),
    [
        ("acknowledges_early", "WAL-001", "are in no WAL entry up to that epoch"),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ("drops_the_tail", "MANIFEST-009, FLUSH-013", "is not the rows of"),
                ("wrong_bucket", "REGION-031", "7 of 7 keys are in another region"),
                ("keeps_epoch", "FENCE-005", "a claim left epoch"),
            )
        ),
        ("--bug no_barrier", "FENCE-017, AMB-24", "was acknowledged when"),
    ],
)
def test_a_planted_fault_is_found_under_its_clause(tmp_path: Path, planted: str, clause: str, words: str) -> None:
    _, found = run(tmp_path, f"{BROKEN} {planted}")
    assert any(each.startswith(f"{clause}: ") and words in each for each in found), found


@pytest.mark.parametrize(
    ("name", "revision"), [("reference", "B"), pytest.param("native", "R", marks=pytest.mark.long)]
)
def test_an_honest_writer_has_no_findings(tmp_path: Path, name: str, revision: str) -> None:
    assert run(tmp_path, name, revision) == ([PutResult(0, 10)] * 3 + [PutResult(3, 1, replaced=1)], [])


def adapter(*replies: str) -> ForeignWriter:
    """An adapter that gives these replies, whatever it is asked."""
    code = f"import sys\nfor reply in {list(replies)!r}:\n    sys.stdin.readline(); print(reply, flush=True)"
    return ForeignWriter(command=(sys.executable, "-c", code), revision="B", acknowledged="")


HELLO = (
    '{"id": "1", "result": {"protocol": "1", "implementation": "x", "version": "1", "revisions": ["B"], '
    '"roles": ["writer"], "capabilities": ["rows.ipc"]}}'
)


@pytest.mark.parametrize(
    ("replies", "error", "words"),
    [
        ((), ForeignFailed, "hello: the adapter ended with status 0"),
        (("no",), ForeignFailed, "hello: the reply is not JSON"),
        (('{"id": "2", "result": {}}',), ForeignFailed, "has id 2, and not 1"),
        ((HELLO.replace('"implementation": "x", ', ""),), ForeignFailed, "not one of the protocol"),
        ((HELLO.replace('"rows.ipc"', ""),), InvalidArgument, "x does not claim the capability rows.ipc"),
        ((HELLO.replace('["writer"]', "[]"),), InvalidArgument, "does not claim writer.open"),
        ((HELLO.replace('["B"]', '["R"]'),), InvalidArgument, "x has revision R"),
        ((HELLO, '{"id": "2", "error": {"kind": "storage", "message": "full"}}'), ForeignFailed, "storage: full"),
    ],
)
def test_an_adapter_that_does_not_keep_to_the_protocol_is_told(
    replies: tuple[str, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ForeignProcess(adapter(*replies))


def test_a_command_that_cannot_be_started_is_the_callers_mistake() -> None:
    with pytest.raises(InvalidArgument, match="cannot start /no/such"):
        ForeignProcess(ForeignWriter.of("/no/such thing", "B", ""))
    with pytest.raises(InvalidArgument, match="a name or the command"):
        ForeignWriter.of(" ", "B", "")


@pytest.mark.long
def test_a_whole_validation_with_an_adapter_as_the_writer(spark: object, tmp_path: Path) -> None:
    job = Job(out=tmp_path, log=Flights(count=1500), regions=4, seed=5, writer="reference")
    found = validate.validate(job, PhaseProgress(Console(stderr=True)))
    assert found.wrong == ()
    assert [proof.happened for proof in found.faults] == [True, True]
    assert found.writer is not None
    assert len(found.comparisons) == 4
    assert {phase.when for phase in found.writer.phases} >= {"regions of keys", "when all is merged", "in the end"}
