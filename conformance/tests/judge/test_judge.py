"""The judge: it decodes what it should, refuses what it should, and does not know the engine."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from memwal_conformance import cells, vectors
from memwal_conformance.judge import artifacts, content, store, structure, table, wal, wire
from memwal_conformance.judge.artifacts import name_of, number_of
from memwal_conformance.judge.wire import DamagedBytes
from memwal_conformance.running import checks, oracle, scenarios
from memwal_conformance.running.checks import CheckContext
from memwal_conformance.vectors import BadCase, Vector, objects
from memwal_sim.histories.history import History

HERE = Path(__file__).resolve().parents[2]
REGION = "6ba7b814-9dad-41d1-80b4-00c04fd430c8"
OTHER = "0f8fad5b-d9cb-469f-a165-70867728950e"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("v", pa.string()),
    ]
)
DECODED = [
    vector
    for file in sorted((HERE / "vectors").glob("*/*/*/case.json"))
    if "decode" in (vector := vectors.load(file)).directions
]


def case_id(vector: Vector) -> str:
    return f"{vector.revision}-{vector.area}-{vector.name}"


def judged(vector: Vector) -> dict[str, object]:
    """The judge's own view of the object of a vector."""
    (file,) = (p for p in (vector.folder / "input").rglob("*") if p.is_file())
    data, path = file.read_bytes(), file.relative_to(vector.folder / "input")
    if vector.kind == "manifest":
        region, version = path.parts[1], number_of(path.name, "binpb")
        return {"manifest": artifacts.manifest(data, region, version).view()}
    return objects.DECODERS[vector.kind](data, vector)


@pytest.mark.parametrize("vector", [v for v in DECODED if v.area != "invalid"], ids=case_id)
def test_the_judge_decodes_every_blessed_object_to_its_expected_view(vector: Vector) -> None:
    assert vectors.difference(vector.expected, judged(vector)) is None


OF_THE_LIST = {"manifest_with_a_generation_twice", "manifest_with_a_listed_current_generation"}
"""Faults that the structural checks look for, so that a store with one can be judged further."""


@pytest.mark.parametrize(
    "vector", [v for v in DECODED if v.area == "invalid" and v.name not in OF_THE_LIST], ids=case_id
)
def test_the_judge_refuses_every_damaged_object(vector: Vector) -> None:
    with pytest.raises(DamagedBytes):
        judged(vector)


def test_the_judge_imports_no_engine_and_of_the_simulator_only_the_form_of_a_history() -> None:
    code = (
        "import sys, memwal_conformance.judge.structure, memwal_conformance.judge.content; "
        "import memwal_conformance.running.oracle, memwal_conformance.vectors; "
        "print(sorted(n for n in sys.modules if n.partition('.')[0] in ('memwal', 'memwal_sim')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    loader, history = ["memwal", "memwal.lazy"], ["memwal_sim", "memwal_sim.histories", "memwal_sim.histories.history"]
    assert done.stdout.strip() == str(loader + history)


def test_every_cut_of_a_manifest_but_those_between_fields_is_damage() -> None:
    vector = next(v for v in DECODED if v.area == "manifest" and v.name == "generations" and v.revision == "B")
    (file,) = (p for p in (vector.folder / "input").rglob("*.binpb"))
    data = file.read_bytes()
    starts = {field.offset for field in wire.fields(data)}
    for size in range(1, len(data)):
        if size not in starts:
            with pytest.raises(DamagedBytes):
                wire.WireMessage.of(data[:size])


def test_every_cut_of_an_arrow_entry_is_damage_or_a_stream_that_says_it_has_no_end_mark() -> None:
    vector = next(v for v in DECODED if v.area == "wal" and v.name == "two_batches" and v.revision == "B")
    (file,) = (p for p in (vector.folder / "input").rglob("*.arrow"))
    data = file.read_bytes()
    assert wal.stream_end(data) == (len(data), True)
    assert wal.decode(data, "arrow").forms == ()
    rows = []
    for size in range(len(data)):
        try:
            entry = wal.decode(data[:size], "arrow")
        except DamagedBytes:
            continue
        assert entry.forms == (("the stream has no end-of-stream mark", "AMB-11"),)
        rows.append(entry.rows.num_rows)
    assert rows == [0, 1, 3]  # behind the schema, and behind each of the two batches


def test_bytes_behind_an_entry_and_an_epoch_with_leading_zeros_are_forms_that_the_text_leaves_open() -> None:
    sink = pa.BufferOutputStream()
    schema = pa.schema([("id", pa.int64())], metadata={"writer_epoch": "007"})
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([1])], schema=schema))
    entry = wal.decode(sink.getvalue().to_pybytes() + b"\0" * 8, "arrow")
    assert (entry.epoch, entry.rows.num_rows) == (7, 1)
    assert [note for _, note in entry.forms] == ["AMB-11", "AMB-12"]


