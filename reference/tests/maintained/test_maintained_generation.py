"""Generations carry the maintained indexes: pylance uses them, and every index hit is a scan hit."""

from __future__ import annotations

import math
import shutil
import uuid
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pyroaring
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader
from memwal import paths
from memwal.codec import bloom, table_manifest
from memwal.drive import drive
from memwal.effects import Io, PutIfAbsent, Request, run
from memwal.ids import TableVersion
from memwal.maintained import build, remap
from memwal.region.limits import Limits
from memwal.revisions import REVISIONS as KNOWN_REVISIONS
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.table import vector_models
from memwal.table.state import latest

from ..kit.maintained_scene import (
    NAMES,
    SCHEMA,
    VECTOR_COLUMNS,
    Base,
    hits,
    neighbours,
    rows,
    stored_statistics,
    texts_found,
)

REVISIONS = ["A", "B", "R"]
EVERYTHING = 10_000
SHARING = settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture])
"""Cases that share a fixture, and know it."""


async def _once(request: Request[Any]) -> Any:
    return await request


def flushed(base: Base, revision: str, *writes: list[pa.Table], maintained: tuple[str, ...] = NAMES) -> Path:
    """Folder of the first generation; each of ``writes`` becomes one WAL entry."""
    table = base.enable(revision, maintained)
    with table.writer(background=False) as writer:
        for entry in writes:
            for number, write in enumerate(entry, 1):
                writer.put(write, durable=number == len(entry))
        writer.flush()
    return base.generation(table)


def scanned(folder: Path) -> list[dict[str, Any]]:
    """Rows of a generation that are not deleted, with their addresses, without any index."""
    table = lance.dataset(str(folder)).scanner(with_row_address=True, use_scalar_index=False).to_table()
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def tokens(folder: Path) -> dict[int, set[str]]:
    """Words of each text; the scene's texts have one form for each."""
    return {row["_rowaddr"]: set((row["text"] or "").split()) for row in scanned(folder)}


@pytest.mark.clause("GEN-009", "FLUSH-007", "FLUSH-023", "AMB-19", "AMB-48")
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_index_hit_of_a_generation_is_a_scan_hit(base: Base, revision: str) -> None:
    keys = [list(range(40)), [5, 6, 7], list(range(30, 200)), [400]]
    writes = [[rows(keys[0]), rows(keys[1], tags=["again"] * 3, texts=["heron"] * 3)], [rows(keys[2])], [rows(keys[3])]]
    folder = flushed(base, revision, *writes)
    opened = lance.dataset(str(folder))
    found = {i.name: (i.index_type, i.num_rows_indexed) for i in opened.describe_indices()}
    expected_kinds = {"btree": "BTree", "bitmap": "Bitmap", "inverted": "Inverted"} | {
        "flat": "IVF_FLAT",
        "pq": "IVF_PQ",
        "sq": "IVF_SQ",
    }
    assert {name: kind for name, (kind, _) in found.items()} == expected_kinds
    everything = scanned(folder)
    assert len(everything) == (201 if revision == "R" else 214)
    for condition, holds in {
        "price = 2.5": lambda row: row["price"] == 2.5,
        "price >= 10 AND price < 17.5": lambda row: 10 <= row["price"] < 17.5,
        "tag = 'again'": lambda row: row["tag"] == "again",
        "tag IN ('t0', 't2')": lambda row: row["tag"] in ("t0", "t2"),
    }.items():
        by_index = hits(opened, condition)
        assert by_index == hits(opened, condition, by_index=False)
        assert by_index == sorted(row["_rowaddr"] for row in everything if holds(row))
        assert by_index
    for query in ("heron", "fox", "word6", "absent"):
        assert set(texts_found(opened, query)) == {a for a, words in tokens(folder).items() if query in words}
    for column in VECTOR_COLUMNS.values():
        for query in (0, 5, 123):
            near = neighbours(opened, column, [float(x) for x in rows([query]).column("vf")[0].as_py()], EVERYTHING)
            assert set(near) == {row["_rowaddr"] for row in everything}
    stored = bloom.decode((folder / "bloom_filter.bin").read_bytes(), KNOWN_REVISIONS[revision], "x")
    assert stored.might_contain(pa.concat_tables(map(rows, keys)).select(SCHEMA.names[:1])).all()
    assert not stored.might_contain(rows(range(1_000, 1_100)).select(SCHEMA.names[:1])).all()


