"""Options of the data source: what is taken, and what an error says."""

from __future__ import annotations

import pytest
from memwal.errors import InvalidArgument
from memwal_spark import page
from memwal_spark.options import ReadOptions, TableOption, WriteOptions, for_reading, for_writing


def test_options_are_found_in_any_case_and_have_defaults() -> None:
    options = for_writing({"PATH": "t", "sequenceby": "seq", "NUMREGIONS": "8", "storage.endpoint": "e"})
    assert options == WriteOptions(
        place=TableOption(path="t", storage={"endpoint": "e"}), sequence_by="seq", regions=8, flush_rows=250_000
    )


def test_columns_are_a_list_and_partitions_a_number() -> None:
    options = for_reading({"path": "t", "columns": "a, b", "numPartitions": "3", "version": "7", "revision": "R"})
    assert options == ReadOptions(
        place=TableOption(path="t", version=7, revision="R"), columns=("a", "b"), partitions=3, consistency="strong"
    )


def test_a_version_is_named_by_its_number_a_moment_or_a_tag() -> None:
    given = {"path": "t", "timestamp": "2026-11-23 12:00"}, {"path": "t", "TAG": "kept"}
    assert [for_reading(options).place for options in given] == [
        TableOption(path="t", timestamp="2026-11-23 12:00"), TableOption(path="t", tag="kept"),
    ]  # fmt: skip


def test_an_unknown_option_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(InvalidArgument) as error:
        for_writing({"path": "t", "sequenceBy": "seq", "flushRows": "10"})
    assert str(error.value) == (
        "[MEMWAL_UNKNOWN_OPTION] there is no option 'flushRows' for writing; the options are: path, sequenceBy, "
        "lateRows, deleteColumn, numRegions, regionColumn, flushEveryRows, reportPath, revision, storage.…"
    )


def test_an_option_for_writing_is_unknown_when_reading() -> None:
    with pytest.raises(InvalidArgument, match=r"MEMWAL_UNKNOWN_OPTION.*'sequenceBy' for reading.*consistency"):
        for_reading({"path": "t", "sequenceBy": "seq"})


def test_a_write_without_a_sequence_says_why_it_is_needed() -> None:
    with pytest.raises(InvalidArgument, match=r"MEMWAL_NO_SEQUENCE.*a shuffle does not keep the order"):
        for_writing({"path": "t"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"MEMWAL_NO_PATH"),
        ({"path": "t", "numPartitions": "0"}, r"MEMWAL_OPTION.*numPartitions must be a whole number from 1, not '0'"),
        ({"path": "t", "tag": "v", "timestamp": "2026"}, r"MEMWAL_OPTION.*version, timestamp, tag.*not timestamp, tag"),
        ({"path": "t", "version": "-1"}, r"MEMWAL_OPTION.*version must be a whole number from 1, not '-1'"),
        ({"path": "t", "revision": "C"}, r"MEMWAL_OPTION.*revision must be A, B, R, not 'C'"),
        ({"path": "t", "consistency": "weak"}, r"MEMWAL_OPTION.*consistency must be strong or eventual, not 'weak'"),
    ],
)
def test_a_malformed_option_is_named_with_what_it_may_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        for_reading(options)


def test_the_page_lists_the_options_that_there_are() -> None:
    text = page.PAGE.read_text("utf-8")
    assert page.filled(text) == text
    assert "| `sequenceBy` | column by which the last row of a key wins; required |" in text


def test_late_rows_are_dropped_kept_or_fail() -> None:
    assert for_writing({"path": "t", "sequenceBy": "seq", "lateRows": "fail"}).late_rows == "fail"
    with pytest.raises(InvalidArgument, match=r"MEMWAL_OPTION.*lateRows must be drop, keep, fail, not 'skip'"):
        for_writing({"path": "t", "sequenceBy": "seq", "lateRows": "skip"})


@pytest.mark.parametrize("option", ["txnAppId", "txnversion"])
def test_the_format_takes_no_batches_and_names_the_call_that_does(option: str) -> None:
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_USE_UPSERT\].*memwal_spark\.upsert\(df, path, .*txn="):
        for_writing({"path": "t", "sequenceBy": "seq", option: "1"})
