"""The older MemWAL index: its records and segments, the model of its writers, and the migration away from it."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.codec import protobuf
from memwal.codec.pb.lance import rowids_pb2
from memwal.codec.pb.memwal_0 import mem_wal_pb2
from memwal.effects import Io, PutIfAbsent, run
from memwal.errors import ArtifactError, InvalidArgument, StorageError
from memwal.ids import Generation, TableVersion
from memwal.revision_0 import entries, index, records, segments, writer
from memwal.revision_0.migrate import migrate
from memwal.revision_0.records import MemWal, OwnerChanged, State
from memwal.revision_0.segments import EntryIds
from memwal.revisions import STRICT, A, B
from memwal.table import read, write
from memwal.table import schema as schemas
from memwal.table.state import TableState, latest

from ..kit.folder import Folder
from ..kit.ground import Ground
from ..kit.tables import by_id

IO = Io("t", interpretation=STRICT)
SCHEMA = schemas.with_primary_key(pa.schema([("id", pa.int64()), ("v", pa.string())]), ["id"])
V = TableVersion(7)


def rows(**values: str) -> pa.Table:
    """Rows from ``k<id>=value``."""
    plain = SCHEMA.remove_metadata()
    return pa.table([[int(name[1:]) for name in values], list(values.values())], schema=plain)


@pytest.fixture
def table(folder: Folder) -> Folder:
    folder.run(write.create(IO, SCHEMA, rows(k1="base", k2="base").cast(SCHEMA)))
    return folder


def base(folder: Folder) -> dict[int, str]:
    return by_id(lance.dataset(str(folder.root / "t")).to_table())


# Segments


def u64(*ids: int) -> bytes:
    return struct.pack(f"<{len(ids)}Q", *ids)


@pytest.mark.clause("LEGACY-016", "LEGACY-018")
@pytest.mark.parametrize(
    ("segment", "ids"),
    [
        ({"range": {"start": 0, "end": 3}}, [0, 1, 2]),
        ({"range": {"start": 4, "end": 4}}, []),
        ({"range_with_holes": {"start": 0, "end": 5, "holes": {"u64_array": {"values": u64(1, 3)}}}}, [0, 2, 4]),
        ({"range_with_holes": {"start": 8, "end": 10, "holes": {"u16_array": {"base": 8, "offsets": b"\x01\0"}}}}, [8]),
        ({"range_with_bitmap": {"start": 10, "end": 14, "bitmap": b"\x09"}}, [10, 13]),
        ({"sorted_array": {"u32_array": {"base": 2**40, "offsets": struct.pack("<2I", 0, 9)}}}, [2**40, 2**40 + 9]),
        ({"sorted_array": {"u64_array": {"values": u64(5, 2**64 - 1)}}}, [5, 2**64 - 1]),
    ],
)
def test_every_form_of_a_segment_is_read(segment: dict[str, Any], ids: list[int]) -> None:
    data = protobuf.serialise(_built(rowids_pb2.U64Segment(), segment))
    found = segments.decode(data, "p")
    assert list(found) == ids
    assert len(found) == len(ids)
    assert all(entry in found for entry in ids)


def _built(message: Any, values: dict[str, Any]) -> Any:
    for name, value in values.items():
        if isinstance(value, dict):
            getattr(message, name).SetInParent()
            _built(getattr(message, name), value)
        else:
            setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    "segment",
    [
        {"range": {"start": 3, "end": 2}},
        {"range_with_holes": {"start": 0, "end": 2, "holes": {"u64_array": {"values": u64(7)}}}},
        {"range_with_holes": {"start": 0, "end": 9, "holes": {"u64_array": {"values": u64(3, 3)}}}},
        {"range_with_bitmap": {"start": 0, "end": 2**60, "bitmap": b"\x01"}},
        {"sorted_array": {"u64_array": {"values": u64(2, 1)}}},
        {"sorted_array": {"u64_array": {"values": b"12345"}}},
        {"sorted_array": {"u16_array": {"base": 2**64 - 1, "offsets": b"\x02\0"}}},
        {"array": {"u64_array": {"values": u64(2, 1)}}},
    ],
)
def test_a_segment_that_means_nothing_is_refused(segment: dict[str, Any]) -> None:
    data = protobuf.serialise(_built(rowids_pb2.U64Segment(), segment))
    with pytest.raises(ArtifactError, match="LEGACY-016"):
        segments.decode(data, "p")


@given(st.sets(st.integers(0, 40) | st.integers(2**64 - 20, 2**64 - 2)))
@pytest.mark.clause("LEGACY-016")
def test_any_set_of_ids_survives_its_bytes(ids: set[int]) -> None:
    made = segments.of(ids)
    assert list(made) == sorted(ids)
    assert segments.decode(segments.encode(made), "p") == made
    grown = EntryIds()
    for entry in sorted(ids):
        grown = grown.adding(entry)
    assert grown == made
    assert grown.following == max(ids, default=-1) + 1


@given(st.binary(max_size=40))
def test_any_bytes_are_a_segment_or_a_typed_error(data: bytes) -> None:
    try:
        segments.decode(data, "p")
    except ArtifactError as error:
        assert error.clause == "LEGACY-016"  # noqa: PT017 - either end is fine


# Records


def record(region: str, generation: int, state: State, owner: str = "o", **more: Any) -> MemWal:
    values: dict[str, Any] = {
        "mem_table_location": "memory://1",
        "wal_location": "w",
        "entries": EntryIds(((0, 2),)),
        "version_updated": TableVersion(3),
    }
    return MemWal(region=region, generation=Generation(generation), state=state, owner_id=owner, **{**values, **more})


@pytest.mark.clause("LEGACY-005", "LEGACY-006", "LEGACY-014", "LEGACY-026")
def test_records_have_their_fields_at_the_numbers_of_the_texts() -> None:
    made = record("r", 4, State.FLUSHED, "me", mem_table_location="memory://x", wal_location="w/4")
    data = records.encode((made,))
    message = mem_wal_pb2.MemWalIndexDetails.FromString(data)
    (item,) = message.mem_wal_list
    numbers = {field.number: value for field, value in item.ListFields()}
    assert (numbers[1].region, numbers[1].generation) == ("r", 4)
    assert [numbers[n] for n in (2, 3, 5, 6, 7)] == ["memory://x", "w/4", 2, "me", 3]
    assert segments.decode(numbers[4], "p") == made.entries
    assert data[0] == 0x0A
    assert records.decode(data, "p") == (made,)
    before = record("r", 3, State.MERGED)
    assert records.decode(records.encode((before, made)), "p") == (before, made)


@pytest.mark.clause("LEGACY-008")
@pytest.mark.parametrize(
    ("made", "clause"),
    [
        ((record("r", 0, State.OPEN), record("r", 1, State.OPEN)), "LEGACY-008"),
        ((record("r", 0, State.OPEN), record("r", 0, State.SEALED)), "LEGACY-006"),
    ],
)
def test_records_that_contradict_each_other_are_damage(made: records.Records, clause: str) -> None:
    with pytest.raises(ArtifactError, match=clause):
        records.decode(records.encode(made), "p")


def test_a_state_that_is_not_known_is_damage() -> None:
    message = mem_wal_pb2.MemWalIndexDetails.FromString(records.encode((record("r", 0, State.OPEN),)))
    message.mem_wal_list[0].state = 9  # type: ignore[assignment]
    with pytest.raises(ArtifactError, match="LEGACY-013"):
        records.decode(message.SerializeToString(), "p")


@pytest.mark.clause("LEGACY-009", "LEGACY-010", "LEGACY-011", "LEGACY-012", "LEGACY-026")
@pytest.mark.parametrize(("state", "number"), [("OPEN", 0), ("SEALED", 1), ("FLUSHED", 2), ("MERGED", 3)])
def test_each_state_has_the_number_of_the_texts(state: str, number: int) -> None:
    data = records.encode((record("r", 4, State[state]),))
    assert mem_wal_pb2.MemWalIndexDetails.FromString(data).mem_wal_list[0].state == number
    assert records.decode(data, "p")[0].state is State[state]


@pytest.mark.clause("LEGACY-009")
def test_an_open_memwal_takes_entries_and_no_other_does() -> None:
    others = [record("r", 4 - state, state) for state in (State.SEALED, State.FLUSHED, State.MERGED)]
    made = (*others, record("r", 4, State.OPEN))
    assert [list(r.entries) for r in records.appended(made, "r", "o", 2, V)] == [[0, 1]] * 3 + [[0, 1, 2]]


@pytest.mark.clause("LEGACY-007", "LEGACY-008", "LEGACY-009", "LEGACY-010", "LEGACY-011", "LEGACY-015", "LEGACY-021")
def test_sealing_opens_the_next_generation_in_the_same_step() -> None:
    (old, new) = records.sealed((record("r", 4, State.OPEN),), "r", "o", "w/5", V)
    assert (old.state, old.version_updated, old.wal_location) == (State.SEALED, 7, "w")
    assert (new.generation, new.state, new.wal_location, new.version_updated) == (5, State.OPEN, "w/5", 7)
    with pytest.raises(InvalidArgument, match="LEGACY-008"):
        records.appended((old,), "r", "o", 5, V)


@pytest.mark.clause("LEGACY-008", "LEGACY-015", "LEGACY-020", "LEGACY-021")
def test_a_claim_changes_the_owner_of_what_is_not_merged_and_nothing_else() -> None:
    states = (State.MERGED, State.FLUSHED, State.SEALED, State.OPEN)
    made = tuple(record("r", at, state, "old", wal_location=f"w/{at}") for at, state in enumerate(states))
    others = (record("s", 0, State.OPEN, "old"),)
    found = records.claimed(made + others, "r", "new", "w/new", V)
    assert found == (made[0], *(replace(r, owner_id="new", version_updated=V) for r in made[1:]), *others)
    created = records.claimed(made[:3], "r", "new", "w/new", V)[3]
    assert (created.generation, created.state, created.owner_id) == (3, State.OPEN, "new")
    assert created.wal_location == "w/new"


@pytest.mark.clause("LEGACY-013")
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("to", State)
def test_states_only_move_forward_one_at_a_time(state: State, to: State) -> None:
    made = (record("r", 0, state),)
    if (state, to) in ((State.SEALED, State.FLUSHED), (State.FLUSHED, State.MERGED)):
        (moved,) = records.advanced(made, "r", Generation(0), "o", to, V)
        assert (moved.state, moved.version_updated) == (to, 7)
    else:
        with pytest.raises(InvalidArgument, match="LEGACY-013"):
            records.advanced(made, "r", Generation(0), "o", to, V)


@pytest.mark.clause("LEGACY-019")
def test_every_step_of_a_writer_names_the_owner_that_it_expects() -> None:
    made = (
        record("r", 0, State.FLUSHED, "new"),
        record("r", 1, State.SEALED, "new"),
        record("r", 2, State.OPEN, "new"),
    )
    for step in (
        lambda: records.appended(made, "r", "old", 9, V),
        lambda: records.sealed(made, "r", "old", "w", V),
        lambda: records.advanced(made, "r", Generation(1), "old", State.FLUSHED, V),
        lambda: records.advanced(made, "r", Generation(0), "old", State.MERGED, V),
    ):
        with pytest.raises(OwnerChanged, match="is owned by 'new' now, not by 'old'"):
            step()


@pytest.mark.clause("LEGACY-024")
@pytest.mark.parametrize("older", State)
def test_a_memwal_is_merged_only_after_all_older_ones_of_its_region(older: State) -> None:
    made = (record("r", 0, older), record("r", 1, State.FLUSHED), record("s", 0, State.FLUSHED))
    if older is State.MERGED:
        found = records.advanced(made, "r", Generation(1), "o", State.MERGED, V)
        assert [r.state for r in found] == [State.MERGED, State.MERGED, State.FLUSHED]
    else:
        with pytest.raises(InvalidArgument, match="LEGACY-024"):
            records.advanced(made, "r", Generation(1), "o", State.MERGED, V)


@pytest.mark.clause("LEGACY-002", "LEGACY-008")
def test_each_region_has_an_open_memwal_and_generations_of_its_own() -> None:
    made = (record("r", 4, State.OPEN), record("s", 7, State.OPEN))
    assert records.decode(records.encode(made), "p") == made
    for region, left, generation in (("r", 7, 5), ("s", 4, 8)):
        found = records.sealed(made, region, "o", "w/new", V)
        assert [r.generation for r in found if r.region != region and r.state is State.OPEN] == [left]
        assert [r.generation for r in found if r.region == region and r.state is State.OPEN] == [generation]
    (created,) = records.claimed(made, "t", "o", "w/t", V)[2:]
    assert (created.region, created.generation, created.state) == ("t", 0, State.OPEN)


@pytest.mark.clause("LEGACY-012")
@pytest.mark.parametrize("state", State)
def test_only_a_merged_memwal_is_cleaned_up(state: State) -> None:
    made = (record("r", 0, state),)
    if state is State.MERGED:
        assert records.removed(made, "r", Generation(0)) == ()
    else:
        with pytest.raises(InvalidArgument, match="LEGACY-012"):
            records.removed(made, "r", Generation(0))


# The model


def performing(store: Ground) -> Callable[[Any], Any]:
    """What performs requests on ``store``, with random numbers of its own."""

    def perform(request: Any) -> Any:
        if type(request).__name__ == "RandomHex":
            return uuid.uuid4().hex[: request.digits]
        return 0 if type(request).__name__ in ("Now", "Sleep", "Note") else store.perform(request)

    return perform


@pytest.mark.clause("LEGACY-001", "LEGACY-002", "LEGACY-003", "LEGACY-011", "LEGACY-012", "LEGACY-024", "LEGACY-025")
def test_rows_move_from_the_wal_into_the_table_and_are_read_all_the_way(table: Folder) -> None:
    opened = table.run(writer.open_writer(IO, "r"))
    expected = {1: "base", 2: "second", 3: "first"}
    table.run(opened.put(rows(k2="first", k3="first")))
    table.run(opened.put(rows(k2="second")))
    assert by_id(table.run(writer.scan(IO))) == expected
    assert table.run(opened.seal()) == 0
    table.run(opened.put(rows(k3="third", k4="next")))
    expected |= {3: "third", 4: "next"}
    table.run(index.change(IO, lambda found, _: tuple(reversed(found))))
    assert by_id(table.run(writer.scan(IO))) == expected
    table.run(opened.flush(Generation(0)))
    assert by_id(table.run(writer.scan(IO))) == expected
    assert base(table) == {1: "base", 2: "base"}
    assert table.run(writer.clean_up(IO)) == ()
    assert table.run(writer.merge(IO, "r")) == (0,)
    assert base(table) == {1: "base", 2: "second", 3: "first"}
    assert by_id(table.run(writer.scan(IO))) == expected
    assert table.run(writer.clean_up(IO)) == (("r", 0),)
    assert by_id(table.run(writer.scan(IO))) == expected
    assert [name.rpartition("/")[2] for name in table.files() if "_mem_wal_0/" in name] == ["0.arrow"]
    (left,) = index.of(table.run(latest(IO)))
    assert (left.generation, left.state) == (1, State.OPEN)


@pytest.mark.clause("LEGACY-012", "LEGACY-024")
def test_a_merge_that_dies_at_any_request_is_finished_by_the_next() -> None:
    before = Ground()
    run(write.create(IO, SCHEMA, rows(k1="base", k2="base").cast(SCHEMA)), performing(before))
    opened = run(writer.open_writer(IO, "r"), performing(before))
    for generation, value in enumerate(("first", "second")):
        run(opened.put(rows(k2=value, **{f"k{generation + 3}": value})), performing(before))
        run(opened.seal(), performing(before))
        run(opened.flush(Generation(generation)), performing(before))
    for survives in range(100):
        store, left = before.copy(), survives

        def dies(request: Any) -> None:
            nonlocal left
            if not left:
                raise StorageError(request.path, "the process is dead")
            left -= 1

        store.before = dies
        try:
            ended = run(writer.merge(IO, "r"), performing(store))
        except StorageError:
            ended = None
        store.before = lambda _: None
        run(writer.merge(IO, "r"), performing(store))
        state = run(latest(IO), performing(store))
        assert [r.state for r in index.of(state)] == [State.MERGED, State.MERGED, State.OPEN]
        found = by_id(run(read.scan(IO, state), performing(store)))
        assert found == {1: "base", 2: "second", 3: "first", 4: "second"}
        if ended is not None:
            assert ended == (0, 1)
            return
    raise AssertionError("the merge never ended")


@pytest.mark.clause("LEGACY-021")
def test_each_change_of_a_record_names_the_version_that_made_it(table: Folder) -> None:
    opened = table.run(writer.open_writer(IO, "r"))
    states: list[TableState] = [table.run(latest(IO))]
    table.run(opened.put(rows(k5="x")))
    states.append(table.run(latest(IO)))
    table.run(write.append(IO, rows(k9="direct").cast(SCHEMA)))
    table.run(opened.seal())
    states.append(table.run(latest(IO)))
    table.run(writer.open_writer(IO, "r"))
    states.append(table.run(latest(IO)))
    for state in states:
        changed = max(record.version_updated for record in index.of(state))
        assert changed == state.version


@pytest.mark.clause("LEGACY-001", "LEGACY-021")
@pytest.mark.parametrize("other", ["another region", "an append"])
def test_a_change_that_another_commit_overtakes_is_made_anew_and_names_the_version_that_it_got(other: str) -> None:
    for at in range(100):
        store, left, reached = Ground(), at, False
        perform = performing(store)
        run(write.create(IO, SCHEMA, rows(k1="base").cast(SCHEMA)), perform)
        opened = run(writer.open_writer(IO, "r"), perform)

        def overtakes(_: Any, store: Ground = store, perform: Any = perform) -> None:
            nonlocal left, reached
            left -= 1
            if left == -1:
                store.before, reached = lambda _: None, True
                if other == "an append":
                    run(write.append(IO, rows(k9="direct").cast(SCHEMA)), perform)
                else:
                    run(writer.open_writer(IO, "s"), perform)

        store.before = overtakes
        run(opened.put(rows(k5="x")), perform)
        if not reached:
            assert at > 2
            return
        state = run(latest(IO), perform)
        stamps = {r.region: r.version_updated for r in index.of(state)}
        assert (state.version, stamps) == (4, {"r": 4} if other == "an append" else {"r": 4, "s": 3})
        assert by_id(run(writer.scan(IO), perform))[5] == "x"
    raise AssertionError("the change never ended")


@pytest.mark.clause("LEGACY-004", "LEGACY-020", "LEGACY-022", "LEGACY-023")
def test_a_new_writer_takes_over_and_replays_and_the_old_one_is_stopped(table: Folder) -> None:
    first = table.run(writer.open_writer(IO, "r"))
    table.run(first.put(rows(k5="open")))
    table.run(first.seal())
    table.run(first.put(rows(k6="next")))
    second = table.run(writer.open_writer(IO, "r"))
    assert {g: by_id(pa.concat_tables([rows(), *parts])) for g, parts in second.memtables.items()} == {
        0: {5: "open"},
        1: {6: "next"},
    }
    with pytest.raises(OwnerChanged):
        table.run(first.put(rows(k7="lost")))
    table.run(second.put(rows(k8="kept")))
    assert by_id(table.run(writer.scan(IO))) == {1: "base", 2: "base", 5: "open", 6: "next", 8: "kept"}
    record = records.open_record(index.of(table.run(latest(IO))), "r")
    assert record is not None
    assert list(record.entries) == [0, 2]
    assert uuid.UUID(record.owner_id)


@pytest.mark.clause("LEGACY-004", "LEGACY-020", "LEGACY-022")
def test_what_the_old_writer_writes_at_any_moment_of_a_takeover_is_refused_or_replayed() -> None:
    outcomes = set()
    for at in range(100):
        store, left = Ground(), at
        perform = performing(store)
        run(write.create(IO, SCHEMA, rows(k1="base").cast(SCHEMA)), perform)
        first = run(writer.open_writer(IO, "r"), perform)
        run(first.put(rows(k4="before")), perform)
        accepted: list[bool] = []

        def meanwhile(
            request: Any,
            perform: Any = perform,
            store: Ground = store,
            first: writer.RegionOwner = first,
            accepted: list[bool] = accepted,
        ) -> None:
            nonlocal left
            if left == 0:
                left = -1
                try:
                    run(first.put(rows(k5="late")), perform)
                    accepted.append(True)
                except OwnerChanged:
                    accepted.append(False)
            left -= 1

        store.before = meanwhile
        second = run(writer.open_writer(IO, "r"), perform)
        if not accepted:
            break
        late = {5: "late"} if accepted == [True] else {}
        assert by_id(pa.concat_tables(second.memtables[Generation(0)])) == {4: "before", **late}
        outcomes.update(accepted)
    assert outcomes == {True, False}


@pytest.mark.clause("LEGACY-017", "LEGACY-018")
def test_an_entry_that_is_stored_and_not_listed_is_a_hole(table: Folder) -> None:
    opened = table.run(writer.open_writer(IO, "r"))
    wal = entries.folder(IO, opened.record.wal_location)
    for number in (0, 1, 2):
        table.run(wal.put(f"{number}.arrow", entries.encode(rows(k7="unlisted"))))
    assert table.run(opened.put(rows(k8="x"))) == 3
    assert by_id(table.run(writer.scan(IO))) == {1: "base", 2: "base", 8: "x"}
    again = table.run(writer.open_writer(IO, "r"))
    assert by_id(pa.concat_tables(again.memtables[Generation(0)])) == {8: "x"}


@pytest.mark.clause("LEGACY-003", "LEGACY-022")
def test_of_two_writers_of_a_region_only_one_is_acknowledged(table: Folder) -> None:
    """The first is stopped between storing its entry and listing it; the second claims meanwhile."""
    first = table.run(writer.open_writer(IO, "r"))
    put = first.put(rows(k5="first"))
    stored = False

    def perform(request: Any) -> Any:
        nonlocal stored
        if stored:
            stored = False
            second = table.run(writer.open_writer(IO, "r"))
            table.run(second.put(rows(k5="second")))
        if type(request).__name__ == "RandomHex":
            return uuid.uuid4().hex[: request.digits]
        if type(request).__name__ in ("Now", "Sleep", "Note"):
            return 0
        done = table.store.perform(request)
        stored = isinstance(request, PutIfAbsent) and request.path.endswith("/0.arrow")
        return done

    with pytest.raises(OwnerChanged):
        run(put, perform)
    assert by_id(table.run(writer.scan(IO)))[5] == "second"


# Migration


def legacy(table: Folder) -> dict[int, str]:
    """Two regions in every state; the rows that a reader sees."""
    opened = table.run(writer.open_writer(IO, "north"))
    table.run(opened.put(rows(k1="merged", k3="merged")))
    table.run(opened.seal())
    table.run(opened.flush(Generation(0)))
    table.run(writer.merge(IO, "north"))
    for generation, value in ((1, "flushed"), (2, "sealed")):
        table.run(opened.put(rows(k3=value, **{f"k{generation + 10}": value})))
        table.run(opened.seal())
        if value == "flushed":
            table.run(opened.flush(Generation(generation)))
    table.run(opened.put(rows(k14="open")))
    other = table.run(writer.open_writer(IO, "south"))
    table.run(other.put(rows(k20="open")))
    table.run(other.put(rows(k20="newest")))
    return {1: "merged", 2: "base", 3: "sealed", 11: "flushed", 12: "sealed", 14: "open", 20: "newest"}


@pytest.mark.parametrize("revision", [A, B], ids=["A", "B"])
@pytest.mark.clause("LEGACY-005")
def test_migration_keeps_every_row_and_leaves_a_table_of_the_new_revision(table: Folder, revision: Any) -> None:
    expected = legacy(table)
    place = str(table.root / "t")
    with pytest.raises(ArtifactError, match="AMB-04"):
        memwal.open(place)
    before = table.files()
    planned = table.run(migrate(IO, revision, dry_run=True))
    assert table.files() == before
    moved = table.run(migrate(IO, revision))
    assert [(m.region, m.generation, m.state.name, m.rows) for m in moved] == [
        ("north", 1, "FLUSHED", 2),
        ("north", 2, "SEALED", 2),
        ("north", 3, "OPEN", 1),
        ("south", 0, "OPEN", 2),
    ]
    assert planned == moved
    opened = memwal.open(place)
    assert opened.revision is revision
    assert base(table) == by_id(opened.scan()) == expected
    with opened.writer() as following:
        following.put(rows(k2="after"))
    assert by_id(opened.scan()) == expected | {2: "after"}


def test_a_migration_that_dies_anywhere_is_finished_by_the_next(tmp_path: Any) -> None:
    for survives in range(0, 400, 3):
        folder = Folder(tmp_path / str(survives))
        folder.run(write.create(IO, SCHEMA, rows(k1="base", k2="base").cast(SCHEMA)))
        expected = legacy(folder)
        left = survives

        def perform(request: Any, folder: Folder = folder) -> Any:
            nonlocal left
            if type(request).__name__ == "RandomHex":
                return uuid.uuid4().hex[: request.digits]
            if type(request).__name__ in ("Now", "Sleep", "Note"):
                return 0
            if not left:
                raise StorageError(request.path, "the process is dead")
            left -= 1
            return folder.store.perform(request)

        try:
            run(migrate(IO, B), perform)
        except StorageError:
            folder.run(migrate(IO, B))
            assert base(folder) == expected
            continue
        assert base(folder) == expected
        return
    raise AssertionError("the migration never ended")


def test_what_a_migration_cannot_do_is_refused_and_nothing_is_lost(table: Folder) -> None:
    with pytest.raises(InvalidArgument, match="LEGACY-001"):
        table.run(migrate(IO, B))
    legacy(table)
    gone = next(name for name in table.files() if name.endswith("/1.arrow") and "south" in name)
    (table.root / gone).unlink()
    with pytest.raises(ArtifactError, match="lists entry 1"):
        table.run(migrate(IO, B))
    with pytest.raises(ArtifactError, match="AMB-04"):
        memwal.open(str(table.root / "t"))


@pytest.mark.parametrize("location", ["../../elsewhere", "s3://other/wal", "/somewhere/else"])
def test_a_wal_outside_the_store_is_refused(location: str) -> None:
    with pytest.raises(InvalidArgument, match="LEGACY-015"):
        entries.folder(IO, location)


@pytest.mark.parametrize("location", ["_mem_wal_0/r/0", "/data/t/_mem_wal_0/r/0", "s3://bucket/t/_mem_wal_0/r/0"])
def test_a_wal_inside_the_table_is_found_under_any_spelling(location: str) -> None:
    assert entries.folder(IO, location).root == "t/_mem_wal_0/r/0"


def test_entries_are_read_as_stream_file_and_lance_and_damage_is_named() -> None:
    made = rows(k1="a", k2="b")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, made.schema) as out:
        out.write_table(made)
    from memwal.codec import data_file

    for data in (entries.encode(made), sink.getvalue().to_pybytes(), data_file.encode(made)):
        assert entries.decode(data, "p").to_pylist() == made.to_pylist()
    with pytest.raises(ArtifactError, match="LEGACY-004"):
        entries.decode(b"nothing", "p")
