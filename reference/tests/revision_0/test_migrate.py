"""`memwal table migrate`: every way in which a migration from revision 0 is cut short, and all that it refuses."""

from __future__ import annotations

import dataclasses
import json
import shutil
import struct
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.codec import protobuf, table_manifest
from memwal.codec.pb.lance import rowids_pb2
from memwal.codec.table_manifest import TableManifest
from memwal.effects import Io, Now, RandomHex, Request, StoreRequest, run
from memwal.errors import ArtifactError, InvalidArgument, MemwalError, NotFound, OutcomeUnknown, StorageError
from memwal.ids import Generation, TableVersion
from memwal.revision_0 import entries, index, migrate, records, segments, writer
from memwal.revision_0.records import OwnerChanged, State
from memwal.revisions import STRICT, B
from memwal.table import read, write
from memwal.table import schema as schemas
from memwal.table import versions as naming
from memwal.table.state import latest
from typer.testing import CliRunner

from ..kit.folder import Folder
from ..kit.ground import READS, Ground
from ..kit.tables import by_id

IO = Io("t", interpretation=STRICT)
SCHEMA = schemas.with_primary_key(pa.schema([("id", pa.int64()), ("v", pa.string())]), ["id"])


def rows(*values: tuple[int, str | None]) -> pa.Table:
    return pa.table([[k for k, _ in values], [v for _, v in values]], schema=SCHEMA.remove_metadata())


class Machine:
    """Runs coroutines on a store in memory, with random numbers of its own."""

    def __init__(self, store: Ground) -> None:
        self.store = store

    def perform(self, request: Request[Any]) -> Any:
        match request:
            case StoreRequest():
                return self.store.perform(request)
            case RandomHex(digits):
                return uuid.uuid4().hex[:digits]
            case Now():
                return 1_700_000_000_000
        return None

    def run(self, coroutine: Any) -> Any:
        return run(coroutine, self.perform)

    def base(self) -> dict[int, str]:
        return by_id(self.run(read.scan(IO, self.run(latest(IO)))))


def in_every_state(run: Callable[[Any], Any]) -> dict[int, str]:
    """Make a table with two regions and MemWALs in every state; returns what a reader of revision 0 sees."""
    run(write.create(IO, SCHEMA, rows((1, "base"), (2, "base"), (3, "base")).cast(SCHEMA)))
    north = run(writer.open_writer(IO, "north"))
    run(north.put(rows((1, "merged"))))
    run(north.seal())
    run(north.flush(Generation(0)))
    run(writer.merge(IO, "north"))
    run(north.put(rows((1, "flushed"), (11, "flushed"))))
    run(north.seal())
    run(north.flush(Generation(1)))
    run(north.put(rows((1, "sealed"), (12, "sealed"))))
    run(north.seal())
    run(north.put(rows((13, "open"))))
    run(north.put(rows((13, "newest"))))
    south = run(writer.open_writer(IO, "south"))
    run(south.put(rows((20, "south"))))
    states = [(r.region, r.state) for r in index.of(run(latest(IO)))]
    assert {state for _, state in states} == set(State)
    return {1: "sealed", 2: "base", 3: "base", 11: "flushed", 12: "sealed", 13: "newest", 20: "south"}


@pytest.fixture(scope="module")
def scene() -> tuple[dict[str, bytes], dict[int, str]]:
    machine = Machine(Ground())
    expected = in_every_state(machine.run)
    return machine.store.objects, expected


Scene = tuple[dict[str, bytes], dict[int, str]]


def finished(machine: Machine, expected: dict[int, str]) -> None:
    """The table is of revision B, has all rows, and is no longer one to migrate."""
    assert machine.base() == expected
    opened = memwal.open("t", store=machine.store)
    assert opened.revision is B
    assert by_id(opened.scan()) == expected
    with pytest.raises(InvalidArgument, match=r"later revision already.*\[AMB-04\]"):
        memwal.migrate("t", store=machine.store)