@pytest.mark.parametrize("data", [b"\x80" * 11, b"\xff" * 9 + b"\x7f", b"\x03", b"\x07", b"\x00\x01"])
def test_bytes_that_are_no_protobuf_message_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedBytes):
        wire.WireMessage.of(data)


# A store of another implementation --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that the released native implementation wrote: two claims, two generations, a delete."""
    root = tmp_path_factory.mktemp("native") / "table"
    table = pa.table({"id": [1, 2], "v": ["base", "base"]}, schema=SCHEMA)
    dataset = lance.write_dataset(table, str(root))
    dataset.initialize_mem_wal()
    with dataset.mem_wal_writer(REGION, durable_write=True) as writer:
        writer.put(pa.table({"id": [1, 3, 1], "v": ["x", "y", "z"]}, schema=SCHEMA))
        writer.delete(pa.table({"id": [3]}))
    with lance.dataset(str(root)).mem_wal_writer(REGION, durable_write=True) as writer:
        writer.put(pa.table({"id": [4], "v": ["w"]}, schema=SCHEMA))
    return root


@pytest.fixture
def copied(native: Path, tmp_path: Path) -> Path:
    """A copy to damage. (copytree would follow nothing else: the folder has no links.)"""
    target = tmp_path / "table"
    for file in native.rglob("*"):
        if file.is_file():
            copy = target / file.relative_to(native)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    return target


def faults(root: Path) -> dict[str, str]:
    """First fault of each check that found one."""
    results = structure.run(store.read(root, "R", ("id",)))
    return {r.check: r.faults[0] for r in results if r.faults}


def test_a_table_of_the_native_writer_passes_every_check(native: Path) -> None:
    results = structure.run(store.read(native, "R", ("id",)))
    known = {c.name for c in structure.CHECKS if "R" in c.clauses}
    assert {r.check for r in results if r.looked_at} == known - {"catch-up"}, "no index has caught up with anything"
    assert faults(native) == {}


@pytest.mark.parametrize(
    ("catchup", "merged", "expected"),
    [
        ((("by_v", ((REGION, 2),)),), 2, ()),
        ((("by_v", ((REGION, 1),)), ("by_w", ())), 2, ()),
        ((("by_v", ((REGION, 3),)),), 2, (f"by_v caught up with generation 3 of {REGION}, merged 2",)),
        ((("by_v", ((REGION, 1),)),), 0, (f"by_v caught up with generation 1 of {REGION}, merged 0",)),
        ((("by_v", ((REGION, 1),)), ("by_v", ())), 2, ("index_catchup has by_v twice",)),
    ],
)
def test_an_index_that_is_said_to_be_ahead_of_the_merge_is_found(
    catchup: tuple[tuple[str, tuple[tuple[str, int], ...]], ...], merged: int, expected: tuple[str, ...], native: Path
) -> None:
    found = store.read(native, "R", ("id",))
    (details,) = found.table.memwal
    details = replace(details, merged=((REGION, merged),) if merged else (), catchup=catchup)
    seen = structure.run(replace(found, table=replace(found.table, memwal=(details,))))
    (result,) = (each for each in seen if each.check == "catch-up")
    assert (result.faults, result.clauses) == (expected, ("CATCHUP-001", "CATCHUP-008"))


