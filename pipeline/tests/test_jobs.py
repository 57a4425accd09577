"""The jobs write, merge, catch-up, gc and verify, as functions and as commands, in one session."""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import memwal
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from memwal.errors import InvalidArgument
from memwal.index import discovery
from memwal.jobs import collector
from memwal_spark import java, jobs
from memwal_spark.errors import said
from memwal_spark.jobs.collecting import _finished
from memwal_spark.jobs.commands import commands
from memwal_spark.jobs.fitting import fitted
from memwal_spark.jobs.sessions import has_master
from memwal_spark.jobs.spread import JobDone, TaskDone
from memwal_spark.jobs.upkeep import _shares
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema
from typer import Typer
from typer.testing import CliRunner

if TYPE_CHECKING:
    from click.testing import Result
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
    ]
)


def bucketed(path: Path, revision: str = "B", buckets: int = 3) -> memwal.Table:
    return memwal.create(path, SCHEMA, primary_key=["id"], spec=memwal.bucket("b", "id", buckets), revision=revision)


def flushed(path: Path, keys: range) -> memwal.Table:
    """A table whose regions have a generation each."""
    table = bucketed(path)
    rows = pa.table({"id": list(keys), "seq": list(keys), "text": [f"v{key}" for key in keys]}, schema=SCHEMA)
    values = table.region_values(rows)["b"].to_pylist()
    for bucket in sorted(set(values)):
        with table.writer(values={"b": bucket}) as writer:
            writer.put(rows.filter(pa.array([value == bucket for value in values])))
            writer.flush()
    return table


def stored(path: Path) -> list[tuple[int, int, str | None]]:
    return sorted(tuple(row.values()) for row in memwal.open(path).scan().to_pylist())


def command(*words: str) -> Result:
    app = Typer(pretty_exceptions_enable=False)
    commands(app)
    return CliRunner().invoke(app, list(words))


def test_a_region_whose_merge_fails_is_named_and_the_others_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = flushed(tmp_path / "t", range(30))
    broken = min(str(region.region_id) for region in table.regions())
    (generation,) = (tmp_path / "t" / "_mem_wal" / broken).glob("*_gen_1")
    for file in (generation / "data").iterdir():
        file.write_bytes(b"no Lance file")
    done = jobs.merge(spark, str(tmp_path / "t"))
    assert [task.item for task in done.failed] == [broken]
    assert [region.merged for region in memwal.open(tmp_path / "t").regions()] == [0, 1, 1]
    assert done.total("rows") == 30 - _rows_of(generation, table)
    shown = command("merge", str(tmp_path / "t"), "--json")
    assert shown.exit_code == 1
    assert [task["region"] for task in json.loads(shown.stdout)["tasks"]] == [broken]
    assert f"error: region {broken}: ArtifactError" in shown.stderr


def _rows_of(generation: Path, table: memwal.Table) -> int:
    """Rows that the manifest's region has, counted from the hashes of the keys."""
    values = table.region_values(pa.table({"id": list(range(30)), "seq": [0] * 30, "text": [None] * 30}, schema=SCHEMA))
    (bucket,) = (r.values.values() for r in table.regions() if str(r.region_id) == generation.parent.name)
    return values["b"].to_pylist().count(next(iter(bucket)))


def test_each_region_is_merged_and_a_second_job_has_nothing_to_do(spark: SparkSession, tmp_path: Path) -> None:
    flushed(tmp_path / "t", range(30))
    first = command("merge", str(tmp_path / "t"), "--commit-every", "1", "--compact-over", "2")
    assert (first.exit_code, first.stdout.count(": 1 generation")) == (0, 3)
    assert first.stdout.endswith("\n3 small fragments of the base rewritten as fewer\n")
    assert len(memwal.open(tmp_path / "t")._state.fragments) == 1
    assert [row[0] for row in stored(tmp_path / "t")] == [*range(30)]
    nothing = "nothing to merge: --drain flushes rows that are only in the WAL first\n"
    assert command("merge", str(tmp_path / "t")).stdout == nothing


def test_regions_of_one_task_share_a_commit_and_one_fragment(spark: SparkSession, tmp_path: Path) -> None:
    before = flushed(tmp_path / "t", range(30)).version
    assert [task.found and task.found["generations"] for task in jobs.merge(spark, str(tmp_path / "t")).tasks] == [
        [1]
    ] * 3
    table = memwal.open(tmp_path / "t")
    assert table.version - before == len(table._state.fragments) == min(3, spark.sparkContext.defaultParallelism)