def dies(machine: Machine, at: int, *, applied: bool) -> Callable[[Request[Any]], Any]:
    """A performer whose process dies with request number ``at``; ``applied``: with change ``at``, after it is made."""
    left = at

    def perform(request: Request[Any]) -> Any:
        nonlocal left
        if isinstance(request, StoreRequest) and (left < 0 or not (applied and isinstance(request, READS))):
            if left == 0 and applied:
                machine.perform(request)
            if left <= 0:
                left -= 1
                raise StorageError(request.path, "the process is dead")
            left -= 1
        return machine.perform(request)

    return perform


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.clause("AMB-135", "AMB-132", "LEGACY-012")
def test_a_migration_that_dies_at_any_request_is_finished_by_the_next(scene: Scene, *, applied: bool) -> None:
    objects, expected = scene
    for at in range(1000):
        machine = Machine(Ground(objects))
        try:
            run(migrate.migrate(IO, B), dies(machine, at, applied=applied))
        except StorageError:
            pass
        else:
            assert at > (10 if applied else 50)
            finished(machine, expected)
            return
        with suppress(InvalidArgument):  # it had ended: `finished` sees that
            machine.run(migrate.migrate(IO, B))
        finished(machine, expected)


@pytest.mark.clause("AMB-135")
def test_a_migration_whose_requests_go_unanswered_goes_on(scene: Scene) -> None:
    """Every request that changes something is performed, and not answered, once."""
    objects, expected = scene
    machine = Machine(Ground(objects))
    unanswered: set[tuple[str, str]] = set()

    def perform(request: Request[Any]) -> Any:
        key = (type(request).__name__, getattr(request, "path", ""))
        if isinstance(request, StoreRequest) and not isinstance(request, READS) and key not in unanswered:
            unanswered.add(key)
            machine.perform(request)
            raise OutcomeUnknown(request.path)
        return machine.perform(request)

    moved = run(migrate.migrate(IO, B), perform)
    assert [(m.region, m.generation, m.state, m.rows) for m in moved] == [
        ("north", 1, State.FLUSHED, 2),
        ("north", 2, State.SEALED, 2),
        ("north", 3, State.OPEN, 2),
        ("south", 0, State.OPEN, 1),
    ]
    assert len(unanswered) > 10
    finished(machine, expected)


@pytest.mark.long
@pytest.mark.parametrize("region", ["north", "east"])
@pytest.mark.clause("LEGACY-019", "LEGACY-020", "LEGACY-022", "AMB-133", "AMB-135")
def test_a_writer_that_claims_at_any_moment_loses_no_acknowledged_row(scene: Scene, region: str) -> None:
    """It takes a region, or makes one, and writes; then the migration continues, and is called again if that failed."""
    objects, expected = scene
    outcomes = set()
    for at in range(0, 1000, 2):
        machine = Machine(Ground(objects))
        left, acknowledged = at, False

        def perform(request: Request[Any], machine: Machine = machine) -> Any:
            nonlocal left, acknowledged
            if isinstance(request, StoreRequest):
                if left == 0:
                    try:
                        zombie = machine.run(writer.open_writer(IO, region))
                        machine.run(zombie.put(rows((99, "acknowledged"))))
                        acknowledged = True
                    except MemwalError as error:
                        outcomes.add(type(error))
                left -= 1
            return machine.perform(request)

        try:
            run(migrate.migrate(IO, B), perform)
        except MemwalError as error:
            outcomes.add(type(error))
            machine.run(migrate.migrate(IO, B))
        finished(machine, {**expected, **({99: "acknowledged"} if acknowledged else {})})
        if left >= 0:
            break
    assert OwnerChanged in outcomes if region == "north" else ArtifactError in outcomes


@pytest.mark.clause("LEGACY-019", "LEGACY-022")
def test_a_writer_of_before_is_stopped_by_its_next_write(scene: Scene) -> None:
    machine = Machine(Ground(scene[0]))
    state = machine.run(latest(IO))
    record = records.open_record(index.of(state), "north")
    assert record is not None
    before = writer.RegionOwner(IO, "north", record.owner_id, {record.generation: []}, record)
    stopped: list[type] = []

    def perform(request: Request[Any]) -> Any:
        if isinstance(request, StoreRequest) and request.path.endswith(".lance") and not isinstance(request, READS):
            with pytest.raises(MemwalError) as raised:
                machine.run(before.put(rows((98, "lost"))))
            stopped.append(raised.type)
        return machine.perform(request)

    run(migrate.migrate(IO, B), perform)
    assert stopped[0] is OwnerChanged
    assert len(stopped) == 4
    finished(machine, scene[1])


