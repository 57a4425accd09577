"""WAL entries: their names and bytes, what is refused, and how a writer stores them."""

from __future__ import annotations

import struct
import uuid
from contextlib import suppress
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal import paths
from memwal.codec import wal
from memwal.codec.wal import WalEntry
from memwal.effects import Head, Io, PutIfAbsent
from memwal.errors import ArtifactError, StorageError, WriterStopped
from memwal.ids import Epoch, Generation, WalPosition
from memwal.index import regions
from memwal.region import wal_folder
from memwal.region.limits import Limits
from memwal.region.opening import open_writer
from memwal.region.writer import RegionWriter
from memwal.revisions import STRICT, A, B, R, Revision

from ..kit.arrow_tables import tables
from ..kit.ground import (
    ROOT,
    SCHEMA,
    Actor,
    Ground,
    entries,
    entry_name,
    keys,
    manifest,
    put_entry,
    put_manifests,
    region,
    row,
    versions,
)

REVISIONS = pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
ARROW = pytest.mark.parametrize("revision", [B, R], ids=lambda r: r.name)
FIRST_ROWS = {"A": 1, "B": 1, "R": 1}
"""Position of the first entry with rows: B has a barrier at 0."""
END_MARK = bytes.fromhex("ffffffff00000000")


def stream(table: pa.Table, *, options: pa.ipc.IpcWriteOptions | None = None, epoch: bytes | None = b"7") -> bytes:
    """An Arrow IPC stream as another writer would make it."""
    metadata = {} if epoch is None else {b"writer_epoch": epoch}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata(metadata), options=options) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def lance_file(data: bytes, folder: Path) -> tuple[pa.Table, dict[bytes, bytes]]:
    """Rows and schema metadata of a Lance file, by pylance."""
    from lance.file import LanceFileReader

    (folder / "entry.lance").write_bytes(data)
    reader = LanceFileReader(str(folder / "entry.lance"))
    return reader.read_all().to_table(), reader.metadata().schema.metadata or {}


def opened(ground: Ground, revision: Revision, **options: object) -> RegionWriter:
    return ground.run(open_writer(region(revision), **options))  # type: ignore[arg-type]


# Names


@pytest.mark.clause("WAL-012", "WAL-013")
def test_an_entry_is_named_by_the_64_bits_of_its_position_the_lowest_first() -> None:
    assert paths.wal(WalPosition(5), "arrow") == f"wal/101{'0' * 61}.arrow"
    assert paths.wal(WalPosition(0), "lance") == f"wal/{'0' * 64}.lance"
    assert paths.wal(WalPosition(2**63), "lance") == f"wal/{'0' * 63}1.lance"
    assert paths.wal(WalPosition(2**64 - 1), "lance") == f"wal/{'1' * 64}.lance"


@pytest.mark.clause("WAL-013")
@given(st.integers(0, 2**64 - 1), st.sampled_from(["arrow", "lance"]))
def test_the_position_is_read_back_from_the_name_and_from_nothing_like_it(position: int, suffix: str) -> None:
    name = paths.wal(WalPosition(position), suffix)
    assert paths.wal_position(name, suffix) == position
    for other in (name + ".tmp.1", name.removesuffix(suffix), name.replace("/", "/0"), f"wal/2{name[5:]}"):
        assert paths.wal_position(other, suffix) is None


@pytest.mark.clause("WAL-016")
@given(st.integers(0, 2**64 - 17))
def test_sixteen_entries_in_a_row_differ_in_the_first_four_characters_of_their_names(position: int) -> None:
    names = [paths.wal(WalPosition(p), "arrow").removeprefix("wal/") for p in range(position, position + 16)]
    assert len({name[:4] for name in names}) == 16


@pytest.mark.clause("WAL-012", "WAL-014", "WAL-015")
@pytest.mark.parametrize(("revision", "suffix", "first"), [(A, "lance", 1), (B, "arrow", 0), (R, "arrow", 1)])
def test_a_writer_puts_its_entries_into_the_regions_wal_folder_under_one_suffix(
    revision: Revision, suffix: str, first: int
) -> None:
    ground = Ground()
    writer = opened(ground, revision)
    for key in range(3):
        ground.run(writer.put(row(key)))
    last = 3 if revision is not B else 4
    expected = {f"wal/{f'{n:064b}'[::-1]}.{suffix}" for n in range(first, last + (revision is not B))}
    assert set(ground.below()) - set(ground.below("manifest/")) == expected
    assert len(expected) == (4 if revision is B else 3)


