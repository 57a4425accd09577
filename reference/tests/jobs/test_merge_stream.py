"""Merging in bounded memory: parts of files, sets of keys, and how much of a table a merge ever asks for at once."""

from __future__ import annotations

import importlib.util
import struct
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from memwal import key_codes, keys
from memwal.codec import data_file, file_layout
from memwal.codec.pb.lance import transaction_pb2
from memwal.drive import drive
from memwal.effects import Get, Io, PutIfAbsent, StoreRequest
from memwal.errors import ArtifactError
from memwal.jobs.merger import merge_region
from memwal.keys import KeySet, among, newest, without
from memwal.read import generation
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.table import fragments, read, state, stored_file, upsert, write
from memwal.table.commit import commit

from ..kit.arrow_tables import tables
from ..kit.folder import Folder
from ..kit.ground import Ground
from ..kit.tables import flush

KEY = {"lance-schema:unenforced-primary-key": "true"}
SHARING = settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture])
"""Cases that share a fixture, and know it."""
WIDE = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), ("n", pa.int64()), ("wide", pa.binary())])


def wide(ids: Any, letter: bytes, width: int = 400) -> pa.Table:
    """Rows that do not compress, about ``width`` bytes each."""
    ids = np.asarray(ids)
    noise = np.random.default_rng(int(letter[0])).bytes(len(ids) * width)
    values = [noise[i * width : (i + 1) * width] for i in range(len(ids))]
    return pa.table([ids, ids * 7, pa.array(values, pa.binary())], schema=WIDE)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bound so small that tables of a few thousand rows meet it."""
    monkeypatch.setattr(data_file, "PAGE_CACHE_BYTES", 48 << 10)
    monkeypatch.setattr(generation, "HELD_BYTES", 0)
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 0)
    monkeypatch.setattr(stored_file, "END_BYTES", 2048)
    monkeypatch.setattr(file_layout, "GAP_BYTES", 0)
    monkeypatch.setattr(read, "FETCH_BYTES", 64 << 10)
    monkeypatch.setattr(read, "BATCH_BYTES", 32 << 10)
    monkeypatch.setattr(read, "FIRST_ROWS", 64)
    monkeypatch.setattr(fragments, "FILE_BYTES", 256 << 10)


def paged(table: pa.Table, version: str, page_rows: int) -> bytes:
    """A Lance file with pages of about ``page_rows`` rows."""
    session = data_file._session(0)
    writer = session.open_writer("paged.lance", schema=table.schema, version=version, data_cache_bytes=1)
    for start in range(0, table.num_rows, page_rows):
        for batch in (
            table.slice(start, page_rows).take(list(range(min(page_rows, table.num_rows - start)))).to_batches()
        ):
            writer.write_batch(batch)
    writer.close()
    data = bytes(session.read_range("paged.lance", 0, writer.size_bytes))
    session.delete_file("paged.lance")
    return data


def layout_of(data: bytes) -> file_layout.Layout:
    position, size = file_layout.schema_range(data, len(data), "f", clause="FORMAT-024")
    return file_layout.parse(data, data[position : position + size], len(data), "f")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@settings(SHARING, max_examples=60)
@given(table=tables(), page_rows=st.integers(1, 5), data=st.data())
def test_any_rows_of_any_columns_can_be_read_from_their_parts_alone(
    version: str, table: pa.Table, page_rows: int, data: st.DataObject
) -> None:
    if not table.num_rows:
        return
    whole = paged(table, version, page_rows)
    try:
        data_file.decode(whole, "f")
    except ArtifactError:  # the native reader fails on some structs that are NULL throughout a page
        assume(False)
    layout = layout_of(whole)
    names = data.draw(st.lists(st.sampled_from(table.schema.names), unique=True, min_size=1))
    start = data.draw(st.integers(0, table.num_rows - 1))
    rows = data.draw(st.integers(1, table.num_rows - start))
    leaves = {name: count_leaves(table.schema.field(name).type) for name in table.schema.names}
    first = dict(zip(leaves, np.cumsum([0, *leaves.values()])[:-1].tolist(), strict=True))
    columns = [n for name in names for n in range(first[name], first[name] + leaves[name])]
    ranges = [*layout.ranges(columns, start, rows), file_layout.schema_range(whole, len(whole), "f", clause="F")]
    ranges.append((tables := file_layout.tables_start(whole, len(whole), "f", clause="F"), len(whole) - tables))
    parts = [(position, whole[position : position + size]) for position, size in ranges]
    with data_file.Decoder(parts, len(whole), "f", columns=names) as decoder:
        found = decoder.read(start, rows)
    wanted = table.select(names).slice(start, rows)
    assert found.select(names).to_pylist() == wanted.to_pylist()


def count_leaves(arrow: pa.DataType) -> int:
    if pa.types.is_struct(arrow):
        return sum(count_leaves(field.type) for field in arrow)
    return count_leaves(arrow.value_type) if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) else 1


def test_only_the_pages_of_the_wanted_rows_and_columns_are_named() -> None:
    table = pa.table({"a": list(range(100)), "b": list(range(100, 200))})
    data = paged(table, "2.1", 10)
    layout = layout_of(data)
    assert layout.rows == 100
    assert [len(pages) for pages in layout.columns] == [10, 10]
    assert [(page.first_row, page.end_row) for page in layout.columns[1]][2:4] == [(20, 30), (30, 40)]
    expected = sum(page.size_bytes for page in layout.columns[1][2:4])
    assert 0 < sum(size for _, size in layout.ranges([1], 25, 10)) - expected < file_layout.GAP_BYTES
    assert layout.column_bytes([0]) < len(data) // 2


@pytest.mark.parametrize("position", range(3))
@pytest.mark.clause("FORMAT-024")
def test_a_footer_that_points_elsewhere_is_named_as_damage(position: int) -> None:
    data = bytearray(paged(pa.table({"a": list(range(50))}), "2.1", 10))
    beyond = [len(data), 2**63]
    for wrong in beyond if position == 0 else [0, len(data) - 41, *beyond]:
        damaged = bytearray(data)
        struct.pack_into("<Q", damaged, len(data) - 40 + 8 * position, wrong)
        with pytest.raises(ArtifactError) as caught:
            layout_of(bytes(damaged))
        assert caught.value.clause == "FORMAT-024"


@pytest.mark.clause("FORMAT-024")
def test_column_metadata_with_any_byte_changed_gives_a_layout_inside_the_file_or_is_damage() -> None:
    data = paged(pa.table({"a": list(range(50)), "b": ["x"] * 50}), "2.1", 10)
    start = file_layout.tables_start(data, len(data), "f", clause="F")
    for at in range(start, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        try:
            layout = layout_of(bytes(damaged))
        except ArtifactError:
            continue
        for columns in range(len(layout.columns)):
            assert all(p + n <= len(data) for p, n in layout.ranges([columns], 0, layout.rows))


def sparse(width: int = 8) -> list[int]:
    return [-(2**63), 2**63 - 1, -1, 0, 1, 5, 2**40, -(2**40)][:width]


KINDS: dict[str, tuple[list[pa.DataType], Any]] = {
    "int64": ([pa.int64()], st.tuples(st.sampled_from([*sparse(), *range(10, 30)]))),
    "uint64": ([pa.uint64()], st.tuples(st.sampled_from([0, 1, 2**63, 2**64 - 1, 7, 2**40]))),
    "int8": ([pa.int8()], st.tuples(st.integers(-128, 127))),
    "bool": ([pa.bool_()], st.tuples(st.booleans())),
    "text": ([pa.string()], st.tuples(st.sampled_from(["", "a", "b", "a\0", "ab", "é"]))),
    "binary": ([pa.binary(2)], st.tuples(st.sampled_from([b"ab", b"\0\0", b"ba"]))),
    "decimal": (
        [pa.decimal128(8, 2)],
        st.tuples(st.sampled_from([Decimal("1.00"), Decimal("-1.00"), Decimal("0.01")])),
    ),
    "date": ([pa.date32()], st.tuples(st.sampled_from([date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)]))),
    "time": ([pa.timestamp("us")], st.tuples(st.sampled_from([datetime(1970, 1, 1), datetime(1900, 1, 1)]))),
    "two texts": ([pa.string(), pa.string()], st.tuples(*[st.sampled_from(["", "a", "aa", "b"])] * 2)),
    "three": (
        [pa.string(), pa.int64(), pa.bool_()],
        st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(sparse()), st.booleans()),
    ),
}


@pytest.mark.parametrize(
    ("dense", "codes"),
    [(32, key_codes.CODES), (0, key_codes.CODES), (0, 10)],
    ids=["dense", "sparse", "codes are numbered anew"],
)
@pytest.mark.parametrize("kind", list(KINDS))
@settings(SHARING, max_examples=15)
@given(data=st.data())
@pytest.mark.clause("AMB-46", "AMB-136")
def test_key_sets_agree_with_sets_of_python_values(
    kind: str, dense: int, codes: int, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    monkeypatch.setattr(keys, "DENSE", dense)
    monkeypatch.setattr(key_codes, "CODES", codes)
    types, values = KINDS[kind]
    held, asked = data.draw(st.lists(values, max_size=12)), data.draw(st.lists(values, max_size=12))
    cuts = data.draw(st.integers(0, 12))

    def table(rows: list[tuple[Any, ...]]) -> pa.Table:
        fields = [pa.field(f"k{i}", t) for i, t in enumerate(types)]
        columns = [pa.array([row[i] for row in rows], t) for i, t in enumerate(types)]
        whole = pa.table([*columns, list(range(len(rows)))], schema=pa.schema([*fields, ("at", pa.int64())]))
        return pa.concat_tables([whole.slice(0, cuts), whole.slice(cuts)])

    names = [f"k{i}" for i in range(len(types))]
    rows = table(asked)
    expected = [row in set(held) for row in asked]
    assert KeySet(table(held).select(names)).mask(rows).tolist() == expected
    assert among(rows, table(held).select(names))["at"].to_pylist() == [i for i, e in enumerate(expected) if e]
    assert without(rows, table(held).select(names))["at"].to_pylist() == [i for i, e in enumerate(expected) if not e]
    last = {row: at for at, row in enumerate(asked)}
    assert newest(rows, names).tolist() == sorted(last.values())


@pytest.mark.clause("AMB-46", "AMB-136")
@pytest.mark.parametrize("factors", [(1, 7, 11, 13, 17), (1, 7, 11, 13, 0)], ids=["five", "four and a constant"])
def test_keys_of_more_values_than_a_code_has_bits_for_stay_apart(factors: tuple[int, ...]) -> None:
    count, again = 60_000, 1_000
    rows = np.arange(count)
    names = [f"k{place}" for place in range(len(factors))]
    distinct = pa.table([(rows * factor) % count for factor in factors], names=names)
    twice = pa.concat_tables([distinct, distinct.slice(0, again)])
    assert newest(twice, names).tolist() == list(range(again, count + again))
    shifted = distinct.set_column(0, "k0", pa.array((rows + 1) % count))
    assert KeySet(distinct).mask(distinct).all()
    assert not KeySet(distinct).mask(shifted).any()
    assert without(twice, distinct.slice(0, again)).equals(distinct.slice(again))


def test_a_row_without_a_key_is_in_no_set_of_keys_that_have_one() -> None:
    held = pa.table({"k": pa.array([0, 1])})
    assert KeySet(held).mask(pa.table({"k": pa.array([None, 0, 2], pa.int64())})).tolist() == [False, True, False]
    assert KeySet(held.slice(0, 0)).mask(held).tolist() == [False, False]


class Watched:
    """Sizes of what is read from and written to a store, by folder of the object."""

    def __init__(self, folder: Path) -> None:
        self.inner = LocalStore(folder)
        self.read: list[tuple[str, int]] = []
        self.written: list[tuple[str, int]] = []

    def perform(self, request: StoreRequest[Any]) -> Any:
        reply = self.inner.perform(request)
        if isinstance(request, Get):
            self.read.append((request.path, len(reply)))
        if isinstance(request, PutIfAbsent):
            self.written.append((request.path, len(request.data)))
        return reply

    def describe(self) -> str:
        return "watched"

    def close(self) -> None:
        self.inner.close()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
@pytest.mark.clause("MERGE-002")
def test_no_request_and_no_batch_of_a_merge_grows_with_the_base_or_the_generation(
    tmp_path: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = memwal.create(tmp_path / "t", WIDE, primary_key=["id"], revision=revision)
    table.base.append(wide(range(3000), b"a"))
    with table.writer() as writer:
        for start in range(2000, 4000, 40):
            writer.put(wide(range(start, start + 40), b"b"))
        writer.flush()
    base_bytes = max(path.stat().st_size for path in (tmp_path / "t" / "data").iterdir())
    assert base_bytes > 1_000_000
    store = Watched(tmp_path)
    batches: list[int] = []
    monkeypatch.setattr(read, "joined", watched_batches(batches))
    report = memwal.open("t", store=store).merge()
    assert (report.rows, report.deleted) == (2000, 0)
    assert max(size for _, size in store.read) < 128 << 10
    assert max(size for _, size in store.written) < 512 << 10
    assert sum(size for path, size in store.written if "/data/" in path) > 800_000
    assert max(batches) < 64 << 10
    from_base = sum(size for path, size in store.read if path.startswith("t/data/"))
    assert from_base < base_bytes // 20
    found = lance.dataset(str(tmp_path / "t")).to_table().sort_by("id")
    expected = pa.concat_tables([wide(range(3000), b"a").slice(0, 2000), flushed_rows()])
    assert found.to_pylist() == expected.to_pylist()


def flushed_rows() -> pa.Table:
    return pa.concat_tables([wide(range(start, start + 40), b"b") for start in range(2000, 4000, 40)])


def watched_batches(sizes: list[int]) -> Any:
    inner = read.joined

    def batch(*arguments: Any) -> pa.Table:
        table = inner(*arguments)
        sizes.append(table.nbytes)
        return table

    return batch


@pytest.mark.usefixtures("small_parts")
def test_the_arrow_memory_of_a_merge_does_not_grow_with_the_base(tmp_path: Path) -> None:
    peaks = []
    for number, count in enumerate((2_000, 20_000)):
        table = memwal.create(tmp_path / f"t{number}", WIDE, primary_key=["id"], revision="B")
        for start in range(0, count, 2000):
            table.base.append(wide(range(start, start + 2000), b"a", width=100))
        flush(table, wide(range(0, 2000, 4), b"b", width=100))
        samples: list[int] = []
        listener = lambda event, fields, s=samples: s.append(pa.total_allocated_bytes())  # noqa: E731
        before = pa.total_allocated_bytes()
        memwal.open(tmp_path / f"t{number}", listener=listener).merge()
        peaks.append(max(samples) - before)
    assert peaks[1] < peaks[0] + (256 << 10)


@pytest.mark.usefixtures("small_parts")
def test_progress_is_told_for_keys_base_and_rows_up_to_the_end(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", WIDE, primary_key=["id"], revision="B")
    table.base.append(wide(range(300), b"a"))
    table.base.append(wide(range(300, 500), b"a"))
    flush(table, wide(range(250, 650), b"b"))
    told: list[tuple[str, int, int]] = []

    def listener(event: str, fields: dict[str, object]) -> None:
        if event == "merge_progress":
            told.append((str(fields["stage"]), int(str(fields["done"])), int(str(fields["total"]))))

    memwal.open(tmp_path / "t", listener=listener).merge()
    assert [t for t in told if t[0] == "keys"] == [("keys", 400, 400)]
    assert [t for t in told if t[0] == "base"] == [("base", 300, 500), ("base", 500, 500)]
    rows = [t for t in told if t[0] == "rows"]
    assert rows[-1] == ("rows", 400, 400)
    assert len(rows) > 2
    assert [done for _, done, _ in rows] == sorted(done for _, done, _ in rows)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_large_files_of_pylance_read_the_same_in_parts(folder: Folder, version: str) -> None:
    rows = wide(range(1500), b"c").append_column(
        "s", pa.array([{"x": i, "y": [str(i)] * (i % 3)} for i in range(1500)])
    )
    lance.write_dataset(rows, str(folder.root / "t"), data_storage_version=version)
    lance.dataset(str(folder.root / "t")).delete("id % 10 = 3")
    lance.dataset(str(folder.root / "t")).add_columns({"later": "id * 2"})
    io = Io("t", interpretation=STRICT)
    current = folder.run(state.latest(io))
    expected = lance.dataset(str(folder.root / "t")).to_table()
    assert folder.run(read.scan(io, current)).to_pylist() == expected.to_pylist()
    few = ["later", "s", "id"]
    assert folder.run(read.scan(io, current, few)).to_pylist() == expected.select(few).to_pylist()


async def streamed(rows: pa.Table, step: int) -> None:
    """Append ``rows`` as one fragment with pages of about ``step`` rows."""
    current = await state.latest(Io("t", interpretation=STRICT))
    with fragments.FragmentWriter(Io("t", interpretation=STRICT), WIDE, [0, 1, 2]) as writer:
        for start in range(0, rows.num_rows, step):
            await writer.write(rows.slice(start, step))
        await writer.finish()
    body = transaction_pb2.Transaction.Append(fragments=writer.fragments)
    await commit(Io("t", interpretation=STRICT), current, transaction_pb2.Transaction(append=body))


@pytest.mark.usefixtures("small_parts")
def test_a_small_file_beside_a_large_one_does_not_make_the_large_one_be_fetched_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    monkeypatch.setattr(fragments, "FILE_BYTES", 1 << 30)
    folder.run(write.create(Io("t", interpretation=STRICT), WIDE))
    folder.run(streamed(wide(range(2000), b"c"), 50))
    lance.dataset(str(tmp_path / "t")).add_columns({"later": "id % 2"})
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 8192)
    store = Watched(tmp_path)
    current = folder.run(state.latest(Io("t", interpretation=STRICT)))
    assert [len(fragment.files) for fragment in current.fragments] == [2]
    found = drive(read.scan(Io("t", interpretation=STRICT), current), store)
    assert found.column("later").to_pylist() == [0, 1] * 1000
    assert found.drop_columns(["later"]).to_pylist() == wide(range(2000), b"c").to_pylist()
    assert max(size for path, size in store.read if "/data/" in path) < 128 << 10


@pytest.mark.usefixtures("small_parts")
@pytest.mark.clause("FORMAT-017", "FORMAT-018", "FORMAT-024")
def test_a_large_file_that_is_cut_replaced_or_misdescribed_is_damage_and_never_read_in_part(folder: Folder) -> None:
    io = Io("t", interpretation=STRICT)
    folder.run(write.create(io, WIDE, wide(range(1500), b"c")))
    current = folder.run(state.latest(io))
    (name,) = (n for n in folder.files() if n.startswith("t/data/"))
    data = folder.files()[name]
    shorter = data_file.encode(wide(range(1499), b"c"))
    for damaged in (b"", data[:-1], data[: len(data) // 2], data[:100] + data[101:], shorter, b"x" * len(data)):
        (folder.root / name).write_bytes(damaged)
        with pytest.raises(ArtifactError) as caught:
            folder.run(read.scan(io, current))
        assert caught.value.clause in ("FORMAT-017", "FORMAT-024")
        assert caught.value.path == name
    (folder.root / name).unlink()
    with pytest.raises(ArtifactError, match="FORMAT-018"):
        folder.run(read.scan(io, current))


@pytest.fixture
def unknown_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables whose manifests do not record the sizes of their data files."""
    inner = fragments.fragment_message

    def message(rows: int, name: str, size_bytes: int, *more: Any) -> Any:
        return inner(rows, name, 0, *more)

    monkeypatch.setattr(fragments, "fragment_message", message)