@pytest.mark.clause("FLUSH-007", "AMB-19", "AMB-20")
def test_an_index_of_a_generation_of_wal_files_names_the_entry_and_the_row_in_it(base: Base) -> None:
    table = base.enable("A")
    with table.writer(background=False) as first:
        first.put(rows([1]))
        first.flush()
    with table.writer(first.region_id, background=False) as writer:  # its claim puts an entry without rows
        for start, count in ((100, 10), (200, 20), (300, 30)):
            tags = [f"{start}/{number}" for number in range(count)]
            writer.put(rows(range(start, start + count), tags=tags), durable=start == 300)
        writer.put(rows([400, 401], tags=["400/0", "400/1"]))
        writer.flush()
    opened = lance.dataset(str(base.generation(table, 2)))
    assert [f.count_rows() for f in opened.get_fragments()] == [60, 2]
    assert hits(opened, "tag = '200/5'") == [15]
    assert hits(opened, "tag = '300/29'") == [59]
    assert hits(opened, "tag = '400/1'") == [(1 << 32) + 1]
    assert hits(opened, "price = 200.5") == [(1 << 32) + 1]
    assert set(texts_found(opened, "word401")) == {(1 << 32) + 1}
    near = neighbours(opened, "vp", rows([401]).column("vf")[0].as_py(), EVERYTHING)
    assert set(near) == {*range(60), 1 << 32, (1 << 32) + 1}
    for entry in drive(latest(Io(interpretation=STRICT)), LocalStore(base.generation(table, 2))).manifest.indices:
        assert list(pyroaring.BitMap.deserialize(entry.fragment_bitmap)) == [0, 1]
        assert uuid.UUID(bytes=entry.uuid.uuid).version == 4


MAYBE_TEXT = st.none() | st.lists(st.sampled_from(["fox", "heron", "wren"]), max_size=4).map(" ".join)
MAYBE_VECTOR = st.none() | st.lists(st.integers(-3, 3).map(float), min_size=4, max_size=4)
ROW = st.tuples(
    st.integers(0, 12),
    st.none() | st.integers(-2, 2).map(float),
    st.none() | st.sampled_from(["a", "b", ""]),
    MAYBE_TEXT,
    MAYBE_VECTOR,
)


@pytest.mark.clause("AMB-19", "GEN-009", "WRITER-021", "WRITER-022")
@given(
    writes=st.lists(st.lists(ROW, min_size=1, max_size=12), min_size=1, max_size=4), revision=st.sampled_from(REVISIONS)
)
@settings(SHARING, max_examples=12)
def test_indexes_of_memtable_and_generation_answer_as_a_scan_whatever_was_written(
    base: Base, base_template: Path, writes: list[list[Any]], revision: str
) -> None:
    shutil.rmtree(base.place)
    shutil.copytree(base_template, base.place)
    table = base.enable(revision)
    written: list[Any] = []
    with table.writer(background=False) as writer:
        for write in writes:
            keys, prices, tags, texts, vectors = map(list, zip(*write, strict=True))
            writer.put(rows(keys, prices=prices, tags=tags, texts=texts, vectors=vectors))
            written += write
        held = writer._writer.memtable.indexes
        assert held is not None
        last = {row[0]: offset for offset, row in enumerate(written)}
        live = [offset for offset, row in enumerate(written) if last[row[0]] == offset]
        assert held.between("btree", -1.0, 1.0).tolist() == [o for o in live if written[o][1] in (-1.0, 0.0, 1.0)]
        assert held.equal("btree", None).tolist() == [o for o in live if written[o][1] is None]
        assert held.equal("bitmap", "a", None).tolist() == [o for o in live if written[o][2] in ("a", None)]
        matched = sorted(held.matching("inverted", "wren").offsets.tolist())
        assert matched == [o for o in live if "wren" in (written[o][3] or "")]
        for name in VECTOR_COLUMNS:
            near = held.nearest(name, [0.5, 0.5, 0.5, 0.5], EVERYTHING)
            assert sorted(near.offsets.tolist()) == [o for o in live if written[o][4] is not None]
        writer.flush()
    folder = base.generation(table)
    opened, everything = lance.dataset(str(folder)), scanned(folder)
    for condition, holds in {
        "price >= -1 AND price <= 1": lambda row: row["price"] in (-1.0, 0.0, 1.0),
        "price IS NULL": lambda row: row["price"] is None,
        "tag = 'a'": lambda row: row["tag"] == "a",
        "tag IS NULL": lambda row: row["tag"] is None,
    }.items():
        assert hits(opened, condition) == sorted(row["_rowaddr"] for row in everything if holds(row)), condition
    words = {row["_rowaddr"]: (row["text"] or "").split() for row in everything}
    assert set(texts_found(opened, "wren")) == {a for a, found in words.items() if "wren" in found}
    there = {row["_rowaddr"]: row["vf"] for row in everything if row["vf"] is not None}
    for column in VECTOR_COLUMNS.values():
        near = neighbours(opened, column, [0.0, 0.0, 0.0, 1.0], EVERYTHING)
        assert set(near) == set(there)
        if column == "vf":
            exact = {a: math.dist(v, [0.0, 0.0, 0.0, 1.0]) ** 2 for a, v in there.items()}
            assert near == pytest.approx(exact)