def test_the_judge_reads_the_rows_of_the_native_writer(native: Path) -> None:
    state = content.durable(store.read(native, "R", ("id",)))
    assert content.live(state) == [{"id": 1, "v": "z"}, {"id": 2, "v": "base"}, {"id": 4, "v": "w"}]
    assert state[(3,)] is None


def wal_file(root: Path, position: int) -> Path:
    return root / "_mem_wal" / REGION / "wal" / name_of(position, "arrow")


def manifest_file(root: Path, version: int) -> Path:
    return root / "_mem_wal" / REGION / "manifest" / name_of(version, "binpb")


def generation(root: Path, number: int) -> Path:
    (found,) = (root / "_mem_wal" / REGION).glob(f"*_gen_{number}")
    return found


def with_epoch(data: bytes, epoch: str) -> bytes:
    """An Arrow entry under another epoch."""
    with pa.ipc.open_stream(data) as reader:
        rows = reader.read_all()
    schema = rows.schema.with_metadata({**rows.schema.metadata, b"writer_epoch": epoch.encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(rows.replace_schema_metadata(schema.metadata))
    return bytes(sink.getvalue().to_pybytes())


def rewritten(root: Path, version: int, change: Callable[[bytes], bytes]) -> None:
    file = manifest_file(root, version)
    file.write_bytes(change(file.read_bytes()))


def appended(*fields: bytes) -> Callable[[bytes], bytes]:
    """Protobuf: the last value of a singular field counts, and a repeated one gets longer."""
    return lambda data: data + b"".join(fields)


def varint_field(number: int, value: int) -> bytes:
    return bytes([number << 3, value])


def listed(number: int, path: str) -> bytes:
    entry = bytes([0x08, number, 0x12, len(path)]) + path.encode()
    return bytes([8 << 3 | 2, len(entry)]) + entry


def drop_entry(root: Path) -> None:
    wal_file(root, 2).unlink()


def names_not_reversed(root: Path) -> None:
    for entry in sorted((root / "_mem_wal" / REGION / "wal").iterdir()):
        stem, _, suffix = entry.name.partition(".")
        entry.rename(entry.with_name(f"{stem[::-1]}.{suffix}x"))
    for entry in sorted((root / "_mem_wal" / REGION / "wal").iterdir()):
        entry.rename(entry.with_name(entry.name.removesuffix("x")))


def two_suffixes(root: Path) -> None:
    wal_file(root, 2).with_suffix(".lance").write_bytes(b"")


def epoch_goes_back(root: Path) -> None:
    wal_file(root, 4).write_bytes(with_epoch(wal_file(root, 4).read_bytes(), "1"))
    wal_file(root, 2).write_bytes(with_epoch(wal_file(root, 2).read_bytes(), "2"))


def epoch_of_nobody(root: Path) -> None:
    wal_file(root, 4).write_bytes(with_epoch(wal_file(root, 4).read_bytes(), "9"))


def entry_cut(root: Path) -> None:
    wal_file(root, 1).write_bytes(wal_file(root, 1).read_bytes()[:-12])


def version_missing(root: Path) -> None:
    manifest_file(root, 2).unlink()


def epoch_lowered(root: Path) -> None:
    rewritten(root, 5, appended(varint_field(2, 1)))


def pointer_lowered(root: Path) -> None:
    rewritten(root, 4, appended(varint_field(3, 1)))


def path_from_the_table(root: Path) -> None:
    path = generation(root, 1).name
    rewritten(root, 5, lambda data: data + listed(3, f"{REGION[:8]}/{path}"))


def pointer_behind_its_generation(root: Path) -> None:
    rewritten(root, 5, appended(varint_field(3, 2)))


def entry_without_an_epoch(root: Path) -> None:
    data = wal_file(root, 1).read_bytes()
    wal_file(root, 1).write_bytes(data.replace(b"writer_epoch", b"writer_apoch"))


def generation_counter_lowered(root: Path) -> None:
    rewritten(root, 5, appended(varint_field(6, 1)))


def spec_changed(root: Path) -> None:
    rewritten(root, 5, appended(varint_field(10, 1)))


def generation_twice(root: Path) -> None:
    rewritten(root, 5, appended(listed(1, generation(root, 1).name)))


def folder_of_another_number(root: Path) -> None:
    path = generation(root, 1).name
    rewritten(root, 5, lambda data: data.replace(path.encode(), path.replace("gen_1", "gen_7").encode()))


def folder_gone(root: Path) -> None:
    folder = generation(root, 1)
    folder.rename(root.parent / "elsewhere")


def no_bloom_filter(root: Path) -> None:
    (generation(root, 2) / "bloom_filter.bin").unlink()


def bloom_filter_of_no_keys(root: Path) -> None:
    file = generation(root, 2) / "bloom_filter.bin"
    file.write_bytes(bytes(len(file.read_bytes())))


def bloom_filter_of_other_bytes(root: Path) -> None:
    (generation(root, 2) / "bloom_filter.bin").write_bytes(b"no filter")


def rows_of_a_generation_gone(root: Path) -> None:
    for file in (generation(root, 2) / "data").iterdir():
        file.unlink()


def row_of_the_wal_changed(root: Path) -> None:
    file = wal_file(root, 4)
    with pa.ipc.open_stream(file.read_bytes()) as reader:
        rows = reader.read_all()
    changed = rows.set_column(1, rows.schema.field(1), pa.array(["other"], pa.string()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(changed)
    file.write_bytes(sink.getvalue().to_pybytes())


def hint_ahead(root: Path) -> None:
    (root / "_mem_wal" / REGION / "manifest" / "version_hint.json").write_text(json.dumps({"version": 9}))


def key_in_two_regions(root: Path) -> None:
    dataset = lance.dataset(str(root))
    with dataset.mem_wal_writer(OTHER, durable_write=True) as writer:
        writer.put(pa.table({"id": [4], "v": ["again"]}, schema=SCHEMA))


def stranger_in_the_region(root: Path) -> None:
    (root / "_mem_wal" / REGION / "notes.txt").write_text("x")


DAMAGE: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a missing entry": (drop_entry, "WAL positions", "WAL-004"),
    "two suffixes": (two_suffixes, "WAL names", "WAL-015"),
    "names that are not reversed": (names_not_reversed, "WAL names", "WAL-013"),
    "an epoch that goes back": (epoch_goes_back, "WAL epochs", "FENCE-017"),
    "an epoch that nobody claimed": (epoch_of_nobody, "WAL epochs", "WAL-011"),
    "an entry that is cut": (entry_cut, "objects decode", "WAL-009"),
    "a missing version": (version_missing, "manifest versions", "MANIFEST-020"),
    "a lowered epoch": (epoch_lowered, "epoch steps", "MANIFEST-007"),
    "a lowered pointer": (pointer_lowered, "pointer steps", "MANIFEST-009"),
    "a lowered generation counter": (generation_counter_lowered, "generation steps", "MANIFEST-014"),
    "another spec": (spec_changed, "spec steps", "REGION-011"),
    "a generation listed twice": (generation_twice, "generation list", "GEN-013"),
    "a folder of another number": (folder_of_another_number, "generation list", "GEN-004"),
    "a listed folder that is gone": (folder_gone, "generation list", "FLUSH-013"),
    "a path from elsewhere": (path_from_the_table, "generation list", "MANIFEST-017"),
    "a pointer behind its generation": (pointer_behind_its_generation, "generation content", "MANIFEST-008"),
    "an entry without an epoch": (entry_without_an_epoch, "objects decode", "WAL-010"),
    "no bloom filter": (no_bloom_filter, "bloom filters", "GEN-010"),
    "a bloom filter of no keys": (bloom_filter_of_no_keys, "bloom filters", "GEN-010"),
    "a bloom filter of other bytes": (bloom_filter_of_other_bytes, "bloom filters", "GEN-010"),
    "a generation without its data file": (rows_of_a_generation_gone, "generation tables", "GEN-001"),
    "other rows in the WAL than in the generation": (row_of_the_wal_changed, "generation content", "MANIFEST-009"),
    "a hint that is ahead": (hint_ahead, "hints", "MANIFEST-026"),
    "a key in two regions": (key_in_two_regions, "disjoint regions", "REGION-002"),
    "a file that does not belong": (stranger_in_the_region, "region folders", "GEN-019"),
}


def test_a_hint_of_the_next_version_is_a_choice_and_one_of_a_later_version_is_wrong(copied: Path) -> None:
    newest = store.read(copied, "R", ("id",)).regions[REGION].newest
    assert newest is not None
    for ahead, faulty, notes in ((0, 0, []), (1, 0, ["AMB-31"]), (2, 1, [])):
        hint = json.dumps({"version": newest.version + ahead})
        (copied / "_mem_wal" / REGION / "manifest" / "version_hint.json").write_text(hint)
        (found,) = (r for r in structure.run(store.read(copied, "R", ("id",))) if r.check == "hints")
        assert (len(found.faults), [each.ambiguity for each in found.choices]) == (faulty, notes)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_to_a_store_is_found_by_its_check_which_blames_one_clause(name: str, copied: Path) -> None:
    damage, check, clause = DAMAGE[name]
    damage(copied)
    (result,) = (each for each in structure.run(store.read(copied, "R", ("id",))) if each.check == check)
    assert (result.blamed, set(result.blamed) <= set(result.clauses)) == ((clause,), True)


def test_damage_makes_what_the_store_means_unreadable_or_different(copied: Path) -> None:
    folder_gone(copied)
    with pytest.raises(DamagedBytes, match="pylance cannot read"):
        content.durable(store.read(copied, "R", ("id",)))


def test_entries_at_positions_far_apart_are_read_without_looking_at_those_between(copied: Path) -> None:
    names_not_reversed(copied)
    region = store.read(copied, "R", ("id",)).regions[REGION]
    assert max(region.wal) >= 2**62
    assert content.wal_rows(region, 0, max(region.wal))


def test_a_folder_without_a_table_is_damage(tmp_path: Path) -> None:
    with pytest.raises(DamagedBytes, match="no table manifest"):
        store.read(tmp_path, "B", ("id",))


# Checks of scenarios -----------------------------------------------------------------------------------------------


def context(root: Path, *writes: pa.Table, seen: pa.Table | None = None) -> CheckContext:
    """What checks look at, after acknowledged ``writes`` and an answer ``seen``."""
    history = History()
    for rows in writes:
        history = oracle.written(history, ("id",), "w", rows.to_pylist(), "ok")
    answers = {} if seen is None else {"seen": {"rows": cells.to_rows(seen)}}
    names = scenarios.Names(scenarios.load(HERE / "scenarios" / "smoke.json"), str(root), answers)
    return CheckContext(root, "R", names, ("id",), history)


def pairs(**values: str) -> pa.Table:
    """Rows by ``_<id>=value``."""
    return pa.table({"id": [int(name[1:]) for name in values], "v": list(values.values())})


GENERATIONS_GONE = {
    "check": "structure",
    "of": "generation list",
    "clauses": ["GC-010"],
    "ambiguity": {"note": "AMB-93", "says": "does not exist"},
}


def test_one_structural_check_may_be_looked_at_under_a_reading_of_the_text(copied: Path) -> None:
    folder_gone(copied)
    (found,) = checks.look(context(copied), GENERATIONS_GONE)
    assert (found.clauses, found.ambiguity) == (("GC-010",), "AMB-93")
    assert found.broken is not None
    assert found.broken.endswith("does not exist")
    assert any(f.broken and f.ambiguity is None for f in checks.look(context(copied), {"check": "structure"}))


def test_a_note_on_a_structural_check_covers_the_fault_that_it_names_only(copied: Path) -> None:
    generation_twice(copied)
    (found,) = checks.look(context(copied), GENERATIONS_GONE)
    assert found.ambiguity is None
    assert "is listed 2 times" in str(found.broken)


def test_an_entry_without_an_end_mark_is_a_choice_that_is_told(copied: Path) -> None:
    file = wal_file(copied, 1)
    file.write_bytes(file.read_bytes().removesuffix(b"\xff\xff\xff\xff\0\0\0\0"))
    found = [f for f in checks.look(context(copied), {"check": "structure"}) if f.broken]
    assert [(f.clauses, f.ambiguity) for f in found] == [(("WAL-009", "WAL-010"), "AMB-11")]


def test_a_structural_check_that_there_is_not_is_a_broken_case(copied: Path) -> None:
    with pytest.raises(BadCase, match="no structural check 'generations'"):
        checks.look(context(copied), {"check": "structure", "of": "generations", "clauses": ["GC-010"]})


@pytest.mark.parametrize(
    ("seen", "whole"),
    [
        (pairs(_1="base"), True),
        (pairs(_1="a"), True),
        (pairs(_1="b", _2="b"), True),
        (pairs(_1="a", _2="b"), False),
        (pairs(_2="b"), False),
        (pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.string())}), False),
    ],
)
def test_a_read_of_the_past_sees_the_first_so_many_writes(seen: pa.Table, whole: bool, tmp_path: Path) -> None:
    looked_at = context(tmp_path, pairs(_1="base"), pairs(_1="a"), pairs(_1="b", _2="b"), seen=seen)
    step = {"check": "history", "of": "$seen.rows", "count": 1, "clauses": ["READ-009"]}
    (found,) = checks.look(looked_at, step)
    assert (found.broken is None) is whole


