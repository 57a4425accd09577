"""Which of its two forms a deletion file has, and that pylance reads both."""

from __future__ import annotations

from collections.abc import Callable

import lance
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec import deletion
from memwal.effects import Io
from memwal.errors import ArtifactError
from memwal.revisions import STRICT
from memwal.table import read, state, write

from ..kit.folder import Folder

T = Io("t", interpretation=STRICT)


def spread(rows: int, step: int) -> deletion.Offsets:
    return np.arange(0, rows * step, step, dtype=np.uint32)


@pytest.mark.clause("FORMAT-037", "FORMAT-038", "FORMAT-039")
@pytest.mark.parametrize(
    ("offsets", "form"),
    [
        pytest.param(spread(3, 1), deletion.ARROW, id="three rows side by side"),
        pytest.param(spread(1023, 1), deletion.ARROW, id="small however dense"),
        pytest.param(spread(1024, 1), deletion.BITMAP, id="a run"),
        pytest.param(spread(1024, 8192), deletion.BITMAP, id="eight rows in each 65,536"),
        pytest.param(spread(1024, 30_000), deletion.ARROW, id="two rows in each 65,536"),
        pytest.param(spread(50_000, 65_536), deletion.ARROW, id="many rows each on its own"),
        pytest.param(spread(100_000, 3), deletion.BITMAP, id="many rows close together"),
    ],
)
def test_small_or_sparse_deletions_are_a_flat_vector_and_large_dense_ones_a_bitmap(
    offsets: deletion.Offsets, form: int
) -> None:
    chosen, data = deletion.encode(offsets)
    assert chosen == form
    assert (deletion.decode(data, chosen, 1 << 32, "d") == offsets).all()


@pytest.mark.clause("FORMAT-039")
def test_a_set_that_is_not_small_takes_no_more_bytes_than_its_flat_vector() -> None:
    for step in (1, 2, 100, 5_000, 20_000, 28_000, 29_000, 60_000):
        _, data = deletion.encode(spread(1100, step))
        assert len(data) < 1100 * 4 + 600


@pytest.mark.clause("FORMAT-035", "FORMAT-037", "FORMAT-038", "FORMAT-040")
@pytest.mark.parametrize(
    ("gone", "suffix"),
    [
        pytest.param(lambda ids: ids < 1023, "arrow", id="below the threshold"),
        pytest.param(lambda ids: ids < 1024, "bin", id="at the threshold, one run"),
        pytest.param(lambda ids: ids % 19 == 0, "bin", id="above, an array in its container"),
        pytest.param(lambda ids: ids % 2 == 1, "bin", id="above, a bitmap in its container"),
    ],
)
def test_pylance_reads_each_form_and_deletes_on_top_of_it(
    gone: Callable[[np.ndarray], np.ndarray], suffix: str, folder: Folder
) -> None:
    ids = np.arange(20_000)
    folder.run(write.create(T, pa.schema([("id", pa.int64())]), pa.table({"id": ids})))
    folder.run(write.delete(T, lambda rows: gone(rows.column("id").to_numpy()), "some"))
    (name,) = (n for n in folder.files() if n.startswith("t/_deletions/"))
    assert name.endswith(f".{suffix}")
    opened = lance.dataset(str(folder.root / "t"))
    left = ids[~gone(ids)].tolist()
    assert opened.to_table().column("id").to_pylist() == left
    opened.delete("id >= 19000")
    found = folder.run(read.scan(T, folder.run(state.latest(T))))
    assert found.column("id").to_pylist() == [i for i in left if i < 19_000]


@pytest.mark.clause("FORMAT-037", "FORMAT-040")
def test_a_deletion_file_has_as_many_entries_as_its_message_says(folder: Folder) -> None:
    folder.run(write.create(T, pa.schema([("id", pa.int64())]), pa.table({"id": np.arange(100)})))
    for first, end in ((0, 3), (10, 12)):
        folder.run(write.delete(T, lambda rows: np.isin(rows.column("id").to_numpy(), range(first, end)), "some"))  # noqa: B023
    current = folder.run(state.latest(T))
    message = current.fragments[0].deletion_file
    assert message.num_deleted_rows == 5
    target = folder.root / "t" / "_deletions" / f"0-2-{message.id}.arrow"
    with pa.ipc.open_file(target.read_bytes()) as stored:
        assert (stored.num_record_batches, stored.schema.types) == (1, [pa.uint32()])
        assert stored.get_batch(0).column(0).to_pylist() == [0, 1, 2, 10, 11]
    for number in (4, 6):
        target.write_bytes(deletion.encode(spread(number, 1))[1])
        with pytest.raises(ArtifactError, match=rf"holds {number} rows, the table manifest says 5.*\[FORMAT-040\]"):
            folder.run(read.scan(T, current))


@pytest.mark.clause("FORMAT-038")
def test_a_run_of_deleted_rows_takes_a_few_bytes() -> None:
    assert len(deletion.encode(spread(60_000, 1))[1]) < 30


@pytest.mark.clause("FORMAT-037")
@pytest.mark.parametrize("column", [pa.array(["1"]), pa.array([1.0]), pa.array([1, None], pa.uint32())])
def test_a_column_of_a_deletion_file_that_is_not_of_row_offsets_is_damage(column: pa.Array) -> None:
    sink = pa.BufferOutputStream()
    rows = pa.table({"row_id": column})
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    with pytest.raises(ArtifactError, match=r"d: a column of \w+ with \d NULLs, not of row offsets \[FORMAT-037\]"):
        deletion.decode(sink.getvalue().to_pybytes(), deletion.ARROW, 10, "d")


@pytest.mark.clause("FORMAT-010")
def test_a_version_with_a_deletion_file_says_so_to_readers_and_writers(folder: Folder) -> None:
    folder.run(write.create(T, pa.schema([("id", pa.int64())]), pa.table({"id": np.arange(3)})))
    before = folder.run(state.latest(T)).manifest.message
    folder.run(write.delete(T, lambda rows: rows.column("id").to_numpy() == 1, "id = 1"))
    after = folder.run(state.latest(T)).manifest.message
    assert (before.reader_feature_flags & 1, before.writer_feature_flags & 1) == (0, 0)
    assert (after.reader_feature_flags & 1, after.writer_feature_flags & 1) == (1, 1)


@pytest.mark.parametrize("form", [deletion.ARROW, deletion.BITMAP])
def test_a_truncated_deletion_file_is_damage(form: int) -> None:
    chosen, data = deletion.encode(spread(2 if form == deletion.ARROW else 5_000, 2))
    assert chosen == form
    with pytest.raises(ArtifactError, match="FORMAT-006"):
        deletion.decode(data[:-6], form, 1 << 20, "d")