@pytest.mark.clause("WRITER-025", "AMB-51")
@pytest.mark.parametrize("revision", REVISIONS)
def test_distances_of_memtable_generation_and_base_are_comparable(base: Base, revision: str) -> None:
    table = base.enable(revision)
    shifted = [[x + 0.25 for x in rows([key]).column("vf")[0].as_py()] for key in range(60)]
    query = [0.5, -0.5, 1.0, 0.25]
    with table.writer(background=False) as writer:
        writer.put(rows(range(-60, 0)))  # vectors that the base has in rows 240 to 299
        writer.put(rows(range(60), vectors=shifted))
        held = writer._writer.memtable.indexes
        assert held is not None
        in_memory = {name: held.nearest(name, query, EVERYTHING) for name in VECTOR_COLUMNS}
        writer.flush()
    generation = lance.dataset(str(base.generation(table)))
    address = {row["id"]: row["_rowaddr"] for row in scanned(base.generation(table))}
    for name, column in VECTOR_COLUMNS.items():
        stored = neighbours(generation, column, query, EVERYTHING)
        of_base = neighbours(base.native(), column, query, EVERYTHING)
        memory = dict(zip(in_memory[name].offsets.tolist(), in_memory[name].values.tolist(), strict=True))
        for offset, key in enumerate([*range(-60, 0), *range(60)]):
            assert memory[offset] == pytest.approx(stored[address[key]], abs=1e-4)
            if key < 0:
                assert memory[offset] == pytest.approx(of_base[key + 300], abs=1e-4)


@pytest.mark.clause("AMB-51")
def test_the_models_of_a_generation_are_those_of_the_base(base: Base) -> None:
    folder = flushed(base, "B", [rows(range(30))])
    generation = drive(latest(Io(interpretation=STRICT)), LocalStore(folder))
    for name in VECTOR_COLUMNS:
        models = []
        for store, state in ((base.store, base.state()), (LocalStore(folder), generation)):
            (entry,) = (e for e in state.manifest.indices if e.name == name)
            models.append(drive(vector_models.load(Io(interpretation=STRICT), entry), store))
        assert models[0] == models[1]