def test_the_tasks_of_a_snapshot_together_store_what_one_process_stores(spark: SparkSession, tmp_path: Path) -> None:
    flushed(tmp_path / "one", range(30)).snapshot()
    flushed(tmp_path / "t", range(30))
    assert jobs.snapshot(spark, str(tmp_path / "t")).total("regions") == 3

    def rows(name: str) -> list[tuple[object, int, int]]:
        table = memwal.open(tmp_path / name)
        found = [(row.values, row.manifest) for row in table._run(discovery.known(table._io, table._state))]
        return sorted((values, own.version, len(own.flushed)) for values, own in found if own is not None)

    assert rows("t") == rows("one")
    table = memwal.open(tmp_path / "t")
    version, region = table.version, table.regions()[0].region_id
    for manifest in (tmp_path / "t" / "_mem_wal" / region / "manifest").glob("*.binpb"):
        manifest.write_bytes(b"?")
    failed = command("snapshot", str(tmp_path / "t"), "--whole")
    assert failed.exit_code == 1
    assert region in failed.stderr
    assert memwal.open(tmp_path / "t").version == version


def test_a_region_with_far_more_rows_than_the_others_is_told() -> None:
    rows = {"a": 10, "b": 12, "c": 170, "d": 8, "e": 0}
    tasks = tuple(TaskDone(item=name, found={"rows": count}, error=None) for name, count in rows.items())
    (hot,) = JobDone(tasks=(*tasks, TaskDone(item="f", found=None, error="?"))).hot
    assert (hot.region, hot.rows, round(hot.times, 1)) == ("c", 170, 15.5)
    assert JobDone(tasks=tasks[2:]).hot == ()


@pytest.mark.parametrize(
    ("regions", "commit_every", "slots", "expected"),
    [(3, 100, 2, [["0", "2"], ["1"]]), (3, 1, 2, [["0"], ["1"], ["2"]]), (2, 100, 8, [["0"], ["1"]]), (0, 100, 4, [])],
)
def test_a_task_takes_its_share_of_the_regions_and_no_more_than_one_commit_has(
    regions: int, commit_every: int, slots: int, expected: list[list[str]]
) -> None:
    assert _shares([str(number) for number in range(regions)], commit_every, slots) == expected


def test_draining_flushes_what_is_in_the_wal_and_merges_it(spark: SparkSession, tmp_path: Path) -> None:
    table = bucketed(tmp_path / "t")
    with table.writer(values={"b": 0}) as writer:
        keys = [key for key in range(30) if _bucket(table, key) == 0]
        writer.put(pa.table({"id": keys, "seq": keys, "text": [None] * len(keys)}, schema=SCHEMA))
    assert jobs.merge(spark, str(tmp_path / "t")).tasks == ()
    assert jobs.merge(spark, str(tmp_path / "t"), drain=True).total("rows") == len(keys)


def _bucket(table: memwal.Table, key: int) -> int:
    found: int = table.region_values(pa.table({"id": [key], "seq": [0], "text": [""]}, schema=SCHEMA))["b"][0].as_py()
    return found


