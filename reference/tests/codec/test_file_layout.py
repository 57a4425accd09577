"""What a data file says of its parts is checked before a native reader believes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from memwal.codec import data_file, file_layout
from memwal.codec.file_layout import FOOTER, GLOBAL_BUFFER
from memwal.codec.pb.lance import file2_pb2
from memwal.errors import ArtifactError

ROWS = pa.table({"n": pa.array(range(100), pa.int64()), "l": [[n] * (n % 3) for n in range(100)]})


def changed(data: bytes, change: str, value: int) -> bytes:
    """``data`` with another number in the first page of the first column; a number that takes as many bytes."""
    column_table = FOOTER.unpack(data[-FOOTER.size :])[1]
    position, size = GLOBAL_BUFFER.unpack_from(data, column_table)
    column = file2_pb2.ColumnMetadata.FromString(data[position : position + size])
    setattr(column.pages[0], change, value)
    written = column.SerializeToString()
    assert len(written) == size
    return data[:position] + written + data[position + size :]


def test_a_page_of_more_rows_than_the_file_is_damage() -> None:
    data = changed(data_file.encode(ROWS), "length", 101)

    with pytest.raises(ArtifactError, match="f: a column has pages of 101 rows, and the file has 100"):
        data_file.decode(data, "f")


def test_a_page_outside_of_a_whole_file_is_damage() -> None:
    data = data_file.encode(ROWS)
    column_table = FOOTER.unpack(data[-FOOTER.size :])[1]
    beyond = data[:column_table] + GLOBAL_BUFFER.pack(len(data), 8) + data[column_table + GLOBAL_BUFFER.size :]

    with pytest.raises(ArtifactError, match=r"f at byte \d+: a part of 8 bytes lies beyond the file"):
        data_file.decode(beyond, "f")


def with_column(data: bytes, change: Callable[[file2_pb2.ColumnMetadata], None]) -> bytes:
    """``data`` with other metadata of the first column, which are no longer than they were."""
    column_table = FOOTER.unpack(data[-FOOTER.size :])[1]
    position, size = GLOBAL_BUFFER.unpack_from(data, column_table)
    column = file2_pb2.ColumnMetadata.FromString(data[position : position + size])
    change(column)
    held, made = column.SerializeToString(), bytearray(data)
    assert len(held) <= size
    made[position : position + len(held)] = held
    made[column_table : column_table + GLOBAL_BUFFER.size] = GLOBAL_BUFFER.pack(position, len(held))
    return bytes(made)


def layout_of(data: bytes, begin: int = 0) -> file_layout.Layout:
    start, length = file_layout.schema_range(data, len(data), "f", clause="FORMAT-024")
    return file_layout.parse(data[begin:], data[start : start + length], len(data), "f")


def test_the_description_of_an_encoding_that_is_stored_apart_is_a_part_of_its_page() -> None:
    data = data_file.encode(ROWS)

    def buffers(at: int) -> Sequence[file_layout.Range]:
        place = file2_pb2.DeferredEncoding(buffer_location=at, buffer_length=4)
        apart = file2_pb2.Encoding(indirect=place)
        return (
            layout_of(with_column(data, lambda column: column.pages[0].encoding.CopyFrom(apart))).columns[0][0].buffers
        )

    assert buffers(len(data) - 4)[-1] == (len(data) - 4, 4)
    with pytest.raises(ArtifactError, match="a part of 4 bytes lies beyond the file"):
        buffers(len(data) - 3)


def test_column_metadata_before_the_end_of_a_file_that_was_read_are_damage() -> None:
    data = data_file.encode(ROWS)
    with pytest.raises(ArtifactError, match="column metadata lies outside of its place"):
        layout_of(data, begin=FOOTER.unpack(data[-FOOTER.size :])[1])


def test_a_page_that_begins_before_the_end_of_the_one_before_it_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_file, "PAGE_CACHE_BYTES", 1 << 10)
    with data_file.Encoder(ROWS.schema, data_file.FILE_VERSION) as encoder:
        for _ in range(40):
            encoder.write(ROWS)
        data = encoder.finish()
    damaged = with_column(data, lambda column: setattr(column.pages[1], "priority", 0))
    with pytest.raises(ArtifactError, match=r"a page starts at row 0, and those before it have \d+"):
        layout_of(damaged)


@pytest.mark.parametrize("version", data_file.WRITTEN_VERSIONS)
def test_files_of_several_pages_are_whole(version: data_file.FileVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_file, "PAGE_CACHE_BYTES", 1 << 10)
    rows = ROWS.select(["n"]) if version == data_file.FLAT_VERSION else ROWS
    with data_file.Encoder(rows.schema, version) as encoder:
        for _ in range(40):
            encoder.write(rows)
        data = encoder.finish()

    assert data_file.decode(data, "f").num_rows == 4_000


def test_pages_of_the_older_version_that_are_not_in_row_order_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_file, "PAGE_CACHE_BYTES", 1 << 10)
    with data_file.Encoder(pa.schema([ROWS.schema.field("n")]), data_file.FLAT_VERSION) as encoder:
        for _ in range(40):
            encoder.write(ROWS.select(["n"]))
        data = encoder.finish()

    def starts(first: int, second: int) -> Callable[[file2_pb2.ColumnMetadata], None]:
        def change(column: file2_pb2.ColumnMetadata) -> None:
            del column.pages[2:]
            column.pages[0].priority, column.pages[1].priority = first, second

        return change

    assert layout_of(with_column(data, starts(0, 1))).columns[0][0].end_row == 1
    for first, second in ((1, 1), (0, 5_000)):
        with pytest.raises(ArtifactError, match="f: the pages of a column are not in row order"):
            layout_of(with_column(data, starts(first, second)))


@pytest.mark.parametrize("place", range(3))
def test_a_position_in_the_footer_that_is_beyond_it_is_damage(place: int) -> None:
    parts = [100, 100, 100, 1, 1, 2, 1, file_layout.MAGIC]
    assert file_layout.footer(FOOTER.pack(*parts), 100 + FOOTER.size, "f", clause="FORMAT-024") == (100, 100, 100, 1, 1)
    parts[place] = 101
    with pytest.raises(ArtifactError, match=r"f at byte 100: a footer position lies beyond the file \[FORMAT-024\]"):
        file_layout.footer(FOOTER.pack(*parts), 100 + FOOTER.size, "f", clause="FORMAT-024")


def test_a_file_without_global_buffers_has_no_schema() -> None:
    data = data_file.encode(ROWS)
    parts = list(FOOTER.unpack(data[-FOOTER.size :]))
    parts[3] = 0
    with pytest.raises(ArtifactError, match=r"f: the file has no schema \[FORMAT-024\]"):
        layout_of(data[: -FOOTER.size] + FOOTER.pack(*parts))


def test_a_buffer_of_a_page_that_is_beyond_the_file_is_named_with_its_file() -> None:
    data = data_file.encode(ROWS)

    def change(column: file2_pb2.ColumnMetadata) -> None:
        column.pages[0].ClearField("encoding")
        column.pages[0].buffer_offsets[0] = len(data)

    with pytest.raises(
        ArtifactError, match=rf"f at byte {len(data)}: a part of \d+ bytes lies beyond .* \[FORMAT-024\]"
    ):
        layout_of(with_column(data, change))
