"""Every program of docs/spark.md is run, from the top of the page to its end, in one session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
ROWS = "id long, name string, seq long"


@pytest.mark.long
@pytest.mark.time_limit(600)
def test_the_programs_of_the_page_run_one_after_the_other(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, more = str(tmp_path / "table"), str(tmp_path / "more")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("seq", pa.int64())])
    memwal.create(table, schema, primary_key="id", spec=memwal.region_spec([memwal.bucket("bucket", ["id"], 2)]))
    spark.createDataFrame([(4, "streamed", 9)], ROWS).write.parquet(more)
    names: dict[str, Any] = {"spark": spark, "df": spark.createDataFrame([(1, "a", 1), (1, "b", 2), (2, "c", 3)], ROWS)}
    programs = BLOCK.findall(PAGE.read_text("utf-8"))
    for program in programs:
        if "upsert_stream" in program:
            names["df"] = spark.readStream.schema(ROWS).parquet(more)
        placed = program.replace('"the/', f'"{tmp_path}/')
        exec(compile(placed, "docs/spark.md", "exec"), names)
    said = capsys.readouterr().out
    assert len(programs) == 8
    assert {row["id"]: row["name"] for row in memwal.open(table).scan().to_pylist()} == {1: "b", 2: "c", 4: "streamed"}
    assert names["done"].failed == ()
    assert names["changes"].isStreaming
    assert "streamed" in said