# What WALs look like


def u64_array(ids: list[int]) -> rowids_pb2.EncodedU64Array:
    made = rowids_pb2.EncodedU64Array()
    made.u64_array.values = struct.pack(f"<{len(ids)}Q", *ids)
    return made


def u16_array(ids: list[int]) -> rowids_pb2.EncodedU64Array:
    made = rowids_pb2.EncodedU64Array()
    made.u16_array.base = min(ids)
    made.u16_array.offsets = struct.pack(f"<{len(ids)}H", *(i - min(ids) for i in ids))
    return made


def u32_array(ids: list[int]) -> rowids_pb2.EncodedU64Array:
    made = rowids_pb2.EncodedU64Array()
    made.u32_array.base = min(ids)
    made.u32_array.offsets = struct.pack(f"<{len(ids)}I", *(i - min(ids) for i in ids))
    return made


SEGMENTS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "range": ({"range": {"start": 3, "end": 6}}, [3, 4, 5]),
    "range with holes": ({"range_with_holes": {"start": 0, "end": 4, "holes": u64_array([1, 2])}}, [0, 3]),
    "range with short holes": ({"range_with_holes": {"start": 5, "end": 8, "holes": u16_array([6])}}, [5, 7]),
    "bitmap": ({"range_with_bitmap": {"start": 7, "end": 11, "bitmap": b"\x0d"}}, [7, 9, 10]),
    "sorted array": ({"sorted_array": u64_array([2, 2**64 - 2])}, [2, 2**64 - 2]),
    "sorted short array": ({"sorted_array": u16_array([9, 30_000])}, [9, 30_000]),
    "sorted middle array": ({"sorted_array": u32_array([2**33, 2**33 + 70_000])}, [2**33, 2**33 + 70_000]),
}


def segment(values: dict[str, Any]) -> bytes:
    ((name, inner),) = values.items()
    message = rowids_pb2.U64Segment()
    target = getattr(message, name)
    target.SetInParent()
    if isinstance(inner, rowids_pb2.EncodedU64Array):
        target.CopyFrom(inner)
    else:
        for key, value in inner.items():
            if isinstance(value, rowids_pb2.EncodedU64Array):
                getattr(target, key).CopyFrom(value)
            else:
                setattr(target, key, value)
    return protobuf.serialise(message)


@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.parametrize("entry_names", ["{id}.arrow", "entry-{id:020d}.ipc"])
@pytest.mark.clause("LEGACY-016", "LEGACY-018", "AMB-134")
def test_exactly_the_listed_entries_are_merged_whatever_form_the_list_has(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, name: str, entry_names: str
) -> None:
    values, ids = SEGMENTS[name]
    folder.run(write.create(IO, SCHEMA, rows((1, "base")).cast(SCHEMA)))
    opened = folder.run(writer.open_writer(IO, "r"))
    wal = entries.folder(IO, opened.record.wal_location)
    for entry in ids:
        data = entries.encode(rows((entry % 1000 + 10, f"entry {entry}"), (5, f"newest is {entry}")))
        folder.run(wal.put(entry_names.format(id=entry), data))
    hole = next(n for n in range(12) if n not in ids)
    folder.run(wal.put(entry_names.format(id=hole), entries.encode(rows((6, "a hole")))))
    with monkeypatch.context() as patched:
        patched.setattr(segments, "encode", lambda _: segment(values))
        folder.run(index.change(IO, lambda found, version: tuple(dataclasses.replace(r, owner_id="x") for r in found)))
    report = memwal.migrate(folder.root / "t", entry_names=entry_names)
    assert [(m.region, m.entries, m.rows) for m in report.moved] == [("r", len(ids), 2 * len(ids))]
    expected = {1: "base", 5: f"newest is {ids[-1]}"} | {entry % 1000 + 10: f"entry {entry}" for entry in ids}
    assert by_id(lance.dataset(str(folder.root / "t")).to_table()) == expected


# What is refused


def unlisted_entry(folder: Folder) -> None:
    gone = next(name for name in folder.files() if name.endswith("/0.arrow") and "south" in name)
    (folder.root / gone).unlink()


