"""Rows that are taken of one file again and again are those that its reader takes, by a session or without one."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from memwal.codec import data_file
from memwal.codec.data_file import FLAT_VERSION, WRITTEN_VERSIONS, Decoder

ROWS = 40_000
OFTEN = 12
FLAT = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "text": pa.array([None if row % 7 == 0 else f"text {row % 900}" for row in range(ROWS)]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * ROWS, dtype=np.float32)), 2),
    },
    schema=pa.schema(
        [("id", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), 2))], metadata={"k": "v"}
    ),
)
NESTED = pa.table({"struct": [{"a": row} for row in range(ROWS)], "x": range(ROWS), "y": range(ROWS, 2 * ROWS)})
"""Its columns are not as many as its fields."""


def opened(rows: pa.Table, version: tuple[int, int], columns: list[str] | None = None) -> Decoder:
    data = data_file.encode(rows, version)
    decoder = Decoder([(0, data)], len(data), "data/x.lance", columns=columns)
    decoder.shared = True
    return decoder


def taken_often(decoder: Decoder, rows: pa.Table) -> None:
    draw = np.random.default_rng(2)
    for _ in range(OFTEN):
        wanted = np.unique(draw.integers(0, ROWS, 10))
        assert decoder.take(wanted).to_pylist() == rows.take(pa.array(wanted)).to_pylist()


@pytest.mark.clause("FORMAT-024")
@pytest.mark.parametrize("version", WRITTEN_VERSIONS)
@pytest.mark.parametrize("columns", [None, ["vector", "id"]])
def test_rows_that_are_taken_often_are_taken_by_a_session(
    version: tuple[int, int], columns: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    decoder = opened(FLAT, version, columns)
    taken_often(decoder, FLAT.select(columns or FLAT.schema.names))
    assert decoder._session is not None
    assert list(tmp_path.iterdir()) == [], "the folder of its table is gone"


def test_a_reader_that_is_not_shared_opens_no_session() -> None:
    decoder = opened(FLAT, FLAT_VERSION)
    decoder.shared = False
    taken_often(decoder, FLAT)
    assert decoder._session is None


def test_columns_inside_of_others_and_a_lack_of_a_temporary_folder_leave_it_to_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested = opened(NESTED, WRITTEN_VERSIONS[1], ["x"])
    taken_often(nested, NESTED.select(["x"]))
    without = opened(FLAT, FLAT_VERSION)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    taken_often(without, FLAT)
    assert nested._session is without._session is None


@pytest.mark.parametrize("often", [False, True])
def test_threads_that_share_a_reader_each_get_their_rows(often: bool) -> None:
    # The native reader refuses a thread while another one is in it, which said that the file was damaged.
    decoder = opened(FLAT, FLAT_VERSION)
    if often:
        taken_often(decoder, FLAT)
        assert decoder._session is not None
    ready = threading.Barrier(4)

    def read(seed: int) -> None:
        draw = np.random.default_rng(seed)
        ready.wait()
        for _ in range(50):
            wanted = np.unique(draw.integers(0, ROWS, 10))
            assert decoder.take(wanted).equals(FLAT.take(pa.array(wanted)))
            assert decoder.read(seed, 20).equals(FLAT.slice(seed, 20))
            assert decoder.schema.names == FLAT.schema.names

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(read, range(4)))