def test_indexes_catch_up_garbage_goes_and_the_table_is_clean(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    flushed(tmp_path / "t", range(30))
    assert not jobs.merge(spark, path).failed
    caught = command("catch-up", path, "--json")
    assert (caught.exit_code, json.loads(caught.stdout)) == (0, {"failed": 0, "tasks": []})
    shown = command("gc", path, "--retain-versions", "1", "--grace", "0", "--json")
    assert {total["kind"]: total["collected"] for total in json.loads(shown.stdout)["totals"]}["generation"] == 3
    assert command("verify", path).stdout.endswith("clean\n")
    next((tmp_path / "t" / "data").iterdir()).unlink()
    found = command("verify", path, "--json")
    assert found.exit_code == 1
    assert "named_files_are_there" in {one["invariant"] for one in json.loads(found.stdout)["findings"]}


def test_the_tasks_of_a_verification_together_say_what_one_process_says(spark: SparkSession, tmp_path: Path) -> None:
    table = flushed(tmp_path / "t", range(30))
    first, second, third = sorted(table.regions(), key=lambda region: str(region.region_id))
    table.merge(first.region_id)
    with table.writer(second.region_id) as writer:
        keys = [key for key in range(30) if _bucket(table, key) == second.values["b"]]
        writer.put(pa.table({"id": keys, "seq": keys, "text": ["again"] * len(keys)}, schema=SCHEMA))
    done = jobs.verify(spark, str(tmp_path / "t"))
    regions = [str(region.region_id) for region in (first, second, third)]
    assert [task.item for task in done.tasks] == [*regions, "the table"]
    assert done.report == memwal.verify(tmp_path / "t")
    assert (done.report.clean, dict(done.report.looked_at)["regions"]) == (True, 3)
    # The third region gets the WAL of the second, whose keys are in two regions then; a filter and a file are lost.
    theirs = tmp_path / "t" / "_mem_wal" / str(third.region_id)
    ours = tmp_path / "t" / "_mem_wal" / str(second.region_id)
    shutil.copytree(ours / "wal", theirs / "wal", dirs_exist_ok=True)
    next(ours.glob("*_gen_1/bloom_filter.bin")).unlink()
    next((tmp_path / "t" / "data").iterdir()).write_bytes(b"no Lance file")
    damaged = jobs.verify(spark, str(tmp_path / "t"))
    assert damaged.report == memwal.verify(tmp_path / "t")
    assert {one.oracle for one in damaged.report.findings} == {
        "generations_equal_their_wal",
        "generations_have_their_filter",
        "keys_are_in_one_region",
        "named_files_are_there",
        "rows_belong_to_their_region",
        "wal_epochs_never_decrease",
    }


def test_the_tasks_of_a_collection_together_do_and_say_what_one_process_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    flushed(tmp_path / "one", range(30)).merge()
    shutil.copytree(tmp_path / "one", tmp_path / "many")
    local = memwal.open(tmp_path / "one").gc(retain_versions=1, sizes=True)
    done = jobs.gc(spark, str(tmp_path / "many"), retain_versions=1, grace_ms=0, sizes=True)
    assert [task.error for task in done.tasks] == [None, None, None]
    assert {d.kind for d in local.collected} == {"version", "generation", "transaction"}
    assert done.report == local
    assert names(tmp_path / "many") == names(tmp_path / "one")


def refuse(folder: Path) -> Path:
    """Make the store refuse to list ``folder``: something in it is a link to itself."""
    loop = folder / "loop"
    loop.symlink_to(loop)
    return loop


def test_what_the_store_refuses_in_one_region_fails_that_region_and_not_the_others_nor_the_report(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    table = flushed(tmp_path / "t", range(30))
    table.merge()
    table.snapshot()
    regions = sorted(str(region.region_id) for region in table.regions())
    for region in regions:
        with table.writer(region) as writer:
            writer.put(table.scan().filter(_of_region(table, region)))
            writer.flush()
    broken, *others = regions
    (generation,) = (tmp_path / "t" / "_mem_wal" / broken).glob("*_gen_2")
    loop = refuse(generation / "_versions")
    shown = command("verify", path, "--json")
    found = json.loads(shown.stdout)
    assert (shown.exit_code, found["clean"], found["findings"], found["looked_at"]["regions"]) == (1, False, [], 2)
    assert [one["what"] for one in found["unlooked"]] == [one["task"] for one in found["failed"]] == [broken]
    assert found["notes"] == [f"region {broken} beside the others: it could not be looked at"]
    done = jobs.merge(spark, path)
    assert [task.item for task in done.failed] == [broken]
    assert done.failed[0].error is not None
    assert "symbolic links" in done.failed[0].error
    assert [task.found and task.found["generations"] for task in done.tasks if task.found] == [[2]] * len(others)
    loop.unlink()
    # The same for what is of no region.
    loop = refuse(tmp_path / "t" / "_transactions")
    verified = jobs.verify(spark, path)
    assert [name for name, _ in verified.report.unlooked] == [task.item for task in verified.failed] == ["the table"]
    assert (verified.report.findings, dict(verified.report.looked_at)["regions"]) == ((), 3)
    loop.unlink()
    refuse(tmp_path / "t" / "data")
    collected = command("gc", path, "--retain-versions", "1", "--grace", "0", "--json")
    found = json.loads(collected.stdout)
    assert (collected.exit_code, [one["region"] for one in found["failed"]]) == (1, ["the table"])
    assert collected.stderr.startswith("error: the table: StorageError: ")
    assert {one["kind"] for one in found["decisions"] if one["collected"]} >= {"version", "generation"}


def _of_region(table: memwal.Table, region: str) -> pa.ChunkedArray:
    (values,) = (each.values for each in table.regions() if str(each.region_id) == region)
    return pa.chunked_array([[each == values for each in table.region_values(table.scan()).to_pylist()]])


def test_of_regions_that_waited_for_room_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    table = flushed(tmp_path / "t", range(30))
    table.merge()
    ledger = collector.Ledger(dry_run=False, sizes=False)
    begun = table._run(collector.begin(table._io, collector.Policy(retain_versions=1), ledger))
    broken = begun.plans[0].region
    refuse(tmp_path / "t" / "_mem_wal" / str(broken) / "wal")
    failed = _finished(table, begun, begun.plans, ledger)
    assert list(failed) == [str(broken)]
    gone = {decision.name.split("/")[1] for decision in ledger.decisions if decision.kind == "generation"}
    assert gone >= {str(plan.region) for plan in begun.plans[1:]}


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_region_that_cannot_be_collected_is_named_and_the_others_and_the_table_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = flushed(tmp_path / "t", range(30))
    table.merge()
    broken = min(str(region.region_id) for region in table.regions())
    region = tmp_path / "t" / "_mem_wal" / broken
    (region / "20000000_gen_1" / "data").mkdir(parents=True)
    (region / "20000000_gen_1" / "data" / "x.lance").touch()
    (region / "20000000_gen_1" / "_versions").mkdir()
    (region / "20000000_gen_1" / "_versions" / "1.manifest").write_bytes(b"no manifest")
    shown = command("gc", str(tmp_path / "t"), "--retain-versions", "1", "--grace", "0", "--orphan-age", "1d", "--json")
    found = json.loads(shown.stdout)
    assert (shown.exit_code, [one["region"] for one in found["failed"]]) == (1, [broken])
    assert f"error: region {broken}: ArtifactError" in shown.stderr
    collected = {(one["kind"], one["name"].split("/")[1]) for one in found["decisions"] if one["collected"]}
    assert {name for kind, name in collected if kind == "generation"} == {
        str(region.region_id) for region in table.regions()
    } - {broken}
    assert "version" in {kind for kind, _ in collected}


def test_the_commands_of_the_page_do_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    section = (
        (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8").split("\n## Jobs\n")[1].split("\n## ")[0]
    )
    typed = [
        shlex.split(line)
        for block in re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
        for line in block.splitlines()
    ]
    words = [line[2:] for line in typed if line[:2] == ["memwal", "spark"]]
    assert [line[0] for line in words] == ["write", "merge", "catch-up", "snapshot", "gc", "verify", "why", "write"]
    assert [line[0] for line in typed if line[0] != "memwal"] == ["spark-submit"]
    places = {name: tmp_path / name for name in ("the/table", "changes.csv", "log.json")}
    bucketed(places["the/table"], revision="R")
    places["changes.csv"].write_text("id,seq,text\n1,1,a\n2,1,b\n")
    places["log.json"].write_text(
        '{"id": 1, "seq": 2, "text": "a", "_change_type": "delete", "_commit_timestamp": 1}\n'
        '{"id": 3, "seq": 2, "text": "c", "_change_type": "insert", "_commit_timestamp": 1}\n'
    )
    for line in words:
        shown = command(*[str(places.get(word, word)) for word in line])
        assert shown.exit_code == 0, f"{line}: {shown.output}"
    assert stored(places["the/table"]) == [(2, 1, "b"), (3, 2, "c")]


@pytest.mark.parametrize(
    "words", [["merge"], ["catch-up"], ["snapshot"], ["gc"], ["verify"], ["write", "in.csv", "--sequence-by", "seq"]]
)
def test_a_table_that_is_not_there_ends_a_job_with_2(spark: SparkSession, tmp_path: Path, words: list[str]) -> None:
    name, *rest = words
    shown = command(name, str(tmp_path / "none"), *rest)
    assert shown.exit_code == 2
    assert shown.stderr.startswith("error: [MEMWAL_NO_TABLE] ")


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_files_of_each_format_are_written_in_the_types_of_the_table(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    bucketed(tmp_path / "t")
    source = tmp_path / f"in.{kind}"
    if kind == "parquet":
        rows = {"text": ["a", None], "id": pa.array([1, 2], pa.int16()), "seq": pa.array([9.0, 10.0])}
        pq.write_table(pa.table(rows), source)
    elif kind == "csv":
        source.write_text("text,id,seq\na,1,9\n,2,10\n")
    else:
        source.write_text('{"id": 1, "seq": 9, "text": "a"}\n{"id": 2, "seq": 10, "text": null}\n')
    shown = command("write", str(tmp_path / "t"), str(source), "--sequence-by", "seq", "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["rows"]) == (0, 2)
    assert stored(tmp_path / "t") == [(1, 9, "a"), (2, 10, None)]


def test_a_change_log_is_applied_with_its_deletes_and_the_states_before_updates_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    bucketed(tmp_path / "t", revision="R", buckets=2).register_region({"b": 0})
    log = tmp_path / "log.csv"
    log.write_text(
        "id,text,seq,_change_type,_commit_timestamp\n"
        "1,a,1,insert,x\n2,b,1,insert,x\n3,c,1,insert,x\n"
        "1,a,2,update_preimage,x\n1,a2,2,update_postimage,x\n2,b,3,delete,x\n"
        "3,c,4,delete,x\n3,c2,4,insert,x\n"
    )
    words = ["--sequence-by", "seq", "--change-type-column", "_change_type", "--ignore", "_commit_timestamp"]
    batch = ["--txn-app-id", "load", "--txn-version", "7"]
    shown = command("write", str(tmp_path / "t"), str(log), *words, *batch, "--json")
    assert shown.exit_code == 0, shown.stderr
    assert stored(tmp_path / "t") == [(1, 2, "a2"), (3, 4, "c2")]
    again = command("write", str(tmp_path / "t"), str(log), *words, *batch)
    assert re.search(r"; \d of \d tasks? wrote nothing, since they were finished before\n$", again.stdout)


def test_an_unknown_type_of_change_is_named(spark: SparkSession, tmp_path: Path) -> None:
    bucketed(tmp_path / "t", revision="R")
    (tmp_path / "log.csv").write_text("id,text,seq,op\n1,a,1,replace\n")
    words = ["--sequence-by", "seq", "--change-type-column", "op"]
    shown = command("write", str(tmp_path / "t"), str(tmp_path / "log.csv"), *words)
    assert shown.exit_code == 1
    assert shown.stderr.startswith("error: [MEMWAL_CHANGE_TYPE] column op: ")
    assert "replace" in shown.stderr


@pytest.mark.parametrize(
    ("header", "row", "words", "said"),
    [
        ("id,seq", "1,2", [], "missing ['text'], unknown []"),
        ("id,seq,text,more", "1,2,a,b", [], "missing [], unknown ['more']"),
        ("id,seq,text", "1,2,a", ["--ignore", "more"], "no columns ['more'] to ignore"),
        ("id,seq,text", "1,2,a", ["--txn-app-id", "x"], "given together or not at all"),
        ("id,seq,text", "1,2,a", ["--late-rows", "dorp"], "Did you mean 'drop'?"),
        ("id,seq,text", "1,2,a", ["--format", "cvs"], "Did you mean 'csv'?"),
        ("id,seq,text", "1,2,a", ["--storage", "x"], "--storage takes NAME=VALUE"),
    ],
)
def test_what_the_caller_got_wrong_is_said_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, header: str, row: str, words: list[str], said: str
) -> None:
    bucketed(tmp_path / "t")
    (tmp_path / "in.csv").write_text(f"{header}\n{row}\n")
    shown = command("write", str(tmp_path / "t"), str(tmp_path / "in.csv"), "--sequence-by", "seq", *words)
    assert (shown.exit_code, stored(tmp_path / "t")) == (2, [])
    assert said in shown.stderr


TYPES = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("price", pa.decimal128(6, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us")),
        pa.field("ok", pa.bool_()),
        pa.field("many", pa.list_(pa.int32())),
    ]
)
GOOD = {"id": "7", "price": "12.50", "day": "2026-11-22", "at": "2026-11-22 01:02:03.5", "ok": "true"}


def as_typed(rows: DataFrame) -> DataFrame:
    return fitted(rows, from_arrow_schema(TYPES))


def test_texts_become_what_they_say(spark: SparkSession) -> None:
    texts = spark.createDataFrame([tuple(GOOD.values())], list(GOOD)).selectExpr("*", "array(1L, 2L) AS many")
    (row,) = as_typed(texts).collect()
    assert row.asDict() == {
        "id": 7,
        "price": Decimal("12.50"),
        "day": datetime.date(2026, 11, 22),
        "at": datetime.datetime(2026, 11, 22, 1, 2, 3, 500_000),
        "ok": True,
        "many": [1, 2],
    }


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", "'7.5'"),
        ("id", "7.5D"),
        ("id", "3000000000L"),
        ("price", "'1.999'"),
        ("price", "1.999BD"),
        ("day", "'2026-11-22 10:00:00'"),
        ("day", "TIMESTAMP_NTZ'2026-11-22 10:00:00'"),
        ("at", "'2026-11-22 01:02:03.0000001'"),
        ("at", "'2026-11-22T01:02:03+02:00'"),
        ("at", "'2026-11-22 01:02Z'"),
        ("ok", "'maybe'"),
        ("ok", "2"),
        ("many.item", "array(1L, 3000000000L)"),
        ("many", "'[1]'"),
    ],
)
def test_a_value_that_a_column_would_change_fails_the_job_and_is_named(
    spark: SparkSession, column: str, value: str
) -> None:
    texts = spark.createDataFrame([tuple(GOOD.values())], list(GOOD)).selectExpr("*", "array(1L, 2L) AS many")
    changed = column.partition(".")[0]
    rows = as_typed(texts.selectExpr(*[f"{value} AS {n}" if n == changed else n for n in texts.columns]))
    with pytest.raises(PySparkException) as refused:
        rows.collect()
    assert said(refused.value).startswith(f"[MEMWAL_CAST] column {column}: ")


def test_a_master_is_known_from_spark_submit_from_a_remote_and_from_the_file_of_defaults(tmp_path: Path) -> None:
    assert not has_master({})
    assert has_master({"PYSPARK_GATEWAY_PORT": "1"})
    assert has_master({"SPARK_REMOTE": "sc://localhost"})
    (tmp_path / "spark-defaults.conf").write_text("# spark.master none\nspark.ui.enabled false\n")
    assert not has_master({"SPARK_CONF_DIR": str(tmp_path)})
    (tmp_path / "spark-defaults.conf").write_text("spark.master  spark://somewhere:7077\n")
    assert has_master({"SPARK_CONF_DIR": str(tmp_path)})


def test_a_source_that_cannot_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    bucketed(tmp_path / "t")
    with pytest.raises(InvalidArgument, match=r"does not end with \.parquet, \.json or \.csv"):
        jobs.write(spark, str(tmp_path / "t"), ["in.txt"], sequence_by="seq")
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_SOURCE\] .*none\.csv cannot be read as csv"):
        jobs.write(spark, str(tmp_path / "t"), [str(tmp_path / "none.csv")], sequence_by="seq")


MADE = pa.schema(
    [
        *SCHEMA,
        pa.field("n", pa.int32()),
        pa.field("bytes", pa.binary()),
        pa.field("prices", pa.list_(pa.decimal128(6, 2))),
        pa.field("inner", pa.struct([("at", pa.timestamp("us", "UTC")), ("more", pa.struct([("n", pa.int8())]))])),
    ]
)


def loaded(spark: SparkSession, path: Path, name: str, content: str, **options: str) -> list[tuple[object, ...]]:
    """What a table has when ``content`` was written into it; columns are those that the file begins with."""
    path.mkdir(exist_ok=True)
    (path / name).write_bytes(content.encode())
    schema = MADE if name.endswith("json") else pa.schema(list(MADE)[:5])
    memwal.create(path / f"{name} t", schema, primary_key=["id"], spec=memwal.bucket("b", "id", 1))
    jobs.write(spark, str(path / f"{name} t"), [str(path / name)], sequence_by="seq", **options)  # type: ignore[arg-type]
    return sorted(tuple(row.values()) for row in memwal.open(path / f"{name} t").scan().to_pylist())


def test_a_text_of_csv_may_have_quotes_backslashes_and_ends_of_lines_and_may_be_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    texts = ['"a\r\n5,6,7,8,9"', '"said ""no"""', '""', "", '"c:\\"', '" x\t"']
    numbers = ['""', *[""] * 5]
    lines = [f"{n},{n},{text},{number},ab" for n, (text, number) in enumerate(zip(texts, numbers, strict=True))]
    found = loaded(spark, tmp_path, "a.csv", "\n".join(["id,seq,text,n,bytes", *lines, ""]))
    said_so = ["a\r\n5,6,7,8,9", 'said "no"', "", None, "c:\\", " x\t"]
    assert found == [(n, n, text, None, b"ab") for n, text in enumerate(said_so)]
    of_spark = 'id,seq,text,n,bytes\n1,1,"said \\"no\\"",7,\n'
    assert loaded(spark, tmp_path, "b.csv", of_spark, csv_escape="\\") == [(1, 1, 'said "no"', 7, None)]
    with pytest.raises(PySparkException, match=r"\[MEMWAL_CSV\] column text: .*csv_escape"):
        loaded(spark, tmp_path, "c.csv", of_spark)


def test_bytes_of_json_are_base64_and_lists_and_structs_become_what_they_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = {"id": 1, "seq": 1, "text": "\n", "n": 7, "bytes": "AP8=", "prices": [1.5, 2, None], "inner": {"at": AT}}
    second = {"id": 2, "seq": 2, "prices": [], "inner": {"more": {"n": 127}}}
    found = loaded(spark, tmp_path, "a.json", f"{json.dumps(first)}\n{json.dumps(second)}\n")
    at = datetime.datetime(2026, 11, 22, 1, 2, 3, 500_000, tzinfo=datetime.UTC)
    prices = [Decimal("1.50"), Decimal("2.00"), None]
    assert found == [
        (1, 1, "\n", 7, b"\0\xff", prices, {"at": at, "more": None}),
        (2, 2, None, None, None, [], {"at": None, "more": {"n": 127}}),
    ]
    for wrong, message in [
        ({"bytes": "no base64!"}, r"\[MEMWAL_CAST\] column bytes: .*no base64!"),
        ({"inner": {"more": {"n": 128}}}, r"\[MEMWAL_CAST\] column inner\.more\.n: .* tinyint as it is: 128"),
        ({"inner": {"more": {"m": 1}}}, r"\[MEMWAL_SCHEMA\] column inner\.more of the rows has fields .*\['m'\]"),
    ]:
        with pytest.raises((PySparkException, InvalidArgument), match=message):
            loaded(spark, tmp_path / str(len(message)), "a.json", json.dumps(first | wrong))


AT = "2026-11-22T03:02:03.5+02:00"


def test_a_file_that_spark_cannot_read_is_named_with_what_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgument, match=r"\[MEMWAL_SOURCE\] .*a\.json cannot be read as json: .*Malformed record"
    ):
        loaded(spark, tmp_path, "a.json", '{"id": 1\n{"id": 2}\n')
    with pytest.raises(Py4JJavaError) as refused:
        loaded(spark, tmp_path, "a.csv", "id,seq,text,n,bytes\n1,1\n")
    assert re.search(r"reading file .*a\.csv\. \[MALFORMED_CSV_RECORD\] Malformed CSV record: 1,1", said(refused.value))


@pytest.mark.long
def test_spark_submit_takes_the_file_and_chooses_the_master(tmp_path: Path) -> None:
    flushed(tmp_path / "t", range(30))
    environ = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environ["JAVA_HOME"] = str(java.home_for_spark(java.find(os.environ), os.environ))
    where = [sys.executable, "-m", "pyspark_memwal", "file"]
    file = subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip()
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]", file]
    job = [*submit, "merge", str(tmp_path / "t"), "--json"]
    done = subprocess.run(job, check=True, capture_output=True, text=True, env=environ)
    assert json.loads(done.stdout)["failed"] == 0
    assert [region.merged for region in memwal.open(tmp_path / "t").regions()] == [1, 1, 1]
    none = subprocess.run([*submit, "verify", str(tmp_path / "none")], capture_output=True, text=True, env=environ)
    assert none.returncode == 2
