"""What a user reads first when something is wrong: our sentence, and not the stacks of Spark's processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
import memwal_spark
import pyarrow as pa
import pytest
from memwal.errors import ArtifactError, Fenced, InvalidArgument
from memwal.ids import Epoch, RegionId
from memwal_spark.errors import plain_errors, sentence, sentences
from pyspark.errors import AnalysisException, PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("seq", pa.int64(), nullable=False), ("v", pa.string())]
)


@pytest.fixture
def place(tmp_path: Path) -> str:
    memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], spec=memwal.bucket("b", "id", 1))
    return str(tmp_path / "t")


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def test_the_engines_errors_have_a_code_and_one_line() -> None:
    assert sentence(InvalidArgument("[MEMWAL_OPTION] say\n  less")) == "[MEMWAL_OPTION] say less"
    fenced = Fenced(RegionId("r"), Epoch(1), Epoch(2))
    assert sentence(fenced).startswith("[MEMWAL_FENCED] region r was claimed by another writer: its epoch is 2, and ")
    assert sentence(ArtifactError("WAL-007", "t/wal/1", "a hole")).startswith("[MEMWAL_ARTIFACT_ERROR] ")


def test_only_the_sentence_is_left_of_what_spark_says() -> None:
    told = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed when: Traceback (most recent call last):\n  File x\n"
        "PySparkException: [MEMWAL_NO_TABLE] there is no table at 'x' (y); create it SQLSTATE: 38000\n\tat org.apache"
    )
    with pytest.raises(AnalysisException) as error, plain_errors():
        raise AnalysisException(message=told)
    assert str(error.value) == "[MEMWAL_NO_TABLE] there is no table at 'x' (y); create it"
    assert str(error.value.__context__) == told
    with pytest.raises(PySparkException, match=r"^other$"), plain_errors():
        raise PySparkException(message="other")


def test_in_the_users_own_process_no_traceback_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(PySparkException, match=r"^\[MEMWAL_INVALID_ARGUMENT\] no$"), sentences():
        raise InvalidArgument("no")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ


@pytest.mark.parametrize(
    ("options", "path", "beginning"),
    [
        (
            {"colums": "id"},
            "t",
            "[MEMWAL_UNKNOWN_OPTION] there is no option 'colums' for reading; the options are: path,",
        ),
        ({}, "none", "[MEMWAL_NO_TABLE] there is no table at "),
        ({"columns": "id,w"}, "t", "[MEMWAL_SCHEMA] the table has no columns ['w']; it has ['id', 'seq', 'v']"),
        ({"tag": "x"}, "t", "[MEMWAL_INVALID_ARGUMENT] there is no tag 'x'; there are none"),
    ],
)
def test_a_mistake_of_a_read_is_said_before_any_stack(
    spark: SparkSession, tmp_path: Path, place: str, options: dict[str, Any], path: str, beginning: str
) -> None:
    def read() -> DataFrame:
        return spark.read.format("memwal").options(**options).load(str(tmp_path / path))

    with pytest.raises(AnalysisException) as error:
        read()
    assert beginning in first_line(error.value), "Spark's own words stand before, and no traceback"
    with pytest.raises(AnalysisException) as plain, memwal_spark.plain_errors():
        read()
    assert str(plain.value).startswith(beginning)


@pytest.mark.parametrize(
    ("row", "sequence", "beginning"),
    [
        ("(CAST(NULL AS BIGINT), 1L, 'a')", "seq", "[MEMWAL_NULL_KEY] key column id has NULLs"),
        ("(1L, CAST(NULL AS BIGINT), 'a')", "seq", "[MEMWAL_NULL_SEQUENCE] column seq has NULLs"),
        (
            "(1L, 1L, 'a')",
            "when",
            "[MEMWAL_OPTION] option sequenceBy names 'when', and the rows have ['id', 'seq', 'v']",
        ),
    ],
)
def test_a_mistake_of_an_upsert_is_all_that_it_raises(
    spark: SparkSession, place: str, row: str, sequence: str, beginning: str
) -> None:
    rows = spark.sql(f"SELECT * FROM VALUES {row} AS t(id, seq, v)")
    with pytest.raises((PySparkException, InvalidArgument)) as error:
        memwal_spark.upsert(rows, place, sequence_by=sequence)
    assert str(error.value).startswith(beginning)
    assert "\n" not in str(error.value)


def test_an_error_in_a_task_is_found_in_what_the_action_raises(spark: SparkSession, place: str) -> None:
    table = memwal.open(place)
    table.base.append(pa.table([[1], [1], ["a"]], schema=SCHEMA))
    read = spark.read.format("memwal").load(place)
    for data in Path(place, "data").iterdir():
        data.write_bytes(b"damaged")
    with pytest.raises(PySparkException, match=r"^\[MEMWAL_ARTIFACT_ERROR\] ") as error, plain_errors():
        read.collect()
    assert "\n" not in str(error.value)
