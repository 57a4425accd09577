"""Change logs to validate with: presets that follow from their seed, and files of the user's own."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from memwal.errors import InvalidArgument
from memwal_spark import cli, logs, presets
from memwal_spark.change_log import ChangeLog
from memwal_spark.folder import Folder
from memwal_spark.logs import OwnLog
from memwal_spark.oracle import last_rows
from memwal_spark.writing import LogWrites
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = """id,seq,job,gone,price,note
7,1,1,false,1.25,a
8,2,1,,2.50,
7,4,1,true,,
8,3,2,false,3.00,late
9,5,2,false,4.00,b
9,5,2,false,4.00,b
7,3,2,false,9.00,too late
"""


def made(tmp_path: Path, name: str, rows: int = 20_000, seed: int = 3) -> tuple[ChangeLog, pa.Table]:
    log = presets.make(name, rows, seed, tmp_path / f"{name}-{seed}.parquet")
    return log, pq.read_table(tmp_path / f"{name}-{seed}.parquet")


@pytest.mark.parametrize("name", presets.PRESETS)
def test_a_preset_follows_from_its_seed_and_has_one_row_for_each_sequence(tmp_path: Path, name: str) -> None:
    log, rows = made(tmp_path, name)
    assert rows.equals(made(tmp_path, name)[1])
    assert not rows.equals(made(tmp_path, name, seed=4)[1])
    assert log.rows == rows.num_rows
    once = rows.drop_columns([presets.BATCH] if log.batch else []).group_by(rows.schema.names[:7]).aggregate([])
    assert sorted(once["seq"].to_pylist()) == list(range(1, 20_001))
    assert log.schema.equals(pa.schema(field for field in rows.schema if field.name not in log.beside))


def test_ycsb_updates_few_keys_often_and_f_counts_the_writes_of_each_key(tmp_path: Path) -> None:
    _, rows = made(tmp_path, "ycsb-f", rows=30_000)
    keys = list(zip(rows["tenant"].to_pylist(), rows["id"].to_pylist(), strict=True))
    assert len(set(keys)) == len(set(keys[:10_000])) == 10_000
    most = [count for _, count in Counter(keys[10_000:]).most_common(100)]
    assert most[0] > 10 * most[-1]
    assert 0.3 < sum(most) / 20_000 < 0.7  # Zipf's law gives the first hundred of 10,000 about half of all
    seen: Counter[Any] = Counter()
    for key, writes in zip(keys, rows["writes"].to_pylist(), strict=True):
        assert writes == seen[key]
        seen[key] += 1


def test_late_events_come_with_later_jobs_and_double_ones_are_the_same_row(tmp_path: Path) -> None:
    log, rows = made(tmp_path, "late")
    arrived = list(zip(rows["seq"].to_pylist(), rows["batch"].to_pylist(), strict=True))
    assert [batch for _, batch in arrived] == sorted(batch for _, batch in arrived)
    first = dict(reversed(arrived))
    late = sum(batch > (seq - 1) * 4 // 20_000 for seq, batch in first.items())
    assert 0.04 < late / 20_000 < 0.10  # some of the tenth are drawn for the job that they belong to
    assert 0.04 < (log.rows - 20_000) / 20_000 < 0.06


def test_skewed_regions_get_their_rows_by_tenant(tmp_path: Path) -> None:
    log, rows = made(tmp_path, "skewed")
    assert log.region_by == ("tenant",)
    assert Counter(rows["tenant"].to_pylist()).most_common(1)[0][1] > 0.2 * rows.num_rows


def test_a_log_of_ones_own_has_the_types_that_its_texts_have(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text(LINES)
    own = OwnLog(path=str(tmp_path / "own.csv"), key=("id",), sequence="seq", delete="gone", batch="job")
    folder = Folder(tmp_path / "out")
    folder.clear()
    log = logs.make(own, spark, 0, folder.log)
    log.store(folder.log_facts)
    assert ChangeLog.load(folder.log_facts) == log
    assert (log.rows, log.region_by) == (7, ("id",))
    assert [(f.name, str(f.type), f.nullable) for f in log.schema] == [
        ("id", "int32", False), ("seq", "int32", False), ("price", "double", True), ("note", "string", True),
    ]  # fmt: skip
    stored = spark.read.parquet(str(folder.log))
    wanted = {(8, 3, 3.0, "late"), (9, 5, 4.0, "b")}
    assert {
        tuple(row) for row in last_rows(stored, ["id"], "seq", delete="gone", beside=log.beside).collect()
    } == wanted
    memwal.create(folder.table, log.schema, primary_key=log.key, revision="R", spec=memwal.bucket("b", "id", 2))
    writes = LogWrites.plan_for(spark, folder, log, regions=2)
    for number in range(2):
        writes.run(spark, number)
    rows = memwal.open(folder.table).scan().to_pylist()
    assert {tuple(row.values()) for row in rows} == wanted
    tasks = list(itertools.chain(*writes.tasks().values()))
    assert sum(task["rows"] for task in tasks) == 7
    assert sum(task["late"] for task in tasks) == 1  # the deleted key is not merged yet, so that it has a sequence


@pytest.mark.parametrize(
    ("lines", "key", "said"),
    [
        ("id,seq\n1,1\n,2\n", "id", "MEMWAL_NULL.*column id has NULLs"),
        ("id,seq\n1,1\n2,\n", "id", "MEMWAL_NULL.*column seq has NULLs"),
        ("id,seq,x\n1,1,a\n1,1,b\n", "id", "MEMWAL_TIE.*id 1, seq 1: no sequence"),
        ("id,seq\n1,1\n", "key", r"MEMWAL_SCHEMA.*lacks the columns \['key'\]; it has \['id', 'seq'\]"),
    ],
)
def test_a_log_without_one_answer_is_refused(
    spark: SparkSession, tmp_path: Path, lines: str, key: str, said: str
) -> None:
    (tmp_path / "own.csv").write_text(lines)
    with pytest.raises(InvalidArgument, match=said):
        logs.make(OwnLog(path=str(tmp_path / "own.csv"), key=(key,), sequence="seq"), spark, 0, tmp_path / "log")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--preset none", "preset"),
        ("--preset late --flights 3", "choose one of --log, --preset, --flights, --quick"),
        ("--flights 3 --quick", "choose one of --log, --preset, --flights, --quick"),
        ("--rows 5", "--rows: give it only with --preset"),
        ("--key id --region-by id", "--key, --region-by: give these only with --log"),
        ("--log a.csv --key id", "--log needs --key and --sequence"),
        ("--preset late --rows 5", "at least 100 rows"),
        ("--log a.csv --key id --sequence seq --delete gone", "[MEMWAL_NO_DELETES] --delete needs a revision"),
        ("--preset late --writer native --faults all", "stream-restart: streams are the engine's own"),
    ],
)
def test_options_that_name_no_log_or_two_are_refused(
    spark: SparkSession, tmp_path: Path, words: str, said: str
) -> None:
    app = typer.Typer()
    cli.commands(app)
    found = CliRunner().invoke(app, ["validate", "--out", str(tmp_path), *words.split()], env={"COLUMNS": "200"})
    assert found.exit_code == 2
    assert said in found.output
