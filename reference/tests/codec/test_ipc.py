"""Compressed Arrow bytes are not decoded into more memory than they can be meant to take."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyroaring
import pytest
from memwal.codec import deletion, ipc, wal
from memwal.errors import ArtifactError
from memwal.revision_0 import entries
from memwal.revisions import REVISIONS

ROWS = pa.table({"id": pa.array([7] * 100_000, pa.int64()), "v": ["x"] * 100_000})
EPOCH = {b"writer_epoch": b"1"}


def stream(rows: pa.Table, codec: str | None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_compressed_entry_of_the_usual_size_is_read(codec: str, encoded: bool) -> None:
    rows = ROWS.set_column(1, "v", ROWS.column("v").dictionary_encode()) if encoded else ROWS
    data = stream(rows.replace_schema_metadata(EPOCH), codec)

    assert wal.decode(data, REVISIONS["B"], "wal").rows.num_rows == 100_000


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("encoded", [False, True])
def test_an_entry_that_becomes_too_large_is_refused_by_path_and_offset(
    codec: str, encoded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ipc, "EXPANDED_BYTES", 100_000)
    monkeypatch.setattr(ipc, "EXPANDED_RATIO", 2)
    column = pa.array([f"{'v' * 50}{i % 10_000}" for i in range(20_000)])
    rows = pa.table({"v": column.dictionary_encode() if encoded else column}, metadata=EPOCH)
    data = stream(rows, codec)

    with pytest.raises(ArtifactError, match=r"wal/1.arrow at byte \d+: \d+ compressed bytes say .* \[WAL-009\]"):
        wal.decode(data, REVISIONS["B"], "wal/1.arrow")


def test_an_entry_that_becomes_large_is_read_where_its_own_bytes_are_many_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ipc, "EXPANDED_BYTES", 100_000)
    rows = pa.table({"v": np.random.default_rng(1).integers(0, 1000, 20_000)}, metadata=EPOCH)
    data = stream(rows, "zstd")
    assert 5_000 < len(data) < 100_000  # of 160,000 bytes

    assert wal.decode(data, REVISIONS["B"], "wal").rows.num_rows == 20_000


def lying(data: bytes) -> bytes:
    """``data`` with the first length of a compressed buffer of 800,000 bytes made 2 TiB."""
    honest = struct.pack("<q", 800_000)
    assert honest in data
    return data.replace(honest, struct.pack("<q", 1 << 41), 1)


def test_a_length_that_lies_is_refused_before_memory_is_asked_for() -> None:
    rows = pa.table({"id": ROWS.column("id")}, metadata=EPOCH)

    with pytest.raises(ArtifactError, match="say that they become 2199023255552"):
        wal.decode(lying(stream(rows, "zstd")), REVISIONS["B"], "wal")
    with pytest.raises(ArtifactError, match="say that they become 2199023255552"):
        entries.decode(lying(stream(rows, "lz4")), "0/1.arrow")


def test_a_deletion_file_that_lies_is_refused() -> None:
    sink = pa.BufferOutputStream()
    offsets = pa.record_batch({"row_id": pa.array(np.arange(200_000), pa.uint32())})
    with pa.ipc.new_file(sink, offsets.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(offsets)
    data = sink.getvalue().to_pybytes()
    assert len(deletion.decode(data, deletion.ARROW, 200_000, "d")) == 200_000

    with pytest.raises(ArtifactError, match=r"d: .* say that they become 2199023255552, .*\[FORMAT-006\]"):
        deletion.decode(lying(data), deletion.ARROW, 200_000, "d")


def test_a_bitmap_of_more_rows_than_the_fragment_has_is_not_unpacked() -> None:
    whole = pyroaring.BitMap(range(1 << 20))
    whole.run_optimize()

    with pytest.raises(ArtifactError, match="names 1,048,576 rows of a fragment that has 100"):
        deletion.decode(whole.serialize(), deletion.BITMAP, 100, "d")