# Steps between manifests ------------------------------------------------------------------------------------------


def manifest(**changes: object) -> artifacts.Manifest:
    base: dict[str, object] = {
        "region_id": REGION,
        "version": 1,
        "spec_id": 0,
        "epoch": 1,
        "replay_after": 0,
        "last_seen": 0,
        "current_generation": 1,
        "generations": (),
        "shard_fields": (),
        "sealed": False,
    }
    return artifacts.Manifest(**(base | changes))  # type: ignore[arg-type]


FLUSHED = (artifacts.Generation(number=1, path="00000000_gen_1"),)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (manifest(), manifest(epoch=2), "claim"),
        (manifest(), manifest(epoch=2, last_seen=4), "claim"),
        (manifest(), manifest(epoch=3), None),
        (manifest(), manifest(), None),
        (manifest(), manifest(last_seen=3), "hint"),
        (manifest(last_seen=3), manifest(last_seen=2), None),
        (manifest(), manifest(replay_after=3, current_generation=2, generations=FLUSHED), "flush"),
        (manifest(), manifest(replay_after=3, current_generation=2), None),
        (manifest(), manifest(replay_after=3, current_generation=3, generations=FLUSHED), None),
        (manifest(), manifest(epoch=2, replay_after=3, current_generation=2, generations=FLUSHED), None),
        (manifest(current_generation=2, generations=FLUSHED), manifest(current_generation=2), "collection"),
        (manifest(), manifest(replay_after=3), None),
        (manifest(), manifest(spec_id=1, last_seen=3), None),
    ],
)
def test_a_step_between_manifests_is_named_after_its_trigger(
    before: artifacts.Manifest, after: artifacts.Manifest, expected: str | None
) -> None:
    assert structure.trigger(before, after) == expected


@pytest.mark.parametrize(
    ("revision", "state", "start"),
    [
        ("A", manifest(), 1),
        ("B", manifest(), 0),
        ("R", manifest(), 1),
        ("B", manifest(current_generation=2, replay_after=0), 1),
        ("A", manifest(current_generation=2, replay_after=10), 11),
    ],
)
def test_replay_starts_behind_the_pointer_or_at_the_first_position(
    revision: str, state: artifacts.Manifest, start: int
) -> None:
    assert store.replay_start(state, store.LAYOUTS[revision]) == start


def test_a_table_manifest_of_pylance_shows_version_fragments_and_index(native: Path) -> None:
    newest = table.newest(native)
    assert (newest.version, newest.fragments, len(newest.memwal)) == (2, 1, 1)
    assert list(table.versions(native)) == [1, 2]


def test_base64_of_the_views_is_what_the_protocol_says() -> None:
    view = manifest(shard_fields=(("bucket", b"\x03\x00\x00\x00"),)).view()
    assert base64.b64decode(view["shard_fields"][0]["value"]) == b"\x03\x00\x00\x00"