@pytest.mark.clause("AMB-10")
def test_entries_under_another_suffix_are_found_by_name() -> None:
    names = [paths.wal(WalPosition(p), s) for p, s in ((2, "arrow"), (2, "lance"), (9, "lance"), (3, "arrow"))]
    names += ["wal/x.lance", f"wal/{'0' * 64}.lance.tmp.7", f"wal/{'0' * 63}.lance"]
    assert wal_folder.strangers(names, B) == (names[1], names[2])
    assert wal_folder.strangers(names, A) == (names[0], names[3])
    assert wal_folder.positions(names, B) == (2, 3)
    wal_folder.refuse_strangers([names[0]], B, "r")
    with pytest.raises(ArtifactError, match=r"one of those too.*AMB-10") as caught:
        wal_folder.refuse_strangers(names[:2], B, "r")
    assert caught.value.path == f"r/{names[1]}"
    with pytest.raises(ArtifactError, match=r"have the suffix \.arrow \[AMB-10\]"):
        wal_folder.refuse_strangers([names[2]], B, "r")


# Bytes


@pytest.mark.clause("WAL-009", "WAL-010", "AMB-11", "AMB-12")
@ARROW
def test_an_entry_of_b_and_r_is_an_arrow_stream_with_the_epoch_in_decimal(revision: Revision) -> None:
    entry = WalEntry(epoch=Epoch(12), rows=row(1), generation=Generation(3))
    data = wal.encode(entry, revision)
    assert data.endswith(END_MARK)
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    assert table.to_pylist() == [{"id": 1, "v": "x"}]
    generation = {b"generation": b"3"} if revision is R else {}
    assert table.schema.metadata == {b"writer_epoch": b"12", **generation}


