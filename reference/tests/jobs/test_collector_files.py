"""The garbage collector and the files of the base table."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from memwal.codec.index_details import IndexDetails
from memwal.codec.pb.lance import table_pb2, transaction_pb2
from memwal.drive import drive
from memwal.effects import Commits, Get, Io
from memwal.errors import ArtifactError, NotFound
from memwal.ids import Milliseconds
from memwal.index import mem_wal
from memwal.jobs.collector import Policy, collect
from memwal.revisions import STRICT
from memwal.table import read, write
from memwal.table.schema import with_primary_key
from memwal.table.state import latest, versions

from ..kit.collector_scene import (
    Clock,
    at_version,
    enabled_history,
    generation,
    one_merged,
    reasons,
    run,
    strong,
    table,
)
from ..kit.ground import SCHEMA, Ground, keys, row
from ..kit.tables import history, newest, objects_below


def named_files(ground: Ground) -> set[str]:
    """Data and deletion files of all versions that are there, told by pylance's manifests' own words."""
    found = set()
    for state in history(ground):
        for fragment in state.fragments:
            found |= {f"data/{file.path}" for file in fragment.files}
            if fragment.HasField("deletion_file"):
                file = fragment.deletion_file
                kind = "arrow" if file.file_type == 0 else "bin"
                found.add(f"_deletions/{fragment.id}-{file.read_version}-{file.id}.{kind}")
    return found


@pytest.mark.clause("GC-003")
@pytest.mark.parametrize("keep", [1, 2, 4, 20])
def test_data_and_deletion_files_stay_exactly_as_long_as_a_retained_version_names_them(keep: int) -> None:
    ground = Ground()
    made = table(ground)
    for start in (0, 10, 20):
        made.base.append(pa.concat_tables([row(start + n) for n in range(10)]))
    made.base.delete("id = 3")
    made.base.delete("id = 4")
    made.base.delete("id >= 20")
    run(ground, retain_versions=keep)
    there = {f"{folder}/{n}" for folder in ("data", "_deletions") for n in objects_below(ground, folder)}
    assert there == named_files(ground)
    assert len(there) == {1: 3, 2: 4, 4: 5, 20: 5}[keep]
    transactions = {state.manifest.message.transaction_file for state in history(ground)}
    assert set(objects_below(ground, "_transactions")) == transactions
    assert sorted(strong(ground)) == [0, 1, 2, *range(5, 20)]


def test_files_that_nobody_is_known_to_have_named_are_left_and_counted(ground: Ground) -> None:
    one_merged(ground)
    strange = {"data/x.lance", "_deletions/0-1-2.bin", "_transactions/notes.txt", "_indices/u/index.lance"}
    ground.objects.update({f"t/{name}": b"x" for name in strange})
    decisions = run(ground, retain_versions=1, grace_ms=1)
    unknown = {d.name: d.reason for d in decisions if d.rule == "unknown"}
    assert set(unknown) == {"data/x.lance", "_deletions/0-1-2.bin", "_transactions/notes.txt", "_indices/u"}
    assert all(reason.startswith("unknown: ") for reason in unknown.values())
    assert {f"t/{name}" for name in strange} <= ground.objects.keys()


@pytest.mark.clause("AMB-76")
def test_external_snapshots_of_expired_versions_go_and_those_of_retained_ones_stay(ground: Ground) -> None:
    made = table(ground)
    region = None
    for key in range(3):
        region = generation(made, region, (key, "x"))
        made.snapshot(inline_most=0)
    assert len(objects_below(ground, "_indices")) == 3
    seen = {state.version: at_version(ground, state) for state in enabled_history(ground)}
    newest_two = history(ground)[-2:]
    decisions = run(ground, retain_versions=2)
    entries = [state.mem_wal_entry for state in newest_two]
    used = {str(uuid.UUID(bytes=entry.uuid.uuid)) for entry in entries if entry is not None}
    assert {name.partition("/")[0] for name in objects_below(ground, "_indices")} == used
    assert len(used) == 2
    assert len(reasons(decisions, "index", collected=True)) == 1
    assert all(at_version(ground, state) == seen[state.version] for state in history(ground))


def attempt(ground: Ground, read_version: int, name: str) -> str:
    """What an append leaves behind that committed nothing: a data file, and the transaction that names it."""
    fragment = table_pb2.DataFragment(files=[table_pb2.DataFile(path=f"{name}.lance")])
    body = transaction_pb2.Transaction(read_version=read_version)
    body.append.fragments.add().CopyFrom(fragment)
    file = f"_transactions/{read_version}-00000000-0000-4000-8000-{name:0>12}.txn"
    ground.objects[f"t/{file}"] = body.SerializeToString()
    ground.objects[f"t/data/{name}.lance"] = b"x"
    return file


@pytest.mark.clause("AMB-92")
def test_what_a_failed_attempt_left_goes_only_after_a_grace_time_and_only_if_it_can_no_longer_be_committed(
    clock: Clock,
) -> None:
    ground = Ground()
    made = table(ground)
    for key in range(4):
        made.base.append(row(key))
    assert newest(ground).version == 6
    dead, live, current = attempt(ground, 3, "a"), attempt(ground, 5, "b"), attempt(ground, 6, "c")

    def left(grace_ms: int) -> dict[str, str]:
        found = made.gc(retain_versions=1, grace_ms=grace_ms)
        return {d.name: d.reason for d in found.kept if d.rule in ("under way", "attempt")}

    under_way = {name: f"a commit on version {v} may be under way" for name, v in ((live, 5), (current, 6))}
    under_way |= {"data/b.lance": under_way[live], "data/c.lance": under_way[current]}
    ungraced = "left by an attempt on version 3; it takes a grace time to know that it ended"
    assert left(0) == {**under_way, dead: ungraced, "data/a.lance": ungraced}
    young = "left by an attempt on version 3, which was replaced within 10 min"
    assert left(600_000) == {**under_way, dead: young, "data/a.lance": young}
    clock.now_ms += 600_000
    assert left(600_000) == under_way
    assert {"t/data/a.lance", f"t/{dead}"}.isdisjoint(ground.objects)
    assert {"t/data/b.lance", "t/data/c.lance"} <= ground.objects.keys()


def test_a_file_of_a_dead_attempt_stays_where_a_newer_transaction_names_it_too(ground: Ground, clock: Clock) -> None:
    made = table(ground)
    for key in range(4):
        made.base.append(row(key))
    attempt(ground, 3, "a")
    again = attempt(ground, 6, "a")
    clock.now_ms += 3_600_000
    found = {d.name: d.reason for d in made.gc(retain_versions=1, grace_ms=1).decisions}
    assert found["data/a.lance"] == found[again] == "a commit on version 6 may be under way"
    assert "t/data/a.lance" in ground.objects


def test_what_an_expired_version_named_is_remembered_while_another_may_still_commit_it(ground: Ground) -> None:
    made = table(ground)
    made.base.append(row(1))
    (file,) = newest(ground).fragments[0].files
    made.base.delete("id = 1")
    again = attempt(ground, newest(ground).version, file.path.removesuffix(".lance"))
    run(ground, retain_versions=1)
    assert objects_below(ground, "data") == [file.path]
    assert objects_below(ground, "_expired") == ["18446744073709551612.manifest"]
    del ground.objects[f"t/{again}"]
    run(ground, retain_versions=1)
    assert objects_below(ground, "data") == objects_below(ground, "_expired") == []


def test_files_of_detached_versions_stay(ground: Ground) -> None:
    made = table(ground)
    made.base.append(row(1))
    state = newest(ground)
    ground.objects["t/_versions/d9223372036854775809.manifest"] = ground.objects[state.path]
    made.base.delete("id = 1")
    found = {d.name: d.reason for d in run(ground, retain_versions=1)}
    (file,) = state.fragments[0].files
    assert found[f"data/{file.path}"] == "named by the detached version _versions/d9223372036854775809.manifest"
    assert f"t/data/{file.path}" in ground.objects


def test_a_damaged_transaction_that_may_name_files_is_an_error(ground: Ground) -> None:
    one_merged(ground)
    ground.objects["t/_transactions/1-00000000-0000-4000-8000-00000000000a.txn"] = b"\xff\xff"
    with pytest.raises(ArtifactError, match="TXN-010"):
        run(ground)


@pytest.mark.clause("GC-003")
def test_with_an_external_manifest_store_the_entries_of_expired_versions_go_too() -> None:
    store, io = Ground(), Io("t", Commits.EXTERNAL, interpretation=STRICT)
    state = drive(write.create(io, with_primary_key(SCHEMA, ["id"]), row(0)), store)
    details = IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None)
    drive(mem_wal.enable(io, state, details), store)
    for key in (1, 2):
        drive(write.append(io, row(key)), store)
    assert len([name for name in store.objects if name.startswith("@external/t/")]) == 4
    drive(collect(io, Policy(retain_versions=1)), store)
    assert [name for name in store.objects if name.startswith("@external/t/")] == [f"@external/t/{4:020d}"]
    assert drive(versions(io), store) == (4,)
    assert keys(drive(read.scan(io, drive(latest(io), store)), store)) == [0, 1, 2]


def test_a_newest_version_that_is_listed_and_not_there_is_no_endless_loop(ground: Ground) -> None:
    one_merged(ground)
    name = newest(ground).path
    ground.before = lambda r: NotFound(r.path) if r.path == name and isinstance(r, Get) else None
    with pytest.raises(ArtifactError, match="TXN-008"):
        run(ground)
