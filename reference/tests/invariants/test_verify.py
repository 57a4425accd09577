"""`memwal table verify`: what is whole has no findings, every kind of damage is found, and nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.effects import Get, Io, List, StoreRequest
from memwal.errors import NotFound, StorageError
from memwal.ids import Epoch, ManifestVersion
from memwal.invariants import INVARIANTS, keys, manifests, runner
from memwal.invariants import report as reports
from memwal.revisions import STRICT, A, B, Revision
from typer.testing import CliRunner

from ..kit import damaged_tables, ground
from ..kit.damaged_tables import SCHEMA, Scene, damages, rows, verify, whole
from ..kit.ground import Ground
from ..kit.planted_damage import PLANTED, put_or_drop
from ..kit.revisions import B_FIRST
from ..kit.tables import flush

ALL = ["A", "B", "R"]


def named(report: Any, path: str) -> list[Any]:
    """Findings that name ``path``, or a folder that it is in."""
    relative = path.removeprefix("t/")
    return [f for f in report.findings if f.path == relative or relative.startswith(f"{f.path}/")]


# What is whole


@pytest.mark.parametrize("revision", ALL)
def test_a_whole_table_has_no_findings_and_everything_in_it_was_looked_at(revision: str) -> None:
    report = whole(revision).verify()
    assert report.findings == ()
    assert report.notes == ()
    assert report.clean
    assert (report.revision, report.version, report.mem_wal, report.moved) == (revision, 8, True, False)
    looked_at = dict(report.looked_at)
    entries = 16 if revision == "B" else 14
    assert looked_at.pop("files") > 8
    assert repr(report).startswith(f"clean; revision {revision}, looked at ")
    assert repr(replace(report, looked_at=(("WAL entries", 1), ("rows", 2)))).endswith("looked at 1 WAL entry, 2 rows")
    assert looked_at == {
        "table versions": 8,
        "snapshots": 7,
        "regions": 2,
        "region manifests": 12,
        "WAL entries": entries,
        "generations": 6,
        "rows": 38,
    }


def history_of_crashes(store: Ground, revision: str) -> None:
    """Everything that the engine does, in a small table: two regions, two writers each, every job twice."""
    spec = memwal.region_spec([memwal.bucket("bucket", ["id"], 2)])
    table = memwal.create(
        "t", SCHEMA, primary_key=["id"], revision=revision, spec=spec, wal_collection=True, store=store
    )
    many = rows(*((i, "x", i) for i in range(12)))
    buckets = table.region_values(many).column("bucket")
    for turn in range(2):
        for bucket in (0, 1):
            mine = many.filter(pa.compute.equal(buckets, bucket))
            with table.writer(values={"bucket": bucket}) as writer:
                writer.put(mine.slice(turn, 2))
                writer.put(mine.slice(1, 1))
                if revision == "R":
                    writer.delete(mine.slice(0, 1).select(["id"]))
                writer.flush()
                writer.put(mine.slice(3, 1))
        table.snapshot()
        table.merge()
        table.base.append(rows((100 + turn, "base", 0)))
        table.base.delete("id = 100")
        table.gc(retain_versions=2)


@pytest.mark.clause(
    "FENCE-005", "FLUSH-004", "FLUSH-009", "FLUSH-011", "FLUSH-012", "FLUSH-013", "FLUSH-014", "FORMAT-007",
    "FORMAT-010", "FORMAT-011", "FORMAT-015", "FORMAT-017", "FORMAT-040", "GEN-003", "GEN-008", "GEN-010", "GEN-019",
    "INDEX-001", "INDEX-018", "MANIFEST-005", "MANIFEST-009", "MANIFEST-020", "MANIFEST-040", "MERGE-001", "MERGE-018",
    "REGION-006", "REGION-011", "SNAP-001", "TXN-009", "TXN-010", "WAL-007", "WAL-011", "WAL-012", "WAL-018",
    "WRITER-024", "WRITER-032",
)  # fmt: skip
@B_FIRST
def test_whatever_the_engine_does_there_is_no_error_after_any_single_request(revision: str) -> None:
    store = Ground()
    seen: list[tuple[str, tuple[Any, ...]]] = []

    def look(request: StoreRequest[Any]) -> None:
        if not any("_versions" in name for name in store.objects):
            return
        report = verify(Ground(store.objects), fast=True)
        errors = tuple(f for f in report.findings if f.severity == "error")
        seen.append((request.path, errors))

    store.after = look
    history_of_crashes(store, revision)
    assert [path for path, errors in seen if errors] == []
    assert len(seen) > 100
    assert verify(store).findings == ()


@pytest.mark.parametrize("revision", ALL)
def test_only_warnings_are_found_between_the_steps_of_enabling(revision: str) -> None:
    store = Ground()
    found: set[tuple[str, str]] = set()
    store.after = lambda request: found.update(
        (f.severity, f.oracle) for f in (verify(Ground(store.objects)).findings if "_versions" in request.path else ())
    )
    memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, store=store)
    assert found == {("warning", "enabling_was_finished")}
    assert verify(store).clean


def test_a_table_without_mem_wal_is_said_to_be_one_and_its_own_invariants_are_checked(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": [1, 2]}), str(tmp_path / "t"))
    lance.write_dataset(pa.table({"id": [3]}), str(tmp_path / "t"), mode="append")
    report = memwal.verify(tmp_path / "t")
    assert (report.clean, report.mem_wal, report.version) == (True, False, 2)
    assert dict(report.looked_at) == {"table versions": 2, "files": 2}
    (data,) = list((tmp_path / "t" / "data").iterdir())[:1]
    data.unlink()
    (finding,) = memwal.verify(tmp_path / "t").findings
    assert (finding.oracle, finding.path) == ("named_files_are_there", f"data/{data.name}")


def _rewritten(place: str, rows: pa.Table) -> None:
    lance.write_dataset(rows, place)
    lance.dataset(place).delete("id < 3")
    lance.write_dataset(rows.slice(3), place, mode="overwrite")
    lance.dataset(place, version=1).restore()


def _indexed(place: str, rows: pa.Table) -> None:
    dataset = lance.write_dataset(rows, place, max_rows_per_file=20)
    for kind in ("BTREE", "BLOOMFILTER", "ZONEMAP"):
        dataset.create_scalar_index("id", kind, name=kind)
    dataset.delete("id < 5")
    dataset.optimize.compact_files(defer_index_remap=True)
    dataset.tags.create("first", 1)


PYLANCE: dict[str, Callable[[str, pa.Table], object]] = {
    "old files": lambda place, rows: lance.write_dataset(rows, place, data_storage_version="legacy"),
    "version 2.0 files": lambda place, rows: lance.write_dataset(rows, place, data_storage_version="2.0"),
    "decimal manifest names": lambda place, rows: lance.write_dataset(rows, place, enable_v2_manifest_paths=False),
    "stable row ids": lambda place, rows: lance.write_dataset(rows, place, enable_stable_row_ids=True),
    "rewrites": _rewritten,
    "indexes": _indexed,
}


@pytest.mark.parametrize("kind", PYLANCE)
def test_tables_of_pylance_have_no_findings_and_lose_no_file_unseen(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    PYLANCE[kind](str(place), pa.table({"id": range(40)}))
    report = memwal.verify(place)
    assert report.findings == ()
    assert report.notes == ()
    named_ones = [p for folder in ("data", "_deletions", "_indices") for p in place.glob(f"{folder}/**/*.*")]
    assert named_ones
    for path in named_ones:
        content = path.read_bytes()
        path.unlink()
        assert str(path.relative_to(place)) in {f.path for f in memwal.verify(place, fast=True).findings}
        path.write_bytes(content)


@pytest.mark.clause("TXN-002", "GC-003")
def test_a_version_that_a_branch_of_pylance_starts_from_is_kept_and_no_gap_is_reported(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    for number in range(4):
        dataset = lance.write_dataset(pa.table({"id": [number]}), place, mode="append" if number else "create")
    dataset.create_branch("dev", 1)
    lance.dataset(place).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    kept = sorted(version["version"] for version in lance.dataset(place).versions())
    assert kept == [1, 4]
    assert memwal.verify(place).findings == ()
    (tmp_path / "t" / "_refs" / "branches" / "dev.json").write_bytes(b"{")
    found = [(one.oracle, one.path) for one in memwal.verify(place).findings]
    assert ("tags_name_versions", "_refs/branches/dev.json") in found
    assert "table_versions_are_dense" in dict(found)


@pytest.mark.clause("TXN-002", "GC-003")
@pytest.mark.parametrize(("ahead_s", "warned"), [(3_600, False), (0, True)])
def test_a_version_from_before_a_clock_was_put_back_is_kept_by_its_age(ahead_s: int, warned: bool) -> None:
    scene = whole("B")
    _tagged, early, *between = scene.versions()[:5]

    def later(message: Any, _indices: list[Any]) -> None:
        message.timestamp.seconds += ahead_s

    scene.change_version(later, early)
    for version in between:
        del scene.objects[scene.version_path(version)]
    found = [one.oracle for one in scene.verify().findings]
    assert ("table_versions_are_dense" in found) is warned


@pytest.mark.clause("AMB-35")
@pytest.mark.parametrize("revision", [A, B], ids=lambda r: r.name)
def test_the_manifests_of_the_first_appendix_are_those_of_a_healthy_region(revision: Revision) -> None:
    first = ground.manifest(1, 5, after=10, seen=12, generation=2)
    second, third = (replace(first, version=ManifestVersion(n), epoch=Epoch(4 + n)) for n in (2, 3))
    assert [manifests.look_at(one, "m", revision) for one in (first, second, third)] == [[], [], []]
    assert manifests.look_at_step(first, second, "m") == manifests.look_at_step(second, third, "m") == []


def test_a_place_without_any_trace_of_a_table_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=re.escape(str(tmp_path))):
        memwal.verify(tmp_path / "t")


# Planted damage


@pytest.mark.parametrize(
    ("name", "revision"),
    [
        pytest.param(name, revision, marks=[pytest.mark.long] * (revision != PLANTED[name].revisions[-1]))
        for name in PLANTED
        for revision in PLANTED[name].revisions
    ],
)
def test_the_damage_that_breaks_an_invariant_is_found_under_its_name_and_at_its_path(name: str, revision: str) -> None:
    one = INVARIANTS[name]
    times = 0
    for scene, path in PLANTED[name].plant(whole(revision)):
        report = scene.verify(fast=not one.rows and one.about != "WAL")
        found = [f for f in report.findings if (f.oracle, f.path) == (name, path.removeprefix("t/"))]
        assert found, [(f.oracle, f.path, f.reason) for f in report.findings]
        assert {f.severity for f in found} == {one.severity}
        assert all(re.fullmatch(r"(AMB|[A-Z]+)-\d{2,3}", f.clause) and f.reason for f in found)
        times += 1
    assert times


def test_every_invariant_has_planted_damage() -> None:
    assert set(PLANTED) == set(INVARIANTS)


HARMLESS = [
    (r"_mem_wal/[^/]+/[0-9a-f]{8}_gen_\d+/_transactions/.*", "nothing is committed on top of a generation"),
    (r"_mem_wal/[^/]+/manifest/version_hint\.json", "a hint that is gone makes readers start at version 1"),
    (r"_refs/tags/first\.json", "a tag that is gone was taken off"),
]
"""Objects whose loss is no damage; the first two are found all the same if they are there and cannot be read."""
UNSEEN = [
    (r"_versions/18446744073709551607\.manifest", "the newest version: the one before is the newest then"),
    (r"_versions/1844674407370955161[34]\.manifest", "the oldest versions: expired, but for the tag on the first"),
]
"""Objects whose loss leaves no trace."""


@B_FIRST
def test_every_object_that_is_lost_is_named_unless_nothing_needs_it(revision: str) -> None:
    scene = whole(revision)
    silent = []
    for path in sorted(scene.objects):
        report = put_or_drop(scene.copy(), path, None).verify(fast=True)
        if not named(report, path):
            silent.append(path.removeprefix("t/"))
    patterns = [pattern for pattern, _ in HARMLESS + UNSEEN]
    assert [path for path in silent if not any(re.fullmatch(p, path) for p in patterns)] == []
    assert all(any(re.fullmatch(p, path) for path in silent) for p in patterns)


@pytest.mark.parametrize(
    ("revision", "cut"),
    [
        pytest.param("A", 2, id="A halved", marks=pytest.mark.long),
        pytest.param("B", 1, id="B emptied", marks=pytest.mark.long),
        pytest.param("B", 3, id="B one byte short"),
        pytest.param("R", 2, id="R halved"),
        pytest.param("R", 3, id="R one byte short", marks=pytest.mark.long),
    ],
)
def test_every_object_that_is_cut_is_named(revision: str, cut: int) -> None:
    scene = whole(revision)
    silent = []
    for path in one_of_each_kind(scene):
        data = list(damages(scene.objects[path]))[cut]
        if not named(put_or_drop(scene.copy(), path, data).verify(), path):
            silent.append(path.removeprefix("t/"))
    allowed = [HARMLESS[0][0]]
    if revision == "R" and cut == 2:
        # Half of a split-block filter is one of another size, which readers take for "perhaps".
        allowed.append(r"_mem_wal/.*/bloom_filter\.bin")
    assert [path for path in silent if not any(re.fullmatch(p, path) for p in allowed)] == []


def one_of_each_kind(scene: Scene) -> list[str]:
    """One object of each kind: of generation 2 for what generations have, manifests and WAL entries all."""
    kinds: dict[str, str] = {}
    for path in scene.below(scene.region) + [p for p in sorted(scene.objects) if "_mem_wal" not in p]:
        if "_gen_" not in path or "_gen_2/" in path:
            kinds.setdefault(re.sub(r"[02-9a-f][0-9a-f]{7,}", "", path), path)
    return sorted(kinds.values())


FLIPPED = re.compile(r"\.(manifest|binpb|arrow|txn|json|bin)$")
"""Objects that only this engine parses; flipped bytes of Lance files can end the process of the native reader."""


@B_FIRST
def test_no_flipped_byte_ends_the_run(revision: str) -> None:
    scene = whole(revision)
    found = total = 0
    for path in filter(FLIPPED.search, one_of_each_kind(scene)):
        data = scene.objects[path]
        inline = scene.details.inline_snapshots or b""
        start = data.find(inline) if inline in data else len(data)
        for at in range(0, len(data), 1 + len(data) // 8):
            if start <= at < start + len(inline):
                continue
            damaged = scene.copy()
            damaged.objects[path] = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
            found += bool(damaged.verify(fast=True).findings)
            total += 1
    # Not every byte can be told to be wrong: nothing has a checksum but the filter.
    assert total > 40
    assert found > total // 3


def test_several_damaged_objects_are_all_found_in_one_run() -> None:
    scene = whole("B")
    damaged = [
        scene.version_path(4),
        scene.manifest_path(3),
        scene.wal_path(2),
        scene.version_path(1, scene.generation(2)),
        scene.below("t/data")[0],
        scene.below("t/_transactions")[2],
    ]
    for path in damaged:
        scene.objects[path] = scene.objects[path][:-1]
    report = scene.verify()
    assert all(named(report, path) for path in damaged)


@pytest.mark.parametrize("revision", ALL)
def test_a_table_whose_newest_manifest_is_damaged_is_checked_by_its_older_ones(revision: str) -> None:
    scene = whole(revision)
    newest = scene.version_path(8)
    scene.objects[newest] = scene.objects[newest][:-1]
    with pytest.raises(memwal.ArtifactError):
        scene.table  # noqa: B018 - opening it is what fails
    report = scene.verify()
    assert (report.version, report.revision, report.mem_wal) == (7, revision, True)
    assert [(f.oracle, f.path) for f in report.findings] == [("table_versions_open", newest.removeprefix("t/"))]
    assert dict(report.looked_at)["generations"] == 6
    scene.objects[scene.wal_path(6)] = b""
    assert named(scene.verify(), scene.wal_path(6))


@pytest.mark.parametrize("revision", ALL)
def test_without_any_readable_version_regions_are_checked_as_the_revision_that_is_named(revision: str) -> None:
    scene = whole(revision)
    for version in scene.versions():
        scene.objects[scene.version_path(version)] = b""
    scene.objects[scene.wal_path(6)] = b""
    report = damaged_tables.drive(
        damaged_tables.invariants.verify(Io("t", interpretation=STRICT), revision=scene.revision), scene.store
    )
    assert (report.version, report.revision, report.mem_wal) == (None, revision, False)
    assert {f.oracle for f in report.findings} == {"table_versions_open", "wal_entries_open"}
    told = scene.verify()
    if revision == "R":
        assert told.revision is None
        assert any("--revision" in note for note in told.notes)
    else:
        assert told.revision == revision
        assert named(told, scene.wal_path(6))


def test_a_damage_of_many_objects_is_counted_and_not_listed_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "FINDINGS_MAX", 3)
    scene = whole("B")
    for position in scene.positions:
        scene.objects[scene.wal_path(position)] = b""
    report = scene.verify()
    assert [f.oracle for f in report.findings].count("wal_entries_open") == 3
    assert dict(report.suppressed)["wal_entries_open"] == 5


def test_an_object_that_the_store_refuses_is_a_finding_and_the_rest_is_checked() -> None:
    scene = whole("B")
    refused = scene.wal_path(6)

    def refuse(request: StoreRequest[Any]) -> None:
        if isinstance(request, Get) and request.path == refused:
            raise StorageError(request.path, "permission denied")

    scene.store.before = refuse
    report = scene.verify()
    assert [(f.oracle, f.path) for f in report.findings] == [("wal_entries_open", refused.removeprefix("t/"))]
    assert "permission denied" in report.findings[0].reason


# How it looks


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("revision", ALL)
def test_nothing_is_written(revision: str, fast: bool) -> None:
    scene = whole(revision)
    scene.objects[scene.wal_path(6)] = b""
    before = dict(scene.objects)
    assert scene.verify(fast=fast).findings
    assert scene.store.changes == 0
    assert set(scene.store.requests) <= {"Get", "Head", "List", "ListFolders"}
    assert scene.objects == before


def test_a_fast_run_reads_no_rows_and_only_recent_history(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = whole("B")
    read: list[str] = []
    scene.store.before = lambda request: read.append(request.path) if isinstance(request, Get) else None
    report = scene.verify(fast=True)
    assert "rows" not in dict(report.looked_at)
    # The two unflushed entries of each region, and the one before them, whose epoch they are compared with.
    assert dict(report.looked_at)["WAL entries"] == 6
    assert [path for path in read if path.endswith((".lance", ".bin"))] == []
    read.clear()
    monkeypatch.setattr(runner, "FAST_VERSIONS", 2)
    report = scene.verify(fast=True)
    assert dict(report.looked_at)["table versions"] == 2
    assert len([path for path in read if path.endswith(".binpb")]) == 4


def test_a_table_that_changes_while_it_is_looked_at_is_looked_at_again() -> None:
    scene = whole("B")
    target = scene.wal_path(6)
    scene.objects[target] = b""
    times = 0

    def change(request: StoreRequest[Any]) -> None:
        nonlocal times
        if isinstance(request, Get) and request.path == target and times < 5:
            times += 1
            scene.add_manifest()

    scene.store.before = change
    report = scene.verify(fast=True)
    assert (times, report.moved) == (3, True)
    times = 0
    scene.store.before = lambda request: change(request) if times < 1 else None
    report = scene.verify(fast=True)
    assert (times, report.moved) == (1, False)


@pytest.mark.clause("WAL-007")
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("revision", ALL)
def test_an_entry_that_came_where_a_listing_had_passed_is_no_hole(revision: str, fast: bool) -> None:
    scene = whole(revision)
    target, hidden = scene.wal_path(6), dict[str, bytes]()

    def passed(request: StoreRequest[Any]) -> None:
        scene.objects.update(hidden)
        if isinstance(request, List) and target.startswith(f"{request.path}/") and not hidden:
            hidden[target] = scene.objects.pop(target)

    scene.store.before = passed
    assert scene.verify(fast=fast).findings == ()
    assert hidden


def test_keys_are_compared_in_as_many_passes_as_their_number_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = whole("B")
    scene.table.base.append(rows((100, "again", 1), (500, "once", 1)))
    once = {f.reason for f in scene.verify().findings}
    monkeypatch.setattr(keys, "KEYS_PER_PASS", 2)
    assert {f.reason for f in scene.verify().findings} == once
    assert len(once) == 1


@pytest.mark.parametrize("wide", [0.5, float("nan"), -0.0, None])
def test_generations_with_any_float_equal_their_wal(wide: float | None) -> None:
    store = Ground()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.float64())])
    table = memwal.create("t", schema, primary_key=["id"], revision="B", store=store)
    flush(table, pa.table({"id": [1, 2], "v": pa.array([wide, 1.0])}, schema=schema))
    assert verify(store).clean


@pytest.mark.clause("AMB-45", "AMB-49")
@pytest.mark.parametrize("revision", ["B", "R"])
def test_a_generation_whose_rows_were_all_deleted_is_read_by_its_newest_version_and_merged(
    revision: str, tmp_path: Path
) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision)
    flush(table, rows((1, "gone", 1)))
    flush(table, rows((2, "here", 1)))
    (folder,) = tmp_path.glob("t/_mem_wal/*/*_gen_1")
    lance.dataset(str(folder)).delete("true")
    there = memwal.open(tmp_path / "t")
    assert there.scan().column("id").to_pylist() == [2]
    assert "generations_equal_their_wal" in {finding.oracle for finding in there.verify().findings}
    there.merge()
    assert there.base.scan().column("id").to_pylist() == [2]


def test_a_version_that_is_collected_between_its_listing_and_its_reading_is_no_finding(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    collected: list[str] = []

    def collect(event: str, fields: dict[str, Any]) -> None:
        if "table_version" in fields and not collected:
            collected.extend(decision.kind for decision in table.gc(retain_versions=1).collected)

    report = memwal.verify(tmp_path / "t", listener=collect)
    assert "version" in collected
    assert (report.findings, report.moved) == ((), False)


def test_progress_is_told_to_the_listener(tmp_path: Path) -> None:
    told: list[str] = []
    memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    memwal.verify(tmp_path / "t", listener=lambda event, fields: told.append(event))
    assert "verifying" in told


# Command line


def run_cli(*arguments: str) -> tuple[int, str]:
    from memwal.cli.main import app

    result = CliRunner().invoke(app, ["verify", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_the_command_ends_with_0_for_a_whole_table_and_prints_stable_json(tmp_path: Path) -> None:
    place = whole("B").written(tmp_path)
    code, output = run_cli(str(place), "--json")
    assert code == 0
    found = json.loads(output)
    assert set(found) == {
        "table", "clean", "revision", "version", "mem_wal", "fast", "moved", "findings", "suppressed", "looked_at",
        "notes", "unlooked",
    }  # fmt: skip
    assert (found["clean"], found["revision"], found["version"], found["findings"]) == (True, "B", 8, [])


def test_the_command_ends_with_1_for_findings_and_names_each(tmp_path: Path) -> None:
    scene = whole("B")
    path = scene.wal_path(6)
    scene.objects[path] = scene.objects[path][:-1]
    place = scene.written(tmp_path)
    code, output = run_cli(str(place))
    assert code == 1
    assert f"error {path.removeprefix('t/')} at byte" in output
    assert "wal_entries_open, WAL-009" in output
    code, output = run_cli(str(place), "--json", "--fast")
    assert code == 1
    (finding,) = json.loads(output)["findings"]
    assert set(finding) == {"invariant", "clause", "path", "reason", "severity", "offset"}
    assert finding["path"] == path.removeprefix("t/")


@pytest.mark.parametrize("arguments", [["gone"], [], ["gone", "--revision", "X"], ["ftp://place/t"], ["gone", "--bad"]])
def test_the_command_ends_with_2_without_a_table(arguments: list[str], tmp_path: Path) -> None:
    code, output = run_cli(*(str(tmp_path / a) if a == "gone" else a for a in arguments))
    assert code == 2
    assert "Traceback" not in output


def test_the_command_lists_every_invariant_with_its_clauses() -> None:
    code, output = run_cli("--list", "--json")
    assert code == 0
    listed = {one["name"]: one for one in json.loads(output)}
    assert set(listed) == set(INVARIANTS)
    assert all(one["says"].endswith(".") and one["remedy"] and one["clauses"] for one in listed.values())
    assert run_cli("--list")[0] == 0


# The document


def test_the_document_has_the_table_of_all_invariants() -> None:
    text = (Path(__file__).parents[3] / "docs" / "verify.md").read_text()
    listed = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 5 and cells[2].strip("`") in INVARIANTS:
            listed[cells[2].strip("`")] = cells
    assert set(listed) == set(INVARIANTS)
    for name, one in INVARIANTS.items():
        about, _, says, clauses, severity = listed[name][1:6]
        assert (about, clauses, severity) == (one.about, ", ".join(one.clauses), one.severity)
        assert says == one.says + (" *Reads rows.*" if one.rows else "")