def torn_entry(folder: Folder) -> None:
    name = next(name for name in folder.files() if name.endswith("/0.arrow") and "south" in name)
    (folder.root / name).write_bytes((folder.root / name).read_bytes()[:100])


def foreign_rows(folder: Folder) -> None:
    name = next(name for name in folder.files() if name.endswith("/0.arrow") and "south" in name)
    (folder.root / name).write_bytes(entries.encode(pa.table({"id": [20], "other": [1]})))


def null_key(folder: Folder) -> None:
    name = next(name for name in folder.files() if name.endswith("/0.arrow") and "south" in name)
    table = pa.table([pa.array([None], pa.int64()), ["x"]], schema=pa.schema([("id", pa.int64()), ("v", pa.string())]))
    (folder.root / name).write_bytes(entries.encode(table))


def repeated_keys(folder: Folder) -> None:
    folder.run(write.append(IO, rows((2, "again")).cast(SCHEMA)))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (unlisted_entry, r"lists entry 0, and it is not there \[LEGACY-016\]"),
        (torn_entry, r"not an entry.*\[LEGACY-004\]"),
        (foreign_rows, r"MemWAL 0 of 'south' has other rows than the table.*missing \['v'\]"),
        (null_key, r"NULL in"),
        (repeated_keys, r"4 rows and 3 distinct keys \[AMB-105\]"),
    ],
)
@pytest.mark.clause("AMB-135")
def test_what_cannot_be_migrated_is_refused_with_a_reason_and_left_as_it_is(
    folder: Folder, damage: Callable[[Folder], None], says: str
) -> None:
    in_every_state(folder.run)
    damage(folder)
    before = folder.files()
    for dry_run in (True, False):
        with pytest.raises((InvalidArgument, ArtifactError), match=says):
            memwal.migrate(folder.root / "t", dry_run=dry_run)
    assert folder.files() == before


@pytest.mark.clause("AMB-04", "LEGACY-005")
def test_tables_that_are_not_of_revision_0_are_told_apart_and_refused(folder: Folder) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        memwal.migrate(folder.root / "nowhere")
    folder.run(write.create(IO, SCHEMA, rows((1, "base")).cast(SCHEMA)))
    with pytest.raises(InvalidArgument, match=r"no MemWAL index \[LEGACY-001\]"):
        memwal.migrate(folder.root / "t")
    for revision in ("A", "B", "R"):
        place = folder.root / revision
        memwal.create(place, SCHEMA, primary_key=["id"], revision=revision)
        with pytest.raises(InvalidArgument, match=r"later revision already.*\[AMB-04\]"):
            memwal.migrate(place)
    folder.run(index.change(IO, lambda *_: ()))
    with pytest.raises(InvalidArgument, match=r"is empty.*\[AMB-04\]"):
        memwal.migrate(folder.root / "t")


def test_a_table_without_a_key_is_refused(folder: Folder) -> None:
    plain = pa.schema([("id", pa.int64()), ("v", pa.string())])
    folder.run(write.create(IO, plain, rows((1, "base")).cast(plain)))
    folder.run(writer.open_writer(IO, "r"))
    with pytest.raises(InvalidArgument, match="FORMAT-001"):
        memwal.migrate(folder.root / "t")


@pytest.mark.parametrize("version", ["legacy", "2.0", "nested 2.0", "empty legacy"])
@pytest.mark.clause("AMB-135")
def test_a_table_of_an_old_file_version_is_brought_to_a_later_one_first(folder: Folder, version: str) -> None:
    expected = in_every_state(folder.run)
    entry = folder.run(latest(IO)).mem_wal_entry
    shutil.rmtree(folder.root / "t" / "_versions")
    base = rows((1, "merged"), (2, "base"), (3, "base")).cast(SCHEMA)
    nested = version == "nested 2.0"
    if nested:
        column = pa.array([{"x": 1}] * 3, pa.struct([("x", pa.int32())]))
        base = base.append_column("p", column)
        for name in folder.files():
            if name.endswith(".arrow"):
                old = entries.decode((folder.root / name).read_bytes(), name)
                wider = old.append_column("p", column.take(pa.array([0] * old.num_rows)))
                (folder.root / name).write_bytes(entries.encode(wider))
    place = str(folder.root / "t")
    storage = version.split()[-1]
    lance.write_dataset(base.slice(0, 1), place, data_storage_version=storage)
    lance.write_dataset(base.slice(1), place, mode="append")
    if version == "empty legacy":
        lance.dataset(place).delete("true")
        expected = {key: value for key, value in expected.items() if value != "base"}
    folder.run(_with_index(IO, entry))
    before = lance.dataset(place)
    told = memwal.migrate(place, dry_run=True)
    assert told.rewritten == (version != "2.0")
    assert lance.dataset(place).version == before.version
    assert memwal.migrate(place).rewritten == told.rewritten
    after = lance.dataset(place)
    assert by_id(after.to_table()) == by_id(memwal.open(place).scan()) == expected
    assert after.data_storage_version == ("2.0" if version == "2.0" else "2.1")
    assert by_id(lance.dataset(place, version=before.version).to_table()) == by_id(before.to_table())
    assert not nested or after.to_table()["p"].to_pylist() == [{"x": 1}] * len(expected)
    after.insert(after.to_table().slice(0, 0))


