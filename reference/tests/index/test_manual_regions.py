"""Manual regions: one for all writers that name none, and no key in two of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument, Unmergeable
from memwal.ids import FragmentId
from memwal.index import regions
from memwal.revisions import LITERAL
from memwal.table.owners import named_owner, owners
from memwal.table.state import latest

from ..kit.ground import Ground, row
from ..kit.interleaving import orders
from ..kit.profiles import under
from ..kit.tables import IO, newest, opened, registered, table

REVISIONS_ALL = ["A", "B", "R"]


def put(made: memwal.Table, region: str | None, key: int, value: str, *, flush: bool = True) -> str:
    with made.writer(region, background=False) as writer:
        writer.put(row(key, value))
        if flush:
            writer.flush()
        return writer.region_id


def shown(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(each.values()) for each in rows.to_pylist())


@pytest.mark.clause("REGION-003", "AMB-56")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_three_upserts_of_one_key_by_writers_that_name_no_region_are_one_row_and_the_last(
    ground: Ground, revision: str
) -> None:
    table(ground, revision)
    found = {put(opened(ground), None, 1, value, flush=flush) for value, flush in (("a", True), ("b", False))}
    found.add(put(opened(ground), None, 1, "c"))
    assert set(registered(ground)) == found
    assert len(found) == 1
    assert shown(opened(ground).scan()) == [(1, "c")]
    opened(ground).merge()
    assert shown(opened(ground).scan()) == [(1, "c")]
    assert opened(ground).verify().clean


@pytest.mark.clause("REGION-003", "AMB-52", "AMB-56")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_first_writers_of_two_processes_get_one_region_in_every_order_of_their_requests(
    ground: Ground, revision: str
) -> None:
    table(ground, revision)
    played = 0
    for each in orders(ground.objects, [lambda: regions.the_manual_region(IO)] * 2):
        first, second = (result.region_id for result in each.results)
        assert first == second
        assert list(registered(each.ground)) == [first]
        played += 1
    assert played > 5


@pytest.mark.clause("REGION-003", "AMB-56")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_the_one_region_that_is_there_is_claimed_registered_or_not(ground: Ground, revision: str) -> None:
    named = "0b8e4d7a-9a3f-4c11-8a57-1d3f5b2c7e90"
    made = table(ground, revision)
    put(made, named, 1, "by name")
    assert list(registered(ground)) == []
    assert put(opened(ground), None, 1, "by default") == named
    assert list(registered(ground)) == [named]
    assert shown(made.scan()) == [(1, "by default")]


@pytest.mark.clause("REGION-003", "AMB-56")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_a_writer_that_names_no_region_where_there_are_several_is_told_which(ground: Ground, revision: str) -> None:
    made = table(ground, revision)
    several = sorted(made.register_region() for _ in range(6))
    before = dict(ground.objects)
    with pytest.raises(InvalidArgument, match=r"6 manual regions.*and 1 more") as caught:
        made.writer()
    assert all(region in str(caught.value) for region in several[:5])
    assert caught.value.clause == "REGION-003"
    assert ground.objects == before


@pytest.mark.clause("REGION-003", "AMB-56")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
@pytest.mark.parametrize("where", ["memory", "a frozen MemTable"])
def test_a_put_of_a_key_that_an_open_writer_of_another_manual_region_holds_is_refused(
    ground: Ground, revision: str, where: str
) -> None:
    made = table(ground, revision)
    with made.writer(background=False) as one, made.writer(made.register_region(), background=False) as other:
        one.put(row(1, "one"))
        if where != "memory":
            one._threads.run(one._writer.freeze())
        with pytest.raises(InvalidArgument, match=one.region_id):
            other.put(pa.concat_tables([row(2, "other"), row(1, "other")]))
        other.put(row(2, "other"))
        with pytest.raises(InvalidArgument, match=other.region_id):
            one.put(row(2, "one"))
        one.put(row(1, "again"))
    assert shown(made.scan()) == [(1, "again"), (2, "other")]


def merged_rows(made: memwal.Table, ground: Ground, how: str) -> tuple[str, str]:
    """The key 1 merged by one region; a second region; returns both. ``how``: what came between."""
    if how == "before the second region":
        one = put(made, None, 1, "one")
        made.merge()
        return one, made.register_region()
    one, other = made.register_region(), made.register_region()
    put(made, one, 1, "one")
    made.merge()
    if how == "compacted and collected":
        made.base.append(row(7, "appended"))
        made.base.append(row(8, "appended"))
        put(made, one, 2, "one")
        made.merge()
        memwal.base_table("t", store=ground).compact()
        made.gc(retain_versions=1)
    return one, other


@pytest.mark.clause("REGION-003", "AMB-56")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
@pytest.mark.parametrize("how", ["at once", "before the second region", "compacted and collected"])
def test_a_merge_that_would_replace_a_row_of_another_manual_region_stops_with_both_and_verify_tells(
    ground: Ground, revision: str, how: str
) -> None:
    made = table(ground, revision)
    one, other = merged_rows(made, ground, how)
    put(made, other, 1, "other")
    before = made.refresh().version
    for region in (None, other):
        with pytest.raises(Unmergeable) as caught:
            made.merge(region)
        assert all(part in str(caught.value) for part in (one, other, "REGION-003"))
    assert made.refresh().version == before
    assert {each.oracle for each in made.verify().findings} == {"keys_are_in_one_region"}
    made.merge(other, replace_rows_of_others=True)
    assert (1, "other") in shown(made.scan())
    assert made.verify().clean


@pytest.mark.clause("REGION-003", "AMB-56")
@pytest.mark.parametrize("revision", REVISIONS_ALL)
def test_manual_regions_replace_their_own_rows_and_rows_that_no_region_merged(ground: Ground, revision: str) -> None:
    made = table(ground, revision)
    made.base.append(pa.concat_tables([row(key, "base") for key in (1, 2, 3)]))
    one, other = made.register_region(), made.register_region()
    for value in ("first", "second"):
        put(made, one, 1, value)
        put(made, other, 2, value)
        made.merge()
    assert shown(made.scan()) == [(1, "second"), (2, "second"), (3, "base")]
    assert {named_owner(fragment) for fragment in newest(ground).fragments} == {one, other, None}
    memwal.base_table("t", store=ground).compact()
    put(made, one, 1, "third")
    made.merge()
    assert shown(made.scan()) == [(1, "third"), (2, "second"), (3, "base")]
    assert made.verify().clean


@pytest.mark.clause("REGION-003", "AMB-56")
@pytest.mark.parametrize("revision", ["R"])
def test_a_delete_of_a_row_of_another_manual_region_stops_the_merge_too(ground: Ground, revision: str) -> None:
    made = table(ground, revision)
    one, other = merged_rows(made, ground, "at once")
    with made.writer(other, background=False) as writer:
        writer.delete(pa.table({"id": [1]}, schema=pa.schema([made.schema.field("id")])))
        writer.flush()
    with pytest.raises(Unmergeable, match=one):
        made.merge()


@pytest.mark.clause("REGION-003", "AMB-56")
def test_under_the_literal_profile_the_older_row_wins_by_the_order_of_merging(ground: Ground) -> None:
    made = table(ground, "B")
    one, other = made.register_region(), made.register_region()
    put(made, one, 1, "older")
    put(made, other, 1, "newer")
    under(made, LITERAL).merge(other)
    under(made, LITERAL).merge(one)
    assert shown(made.scan()) == [(1, "older")]


@pytest.mark.clause("REGION-003", "AMB-56")
def test_a_row_that_was_deleted_from_the_base_is_no_row_of_another_region(ground: Ground) -> None:
    made = table(ground, "B")
    _, other = merged_rows(made, ground, "at once")
    made.base.append(row(9, "kept"))
    made.base.delete("id = 1")
    put(made, other, 1, "other")
    made.merge()
    assert shown(made.scan()) == [(1, "other"), (9, "kept")]


@pytest.mark.clause("REGION-003", "AMB-56")
def test_the_versions_that_a_merge_asks_for_owners_are_bounded(ground: Ground) -> None:
    made = table(ground, "B")
    one = put(made, None, 1, "one")
    made.merge()
    for number in range(5):
        made.base.append(row(100 + number, "direct"))
    state = ground.run(latest(IO))
    (merged,) = [FragmentId(each.id) for each in state.fragments if each.id == 0]
    assert ground.run(owners(IO, state, state.fragments)) == {merged: one}
    assert ground.run(owners(IO, state, state.fragments, back_most=6)) == {merged: one}
    assert ground.run(owners(IO, state, state.fragments, back_most=5)) == {}


@pytest.mark.clause("REGION-003", "AMB-56")
def test_a_shard_of_the_native_writer_is_the_one_region_and_two_of_them_are_kept_apart(tmp_path: Path) -> None:
    key = {b"lance-schema:unenforced-primary-key": b"true"}
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=key), pa.field("v", pa.string())])
    lance.write_dataset(pa.table({"id": [0], "v": ["base"]}, schema=schema), str(tmp_path / "t"))
    memwal.enable(tmp_path / "t", revision="R")

    def native(shard: str, value: str) -> None:
        with lance.dataset(str(tmp_path / "t")).mem_wal_writer(shard, durable_write=True) as writer:
            writer.put(pa.table({"id": [1], "v": [value]}, schema=schema))

    one, other = "5b1f3c7e-9a3f-4c11-8a57-1d3f5b2c7e90", "c2d4e6f8-9a3f-4c11-8a57-1d3f5b2c7e90"
    native(one, "native")
    made = memwal.open(tmp_path / "t")
    assert put(made, None, 1, "ours") == one
    made.merge()
    assert shown(made.scan()) == [(0, "base"), (1, "ours")]
    native(other, "native again")
    with pytest.raises(InvalidArgument, match="2 manual regions"):
        made.writer()
    with pytest.raises(Unmergeable, match=f"{one}.*{other}"):
        made.merge(other)
