"""`memwal spark why`: every place where a key has a row, and who wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import memwal
import pyarrow as pa
import pytest
import typer
from memwal_spark import cli, jobs
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [pa.field("day", pa.date32(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("seq", pa.int64())]
)
KEY = '{"day": "2026-11-23", "id": 7}'


def rows(*given: tuple[int, int]) -> pa.Table:
    days = pa.array(["2026-11-23"] * len(given)).cast(pa.date32())
    return pa.table([days, [each[0] for each in given], [each[1] for each in given]], schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> memwal.Table:
    """Key 7: merged once, then in two generations and twice in a WAL, the last time as a delete.

    Key 8, of the same region: merged twice, which takes a generation between those of key 7.
    """
    made = memwal.create(
        tmp_path / "t", SCHEMA, primary_key=["day", "id"], revision="R", spec=memwal.bucket("bucket", "id", 2)
    )
    made.upsert(rows((7, 1), (8, 2)))
    made.drain()
    made.upsert(rows((8, 3)))
    made.drain()
    region = made.register_region(made.region_values(rows((7, 0))).to_pylist()[0])
    with made.writer(region) as writer:
        for seq in (4, 5):
            writer.put(rows((7, seq)), durable=True)
            writer.flush()
        writer.put(rows((7, 6)), durable=True)
        writer.delete(rows((7, 0)).select(["day", "id"]), durable=True)
    return made


def test_each_row_of_a_key_is_told_with_its_place(spark: SparkSession, table: memwal.Table, tmp_path: Path) -> None:
    keys = rows((7, 0), (8, 0), (9, 0)).select(["id", "day"])
    done = jobs.why(spark, str(tmp_path / "t"), keys)
    assert done.failed == ()
    seven, eight, nine = done.histories
    assert seven.key == {"day": "2026-11-23", "id": "7"}
    found = [
        (p["place"], p.get("generation"), p.get("version"), p["deleted"], (p["row"] or {}).get("seq"))
        for p in seven.places
    ]
    version = found[-1][2]
    assert found == [
        ("wal", None, None, False, "1"), ("wal", None, None, False, "4"), ("wal", None, None, False, "5"),
        ("wal", None, None, False, "6"), ("wal", None, None, True, None),
        ("generation", 1, None, False, "1"), ("generation", 3, None, False, "4"), ("generation", 4, None, False, "5"),
        ("base", None, version, False, "1"),
    ]  # fmt: skip
    positions = [p["position"] for p in seven.places if p["place"] == "wal"]
    assert positions == sorted(set(positions))
    assert {p["region"] for p in seven.places if "region" in p} == {seven.region}
    assert seven.places[-1]["merged"][seven.region] == 1
    assert seven.now is None
    versions = [(p["row"]["seq"], p["version"]) for p in eight.places if p["place"] == "base"]
    assert [seq for seq, _ in versions] == ["2", "3"]
    assert versions[0][1] == version < versions[1][1]
    assert eight.now == {"day": "2026-11-23", "id": "8", "seq": "3"}
    assert (nine.places, nine.now) == ((), None)


def invoke(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    cli.commands(app)
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "300"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_the_command_names_jobs_and_attempts_of_reports(
    spark: SparkSession, table: memwal.Table, tmp_path: Path
) -> None:
    place = str(tmp_path / "t")
    (entry,) = [p for p in jobs.why(spark, place, rows((7, 0)).select(["day", "id"])).histories[0].places
                if p["place"] == "wal" and (p["row"] or {})["seq"] == "6"]  # fmt: skip
    task = {"region_id": entry["region"], "epoch": entry["epoch"], "partition": 3, "attempt": 1}
    (tmp_path / "a.json").write_text(json.dumps({"tasks": [{**task, "region_id": None}]}))
    (tmp_path / "b.json").write_text(json.dumps({"tasks": [task]}))
    written = ["--written", str(tmp_path / "a.json"), "--written", str(tmp_path / "b.json")]
    code, shown = invoke("why", place, KEY, *written)
    assert code == 0, shown
    lines = shown.splitlines()
    assert lines[0] == f"key day 2026-11-23, id 7, of region {entry['region']}"
    place_of_it = f"region {entry['region']}, epoch {entry['epoch']}, position {entry['position']}"
    assert f"  wal        {place_of_it}, job 1, task 3, attempt 1: seq 6" in lines
    assert lines[-1] == "  now: no row"
    code, shown = invoke("why", place, KEY, "--json")
    assert (code, json.loads(shown)["keys"][0]["now"]) == (0, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (('{"id": 7}',), "each object must have exactly the columns day, id"),
        (('{"day": "no day", "id": 7}',), "--key: "),
        (("7",), "each object must have exactly the columns day, id"),
        ((KEY, "--written", "{folder}/a.json"), "--written must name a report of a write"),
    ],
)
def test_bad_keys_and_reports_are_mistakes_of_the_caller(
    spark: SparkSession, table: memwal.Table, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "a.json").write_text("[]")
    code, shown = invoke("why", str(tmp_path / "t"), *(word.replace("{folder}", str(tmp_path)) for word in words))
    assert code == 2
    assert said in shown
