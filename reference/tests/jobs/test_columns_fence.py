"""Columns of a table with MemWAL that come and go beside writers, mergers, readers and one another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal import paths
from memwal.codec import wal
from memwal.effects import Get, Io, Protocol, PutIfAbsent
from memwal.errors import ArtifactError, Fenced, InvalidArgument, Outcome, OutcomeUnknown, Unmergeable
from memwal.ids import Epoch, FieldId, RegionId, WalPosition
from memwal.index import guards
from memwal.index.opening import region_of
from memwal.index.snapshot import RegionRow
from memwal.jobs import column_change, spec_change
from memwal.jobs.fenced_change import ChangeLost
from memwal.jobs.merger import merge_region
from memwal.jobs.opening import open_region
from memwal.read import scan
from memwal.read.sources import MemoryView
from memwal.region.claim import claim
from memwal.region.rows import TOMBSTONE, Rows, with_field_ids
from memwal.region.writer import RegionWriter
from memwal.revisions import REVISIONS, STRICT
from memwal.table import columns, read, whole
from memwal.table.schema import PRIMARY_KEY
from memwal.table.state import TableState

from ..kit.ground import Actor, Ground
from ..kit.interleaving import any_commit, orders
from ..kit.profiles import read_as
from ..kit.revisions import B_FIRST
from ..kit.tables import IO, changed, flush, history, newest, opened, registered

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("w", pa.string())])
MORE = pa.schema([("more", pa.int32())])
REVISIONS_ALL = ["A", "B", "R"]
ONE = memwal.bucket("b", "id", 1)
UNFENCED = read_as(IO, replace(STRICT, fence_before_new_columns=False))


def rows(schema: pa.Schema, *ids: int) -> pa.Table:
    """Rows with these keys and, in each text column, its name; other columns are NULL."""
    columns = [
        pa.array(ids, pa.int64())
        if field.name == "id"
        else pa.array([field.name if pa.types.is_string(field.type) else None] * len(ids), field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)


class Scene:
    """A table with the row 1 in its base, row 2 in a generation, and row 3 in the WAL of one region."""

    def __init__(self, revision: str, *, spec: bool = False) -> None:
        ground = Ground()
        chosen = memwal.bucket("one", "id", 1) if spec else None
        table = memwal.create("t", COLUMNS, primary_key=["id"], revision=revision, spec=chosen, store=ground)
        region = table.register_region({"one": 0} if spec else None)
        with table.writer(region, background=False) as writer:
            for key in (1, 2):
                writer.put(rows(COLUMNS, key))
                writer.flush()
                if key == 1:
                    table.merge()
            writer.put(rows(COLUMNS, 3))
        self.objects = ground.objects
        self.state = newest(ground)
        self.row = registered(ground)[RegionId(region)]
        self.region = RegionId(region)

    def add(self) -> Protocol[TableState]:
        return column_change.add(IO, MORE)

    def drop(self) -> Protocol[TableState]:
        return column_change.drop(IO, ["w"])

    def write(self, *ids: int, flush: bool = False) -> Protocol[str]:
        """A process that knew the table as it is in the scene: it opens the region, and puts a row for each of ids."""

        async def writing() -> str:
            writer = await open_region_of(self.state, self.row)
            for key in ids or (4,):
                await writer.put(rows(writer.region.rows.plain, key))
                if flush:
                    await writer.flush()
            return "written"

        return writing()

    def merge(self) -> Protocol[Any]:
        return merge_region(IO, self.region)

    def ground(self) -> Ground:
        return Ground(self.objects)


async def open_region_of(known: TableState, row: RegionRow, io: Io = IO) -> RegionWriter:
    writer, _ = await open_region(io, known, row)
    return writer


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene("B")


def by_key(table: pa.Table) -> dict[int, dict[str, Any]]:
    """Rows by key; no key is there twice."""
    found = {row.pop("id"): row for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return dict(sorted(found.items()))


def settled(ground: Ground, region: str) -> dict[int, dict[str, Any]]:
    """Rows by key as another process reads them, which are the same when all is flushed and merged."""
    table = opened(ground)
    before = by_key(table.scan())
    table.drain(region)
    base = memwal.base_table("t", store=ground)
    assert by_key(base.scan()) == by_key(table.scan()) == before
    assert newest(ground).mem_wal.spec_change == ""
    return before


CHANGES: dict[str, tuple[Callable[[Scene], Protocol[TableState]], list[str]]] = {
    "add": (Scene.add, ["id", "v", "w", "more"]),
    "drop": (Scene.drop, ["id", "v"]),
}
BEFORE = COLUMNS.names


@pytest.mark.long
@pytest.mark.clause("AMB-50")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
@pytest.mark.parametrize("kind", list(CHANGES))
def test_in_every_order_of_a_change_of_columns_and_a_writer_no_acknowledged_row_is_lost(
    kind: str, revision: str
) -> None:
    change, after = CHANGES[kind]
    scene = Scene(revision)
    outcomes = set()
    most = 2 if (kind, revision) == ("drop", "B") else 1
    for each in orders(scene.objects, [lambda: change(scene), scene.write], any_commit, switches_most=most):
        done, written = each.results
        outcomes.add((type(done).__name__, type(written).__name__))
        names = after if isinstance(done, TableState) else BEFORE
        assert newest(each.ground).schema.names == names, each.order
        found = settled(each.ground, scene.region)
        assert found.keys() >= ({1, 2, 3, 4} if written == "written" else {1, 2, 3}), each.order
        for row in found.values():
            assert row == {name: name if name != "more" else None for name in names if name != "id"}, each.order
    assert {done for done, _ in outcomes} == {"TableState", "ChangeLost"}
    assert {written for _, written in outcomes} == {"str", "Fenced"}


@pytest.mark.clause("AMB-50")
def test_a_region_of_a_spec_is_held_like_a_manual_one() -> None:
    scene = Scene("B", spec=True)
    outcomes = set()
    for each in orders(scene.objects, [scene.drop, scene.write], any_commit, switches_most=1):
        done, written = each.results
        outcomes.add((type(done).__name__, type(written).__name__))
        found = settled(each.ground, scene.region)
        assert found.keys() >= ({1, 2, 3, 4} if written == "written" else {1, 2, 3}), each.order
    assert ("TableState", "Fenced") in outcomes
    assert ("TableState", "str") in outcomes


@pytest.mark.clause("AMB-50")
def test_in_every_order_of_a_change_of_columns_and_a_flush_every_row_is_there_once(scene: Scene) -> None:
    for each in orders(scene.objects, [scene.drop, lambda: scene.write(4, flush=True)], any_commit, switches_most=1):
        written = each.results[1]
        found = settled(each.ground, scene.region)
        assert found.keys() >= ({1, 2, 3, 4} if written == "written" else {1, 2, 3}), each.order


@pytest.mark.clause("AMB-50")
@pytest.mark.parametrize("kind", list(CHANGES))
def test_in_every_order_of_a_change_of_columns_and_a_merge_both_are_done(scene: Scene, kind: str) -> None:
    change, after = CHANGES[kind]
    for each in orders(scene.objects, [lambda: change(scene), scene.merge], switches_most=2):
        done, _ = each.results
        assert isinstance(done, TableState), each.order
        assert newest(each.ground).schema.names == after
        expected = {name: name if name != "more" else None for name in after if name != "id"}
        assert settled(each.ground, scene.region) == dict.fromkeys((1, 2, 3), expected), each.order


@pytest.mark.clause("AMB-50")
def test_a_merge_that_was_planned_before_a_column_was_dropped_is_planned_again(scene: Scene) -> None:
    ground = scene.ground()
    opened(ground).drain(scene.region)
    merging = Actor(ground, scene.merge()).until(Get, "t/_versions/")
    merging.step()
    ground.run(scene.drop())
    writer = ground.run(open_region_of(newest(ground), scene.row))
    ground.run(writer.put(rows(writer.region.rows.plain, 1)))
    ground.run(writer.flush())
    assert [merged.generation for merged in merging.finish()] == [4]
    assert settled(ground, scene.region) == {key: {"v": "v"} for key in (1, 2, 3)}


@pytest.mark.clause("AMB-50")
def test_of_two_changes_in_any_order_those_that_were_committed_have_their_columns(scene: Scene) -> None:
    outcomes = set()
    for each in orders(scene.objects, [scene.add, scene.drop], any_commit, switches_most=1):
        added, dropped = (isinstance(result, TableState) for result in each.results)
        assert all(isinstance(result, TableState | ChangeLost) for result in each.results), each.results
        names = ["id", "v", *([] if dropped else ["w"]), *(["more"] if added else [])]
        assert newest(each.ground).schema.names == names, each.order
        assert settled(each.ground, scene.region).keys() == {1, 2, 3}
        outcomes.add((added, dropped))
    assert outcomes >= {(True, True), (True, False), (False, True)}


@pytest.mark.clause("AMB-50", "AMB-142")
def test_a_change_of_columns_and_one_of_specs_are_never_both_under_way() -> None:
    scene = Scene("B", spec=True)
    ground = scene.ground()
    opened(ground).drain(scene.region)
    two = memwal.bucket("two", "id", 2)
    outcomes = set()
    for each in orders(
        ground.objects, [scene.drop, lambda: spec_change.add_spec(IO, two)], any_commit, switches_most=1
    ):
        dropped, specified = (not isinstance(result, Outcome) for result in each.results)
        assert newest(each.ground).schema.names == (["id", "v"] if dropped else BEFORE)
        assert [s.spec_id for s in newest(each.ground).mem_wal.specs] == ([1, 2] if specified else [1])
        assert newest(each.ground).mem_wal.spec_change == ""
        outcomes.add((dropped, specified))
    assert (True, True) in outcomes
    assert len(outcomes) > 1


@pytest.mark.clause("AMB-50")
@B_FIRST
def test_a_change_that_dies_anywhere_leaves_a_table_that_takes_writes_and_the_same_change(revision: str) -> None:
    scene = Scene(revision)
    alone = scene.ground()
    alone.run(scene.drop())
    seen = set()
    for crash in range(0, len(alone.asked) + 1, 1 if revision == "B" else 5):
        ground = scene.ground()
        dying = Actor(ground, scene.drop())
        for _ in range(crash):
            dying.step()
        names = newest(ground).schema.names
        seen.add(len(names))
        assert by_key(opened(ground).scan()).keys() == {1, 2, 3}
        assert ground.run(scene.write()) == "written"
        if "w" in names:
            ground.run(scene.drop())
        assert settled(ground, scene.region) == {key: {"v": "v"} for key in (1, 2, 3, 4)}, crash
    assert seen == {2, 3}


@pytest.mark.clause("AMB-50")
@pytest.mark.parametrize("applied", [False, True])
def test_a_change_whose_requests_are_not_answered_is_done_once_or_not_at_all(scene: Scene, applied: bool) -> None:
    alone = scene.ground()
    alone.run(scene.add())
    for at in [at for at, request in enumerate(alone.asked) if isinstance(request, PutIfAbsent)]:
        ground = scene.ground()
        actor = Actor(ground, scene.add())
        for _ in range(at):
            actor.step()
        assert actor.waiting is not None
        actor.answer(OutcomeUnknown(actor.waiting.path), applied=applied)
        try:
            actor.finish()
        except Outcome:
            assert newest(ground).schema.names == BEFORE
        assert newest(ground).schema.names in (BEFORE, [*BEFORE, "more"])
        opened(ground).writer(scene.region, background=False).close()
        assert settled(ground, scene.region).keys() == {1, 2, 3}


@pytest.mark.clause("AMB-50")
@pytest.mark.parametrize("loss", ["token", "opened under epoch"])
def test_a_change_that_lost_its_token_or_a_claim_to_any_engine_is_not_committed(scene: Scene, loss: str) -> None:
    ground = scene.ground()
    change = Actor(ground, scene.drop()).until(PutIfAbsent, "/manifest/")
    change.step()
    change.until(PutIfAbsent, "/manifest/").step()  # flushed: nobody looks at the region until the commit
    if loss == "token":
        changed(ground, lambda d: replace(d, spec_change=""))
    else:
        ground.run(claim(region_of(IO, scene.state, scene.row)))
    with pytest.raises(ChangeLost, match=loss):
        change.finish()
    assert newest(ground).schema.names == BEFORE
    assert newest(ground).mem_wal.spec_change == ""


@pytest.mark.clause("AMB-50")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_a_change_that_was_left_behind_by_another_one_does_not_store_rows_in_its_old_columns(revision: str) -> None:
    scene = Scene(revision)
    ground = scene.ground()
    late = Actor(ground, scene.drop()).until(PutIfAbsent, "/manifest/")
    ground.run(scene.add())
    writer = ground.run(open_region_of(newest(ground), scene.row))
    row = rows(writer.region.rows.plain, 4)
    ground.run(writer.put(row.set_column(3, "more", pa.array([5], pa.int32()))))
    with pytest.raises(ChangeLost):
        late.finish()
    assert settled(ground, scene.region)[4] == {"v": "v", "w": "w", "more": 5}


@pytest.mark.clause("AMB-50")
def test_a_writer_that_opens_during_a_change_stops_it_and_goes_on(scene: Scene) -> None:
    ground = scene.ground()
    change = Actor(ground, scene.drop()).until(PutIfAbsent, "/manifest/")
    assert ground.run(scene.write()) == "written"
    assert ground.events("spec_change_stopped") == [{"region": scene.region}]
    with pytest.raises(ChangeLost):
        change.finish()
    assert settled(ground, scene.region).keys() == {1, 2, 3, 4}


@pytest.mark.clause("AMB-50")
def test_a_writer_that_claims_after_the_change_has_the_new_columns_whatever_it_had_read(scene: Scene) -> None:
    ground = scene.ground()
    ground.run(scene.add())
    writer = ground.run(open_region_of(scene.state, scene.row))
    assert writer.region.rows.plain.names == [*BEFORE, "more"]
    with pytest.raises(InvalidArgument, match="missing"):
        ground.run(writer.put(rows(COLUMNS, 4)))


@pytest.mark.clause("AMB-50")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_an_open_writer_is_fenced_and_what_it_had_stored_is_read_and_merged(ground: Ground, revision: str) -> None:
    table = memwal.create("t", COLUMNS, primary_key=["id"], revision=revision, store=ground)
    writers = [table.writer(table.register_region(), background=False) for _ in range(2)]
    for key, writer in enumerate(writers):
        writer.put(rows(COLUMNS, key))
    memwal.base_table("t", store=ground).drop_columns(["v"]).add_columns(MORE)
    for writer in writers:
        with pytest.raises(Fenced):
            writer.put(rows(COLUMNS, 9))
    expected = {"w": "w", "more": None}
    assert by_key(opened(ground).scan()) == {0: expected, 1: expected}
    assert all(region.merged == 0 and len(region.manifest.flushed) == 1 for region in opened(ground).regions())
    opened(ground).merge()
    assert by_key(memwal.base_table("t", store=ground).scan()) == {0: expected, 1: expected}
    assert opened(ground).verify().clean


@pytest.mark.clause("AMB-50")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_a_name_that_comes_back_brings_no_old_value_back_and_takes_another_type(revision: str) -> None:
    scene = Scene(revision)
    ground = scene.ground()
    base = memwal.base_table("t", store=ground)
    base.drop_columns(["w"]).add_columns(pa.schema([("w", pa.int64())]))
    assert settled(ground, scene.region) == {key: {"v": "v", "w": None} for key in (1, 2, 3)}


@pytest.mark.clause("AMB-50")
def test_computed_values_are_not_wiped_by_rows_that_were_in_the_wal_without_them(scene: Scene) -> None:
    ground = scene.ground()
    table = opened(ground)
    with table.writer(scene.region, background=False) as writer:
        writer.put(rows(COLUMNS, 1))
    base = memwal.base_table("t", store=ground)
    base.add_columns(MORE, lambda held: pa.table({"more": pa.array([7] * held.num_rows, pa.int32())}))
    with pytest.raises(Unmergeable, match=r"'more'.*would be lost.*AMB-50"):
        table.merge()
    assert by_key(base.refresh().scan())[1]["more"] == 7


@pytest.mark.clause("AMB-50")
def test_values_of_rows_far_down_in_a_large_fragment_are_not_wiped_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "FIRST_ROWS", 2)
    monkeypatch.setattr(read, "BATCH_ROWS", 2)
    ground = Ground()
    table = memwal.create("t", rows(COLUMNS, *range(7)), primary_key=["id"], store=ground)
    with table.writer(background=False) as writer:
        writer.put(rows(COLUMNS, 5))
    memwal.base_table("t", store=ground).add_columns(MORE, _sevens)
    with pytest.raises(Unmergeable, match=r"values in 1 row of fragment 0 that would be lost.*AMB-50"):
        table.merge()


@pytest.mark.clause("AMB-50", "AMB-66")
def test_no_id_of_a_generation_is_given_to_a_new_column_when_nothing_else_remembers_it(scene: Scene) -> None:
    ground = scene.ground()
    ground.run(scene.drop())
    memwal.base_table("t", store=ground).delete("id = 1")
    assert newest(ground).fragments == []
    table = opened(ground)
    for name in [each for each in ground.objects if each.startswith("t/_versions/") and each != newest(ground).path]:
        del ground.objects[name]
    assert [int(each.version) for each in history(ground)] == [int(table.version)]
    memwal.base_table("t", store=ground).add_columns(pa.schema([("w", pa.string())]))
    assert newest(ground).field_ids == {"id": 0, "v": 1, "w": 3}
    assert settled(ground, scene.region) == {key: {"v": "v", "w": None} for key in (2, 3)}


@pytest.mark.clause("AMB-50", "AMB-66")
@pytest.mark.parametrize(
    ("request_", "clause"),
    [
        (lambda: column_change.drop(IO, ["id"]), "AMB-66"),
        (lambda: column_change.drop(IO, ["no such"]), "TXN-034"),
        (lambda: column_change.add(IO, COLUMNS), "TXN-033"),
        (lambda: column_change.add(IO, pa.schema([pa.field("n", pa.int8(), nullable=False)])), "AMB-50"),
    ],
)
def test_a_change_that_cannot_be_fences_nobody(
    scene: Scene, request_: Callable[[], Protocol[TableState]], clause: str
) -> None:
    ground = scene.ground()
    writer = ground.run(open_region_of(scene.state, scene.row))
    with pytest.raises(InvalidArgument) as caught:
        ground.run(request_())
    assert caught.value.clause == clause
    ground.run(writer.put(rows(COLUMNS, 4)))
    assert settled(ground, scene.region).keys() == {1, 2, 3, 4}


@pytest.mark.clause("AMB-50", "AMB-55")
def test_the_key_of_a_table_with_mem_wal_does_not_change_by_way_of_metadata(scene: Scene) -> None:
    ground = scene.ground()
    base = memwal.base_table("t", store=ground)
    for column, mark in ((0, None), (1, "true")):
        with pytest.raises(InvalidArgument, match="AMB-55"):
            base.update_metadata(fields={column: {PRIMARY_KEY.decode(): mark}})
    assert base.update_metadata(fields={1: {"note": "x"}}).refresh().schema.field("v").metadata == {b"note": b"x"}
    assert newest(ground).primary_key == ("id",)


# Going back to other columns.


@pytest.mark.clause("TXN-035", "AMB-50")
def test_in_every_order_of_a_restore_to_other_columns_and_a_writer_no_row_is_lost(scene: Scene) -> None:
    ground = scene.ground()
    ground.run(scene.add())
    before = scene.state.version
    known = newest(ground)

    async def write() -> str:
        writer = await open_region_of(known, scene.row)
        await writer.put(rows(writer.region.rows.plain, 4))
        return "written"

    outcomes = set()
    for each in orders(ground.objects, [lambda: column_change.restore(IO, before), write], any_commit, switches_most=1):
        done, written = each.results
        outcomes.add((type(done).__name__, type(written).__name__))
        assert newest(each.ground).schema.names == (BEFORE if isinstance(done, TableState) else [*BEFORE, "more"])
        found = settled(each.ground, scene.region)
        assert found.keys() >= ({1, 2, 3, 4} if written == "written" else {1, 2, 3}), each.order
    assert ("TableState", "Fenced") in outcomes
    assert ("TableState", "str") in outcomes


@pytest.mark.clause("TXN-035", "AMB-50")
def test_a_restore_to_other_columns_is_refused_while_rows_are_in_a_wal(scene: Scene) -> None:
    ground = scene.ground()
    ground.run(scene.add())
    with opened(ground).writer(scene.region, background=False) as writer:
        writer.put(rows(newest(ground).schema, 4))
    with pytest.raises(InvalidArgument, match="a Restore across a change of columns needs empty WALs"):
        ground.run(whole.restore(IO, scene.state.version, guards.may_revert(IO)))


@pytest.mark.clause("TXN-035", "AMB-50")
def test_a_restore_to_the_same_columns_leaves_writers_alone_unless_columns_come_meanwhile(scene: Scene) -> None:
    ground = scene.ground()
    earlier = scene.state.version
    memwal.base_table("t", store=ground).append(rows(COLUMNS, 8))
    other = Ground(ground.objects)
    writer = ground.run(open_region_of(newest(ground), scene.row))
    going_back = Actor(ground, column_change.restore(IO, earlier)).until(PutIfAbsent, "_versions/")
    ground.run(writer.put(rows(COLUMNS, 4)))
    going_back.finish()
    assert settled(ground, scene.region).keys() == {1, 2, 3, 4}
    change = about_to_commit(other, scene)
    late = Actor(other, column_change.restore(IO, earlier)).until(PutIfAbsent, "_versions/")
    change.step()
    with pytest.raises(ChangeLost):
        late.finish()
    assert newest(other).schema.names == ["id", "v"]


@pytest.mark.clause("TXN-035", "AMB-87", "AMB-142")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_a_restore_over_a_change_of_specs_stops_the_writers_that_are_open(ground: Ground, revision: str) -> None:
    made = memwal.create("t", COLUMNS, primary_key=["id"], revision=revision, spec=ONE, store=ground)
    before = newest(ground).version
    made.add_spec(memwal.identity("i", "id"))
    region = made.register_region({"i": 1})
    with suppress(Fenced), made.writer(region, background=False) as writer:
        column = newest(ground).schema.names
        assert memwal.base_table("t", store=ground).restore(before).version > before
        assert (newest(ground).schema.names, len(opened(ground).specs)) == (column, 1)
        with pytest.raises(Fenced):
            writer.put(rows(COLUMNS, 1))
    assert opened(ground).scan().num_rows == 0


@pytest.mark.clause("TXN-035", "AMB-87", "AMB-142")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_a_restore_over_a_change_of_specs_waits_until_regions_are_drained(ground: Ground, revision: str) -> None:
    made = memwal.create("t", COLUMNS, primary_key=["id"], revision=revision, spec=ONE, store=ground)
    before = newest(ground).version
    made.add_spec(memwal.identity("i", "id"))
    region = made.register_region({"i": 1})
    flush(made, rows(COLUMNS, 1), region=region)
    with pytest.raises(InvalidArgument, match="a Restore across a change of key, region specs or revision"):
        memwal.base_table("t", store=ground).restore(before)
    assert len(opened(ground).specs) == 2
    assert opened(ground).scan().column("id").to_pylist() == [1]


def about_to_commit(ground: Ground, scene: Scene) -> Actor[TableState]:
    """A process that drops a column, and whose next request is the commit of that."""
    change = Actor(ground, scene.drop()).until(PutIfAbsent, "t/_versions/")
    change.step()
    return change.until(PutIfAbsent, "t/_versions/")


@pytest.mark.clause("AMB-50", "AMB-87")
def test_an_overwrite_that_meets_a_change_of_columns_does_not_bring_the_old_ones_back(scene: Scene) -> None:
    ground = scene.ground()
    opened(ground).drain(scene.region)
    change = about_to_commit(ground, scene)
    replacing = whole.overwrite(IO, rows(COLUMNS, 9), None, guards.may_replace(IO))
    overwriting = Actor(ground, replacing).until(PutIfAbsent, "_versions/")
    change.step()
    with pytest.raises(InvalidArgument, match="unknown"):
        overwriting.finish()
    assert newest(ground).schema.names == ["id", "v"]


# Entries of a writer that nobody fenced, and readers.


def entry(ids: dict[str, int], **columns: list[Any]) -> pa.Table:
    """Rows of a WAL entry whose columns say these field ids (R)."""
    table = pa.table(columns)
    known = {name: FieldId(number) for name, number in ids.items()}
    numbered = table.cast(with_field_ids(table.schema, known))
    return numbered.append_column(pa.field(TOMBSTONE, pa.bool_(), nullable=False), pa.array([False] * table.num_rows))


def stored(revision: str, **ids: int) -> Rows:
    """How rows of a table with the columns id (int64) and others (strings) look, with these field ids."""
    fields = [pa.field(name, pa.string() if name != "id" else pa.int64(), nullable=name != "id") for name in ids]
    known = tuple((name, FieldId(number)) for name, number in ids.items())
    return Rows(table=pa.schema(fields), key=("id",), revision=REVISIONS[revision], field_ids=known)


@pytest.mark.clause("AMB-50")
def test_an_entry_that_says_its_field_ids_is_mapped_by_them() -> None:
    old = entry({"id": 0, "v": 1, "w": 2}, id=[1], v=["v"], w=["w"])
    found = stored("R", id=0, w=1, v=5).restored(old, "x")
    assert found.to_pylist() == [{"id": 1, "w": "v", "v": None, TOMBSTONE: False}]
    assert found.schema.names == ["id", "w", "v", TOMBSTONE]


@pytest.mark.clause("AMB-50")
def test_an_entry_without_its_key_or_of_another_type_or_without_ids_is_refused() -> None:
    now = stored("R", id=0, v=1)
    for other, reason in (
        (entry({"id": 7, "v": 1}, id=[1], v=["v"]), "NULL in column 'id'"),
        (entry({"id": 0, "v": 1}, id=[1], v=[2]), "int64"),
        (entry({"id": 0}, id=[1], w=["w"]), "unknown"),
    ):
        with pytest.raises(ArtifactError, match=f"{reason}.*AMB-50"):
            now.restored(other, "x")
    with pytest.raises(ArtifactError, match=r"missing \['more'\]"):
        stored("B", id=0, v=1, more=2).restored(pa.table({"id": [1], "v": ["v"]}), "x")


def passed_by(key: int) -> tuple[Scene, Ground]:
    """A table of revision R to which an engine that fences nobody added a column while a writer put the row ``key``."""
    scene = Scene("R")
    ground = scene.ground()
    writer = ground.run(open_region_of(scene.state, scene.row))
    ground.run(columns.add(IO, MORE, _sevens, _anything))
    held = writer.region.rows.upserts(rows(COLUMNS, key))
    entry = wal.WalEntry(epoch=Epoch(writer.epoch), rows=held, generation=writer.memtable.generation)
    name = f"t/{paths.region(scene.region)}/{paths.wal(WalPosition(writer.position_next), 'arrow')}"
    assert name not in ground.objects
    ground.objects[name] = wal.encode(entry, REVISIONS["R"])
    return scene, ground


def _sevens(held: pa.Table) -> pa.Table:
    return pa.table({"more": pa.array([7] * held.num_rows, pa.int32())})


async def _anything(*_: object) -> tuple[int, ...]:
    return ()


@pytest.mark.clause("AMB-50")
def test_an_entry_of_a_writer_that_no_fence_stopped_is_read_and_recovered_where_it_says_its_ids() -> None:
    scene, ground = passed_by(4)
    found = settled(ground, scene.region)
    assert {key: row["more"] for key, row in found.items()} == {1: 7, 2: None, 3: None, 4: None}
    assert {(row["v"], row["w"]) for row in found.values()} == {("v", "w")}
    report = opened(ground).verify()
    assert (report.findings, report.notes) == ((), ())


@pytest.mark.clause("AMB-50")
def test_a_row_that_was_recovered_without_a_column_does_not_wipe_the_value_that_the_base_has() -> None:
    scene, ground = passed_by(1)
    with pytest.raises(Unmergeable, match=r"'more'.*would be lost.*AMB-50"):
        opened(ground).drain(scene.region)
    assert by_key(memwal.base_table("t", store=ground).scan())[1]["more"] == 7


@pytest.mark.clause("AMB-50")
def test_literally_a_running_writer_stores_rows_that_nobody_can_recover(ground: Ground) -> None:
    table = memwal.create("t", COLUMNS, primary_key=["id"], revision="B", store=ground)
    region = table.register_region()
    row = registered(ground)[RegionId(region)]
    writer = ground.run(open_region_of(newest(ground), row, UNFENCED))
    ground.run(column_change.add(UNFENCED, MORE))
    ground.run(writer.put(rows(COLUMNS, 1)))
    with pytest.raises(ArtifactError, match=r"missing \['more'\].*AMB-50"):
        ground.run(open_region_of(newest(ground), row))
    with pytest.raises(ArtifactError, match="AMB-50"):
        opened(ground).scan()


@pytest.mark.clause("AMB-50")
def test_a_reader_with_the_memory_of_a_writer_that_columns_passed_by_learns_that_it_is_fenced(scene: Scene) -> None:
    start = scene.ground()
    writer = start.run(open_region_of(scene.state, scene.row))
    memory = MemoryView(scene.region, writer.epoch, ((writer.memtable.generation, writer.memtable.table()),))
    alone = Ground(start.objects)
    alone.run(scan.scan(IO, memory=[memory]))
    seen: set[object] = set()
    for count in range(len(alone.asked) + 1):
        ground = Ground(start.objects)
        reading = Actor(ground, scan.scan(IO, memory=[memory]))
        for _ in range(count):
            reading.step()
        ground.run(scene.add())
        try:
            seen.add(tuple(reading.finish().schema.names))
        except Fenced:
            seen.add("Fenced")
    assert seen == {"Fenced", tuple(BEFORE)}
