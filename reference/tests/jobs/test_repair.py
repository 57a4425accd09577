"""`memwal table repair`: what it repairs loses nothing, and everything else it refuses and leaves as it is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.api.verifying import RepairReport
from memwal.effects import Put, PutIfAbsent, StoreRequest
from memwal.errors import OutcomeUnknown
from memwal.ids import Epoch
from typer.testing import CliRunner

from ..kit.damaged_tables import SCHEMA, Killed, Scene, damages, whole
from ..kit.ground import Ground
from ..kit.planted_damage import PLANTED
from ..kit.revisions import B_FIRST

ALL = ["A", "B", "R"]
Rows = set[tuple[object, ...]]


def run(scene: Scene, **options: Any) -> RepairReport:
    return memwal.repair("t", store=scene.store, **options)


def seen(scene: Scene) -> Rows:
    """Rows that a strong read returns."""
    return {tuple(row.values()) for row in scene.table.scan().to_pylist()}


def torn(revision: str, data: bytes | None = None) -> Scene:
    """A table whose first region ends with an entry that cannot be read: the third unflushed one."""
    scene = whole(revision)
    last = scene.positions[-1]
    scene.objects[scene.wal_path(last + 1)] = scene.objects[scene.wal_path(last)][:-3] if data is None else data
    return scene


def kinds(report: RepairReport) -> list[str]:
    return [step.kind for step in report.steps]


# Nothing to do


@pytest.mark.parametrize("revision", ALL)
def test_a_whole_table_is_left_as_it_is(revision: str) -> None:
    scene = whole(revision)
    before = dict(scene.objects)
    report = run(scene)
    assert (report.steps, report.left, report.changed) == ((), (), ())
    assert scene.store.changes == 0
    assert scene.objects == before


def test_a_table_without_mem_wal_is_left_as_it_is(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "t"))
    report = memwal.repair(tmp_path / "t")
    assert (report.steps, report.left) == ((), ())
    assert repr(report) == "changed 0 objects; 0 findings left"


# The hint


HINT = "manifest/version_hint.json"


@pytest.mark.parametrize("data", [b"", b"{", b'{"version": 99}', b'{"version": 0}', b"7"])
@pytest.mark.parametrize("revision", ALL)
def test_a_wrong_hint_is_pointed_at_the_newest_version(revision: str, data: bytes) -> None:
    scene = whole(revision)
    path = f"{scene.region}/{HINT}"
    before = dict(scene.objects)
    scene.objects[path] = data
    planned = run(scene.copy(), dry_run=True)
    report = run(scene)
    assert kinds(planned) == kinds(report) == ["hint"]
    assert report.steps[0].path == path.removeprefix("t/")
    assert json.loads(scene.objects.pop(path)) == {"version": 6}
    before.pop(path)
    assert scene.objects == before
    assert report.left == ()
    assert scene.verify().clean


def test_a_hint_that_is_missing_or_behind_is_right() -> None:
    scene = whole("B")
    path = f"{scene.region}/{HINT}"
    for data in (None, b'{"version": 2}'):
        if data is None:
            del scene.objects[path]
        else:
            scene.objects[path] = data
        assert run(scene).steps == ()
        assert scene.store.changes == 0


# The unreadable last entry


def cut_entries(revision: str) -> Iterator[bytes]:
    scene = whole(revision)
    for data in damages(scene.objects[scene.wal_path(scene.positions[-1])]):
        if data is not None:
            yield data
    yield b"\0" * 300
    yield b"not an entry"


@pytest.mark.clause("AMB-15", "AMB-24", "FENCE-017")
@B_FIRST
def test_an_unreadable_last_entry_is_moved_aside_and_every_other_row_stays(revision: str) -> None:
    expected = seen(whole(revision))
    for data in cut_entries(revision):
        scene = torn(revision, data)
        before = dict(scene.objects)
        position = scene.positions[-1]
        path = scene.wal_path(position)
        with pytest.raises(memwal.ArtifactError):
            scene.table.writer(scene.regions[0])
        before = dict(scene.objects)
        epoch = scene.manifest().epoch
        report = run(scene)
        assert kinds(report) == ["entry"]
        (kept,) = scene.below(f"{scene.region}/quarantine")
        assert scene.objects[kept] == data
        assert kept in report.steps[0].reason
        changed = {name for name in before if scene.objects.get(name) != before[name]}
        assert changed == {path, f"{scene.region}/{HINT}"}
        assert not scene.entry(position).rows.num_rows
        assert not scene.entry(position + 1).rows.num_rows
        assert [scene.entry(p).epoch for p in (position, position + 1)] == [epoch + 1, epoch + 1]
        if revision == "R":
            assert all(b"fence_sentinel" in scene.objects[scene.wal_path(p)] for p in (position, position + 1))
        assert seen(scene) == expected
        found = [(f.oracle, f.severity) for f in scene.verify().findings]
        assert found == [("quarantines_are_empty", "warning")]
        with scene.table.writer(scene.regions[0]) as writer:
            writer.flush()
        scene.table.merge()
        assert seen(scene) == expected
        del scene.objects[kept]
        assert scene.verify().clean


@pytest.mark.parametrize("revision", ALL)
def test_a_dry_run_says_the_same_and_writes_nothing(revision: str) -> None:
    scene = torn(revision)
    before = dict(scene.objects)
    report = run(scene, dry_run=True)
    assert kinds(report) == ["entry"]
    assert scene.store.changes == 0
    assert scene.objects == before


@pytest.mark.clause("FENCE-017", "AMB-15")
@pytest.mark.parametrize("revision", ALL)
def test_a_writer_that_was_open_is_fenced_and_gets_nothing_acknowledged(revision: str) -> None:
    scene = whole(revision)
    writer = scene.table.writer(scene.regions[0])
    entry = scene.entry(7)
    scene.objects[scene.wal_path(scene.positions[-1] + 1)] = b"half"
    expected = seen(whole(revision))
    assert kinds(run(scene)) == ["entry"]
    plain = pa.table({name: entry.rows.column(name) for name in SCHEMA.names}, schema=SCHEMA)
    with pytest.raises(memwal.Fenced):
        writer.put(plain)
    assert seen(scene) == expected


@pytest.mark.clause("AMB-15")
@pytest.mark.parametrize("revision", ALL)
def test_a_repair_that_was_cut_short_anywhere_can_be_run_again(revision: str) -> None:
    expected = seen(whole(revision))
    requests = _changes_of(torn(revision))
    assert requests >= 5
    for stop in range(1, requests + 1):
        scene = torn(revision)
        data = scene.objects[scene.wal_path(scene.positions[-1])]
        _kill_after(scene.store, stop)
        with pytest.raises(Killed):
            run(scene)
        scene.store.after = lambda request: None
        run(scene)
        quarantined = [scene.objects[name] for name in scene.below(f"{scene.region}/quarantine")]
        assert quarantined
        assert set(quarantined) == {data}
        assert seen(scene) == expected
        assert {f.oracle for f in scene.verify().findings} == {"quarantines_are_empty"}
        with scene.table.writer(scene.regions[0]):
            pass
        assert seen(scene) == expected


def _changes_of(scene: Scene) -> int:
    run(scene)
    return scene.store.changes


def _kill_after(store: Ground, changes: int) -> None:
    def count(request: StoreRequest[Any]) -> None:
        if store.changes == changes:
            raise Killed

    store.after = count


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("revision", ALL)
def test_an_unanswered_request_is_made_again(revision: str, *, applied: bool) -> None:
    scene = torn(revision)
    expected, failed = seen(whole(revision)), set[tuple[str, str]]()

    def fail(request: StoreRequest[Any]) -> None:
        where = (type(request).__name__, request.path.rpartition("/")[0].rpartition("/")[2])
        if isinstance(request, Put | PutIfAbsent) and where not in failed:
            failed.add(where)
            raise OutcomeUnknown(request.path)

    if applied:
        scene.store.after = fail
    else:
        scene.store.before = fail
    assert kinds(run(scene)) == ["entry"]
    assert failed == {
        ("PutIfAbsent", "manifest"), ("Put", "manifest"), ("PutIfAbsent", "wal"), ("PutIfAbsent", "quarantine"),
        ("Put", "wal"),
    }  # fmt: skip
    assert seen(scene) == expected
    assert {f.oracle for f in scene.verify().findings} == {"quarantines_are_empty"}


@pytest.mark.clause("AMB-15")
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("revision", ALL)
def test_an_entry_that_appears_behind_it_meanwhile_stops_the_repair_and_is_kept(revision: str, nth: int) -> None:
    """A writer that still runs: on a store that does not create atomically it may believe in its entry."""
    scene = torn(revision)
    position = scene.positions[-1]
    before = scene.objects[scene.wal_path(position)]
    following = scene.objects[scene.wal_path(position - 1)]
    puts = 0

    def another(request: StoreRequest[Any]) -> None:
        nonlocal puts
        puts += isinstance(request, PutIfAbsent)
        if puts == nth:
            scene.objects.setdefault(scene.wal_path(position + 1), following)

    scene.store.before = another
    assert kinds(run(scene)) == ["refused"]
    assert puts == nth
    assert scene.objects[scene.wal_path(position)] == before
    assert scene.objects[scene.wal_path(position + 1)] == following
    assert not scene.below(f"{scene.region}/quarantine")


@pytest.mark.parametrize("revision", ALL)
def test_an_entry_that_is_still_being_written_stops_the_repair(revision: str) -> None:
    scene = torn(revision)
    path = scene.wal_path(scene.positions[-1])

    def write_on(request: StoreRequest[Any]) -> None:
        if isinstance(request, PutIfAbsent) and "/manifest/" in request.path:
            scene.objects[path] += b"more"

    scene.store.before = write_on
    whole_entry = scene.objects[path] + b"more"
    assert kinds(run(scene)) == ["refused"]
    assert scene.objects[path] == whole_entry
    assert not scene.below(f"{scene.region}/quarantine")


@pytest.mark.parametrize("revision", ALL)
def test_a_claim_of_another_process_meanwhile_stops_the_repair(revision: str) -> None:
    scene = torn(revision)
    before = scene.objects[scene.wal_path(scene.positions[-1])]
    position = scene.positions[-1]

    def claim(request: StoreRequest[Any]) -> None:
        if isinstance(request, PutIfAbsent) and request.path == scene.wal_path(position + 1):
            scene.store.after = lambda request: None
            scene.add_manifest(epoch=Epoch(scene.manifest().epoch + 1))

    scene.store.after = claim
    report = run(scene)
    assert kinds(report) == ["refused"]
    assert scene.objects[scene.wal_path(position)] == before
    assert kinds(run(scene)) == ["entry"]


# What is refused


def unreadable_before_rows(scene: Scene) -> None:
    scene.objects[scene.wal_path(scene.positions[-2])] = b"half"


def two_unreadable(scene: Scene) -> None:
    for position in scene.positions[-2:]:
        scene.objects[scene.wal_path(position)] = b"half"


def missing_below(scene: Scene) -> None:
    last = scene.positions[-1]
    scene.objects[scene.wal_path(last)] = b"half"
    del scene.objects[scene.wal_path(last - 1)]


def of_no_epoch(scene: Scene) -> None:
    last = scene.positions[-1]
    entry = scene.entry(last)
    scene.put_entry(last, replace(entry, rows=entry.rows.drop_columns(["id"])))


def manifest_gap(scene: Scene) -> None:
    del scene.objects[scene.manifest_path(4)]
    scene.objects[f"{scene.region}/{HINT}"] = b""


def newest_manifest_cut(scene: Scene) -> None:
    path = scene.manifest_path(scene.manifest_versions[-1])
    scene.objects[path] = scene.objects[path][:10]


def no_manifest(scene: Scene) -> None:
    for path in scene.below(f"{scene.region}/manifest"):
        del scene.objects[path]


def nothing_but_generations(scene: Scene) -> None:
    for path in [*scene.below(f"{scene.region}/manifest"), *scene.below(f"{scene.region}/wal")]:
        del scene.objects[path]


def nothing_but_a_wal(scene: Scene) -> None:
    for path in scene.below(scene.region):
        if not path.startswith(f"{scene.region}/wal/"):
            del scene.objects[path]


REFUSED: dict[str, tuple[Callable[[Scene], None], bool]] = {
    "an unreadable entry before one with rows": (unreadable_before_rows, True),
    "two unreadable entries": (two_unreadable, True),
    "an unreadable last entry behind a hole": (missing_below, True),
    "an entry of another schema": (of_no_epoch, False),
    "a gap between manifests": (manifest_gap, True),
    "a newest manifest that is cut": (newest_manifest_cut, True),
    "no manifest": (no_manifest, True),
    "nothing but generations": (nothing_but_generations, True),
    "nothing but a WAL": (nothing_but_a_wal, True),
}
"""Damage, and whether the job itself refuses it; what it does not look at is left with advice."""


@pytest.mark.clause("AMB-15", "AMB-143")
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("revision", ALL)
def test_what_cannot_be_repaired_without_losing_something_is_left_as_it_is(revision: str, name: str) -> None:
    scene = whole(revision)
    damage, refused = REFUSED[name]
    damage(scene)
    before = dict(scene.objects)
    report = run(scene)
    assert kinds(report) == (["refused"] if refused else [])
    assert report.changed == ()
    assert scene.objects == before
    assert scene.store.changes == 0
    assert report.left or refused
    assert all(report.advice(found) for found in report.left)


def test_a_sealed_region_is_not_claimed() -> None:
    scene = torn("R")
    scene.add_manifest(sealed=True)
    scene.objects[f"{scene.region}/{HINT}"] = b'{"version": 7}'
    before = dict(scene.objects)
    report = run(scene)
    assert kinds(report) == ["refused"]
    assert "sealed" in report.steps[0].reason
    assert scene.objects == before


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_nothing_that_verify_finds_makes_repair_lose_an_object(name: str) -> None:
    revision = PLANTED[name].revisions[-1]
    for scene, _ in list(PLANTED[name].plant(whole(revision)))[:2]:
        before = dict(scene.objects)
        try:
            report = run(scene)
        except (memwal.ArtifactError, memwal.InvalidArgument):
            assert scene.objects == before
            continue
        kept = set(scene.objects.values())
        for path, data in before.items():
            assert path in scene.objects
            assert data in kept or path.endswith(HINT)
        found = {f.path for f in scene.verify(fast=True).findings if f.severity == "error"}
        assert found <= {f.path for f in report.left} | {step.path for step in report.steps}


# What was not finished


def test_a_region_that_was_never_claimed_is_left() -> None:
    scene = whole("B")
    folder = f"t/_mem_wal/{uuid.UUID(int=7, version=4)}"
    scene.objects[f"{folder}/{HINT}"] = b'{"version": 1}'
    scene.objects["t/_mem_wal/archive/x"] = b"x"
    before = dict(scene.objects)
    report = run(scene)
    assert sorted(kinds(report)) == ["left", "left"]
    assert scene.objects == before


@pytest.mark.parametrize("revision", ALL)
def test_an_unfinished_creation_is_named_and_can_be_finished(revision: str) -> None:
    store = Ground()

    def kill(request: StoreRequest[Any]) -> None:
        if isinstance(request, PutIfAbsent) and "_versions" in request.path:
            raise Killed

    store.after = kill
    with pytest.raises(Killed):
        memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, store=store)
    store.after = lambda request: None
    report = memwal.repair("t", store=store)
    assert kinds(report) == ["unfinished"]
    assert f"revision {revision}" in report.steps[0].reason
    assert "memwal.enable" in report.steps[0].reason
    memwal.enable("t", revision=revision, store=store)
    assert memwal.repair("t", store=store).steps == ()
    assert memwal.verify("t", store=store).clean


# Command line


def run_cli(*arguments: str) -> tuple[int, str]:
    from memwal.cli.main import app

    result = CliRunner().invoke(app, ["repair", *arguments])
    return result.exit_code, result.output


def test_the_command_repairs_says_what_is_left_and_ends_with_1_if_something_is(
    tmp_path: Path,
) -> None:
    scene = torn("B")
    scene.objects[f"{scene.region}/{HINT}"] = b""
    place = scene.written(tmp_path)
    code, output = run_cli(str(place), "--dry-run", "--json")
    planned = json.loads(output)
    assert (code, planned["dry_run"]) == (0, True)
    assert [step["kind"] for step in planned["steps"]] == ["hint", "entry"]
    code, output = run_cli(str(place))
    assert code == 1
    assert "moved aside" in output
    assert "quarantine" in output
    assert "`memwal table repair` moved these bytes aside" in output


def test_the_table_repairs_and_verifies_itself(tmp_path: Path) -> None:
    table = memwal.open(torn("R").written(tmp_path))
    assert not table.verify().clean
    assert kinds(table.repair(dry_run=True)) == ["entry"]
    assert kinds(table.repair()) == ["entry"]
    assert [f.severity for f in table.verify(fast=True).findings] == ["warning"]