@pytest.mark.usefixtures("small_parts", "unknown_size")
def test_a_file_of_unknown_size_is_asked_for_its_size_first(folder: Folder) -> None:
    io = Io("t", interpretation=STRICT)
    folder.run(write.create(io, WIDE, wide(range(1500), b"c")))
    current = folder.run(state.latest(io))
    assert folder.run(read.scan(io, current, ["id"])).column("id").to_pylist() == list(range(1500))


def test_the_last_row_of_a_key_wins_across_pieces_and_fragments(tmp_path: Path, small_parts: None) -> None:
    table = memwal.create(tmp_path / "t", WIDE, primary_key=["id"], revision="A")
    with table.writer() as writer:
        for letter in (b"a", b"b", b"c"):
            writer.put(wide(np.repeat(np.arange(300), 2), letter))
        writer.flush()
    assert table.merge().rows == 300
    found = lance.dataset(str(tmp_path / "t")).to_table().sort_by("id")
    assert found.to_pylist() == wide(np.repeat(np.arange(300), 2), b"c").take(list(range(1, 600, 2))).to_pylist()


def test_a_merge_of_many_regions_by_hand_asks_for_each_small_file_once(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", WIDE, primary_key=["id"], revision="B")
    table.base.append(wide(range(10), b"a"))
    with table.writer() as writer:
        writer.put(wide(range(5, 15), b"b"))
        writer.flush()
    ground = Ground(
        {n: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and (n := str(p.relative_to(tmp_path)))}
    )
    ground.run(merge_region(Io("t", interpretation=STRICT), writer.region_id))
    data = [request.path for request in ground.asked if isinstance(request, Get) and "/data/" in request.path]
    assert sorted(data.count(path) for path in set(data)) == [1, 1]


@pytest.mark.parametrize("bound", ["HELD_BYTES", "HELD_ROWS_BYTES"])
def test_a_generation_above_either_bound_is_read_once_for_its_keys_and_once_for_its_rows(
    tmp_path: Path, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = memwal.create(tmp_path / "t", WIDE, primary_key=["id"], revision="B")
    flush(table, wide(range(5, 15), b"b"))
    monkeypatch.setattr(generation, bound, 1000)
    store = Watched(tmp_path)
    assert memwal.open("t", store=store).merge().rows == 10
    assert len([path for path, _ in store.read if "_gen_1/data/" in path]) == 2
    assert lance.dataset(str(tmp_path / "t")).to_table().to_pylist() == wide(range(5, 15), b"b").to_pylist()


def test_the_benchmark_compares_equal_merges_at_any_size() -> None:
    place = Path(__file__).parents[3] / "benchmarks" / "merge.py"
    spec = importlib.util.spec_from_file_location("memwal_merge_benchmark", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.measure(base_rows=500, count=60, rounds=1, kind="text")
    assert (found["base_rows"], found["rows"], found["key"]) == (500, 60, "text")
    assert found["ratio_median"] > 0
    assert {side: len(found[side]["seconds"]) for side in ("engine", "native")} == {"engine": 1, "native": 1}


@pytest.mark.parametrize(
    ("keys_bytes", "opened"),
    [(96, (1, 1)), (95, (1, 5)), (0, (5, 5))],
    ids=["room for all 12 keys", "room for 8 keys and not for 4 more", "no room"],
)
def test_a_pass_over_two_regions_opens_each_fragment_of_the_base_once_for_its_keys(
    monkeypatch: pytest.MonkeyPatch, keys_bytes: int, opened: tuple[int, int]
) -> None:
    monkeypatch.setattr(upsert, "KEYS_BYTES", keys_bytes)
    ground = Ground()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])

    def rows(*ids: int, v: str) -> pa.Table:
        return pa.table([pa.array(ids, pa.int64()), [v] * len(ids)], schema=schema)

    spec = memwal.bucket("b", ["id"], 2)
    table = memwal.create("t", rows(*range(8), v="base"), primary_key=["id"], spec=spec, store=ground)
    table.base.append(rows(*range(8, 12), v="base"))
    files = [f"t/data/{fragment.files[0].path}" for fragment in table._state.fragments]
    bucket = dict(zip(range(12), table.region_values(rows(*range(12), v=""))["b"].to_pylist(), strict=True))
    expected = dict.fromkeys(range(12), "base")
    for value, rounds in ((0, 2), (1, 3)):
        own = [key for key in range(12) if bucket[key] == value]
        with table.writer(values={"b": value}, background=False) as writer:
            for number in range(rounds):
                writer.put(rows(own[number], own[number + 1], v=f"{number}"))
                expected |= {own[number]: f"{number}", own[number + 1]: f"{number}"}
                writer.flush()
    before = len(ground.asked)
    assert len(table.merge(commit_every=1).merged) == 5
    asked = [each.path for each in ground.asked[before:] if isinstance(each, Get)]
    assert {path: asked.count(path) for path in files} == dict(zip(files, opened, strict=True))  # in one request each
    assert dict(zip(*table.scan().to_pydict().values(), strict=True)) == expected