@pytest.mark.clause("WAL-009", "WAL-010")
@settings(max_examples=40)
@given(rows=tables(), cut=st.integers(0, 3))
def test_an_entry_of_b_is_the_stream_that_arrow_writes(rows: pa.Table, cut: int) -> None:
    rows = pa.concat_tables([rows.slice(0, cut), rows.slice(cut)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema.with_metadata({b"writer_epoch": b"12"})) as writer:
        for batch in rows.to_batches():
            if batch.num_rows:
                writer.write_batch(batch)
    assert wal.encode(WalEntry(epoch=Epoch(12), rows=rows), B) == sink.getvalue().to_pybytes()


@pytest.mark.clause("WAL-009", "WAL-010")
def test_an_entry_says_the_metadata_of_its_own_columns_and_its_own_epoch() -> None:
    for epoch, text in ((1, "one"), (1, "other"), (2, "other")):
        below = pa.field("x", pa.int64(), metadata={"of": text})
        for field in (pa.field("v", pa.int64(), metadata={"of": text}), pa.field("v", pa.struct([below]))):
            rows = pa.schema([field]).empty_table()
            data = wal.encode(WalEntry(epoch=Epoch(epoch), rows=rows), B)
            found = pa.ipc.open_stream(data).schema
            assert found.remove_metadata().equals(rows.schema, check_metadata=True)
            assert found.metadata == {b"writer_epoch": str(epoch).encode()}


@pytest.mark.clause("WAL-008", "WAL-010", "WAL-026")
def test_an_entry_of_a_is_a_lance_file_with_the_epoch_in_its_schema_metadata(tmp_path: Path) -> None:
    data = wal.encode(WalEntry(epoch=Epoch(12), rows=row(1)), A)
    table, metadata = lance_file(data, tmp_path)
    assert table.to_pylist() == [{"id": 1, "v": "x"}]
    assert metadata == {b"writer_epoch": b"12"}


@pytest.mark.clause("WAL-008", "WAL-026", "WAL-027", "AMB-15")
def test_an_entry_of_a_ends_with_its_footer_so_that_every_part_of_it_is_refused() -> None:
    data = wal.encode(WalEntry(epoch=Epoch(12), rows=row(1)), A)
    assert data.endswith(b"LANC")
    for length in {*range(0, len(data), 7), *range(len(data) - 48, len(data))}:
        with pytest.raises(ArtifactError) as caught:
            wal.decode(data[:length], A, "x/y.lance")
        assert (caught.value.clause, caught.value.path) == ("WAL-008", "x/y.lance")


def messages(data: bytes) -> list[int]:
    """Where the messages of a stream begin, its end mark included, by the format's own length fields."""
    starts, at = [], 0
    while True:
        starts.append(at)
        mark, size = struct.unpack_from("<II", data, at)
        assert mark == 0xFFFFFFFF
        if size == 0:
            return starts
        body = pa.ipc.read_message(pa.py_buffer(data[at:])).body
        at += 8 + size + (body.size if body is not None else 0)


TWO_BATCHES = pa.concat_tables([row(1), row(2, "y")])
DICTIONARY = TWO_BATCHES.combine_chunks().set_column(
    1, "v", TWO_BATCHES.column("v").combine_chunks().dictionary_encode()
)


@pytest.mark.clause("WAL-009", "AMB-11", "AMB-15")
@ARROW
@pytest.mark.parametrize(("table", "count"), [(TWO_BATCHES, 4), (DICTIONARY, 4), (SCHEMA.empty_table(), 2)])
def test_a_stream_that_is_cut_between_two_messages_is_refused_where_it_ends(
    table: pa.Table, count: int, revision: Revision
) -> None:
    data = stream(table)
    starts = messages(data)
    assert len(starts) == count
    for start in starts[1:]:
        with pytest.raises(ArtifactError, match="its stream has no end mark: the entry was cut") as caught:
            wal.decode(data[:start], revision, "x/y.arrow")
        assert (caught.value.clause, caught.value.path, caught.value.offset) == ("WAL-009", "x/y.arrow", start)


@pytest.mark.clause("WAL-009", "AMB-11")
@ARROW
@pytest.mark.parametrize("table", [TWO_BATCHES, DICTIONARY], ids=["plain", "dictionary"])
def test_a_stream_that_is_cut_anywhere_is_refused_with_the_message_that_is_damaged(
    table: pa.Table, revision: Revision
) -> None:
    data = stream(table)
    starts = messages(data)
    for length in range(len(data)):
        with pytest.raises(ArtifactError) as caught:
            wal.decode(data[:length], revision, "x/y.arrow")
        assert caught.value.offset == max(start for start in starts if start <= length)


@pytest.mark.clause("AMB-11")
@ARROW
@pytest.mark.parametrize("behind", [b"\x00", END_MARK, stream(row(1))], ids=["a byte", "a mark", "a stream"])
def test_bytes_behind_the_end_mark_are_refused(behind: bytes, revision: Revision) -> None:
    data = stream(row(1))
    with pytest.raises(ArtifactError, match=f"{len(behind)} bytes trail the stream") as caught:
        wal.decode(data + behind, revision, "x")
    assert caught.value.offset == len(data)


@pytest.mark.clause("AMB-11")
@ARROW
def test_a_cut_stream_whose_last_rows_look_like_the_end_mark_is_refused(revision: Revision) -> None:
    data = stream(pa.table({"n": pa.array([-1, 0], pa.int32())}))
    cut = data.removesuffix(END_MARK)
    assert cut.endswith(END_MARK)
    with pytest.raises(ArtifactError, match="its stream has no end mark"):
        wal.decode(cut, revision, "x")


@pytest.mark.clause("AMB-11")
@ARROW
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_stream_is_read(codec: str, revision: Revision) -> None:
    data = stream(TWO_BATCHES, options=pa.ipc.IpcWriteOptions(compression=codec))
    assert wal.decode(data, revision, "x").rows.to_pylist() == [{"id": 1, "v": "x"}, {"id": 2, "v": "y"}]


@pytest.mark.clause("AMB-11")
def test_dictionary_encoding_is_the_writers_choice_and_is_undone_where_the_table_is_plain() -> None:
    value = pa.array(["a", "b", "a"])
    encoded = value.dictionary_encode()
    offsets = pa.array([0, 1, 3], pa.int32())
    nested = pa.StructArray.from_arrays([pa.ListArray.from_arrays(offsets, encoded)], ["deep"])
    table = pa.table({"v": encoded.slice(0, 2), "s": nested, "kept": encoded.slice(1, 2), "n": pa.array([1, 2])})
    plain = {
        "v": pa.string(),
        "s": pa.struct([("deep", pa.list_(pa.string()))]),
        "kept": encoded.type,
        "n": pa.int32(),
    }
    entry = wal.plain(wal.decode(stream(table), B, "x"), pa.schema(plain))
    assert entry.rows.schema.types == [plain["v"], plain["s"], encoded.type, pa.int64()]
    assert entry.rows.column("s").to_pylist() == [{"deep": ["a"]}, {"deep": ["b", "a"]}]
    assert entry.rows.column("v").to_pylist() == ["a", "b"]


@pytest.mark.clause("WAL-010", "WAL-033", "AMB-12")
@ARROW
@pytest.mark.parametrize(
    "epoch", [b"", b"07", b"+7", b"-7", b" 7", b"7 ", b"7.0", b"0x7", b"seven", b"\x07", "٧".encode(), b"1" * 21]
)
def test_an_epoch_that_is_no_plain_decimal_is_refused(epoch: bytes, revision: Revision) -> None:
    with pytest.raises(ArtifactError, match="not an unsigned 64-bit decimal number") as caught:
        wal.decode(stream(row(1), epoch=epoch), revision, "x")
    assert caught.value.clause == "WAL-010"


@pytest.mark.clause("AMB-12")
def test_the_largest_epoch_is_read_and_the_next_number_and_none_are_refused() -> None:
    assert wal.decode(stream(row(1), epoch=b"18446744073709551615"), B, "x").epoch == 2**64 - 1
    assert wal.decode(stream(row(1), epoch=b"0"), B, "x").epoch == 0
    with pytest.raises(ArtifactError, match="WAL-010"):
        wal.decode(stream(row(1), epoch=b"18446744073709551616"), B, "x")
    with pytest.raises(ArtifactError, match="no writer_epoch"):
        wal.decode(stream(row(1), epoch=None), B, "x")


@pytest.mark.clause("AMB-12")
def test_keys_of_revision_r_mean_nothing_in_b() -> None:
    metadata = {b"writer_epoch": b"7", b"generation": b"none", b"fence_sentinel": b"true"}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA.with_metadata(metadata)) as writer:
        writer.write_table(row(1))
    data = sink.getvalue().to_pybytes()
    found = wal.decode(data, B, "x")
    assert (found.generation, found.barrier, found.rows.num_rows) == (None, False, 1)
    with pytest.raises(ArtifactError, match="generation is b'none'"):
        wal.decode(data, R, "x")
    with pytest.raises(ArtifactError, match="it is a fence sentinel and has 1 row"):
        wal.decode(data.replace(b"none", b"4444"), R, "x")