async def _with_index(io: Io, entry: Any) -> None:
    """The newest version again, with the index ``entry``."""
    state = await latest(io)
    message = type(state.manifest.message)()
    message.CopyFrom(state.manifest.message)
    message.version += 1
    manifest = TableManifest(message=message, indices=(entry,))
    await io.put(naming.name(TableVersion(message.version)), table_manifest.encode(manifest))


@pytest.mark.parametrize("pattern", ["entry.arrow", "{number}.arrow", "{id", "{}.arrow"])
def test_a_name_of_entries_without_a_number_is_refused(folder: Folder, pattern: str) -> None:
    in_every_state(folder.run)
    with pytest.raises(InvalidArgument, match="AMB-134"):
        memwal.migrate(folder.root / "t", entry_names=pattern)


# The command


def run_command(*arguments: str) -> Any:
    from memwal.cli.main import app

    return CliRunner().invoke(app, ["migrate", *arguments])


@pytest.mark.clause("AMB-135")
def test_the_command_says_what_it_would_do_then_does_it_and_then_refuses(folder: Folder) -> None:
    expected = in_every_state(folder.run)
    place = str(folder.root / "t")
    before = folder.files()
    dry = run_command(place, "--dry-run", "--json")
    assert dry.exit_code == 0, dry.output
    said = json.loads(dry.output)
    assert folder.files() == before
    table = repr(memwal.migrate(place, dry_run=True)).splitlines()
    assert (table[0], table[-1][:29]) == ("would merge 4 MemWALs with 7 rows", "would enable revision B on ve")
    assert [line.split()[:3] for line in table[2:4]] == [["north", "1", "FLUSHED"], ["north", "2", "SEALED"]]
    assert {key: said[key] for key in ("dry_run", "revision", "version_before", "version")} == {
        "dry_run": True, "revision": "B", "version_before": said["version"], "version": said["version"],
    }  # fmt: skip
    assert said["moved"] == [
        {"region": "north", "generation": "1", "state": "FLUSHED", "entries": 1, "rows": 2},
        {"region": "north", "generation": "2", "state": "SEALED", "entries": 1, "rows": 2},
        {"region": "north", "generation": "3", "state": "OPEN", "entries": 2, "rows": 2},
        {"region": "south", "generation": "0", "state": "OPEN", "entries": 1, "rows": 1},
    ]
    assert len(said["left"]) == 5
    done = run_command(place)
    assert done.exit_code == 0, done.output
    assert "merged 4 MemWALs with 7 rows" in done.output
    assert "the table is of revision B now" in done.output
    assert done.output.count("left: _mem_wal_0/") == 5
    assert by_id(lance.dataset(place).to_table()) == expected
    again = run_command(place)
    assert (again.exit_code, "there is nothing to migrate" in again.output) == (2, True)


def test_a_person_sees_how_far_it_is(folder: Folder) -> None:
    in_every_state(folder.run)
    seen: list[tuple[str, dict[str, object]]] = []
    memwal.migrate(folder.root / "t", revision="A", listener=lambda event, fields: seen.append((event, fields)))
    assert [fields["progress"] for event, fields in seen if event == "migrated"] == ["1/4", "2/4", "3/4", "4/4"]
    assert [event for event, _ in seen].count("planned") == 4
    assert seen[-1][0] == "enabled"