@pytest.mark.clause("FLUSH-008", "FLUSH-013", "GEN-008", "AMB-49")
@pytest.mark.parametrize("revision", REVISIONS)
def test_index_files_are_stored_before_the_manifests_that_name_them_and_those_before_the_region_manifest(
    base: Base, revision: str
) -> None:
    table = base.enable(revision)
    created: list[str] = []
    with table.writer(background=False) as writer:
        writer.put(rows(range(5)))

        def perform(request: Request[Any]) -> Any:
            if isinstance(request, PutIfAbsent):
                created.append(request.path.partition(f"{writer.region_id}/")[2])
            return drive(_once(request), base.store)

        run(writer._writer.flush(), perform)
    kinds = [_kind(name) for name in created]
    assert kinds.index("version 2") > max(at for at, kind in enumerate(kinds) if kind == "index")
    assert kinds.index("version 1") > max(at for at, kind in enumerate(kinds) if kind == "index")
    assert kinds.count("index") == 3 * 2 + 2 + 1 + 4
    assert kinds[-1] == "region manifest"
    assert kinds.count("region manifest") == 1
    folder = base.generation(table)
    names = sorted(path.name for path in (folder / "_versions").iterdir())
    assert [name for name in names if name.endswith(".manifest")] == [
        "18446744073709551613.manifest",
        "18446744073709551614.manifest",
    ]
    first = table_manifest.decode((folder / paths.table_manifest(TableVersion(1))).read_bytes(), "x")
    assert first.indices == ()


def _kind(name: str) -> str:
    for part, kind in {
        "_versions/18446744073709551614": "version 1",
        "_versions/18446744073709551613": "version 2",
        "/_indices/": "index",
        "manifest/": "region manifest",
        "_transactions/": "transaction",
    }.items():
        if part in name or name.startswith(part):
            return kind
    return name.rpartition("/")[2]


@pytest.mark.parametrize("revision", REVISIONS)
def test_without_maintained_indexes_a_generation_has_one_version_and_no_index(base: Base, revision: str) -> None:
    folder = flushed(base, revision, [rows(range(5))], maintained=())
    assert not (folder / "_indices").exists()
    assert len(list((folder / "_versions").glob("*.manifest"))) == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_columns_of_nothing_but_null_have_indexes_that_find_nothing(base: Base, revision: str) -> None:
    empty = rows(range(6), prices=[None] * 6, tags=[None] * 6, texts=[None] * 6, vectors=[None] * 6)
    folder = flushed(base, revision, [empty])
    opened = lance.dataset(str(folder))
    assert hits(opened, "price IS NULL") == hits(opened, "tag IS NULL") == list(range(6))
    assert hits(opened, "price = 1.0") == hits(opened, "tag = 'a'") == []
    assert texts_found(opened, "fox") == {}
    for column in VECTOR_COLUMNS.values():
        assert neighbours(opened, column, [0, 0, 0, 0], 5) == {}


@pytest.mark.clause("WRITER-027", "AMB-110")
@pytest.mark.parametrize("revision", REVISIONS)
def test_corpus_statistics_of_a_generation_are_those_of_its_memtable(base: Base, revision: str) -> None:
    table = base.enable(revision)
    with table.writer(background=False) as writer:
        writer.put(rows(range(30)))
        writer.put(rows([3], texts=["fox heron"]))
        held = writer._writer.memtable.indexes
        assert held is not None
        expected = held.statistics("inverted")
        writer.flush()
    store = LocalStore(base.generation(table))
    state = drive(latest(Io(interpretation=STRICT)), store)
    stored = drive(stored_statistics(Io(interpretation=STRICT), state, "inverted"), store)
    assert (stored.documents, stored.frequencies["fox"], stored.terms) == (31, 31, 62)
    assert (expected.documents, expected.frequencies["fox"], expected.terms) == (30, 30, 60), "not what is superseded"
    assert drive(stored_statistics(Io(interpretation=STRICT), state, "absent"), store).documents == 0


@pytest.mark.parametrize("name", NAMES)
def test_equal_rows_give_equal_index_files(base: Base, name: str) -> None:
    index = base.index(name)
    table = rows([*range(300), 5, 6], texts=[f"word{n % 17} fox{n % 5}" for n in range(302)])
    addresses = np.concatenate([np.arange(200, dtype=np.uint64), (1 << 32) + np.arange(102, dtype=np.uint64)])
    for places in (np.arange(302, dtype=np.uint64), addresses):
        (first,), (second,) = (build.build(table, places, [index]) for _ in range(2))
        assert first == second


