"""`memwal table inspect`: every file of a table is recognised, damage is named and passed, and nothing else is read."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.api.inspecting import inspect
from memwal.codec import table_manifest
from memwal.codec.table_manifest import TableManifest
from memwal.effects import Get, Io, StoreRequest
from memwal.errors import InvalidArgument, NotFound
from memwal.inspection.node import Node, as_json
from memwal.revisions import STRICT
from memwal.stores import open_store
from memwal.table import write
from memwal.table.state import latest
from typer.testing import CliRunner

from ..kit.folder import Folder
from ..kit.ground import Ground
from ..revision_0.test_migrate import in_every_state

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), ["x" * (i % 3) for i in ids]], schema=SCHEMA)


def engine_table(store: Ground, revision: str) -> None:
    """Two regions; generations that are merged and that are not, and a tail of the WAL."""
    spec = memwal.region_spec([memwal.bucket("bucket", ["id"], 2)])
    table = memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, spec=spec, store=store)
    many = rows(*range(20))
    buckets = table.region_values(many).column("bucket").to_pylist()
    for bucket in range(2):
        part = many.filter(pa.array([found == bucket for found in buckets]))
        with table.writer(values={"bucket": bucket}) as writing:
            writing.put(part)
            writing.flush()
            writing.put(part)
    table.merge()
    table.snapshot()
    with table.writer(values={"bucket": 0}) as writing:
        writing.flush()
        writing.put(part.slice(0, 0) if not part.num_rows else many.filter(pa.array([b == 0 for b in buckets])))


@functools.cache
def objects(revision: str) -> dict[str, bytes]:
    store = Ground()
    engine_table(store, revision)
    return store.objects


def loaded(folder: Path, prefix: str = "t") -> dict[str, bytes]:
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    return {f"{prefix}/{p.relative_to(folder).as_posix()}": p.read_bytes() for p in found}


@functools.cache
def native_objects(version: str) -> dict[str, bytes]:
    """A table that pylance wrote: indexes, tags, branches, deletion files of both kinds, added columns."""
    with tempfile.TemporaryDirectory() as name:
        place = f"{name}/t"
        many = pa.table({"id": range(20_000), "s": [f"word {i % 50}" for i in range(20_000)]})
        table = lance.write_dataset(many, place, data_storage_version=version, max_rows_per_file=10_000)
        table.create_scalar_index("id", "BTREE")
        table.create_scalar_index("s", "INVERTED")
        table.delete("id < 3")
        table.delete("id >= 10000 AND id % 2 = 0")
        table.add_columns({"twice": "id * 2"})
        table.tags.create("first", 1)
        table.create_branch("dev")
        return loaded(Path(place))


@functools.cache
def objects_0() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name))
        in_every_state(folder.run)
        return folder.files()


def every_table() -> Iterator[tuple[str, dict[str, bytes]]]:
    yield from ((revision, objects(revision)) for revision in ("A", "B", "R"))
    yield "0", objects_0()
    yield "native", native_objects("2.1")
    yield "native 2.0", native_objects("2.0")
    yield "native legacy", native_objects("legacy")


TABLES = ["A", "B", "R", "0", "native", "native 2.0", "native legacy"]


def store_of(name: str) -> Ground:
    return Ground(dict(every_table())[name])


def one(node: Node, kind: str, name: str = "") -> Node:
    found = [each for each in node.all() if each.kind == kind and (not name or each.name == name)]
    assert found, f"no {kind} {name} in {sorted({each.kind for each in node.all()})}"
    return found[0]


def fields_of(node: Node) -> dict[str, Any]:
    return dict(node.fields)


def damage_of(node: Node) -> list[Any]:
    return [found for each in node.all() for found in each.damage]


def position(name: str) -> int:
    """The number that a name has as reversed bits."""
    return int(name.rpartition("/")[2].partition(".")[0][::-1], 2)


# Whole tables


@pytest.mark.parametrize("name", TABLES)
def test_a_whole_table_is_shown_without_damage_and_without_reading_rows(name: str) -> None:
    store = store_of(name)
    read: list[str] = []
    store.before = lambda request: read.append(request.path) if isinstance(request, Get) else None
    node = inspect("t", store=store)
    assert damage_of(node) == []
    assert store.changes == 0
    assert [path for path in read if path.startswith(("t/data/", "t/_deletions/", "t/_indices/"))] == []
    assert [path for path in read if "_gen_" in path and not path.endswith(".manifest")] == []


@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_what_is_shown_of_a_table_is_what_the_table_says(revision: str) -> None:
    store = Ground(objects(revision))
    node = inspect("t", store=store)
    table = memwal.open("t", store=store)
    fields = fields_of(node)
    assert fields["revision"] == revision
    assert fields["newest_version"] == table.version
    assert fields_of(one(node, "table_version"))["rows"] == 20
    index = one(node, "mem_wal_index")
    assert fields_of(index)["num_regions"] == 2
    for region in table.regions():
        shown = one(node, "region", region.region_id)
        said = fields_of(shown)
        assert region.manifest is not None
        assert (said["epoch"], said["version"]) == (region.manifest.epoch, region.manifest.version)
        assert said["generation_current"] == region.manifest.generation_current
        generations = [fields_of(each)["generation"] for each in shown.all() if each.kind == "generation"]
        assert sorted(generations) == [flushed.generation for flushed in region.manifest.flushed]
        merged = next(each for each in index.all() if each.kind == "progress" and each.name == region.region_id)
        assert fields_of(merged)["generation"] == region.merged
        wal = one(shown, "wal")
        names = [n for n in store.objects if f"{region.region_id}/wal/" in n]
        assert fields_of(wal)["count"] == len(names)
        assert all(fields_of(entry)["epoch"] in (1, 2) for entry in wal.children)


def test_a_table_that_pylance_wrote_shows_its_indexes_references_and_files() -> None:
    node = inspect("t", store=store_of("native"))
    assert {each.name for each in node.all() if each.kind == "index"} == {"id_idx", "s_idx"}
    btree = one(node, "index", "id_idx")
    assert {each.name for each in btree.children} == {"page_data.lance", "page_lookup.lance"}
    assert one(node, "tag").name == "_refs/tags/first.json"
    assert fields_of(one(node, "tag"))["version"] == 1
    assert one(node, "branch").name == "_refs/branches/dev.json"
    forms = {fields_of(each)["form"] for each in node.all() if each.kind == "deletion_file_entry"}
    assert forms == {"arrow", "bin"}
    made_by = [fields_of(each)["operation"] for each in node.all() if each.kind == "version"]
    assert made_by[-1] == "overwrite"
    assert made_by.count("create_index") == 2
    assert "delete" in made_by
    branch = inspect("t/tree/dev", store=store_of("native"))
    assert damage_of(branch) == []
    fields = fields_of(one(branch, "table_version"))
    assert fields["branch"] == "dev"
    assert fields["files_outside"] == 6


def test_records_of_revision_0_are_shown() -> None:
    node = inspect("t", store=store_of("0"))
    index = one(node, "mem_wal_index")
    assert fields_of(index)["revision"] == "0"
    states = [(fields_of(r)["region"], fields_of(r)["generation"], fields_of(r)["state"]) for r in index.children]
    assert states == [
        ("north", 0, "MERGED"), ("north", 1, "FLUSHED"), ("north", 2, "SEALED"), ("north", 3, "OPEN"),
        ("south", 0, "OPEN"),
    ]  # fmt: skip


def test_an_older_version_and_one_region_can_be_asked_for() -> None:
    store = store_of("B")
    old = inspect("t", version=2, store=store)
    assert fields_of(one(old, "table_version"))["version"] == 2
    with pytest.raises(InvalidArgument, match="no version 99; choose one of 1 to"):
        inspect("t", version=99, store=store)
    first = memwal.open("t", store=store).regions()[0].region_id
    alone = inspect("t", region=first, store=store)
    assert [each.name for each in alone.all() if each.kind == "region"] == [first]
    with pytest.raises(InvalidArgument, match="no region nobody"):
        inspect("t", region="nobody", store=store)
    with pytest.raises(NotFound, match="nowhere"):
        inspect("nowhere", store=store)


def test_a_limit_bounds_what_is_shown_and_what_is_looked_at() -> None:
    """A manifest with ten thousand fragments and a hundred versions costs as many requests as the limit allows."""
    store = Ground()
    machine = memwal.api.place.Place(store, Io("t", interpretation=STRICT), "")
    state = machine.run(write.create(Io("t", interpretation=STRICT), SCHEMA, rows(1, 2)))
    message = type(state.manifest.message)()
    message.CopyFrom(state.manifest.message)
    for number in range(1, 10_000):
        message.fragments.add().CopyFrom(message.fragments[0])
        message.fragments[-1].id = number
    for version in range(2, 102):
        message.version = version
        data = table_manifest.encode(TableManifest(message=message, transaction=state.manifest.transaction))
        store.objects[f"t/_versions/{2**64 - 1 - version:020d}.manifest"] = data
    store.asked.clear()
    node = inspect("t", store=store, limit=5)
    assert store.requests["Get"] <= 5 + 1 + 6
    assert store.requests["Head"] <= 5 + 1
    fragments = one(node, "fragments")
    assert (len(fragments.children), fragments.more) == (5, 9_995)
    assert (len(one(node, "versions").children), one(node, "versions").more) == (5, 96)


# Files


KINDS = {
    "manifest/version_hint.json": "version_hint",
    "latest_version_hint.json": "table_version_hint",
    ".binpb": "region_manifest",
    ".txn": "transaction",
    ".manifest": "table_version",
    "bloom_filter.bin": "bloom_filter",
    "_refs/tags/first.json": "tag",
    "_refs/branches/dev.json": "branch",
}


def expected_kind(name: str, table: str) -> str:
    for ending, kind in KINDS.items():
        if name.endswith(ending):
            return kind
    if "/_deletions/" in name:
        return "deletion_file"
    if "_mem_wal_0/" in name:
        return "entry_of_revision_0"
    if "/wal/" in name:
        return "wal_entry"
    return "legacy_data_file" if table == "native legacy" and "/data/" in name else "data_file"


@pytest.mark.parametrize("table", TABLES)
def test_every_file_of_a_table_is_recognised_alone(table: str) -> None:
    store = store_of(table)
    for name, data in store.objects.items():
        node = inspect(name, store=store)
        assert node.kind == expected_kind(name, table), name
        assert damage_of(node) == [], name
        assert fields_of(node).get("size_bytes", len(data)) == len(data)


@pytest.mark.parametrize("table", TABLES)
def test_a_file_is_recognised_by_its_bytes_where_its_name_says_nothing(table: str) -> None:
    for name, data in store_of(table).objects.items():
        node = inspect("copied/away", store=Ground({"copied/away": data}))
        expected = expected_kind(name, table)
        if expected == "table_version_hint":
            expected = "version_hint"  # the very same JSON
        assert node.kind == expected, name
        assert damage_of(node) == [], name


def test_a_file_shows_what_is_in_it() -> None:
    store = store_of("A")
    wal = next(n for n in store.objects if "/wal/" in n and position(n) == 1)
    entry = fields_of(inspect(wal, store=store))
    assert entry["container"] == "lance"
    assert entry["epoch"] == 1
    manifest = next(n for n in store.objects if n.endswith(".binpb"))
    shown = inspect(manifest, store=store)
    assert fields_of(shown)["region_id"] == manifest.split("/")[2]
    filters = next(n for n in store.objects if n.endswith("bloom_filter.bin"))
    assert fields_of(inspect(filters, store=store))["count"] > 0
    native = store_of("native legacy")
    rows_of: dict[str, int] = Counter()
    bounds = set()
    for name in (n for n in native.objects if n.startswith("t/data/")):
        file = inspect(name, store=native)
        assert fields_of(file)["file_version"] == "0.2"
        for held in (each for each in file.all() if each.kind == "file_column"):
            said = fields_of(held)
            rows_of[held.name] += int(fields_of(file)["rows"])
            assert said["null_count"] == 0
            assert said["pages"] == 10
            assert said["encoding"] == {"id": "plain", "s": "var_binary", "twice": "plain"}[held.name]
            if held.name == "id":
                bounds |= {said["min_value"], said["max_value"]}
    assert rows_of == {"id": 20_000, "s": 20_000, "twice": 20_000}
    assert {"0", "19999"} <= bounds


def test_bytes_of_nothing_known_are_refused_and_so_are_options_of_tables() -> None:
    store = Ground({"x": b"\x07 this is not a known kind of file of a table", "empty": b"", **objects("B")})
    for name in ("x", "empty"):
        with pytest.raises(InvalidArgument, match="not a known kind of file of a table"):
            inspect(name, store=store)
    with pytest.raises(InvalidArgument, match="is a file"):
        inspect(next(n for n in store.objects if n.endswith(".manifest")), version=1, store=store)


# Damage


def test_damage_is_named_with_its_clause_and_the_rest_is_shown() -> None:
    store = store_of("B")
    newest, before = sorted(n for n in store.objects if n.startswith("t/_versions/"))[:2]
    first, second = sorted({n.split("/")[2] for n in store.objects if n.startswith("t/_mem_wal/")})
    wal = max((n for n in store.objects if f"{first}/wal/" in n), key=position)
    manifest = max((n for n in store.objects if f"{second}/manifest/" in n and n.endswith(".binpb")), key=position)
    filters = next(n for n in store.objects if f"{first}/" in n and n.endswith("bloom_filter.bin"))
    data = [n for n in store.objects if n.startswith("t/data/")]
    gone = next(n for n in data if n.rpartition("/")[2].encode() in store.objects[before])
    for name in (newest, wal, manifest):
        store.objects[name] = store.objects[name][: -6 if name != manifest else 5]
    del store.objects[gone], store.objects[filters]
    node = inspect("t", store=store)
    found = {(each.path, each.clause) for each in damage_of(node)}
    clauses = {newest: "FORMAT-004", wal: "WAL-009", manifest: "MANIFEST-002", gone: "FORMAT-018", filters: "GEN-010"}
    assert found >= {(name.removeprefix("t/"), clause) for name, clause in clauses.items()}
    assert {path for path, _ in found} == {name.removeprefix("t/") for name in clauses}
    readable = fields_of(one(one(node, "region", second), "region_manifests"))
    assert readable["newest_readable"] == position(manifest) - 1
    assert one(node, "mem_wal_index").damage == ()
    assert one(node, "table_version").name == before.removeprefix("t/")


@pytest.mark.parametrize("table", TABLES)
def test_whatever_is_damaged_inspection_comes_to_its_end(table: str) -> None:
    """Bytes are changed, objects cut, emptied and dropped: the table and each damaged file are still shown."""
    rnd = random.Random(table)
    whole = store_of(table)
    names = sorted(whole.objects)
    for _ in range(60):
        store = whole.copy()
        touched = rnd.sample(names, min(len(names), rnd.randint(1, 6)))
        for name in touched:
            data = bytearray(store.objects[name])
            for _ in range(rnd.randint(0, 3)):
                at = rnd.randrange(len(data))
                data[at : at + rnd.randint(1, 8)] = rnd.randbytes(rnd.randint(0, 8))
            store.objects[name] = bytes(data[: rnd.choice([len(data), len(data), rnd.randrange(len(data) + 1)])])
            if not rnd.randrange(8):
                del store.objects[name]
        with suppress(NotFound):
            json.dumps(as_json(inspect("t", store=store, limit=4)))
        for name in touched:
            with suppress(NotFound, InvalidArgument):
                json.dumps(as_json(inspect(name, store=store)))


@pytest.mark.clause("FORMAT-037")
@pytest.mark.parametrize("column", [pa.array([1.5]), pa.array([1, None]), pa.array(["a"]), pa.nulls(2)])
def test_a_deletion_file_of_anything_but_offsets_is_damage(column: pa.Array) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"row_id": column})
    with pa.ipc.new_file(sink, table.schema) as out:
        out.write_table(table)
    store = Ground({"_deletions/0-1-2.arrow": sink.getvalue().to_pybytes()})
    (found,) = inspect("_deletions/0-1-2.arrow", store=store).damage
    assert found.clause == "FORMAT-037"


# The command


def command(*arguments: str) -> Any:
    from memwal.cli.main import app

    return CliRunner().invoke(app, ["inspect", *arguments], env={"COLUMNS": "200"})


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    for name, data in objects("B").items():
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return tmp_path / "t"


def test_the_command_prints_a_tree_and_json_with_the_documented_keys(on_disk: Path) -> None:
    shown = command(str(on_disk))
    assert shown.exit_code == 0, shown.output
    assert "regions" in shown.output
    assert "no damage" in shown.output
    said = command(str(on_disk), "--json", "--limit", "3")
    assert said.exit_code == 0, said.output
    found = json.loads(said.output)
    assert list(found) == ["damaged", "kind", "name", "fields", "damage", "children", "more"]
    assert found["damaged"] == 0
    assert found["fields"]["newest_version"] == str(memwal.open(on_disk).version)
    assert [child["kind"] for child in found["children"]] == ["table_version", "versions", "mem_wal_index", "regions"]


def test_every_kind_and_every_field_is_in_the_document() -> None:
    text = (Path(__file__).parents[3] / "docs" / "inspect.md").read_text()
    open_ended = ("tag", "branch", "table_version_hint", "operation", "bloom_filter")
    for _, held in every_table():
        store = Ground(held)
        for node in [inspect("t", store=store), *(inspect(name, store=store) for name in held)]:
            for each in node.all():
                assert f"`{each.kind}`" in text, each.kind
                named = () if each.kind in open_ended else each.fields
                assert [key for key, _ in named if f"`{key}`" not in text] == [], each.kind


def test_the_command_takes_files_and_urls_and_tells_damage_from_nothing_there(on_disk: Path) -> None:
    manifest = next((on_disk / "_mem_wal").rglob("*.binpb"))
    for place in (str(manifest), f"file://{manifest}", os.path.relpath(manifest)):
        shown = command(place, "--json")
        assert shown.exit_code == 0, shown.output
        found = json.loads(shown.output)
        assert found["kind"] == "region_manifest"
        assert found["name"] == manifest.relative_to(on_disk).as_posix()
    manifest.write_bytes(manifest.read_bytes()[:7])
    damaged = command(str(manifest))
    assert damaged.exit_code == 1
    assert "[MANIFEST-00" in damaged.output
    nothing = command(str(on_disk / "nothing"))
    assert nothing.exit_code == 2
    (on_disk / "junk").write_bytes(b"\x07junk")
    assert command(str(on_disk / "junk")).exit_code == 2
    assert command(str(on_disk), "--region", "x").exit_code == 2


def test_files_and_tables_behind_a_url_are_told_apart() -> None:
    store, root = open_store("memory://inspected/t")
    for name, data in objects("B").items():
        store.perform(_put(name, data))
    assert inspect("memory://inspected/t").kind == "table"
    wal = next(n for n in objects("B") if "/wal/" in n)
    node = inspect(f"memory://inspected/{wal}")
    assert (node.kind, node.name) == ("wal_entry", wal.removeprefix("t/"))
    assert root == "t"


def _put(name: str, data: bytes) -> StoreRequest[Any]:
    from memwal.effects import Put

    return Put(name, data)


def test_numbers_of_64_bits_are_text_in_json(on_disk: Path) -> None:
    shutil.rmtree(on_disk / "_mem_wal")
    folder = Folder(on_disk.parent)
    state = folder.run(latest(Io("t", interpretation=STRICT)))
    message = type(state.manifest.message)()
    message.CopyFrom(state.manifest.message)
    message.fragments[0].id = 2**63 + 1
    message.version = 2**63 + 3
    data = table_manifest.encode(TableManifest(message=message))
    (on_disk / "odd.manifest").write_bytes(data)
    found = as_json(inspect(on_disk / "odd.manifest"))
    text = json.dumps(found)
    assert '"version": "9223372036854775811"' in text
    assert '"id": "9223372036854775809"' in text
    numbers: list[int] = []
    json.loads(text, parse_int=lambda n: numbers.append(int(n)))
    assert max(numbers) < 2**53


def test_so_many_wal_entries_are_looked_at_as_were_asked_for_whatever_the_limit_is() -> None:
    store = Ground()
    engine_table(store, "B")
    looked_at = {
        entries: [node.name for node in inspect("t", entries=entries, store=store).all() if node.kind == "wal_entry"]
        for entries in (0, 1, 100)
    }
    assert [len(looked_at[entries]) for entries in (0, 1)] == [0, 2], "of two regions"
    assert len(looked_at[100]) > 2
    with pytest.raises(InvalidArgument, match="entries must be at least 0, not -1"):
        inspect("t", entries=-1, store=store)
