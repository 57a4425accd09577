"""Rows that are taken by their addresses: they are those of a whole read, from the parts of the file that hold them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from memwal.codec import scratch
from memwal.codec.data_file import Decoder
from memwal.effects import Get, GetRanges, Io
from memwal.revisions import STRICT
from memwal.table import late, read, stored_file
from memwal.table.read import ROW_ADDRESS
from memwal.table.state import latest

from ..kit.ground import Ground

IO = Io(interpretation=STRICT)
ROWS = 24_000


def columns() -> dict[str, pa.Array]:
    drawn = np.random.default_rng(3)
    numbers = drawn.integers(0, 1 << 40, ROWS)
    gone = drawn.random(ROWS) < 0.3
    return {
        "ascending": pa.array(range(ROWS)),
        "numbers": pa.array(numbers),
        "nulls": pa.array(numbers, mask=gone),
        "floats": pa.array(drawn.random(ROWS)),
        "truths": pa.array(gone),
        "same": pa.array([7] * ROWS),
        "nothing": pa.nulls(ROWS, pa.int32()),
        "texts": pa.array([f"text {number:x} of {row}" for row, number in enumerate(numbers.tolist())]),
        "some_texts": pa.array([f"{number:x}" * 3 for number in numbers.tolist()], mask=gone),
        "few_texts": pa.array([f"v{number % 5}" for number in numbers.tolist()]),
        "long_texts": pa.array([f"{number:x}" * 40 for number in numbers.tolist()]),
        "decimals": pa.array(numbers).cast(pa.decimal128(30, 2)),
        "moments": pa.array(numbers, pa.timestamp("us")),
        "lists": pa.array([list(range(row % 4)) for row in range(ROWS)]),
        "structs": pa.StructArray.from_arrays([pa.array(numbers), pa.array(gone)], ["a", "b"], mask=pa.array(gone)),
        "vectors": pa.FixedSizeListArray.from_arrays(pa.array(drawn.random(ROWS * 8), pa.float32()), 8),
        "wide_vectors": pa.FixedSizeListArray.from_arrays(pa.array(drawn.random(ROWS * 96), pa.float32()), 96),
    }


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.clause("FORMAT-016", "FORMAT-022", "FORMAT-035")
def test_rows_at_addresses_are_those_of_a_whole_read_in_every_layout_of_pages(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 0)  # no small file is at hand
    every = pa.table({name: values for name, values in columns().items() if version != "2.0" or name != "structs"})
    dataset = lance.write_dataset(every, str(tmp_path), data_storage_version=version)
    dataset.delete("ascending IN (0, 17, 20000)")
    ground = Ground.of(tmp_path)
    state = ground.run(latest(IO))
    (fragment,) = state.fragments
    picked = np.unique(
        np.concatenate([np.random.default_rng(5).integers(0, ROWS, 40), [0, 1, 17, 1023, 1024, ROWS - 1]])
    )
    kept = [row for row in picked.tolist() if row not in {0, 17, 20_000}]
    for name in every.schema.names:
        found = ground.run(read.take(IO, state, fragment, [name], picked.astype(np.uint64)))
        assert found.column(ROW_ADDRESS).to_pylist() == kept
        assert found.column(name).to_pylist() == every.column(name).take(pa.array(kept)).to_pylist(), name
        for alone in (1_023, 1_024, 4_095, 4_096) if version != "2.0" else ():  # the ends of chunks
            (value,) = ground.run(read.take(IO, state, fragment, [name], np.array([alone], np.uint64))).column(name)
            assert value.as_py() == every.column(name)[alone].as_py(), (name, alone)
    if version != "2.0":
        for name in ("numbers", "nulls", "floats", "texts", "some_texts", "decimals", "vectors", "wide_vectors"):
            before = len(ground.asked)
            ground.run(read.take(IO, state, fragment, [name], np.array([5, ROWS - 1], np.uint64)))
            got = sum(len(ground.perform(each)) for each in ground.asked[before:] if isinstance(each, Get))
            assert got - stored_file.END_BYTES < every.column(name).nbytes / 4, name
    assert ground.run(read.take(IO, state, fragment, ["texts"], np.array([0, 17], np.uint64))).num_rows == 0


@pytest.mark.parametrize(
    ("name", "most_bytes", "sizes"),
    [("wide_vectors", 100 * 96 * 4, [100, 100, 40]), ("lists", 64, [1] * 240)],
)
def test_rows_that_lie_apart_are_taken_together_as_far_as_they_are_fetched_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most_bytes: int, sizes: list[int]
) -> None:
    # A page of vectors says where each is; one of lists is fetched as a whole.
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 0)
    monkeypatch.setattr(read, "FETCH_BYTES", most_bytes)
    every = pa.table({name: columns()[name]})
    lance.write_dataset(every, str(tmp_path), data_storage_version="2.1")
    ground = Ground.of(tmp_path)
    state = ground.run(latest(IO))
    taken, take = list[int](), Decoder.take

    def taking(decoder: Decoder, rows: npt.NDArray[np.int64]) -> pa.Table:
        taken.append(len(rows))
        return take(decoder, rows)

    monkeypatch.setattr(Decoder, "take", taking)
    wanted = np.arange(0, ROWS, 100, dtype=np.uint64)
    found = ground.run(read.take(IO, state, state.fragments[0], [name], wanted))
    assert found.column(name).to_pylist() == every.column(name).take(pa.array(wanted)).to_pylist()
    assert taken == sizes


def test_chunks_that_lie_apart_are_asked_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 0)
    every = pa.table({"numbers": columns()["numbers"]})
    lance.write_dataset(every, str(tmp_path), data_storage_version="2.1")
    ground = Ground.of(tmp_path)
    state = ground.run(latest(IO))
    several = []
    for rows in ([0], [0, 5_000], [0, 5_000, 10_000, 15_000], [1_000, 1_100]):
        before = len(ground.asked)
        wanted = np.array(rows, np.uint64)
        found = ground.run(read.take(IO, state, state.fragments[0], ["numbers"], wanted))
        assert found.column("numbers").to_pylist() == every.column("numbers").take(pa.array(wanted)).to_pylist()
        several.append([len(each.ranges) for each in ground.asked[before:] if isinstance(each, GetRanges)])
    assert several == [[], [2], [4], []], "the last two rows are in chunks beside each other"


@pytest.mark.parametrize("backwards", [False, True])
def test_rows_that_lie_apart_are_found_in_pages_that_were_fetched_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 0)
    monkeypatch.setattr(late, "GATHERED_ROWS", 500)
    monkeypatch.setattr(read, "BATCH_ROWS", 4_000)
    every = pa.table({name: values for name, values in columns().items() if name != "wide_vectors"})
    lance.write_dataset(every, str(tmp_path), data_storage_version="2.1")
    ground = Ground.of(tmp_path)
    state = ground.run(latest(IO))
    wanted = np.concatenate([np.arange(500), np.arange(4_001, 20_000, 1_700), np.arange(ROWS - 500, ROWS)])
    mask = lambda batch: np.isin(batch.column("ascending").to_numpy(), wanted)  # noqa: E731

    async def chosen() -> list[pa.Table]:
        choice = late.RowChoice(stages=(late.Stage(("ascending",), mask),), few=True)
        parts = late.chosen_batches(IO, state, state.fragments[0], every.schema.names, choice, backwards=backwards)
        return [part async for part in parts]

    found = ground.run(chosen())
    assert len(found) > 1, "one end as a whole, then what lies apart"
    assert pa.concat_tables(found[::-1] if backwards else found).equals(every.take(pa.array(wanted)))


@pytest.mark.parametrize("backwards", [False, True])
def test_rows_that_stay_of_several_batches_are_taken_together_and_only_their_chunks_are_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 0)
    monkeypatch.setattr(read, "BATCH_ROWS", 1_000)
    every = pa.table({name: columns()[name] for name in ("ascending", "numbers", "texts")})
    lance.write_dataset(every, str(tmp_path), data_storage_version="2.1").delete("ascending = 4")
    ground = Ground.of(tmp_path)
    state = ground.run(latest(IO))
    laid_out, taken, write, take = [0], list[int](), scratch._write, Decoder.take

    def writing(descriptor: int, parts: Iterable[scratch.Piece]) -> None:
        held = list(parts)
        laid_out[0] += sum(len(data) for _, data in held)
        write(descriptor, held)

    def taking(decoder: Decoder, rows: npt.NDArray[np.int64]) -> pa.Table:
        taken.append(len(rows))
        return take(decoder, rows)

    def choice(*rows: int) -> late.RowChoice:
        mask = lambda batch: np.isin(batch.column("ascending").to_numpy(), rows)  # noqa: E731
        return late.RowChoice(stages=(late.Stage(("ascending",), mask),), few=True)

    async def chosen(*rows: int) -> list[pa.Table]:
        names = ("texts", "numbers", "ascending")
        parts = late.chosen_batches(IO, state, state.fragments[0], names, choice(*rows), backwards=backwards)
        return [part async for part in parts]

    monkeypatch.setattr(scratch, "_write", writing)
    monkeypatch.setattr(Decoder, "take", taking)
    (found,) = ground.run(chosen(4, 7, 1_500, ROWS - 1))
    assert found.equals(every.select(found.schema.names).take([7, 1_500, ROWS - 1]))
    assert taken == [3], "both other columns, of the rows of three batches, at once"
    assert laid_out[0] < 80_000, "nothing of what lies between the chunks"
    monkeypatch.setattr(late, "GATHERED_ROWS", 2)
    parts = ground.run(chosen(4, 7, 1_500, ROWS - 1))
    assert [part.column("ascending").to_pylist() for part in parts] == (
        [[1_500, ROWS - 1], [7]] if backwards else [[7, 1_500], [ROWS - 1]]
    )