def test_row_sets_of_several_fragments_are_those_that_pylance_writes(tmp_path: Path) -> None:
    tags = ["a", "b", None, "a", "a", "b", "c", "a"]
    for start in (0, 3, 6):
        lance.write_dataset(pa.table({"tag": tags[start : start + 3]}), str(tmp_path / "t"), mode="append")
    opened = lance.dataset(str(tmp_path / "t"))
    opened.create_scalar_index("tag", "BITMAP", name="i")
    (file,) = (tmp_path / "t").rglob("bitmap_page_lookup.lance")
    stored = LanceFileReader(str(file)).read_all().to_table().to_pylist()
    addresses = np.array([0, 1, 2, 1 << 32, (1 << 32) + 1, (1 << 32) + 2, 2 << 32, (2 << 32) + 1], np.uint64)
    for row in stored:
        offsets = [number for number, tag in enumerate(tags) if tag == row["keys"]]
        assert remap.encode_rows(addresses[offsets]) == row["bitmaps"]


def test_a_crash_between_index_files_leaves_a_folder_that_nobody_lists_and_the_next_writer_flushes_again(
    base: Base,
) -> None:
    table = base.enable()
    crashed = table.writer(background=False)
    crashed.put(rows(range(5)))
    done = 0

    class Crash(BaseException):
        pass

    def perform(request: Request[Any]) -> Any:
        nonlocal done
        done += isinstance(request, PutIfAbsent) and "/_indices/" in request.path
        if done == 4:
            raise Crash
        return drive(_once(request), base.store)

    with pytest.raises(Crash):
        run(crashed._writer.flush(), perform)
    with table.writer(crashed.region_id, background=False) as writer:
        writer.flush()
    region = base.place / "_mem_wal" / crashed.region_id
    folders = [path.name for path in region.iterdir() if "_gen_" in path.name]
    assert len(folders) == 2
    assert [f.path for f in table.regions()[0].manifest.flushed] == [base.generation(table).name]
    assert hits(lance.dataset(str(base.generation(table))), "price = 1.0") == [2]


@pytest.mark.parametrize("name", ["__pq_code", "a b", "UPPER", "_rowid_"])
def test_a_column_may_have_any_name(tmp_path: Path, name: str) -> None:
    place = tmp_path / "t"
    schema = pa.schema([SCHEMA.field("id"), pa.field(name, pa.string())])
    table = pa.table([[1, 2], ["x", None]], schema=schema)
    lance.write_dataset(table, str(place)).create_scalar_index(f"`{name}`", "BTREE", name="i")
    opened = memwal.enable(place, maintained_indexes=["i"])
    with opened.writer(background=False) as writer:
        writer.put(table)
        writer.flush()
        folder = place / "_mem_wal" / writer.region_id / opened.regions()[0].manifest.flushed[0].path
    assert hits(lance.dataset(str(folder)), f"`{name}` = 'x'") == [0]


@pytest.mark.long
@pytest.mark.clause("FLUSH-007", "AMB-106")
@pytest.mark.parametrize("revision", ["B", "R"])
def test_an_index_of_a_generation_of_several_fragments_finds_rows_in_each_of_them(
    tmp_path: Path, revision: str
) -> None:
    marked = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=marked), ("v", pa.int8())])
    place = str(tmp_path / "t")
    lance.write_dataset(pa.table([[-1], [9]], schema=schema), place).create_scalar_index("v", "BITMAP", name="i")
    table = memwal.enable(place, revision=revision, maintained_indexes=["i"])
    full = 1 << 20
    values = np.zeros(full + 3, np.int8)
    values[[3, full - 1, full, full + 2]] = 7
    limits = Limits(memtable_rows=2 * full)
    with table.writer(background=False, limits=limits) as writer:
        writer.put(pa.table([np.arange(full + 3), values], schema=schema))
        writer.flush()
    (folder,) = (tmp_path / "t").glob("_mem_wal/*/*_gen_1")
    opened = lance.dataset(str(folder))
    assert "ScalarIndexQuery" in opened.scanner(filter="v = 7").explain_plan()
    found = opened.to_table(filter="v = 7", columns=["id"]).column("id").to_pylist()
    assert found == [3, full - 1, full, full + 2]