@pytest.mark.clause("AMB-20", "AMB-24")
@REVISIONS
def test_an_entry_without_rows_is_a_barrier(revision: Revision) -> None:
    rows = region(revision).rows.schema.empty_table()
    data = wal.encode(WalEntry(epoch=Epoch(3), rows=rows, generation=Generation(1), barrier=True), revision)
    found = wal.decode(data, revision, "x")
    assert (found.epoch, found.barrier, found.rows.num_rows) == (3, True, 0)
    assert (b"fence_sentinel" in data) == (revision is R)


@ARROW
def test_a_stream_with_a_column_twice_is_refused(revision: Revision) -> None:
    twice = pa.table([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(ArtifactError, match="column names are not unique"):
        wal.decode(stream(twice), revision, "x")


@pytest.mark.clause("WAL-009", "AMB-11")
@ARROW
@pytest.mark.parametrize(
    ("intact", "damaged"),
    [(b"name_of_it", b"name\xffof_it"), (b"value of it", b"value\xffof it")],
    ids=["name", "value"],
)
def test_a_stream_with_text_that_is_no_utf_8_is_refused(intact: bytes, damaged: bytes, revision: Revision) -> None:
    data = stream(pa.table({"name_of_it": ["value of it"]}))
    assert data.count(intact) == 1
    assert wal.decode(data, revision, "x").rows.to_pylist() == [{"name_of_it": "value of it"}]
    with pytest.raises(ArtifactError, match="not a readable Arrow IPC stream") as caught:
        wal.decode(data.replace(intact, damaged), revision, "x")
    assert (caught.value.clause, caught.value.offset) == ("WAL-009", messages(data)[1])


@pytest.mark.clause("AMB-11")
def test_the_native_writer_ends_its_entries_with_the_mark_and_they_are_read(tmp_path: Path) -> None:
    key = SCHEMA.field("id").with_metadata({"lance-schema:unenforced-primary-key": "true"})
    dataset = lance.write_dataset(row(0).cast(pa.schema([key, SCHEMA.field("v")])), str(tmp_path / "t"))
    dataset.initialize_mem_wal(unsharded=True)
    shard = str(uuid.uuid4())
    for first in (1, 3):
        with lance.dataset(str(tmp_path / "t")).mem_wal_writer(shard, durable_write=True) as writer:
            writer.put(row(first).to_batches()[0])
    found = []
    for position in (1, 2, 3, 4):
        file = tmp_path / "t" / "_mem_wal" / shard / paths.wal(WalPosition(position), "arrow")
        if file.exists():
            assert file.read_bytes().endswith(END_MARK)
            entry = wal.decode(file.read_bytes(), R, file.name)
            found.append((position, entry.epoch, entry.barrier, keys(entry.rows) if entry.rows.num_rows else []))
    assert found == [(1, 1, False, [1]), (2, 2, True, []), (3, 2, False, [3])]


numbers = st.integers(0, 2**64 - 1)


@pytest.mark.clause("WAL-008", "WAL-009", "WAL-010", "WAL-032")
@REVISIONS
@settings(max_examples=40)
@given(rows=tables(), epoch=numbers, generation=st.none() | numbers)
def test_every_entry_survives_a_round_trip(
    rows: pa.Table, epoch: int, generation: int | None, revision: Revision
) -> None:
    rows = rows.replace_schema_metadata(None)
    numbered = None if generation is None else Generation(generation)
    entry = WalEntry(epoch=Epoch(epoch), rows=rows, generation=numbered, barrier=not rows.num_rows)
    found = wal.decode(wal.encode(entry, revision), revision, "x")
    assert (found.epoch, found.barrier) == (epoch, not rows.num_rows)
    assert found.generation == (numbered if revision is R else None)
    assert found.rows.schema.types == rows.schema.types
    assert found.rows.to_pylist() == rows.to_pylist()


SAMPLES = [
    stream(TWO_BATCHES),
    stream(DICTIONARY),
    stream(TWO_BATCHES, options=pa.ipc.IpcWriteOptions(compression="lz4")),
    stream(TWO_BATCHES, options=pa.ipc.IpcWriteOptions(compression="zstd")),
    stream(SCHEMA.empty_table()),
    stream(pa.table({"t": pa.array([1], pa.timestamp("us", "UTC")), "l": pa.array([[{"a": 1}]])})),
]


@pytest.mark.clause("AMB-11", "AMB-15")
@settings(max_examples=400)
@given(st.sampled_from(SAMPLES), st.data())
def test_a_damaged_stream_is_refused_or_read_and_is_no_other_error(sample: bytes, data: st.DataObject) -> None:
    damaged = bytearray(sample)
    damaged[data.draw(st.integers(0, len(sample) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.just(len(sample)) | st.integers(0, len(sample)))
    with suppress(ArtifactError):
        entry = wal.decode(bytes(damaged[:cut]), B, "x")
        assert cut == len(sample)
        with suppress(ArtifactError):
            region(B).rows.restored(wal.plain(entry, SCHEMA).rows, "x")


@pytest.mark.clause("AMB-15")
@settings(max_examples=200)
@given(st.binary(max_size=80) | st.binary(max_size=40).map(lambda tail: SAMPLES[0][:200] + tail))
def test_arbitrary_bytes_are_no_other_error(data: bytes) -> None:
    for revision in (A, B):
        with suppress(ArtifactError):
            wal.decode(data, revision, "x")


# How a writer stores them


@pytest.mark.clause("WAL-004", "WAL-006", "WAL-017", "WAL-024", "WAL-025", "WAL-031", "WAL-032")
@REVISIONS
def test_a_wal_flush_puts_all_waiting_writes_in_their_order_into_one_entry_at_the_next_position(
    revision: Revision, tmp_path: Path
) -> None:
    ground = Ground()
    writer = opened(ground, revision)
    before = len(ground.asked)
    for key in (3, 1, 2):
        ground.run(writer.put(row(key), durable=False))
    assert len(ground.asked) == before
    ground.run(writer.flush_wal())
    ground.run(writer.put(row(9), durable=False))
    ground.run(writer.flush_wal())
    ground.run(writer.flush_wal())
    first = FIRST_ROWS[revision.name]
    with_rows = {p: held for p, (_, held) in entries(ground, revision).items() if held}
    assert with_rows == {first: [3, 1, 2], first + 1: [9]}
    data = ground.objects[entry_name(revision, first)]
    if revision is A:
        assert keys(lance_file(data, tmp_path)[0]) == [3, 1, 2]
    else:
        batches = pa.ipc.open_stream(data)
        assert [batch.column("id").to_pylist() for batch in batches] == [[3], [1], [2]]


@pytest.mark.clause("WAL-030")
@REVISIONS
def test_each_durable_write_is_an_entry_of_its_own_before_the_put_returns(ground: Ground, revision: Revision) -> None:
    writer = opened(ground, revision)
    for key in range(3):
        before = len(entries(ground, revision))
        ground.run(writer.put(row(key)))
        assert len(entries(ground, revision)) == before + 1


@pytest.mark.clause("WAL-031")
def test_writes_that_are_not_durable_are_stored_together_at_a_threshold(ground: Ground) -> None:
    writer = opened(ground, B, limits=Limits(wal_rows=3, wal_interval_ms=None))
    for key in range(5):
        ground.run(writer.put(row(key), durable=False))
        ground.run(writer.keep_limits())
    assert {p: held for p, (_, held) in entries(ground, B).items()} == {0: [], 1: [0, 1, 2]}


@pytest.mark.clause("WAL-021", "FENCE-014")
@REVISIONS
def test_a_wal_flush_is_one_conditional_create_and_touches_no_manifest(ground: Ground, revision: Revision) -> None:
    writer = opened(ground, revision)
    before = {name: ground.objects[f"{ROOT}/{name}"] for name in ground.below("manifest/")}
    for key in range(4):
        assert ground.counted(writer.put(row(key))) == {"PutIfAbsent": 1}
    assert {name: ground.objects[f"{ROOT}/{name}"] for name in ground.below("manifest/")} == before


@pytest.mark.clause("WAL-027", "WAL-007")
@REVISIONS
def test_an_entry_appears_whole_with_its_only_request(ground: Ground, revision: Revision) -> None:
    writer = opened(ground, revision)
    put = Actor(ground, writer.put(row(1)))
    assert isinstance(put.waiting, PutIfAbsent)
    name = entry_name(revision, FIRST_ROWS[revision.name])
    assert put.waiting.path == name
    assert name not in ground.objects
    put.step()
    assert put.waiting is None
    assert keys(wal.decode(ground.objects[name], revision, name).rows) == [1]


@pytest.mark.clause("WAL-028")
@REVISIONS
def test_writes_count_as_stored_only_after_their_entry_is(ground: Ground, revision: Revision) -> None:
    writer = opened(ground, revision)
    ground.run(writer.put(row(1), durable=False))
    flush = Actor(ground, writer.flush_wal())
    assert flush.waiting is not None
    assert (writer.memtable.pending_rows, len(writer.memtable.stored)) == (1, 0)
    flush.finish()
    first = FIRST_ROWS[revision.name]
    assert (writer.memtable.pending_rows, [s.position for s in writer.memtable.stored]) == (0, [first])
    assert writer.memtable.position_covered == first


@pytest.mark.clause("WAL-028")
def test_a_refused_entry_leaves_its_writes_unstored_and_stops_the_writer(ground: Ground) -> None:
    writer = opened(ground, B)
    ground.run(writer.put(row(1), durable=False))
    ground.before = lambda r: StorageError(r.path, "full") if isinstance(r, PutIfAbsent) else None
    with pytest.raises(StorageError):
        ground.run(writer.flush_wal())
    assert (writer.memtable.pending_rows, len(writer.memtable.stored)) == (1, 0)
    ground.before = lambda r: None
    with pytest.raises(WriterStopped):
        ground.run(writer.flush_wal())
    assert {p: held for p, (_, held) in entries(ground, B).items()} == {0: []}


@pytest.mark.clause("WAL-018", "AMB-17")
@REVISIONS
def test_sealing_a_memtable_closes_its_last_entry_so_that_none_straddles_two_generations(revision: Revision) -> None:
    ground = Ground()
    writer = opened(ground, revision)
    ground.run(writer.put(row(1)))
    ground.run(writer.put(row(2), durable=False))
    assert ground.run(writer.flush()) == 1
    ground.run(writer.put(row(3), durable=False))
    ground.run(writer.put(row(4)))
    first = FIRST_ROWS[revision.name]
    with_rows = {p: held for p, (_, held) in entries(ground, revision).items() if held}
    assert with_rows == {first: [1], first + 1: [2], first + 2: [3, 4]}
    assert versions(ground)[2].position_replay_after == first + 1
    if revision is R:
        decoded = [wal.decode(ground.objects[entry_name(R, p)], R, "x") for p in sorted(with_rows)]
        assert [entry.generation for entry in decoded] == [1, 1, 2]


@pytest.mark.clause("WAL-018", "AMB-17")
@REVISIONS
def test_a_sealed_memtable_is_in_the_wal_before_any_row_of_the_next_one(ground: Ground, revision: Revision) -> None:
    writer = opened(ground, revision)
    ground.run(writer.put(row(1)))
    ground.run(writer.put(row(2), durable=False))
    ground.run(writer.freeze())
    ground.run(writer.put(row(3)))
    assert ground.run(writer.flush_oldest()) == 1
    first = FIRST_ROWS[revision.name]
    with_rows = {p: held for p, (_, held) in entries(ground, revision).items() if held}
    assert with_rows == {first: [1], first + 1: [2], first + 2: [3]}
    assert versions(ground)[2].position_replay_after == first + 1


@pytest.mark.clause("WAL-002")
@REVISIONS
def test_a_write_that_was_not_stored_is_gone_with_its_writer(ground: Ground, revision: Revision) -> None:
    lost = opened(ground, revision)
    ground.run(lost.put(row(1)))
    ground.run(lost.put(row(2), durable=False))
    assert keys(lost.memtable.table()) == [1, 2]
    assert keys(opened(ground, revision).memtable.table()) == [1]


@pytest.mark.clause("WAL-001", "WAL-003")
@REVISIONS
def test_durable_writes_are_as_safe_as_the_objects_of_the_wal_and_nothing_else(revision: Revision) -> None:
    ground = Ground()
    writer = opened(ground, revision)
    for key in (1, 2, 3):
        ground.run(writer.put(row(key)))
    del writer
    last = entry_name(revision, FIRST_ROWS[revision.name] + 2)
    without = Ground({name: data for name, data in ground.objects.items() if name != last})
    assert keys(opened(ground, revision).memtable.table()) == [1, 2, 3]
    assert keys(opened(without, revision).memtable.table()) == [1, 2]


@pytest.mark.clause("WAL-023", "WAL-029", "MANIFEST-011")
def test_the_index_builder_finds_the_end_of_the_wal_by_head_requests_and_raises_the_last_seen_hint() -> None:
    from memwal.table import write

    ground = Ground()
    put_manifests(ground, B, manifest(1, 1, after=2, seen=2, generation=2), hint_at=1)
    for position in range(6):
        put_entry(ground, B, position, 1, row(position))
    state = ground.run(write.create(Io("t", interpretation=STRICT), SCHEMA, None, {"memwal.revision": "B"}))
    before = len(ground.asked)
    found = ground.run(regions._refreshed(Io(ROOT, interpretation=STRICT), versions(ground)[1], state))
    assert (found.version, found.position_last_seen) == (2, 5)
    of_the_wal = [request for request in ground.asked[before:] if "/wal" in request.path]
    assert {type(request) for request in of_the_wal} == {Head}
    assert [request.path for request in of_the_wal] == [entry_name(B, position) for position in (3, 4, 5, 6)]
