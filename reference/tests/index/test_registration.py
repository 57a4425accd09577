"""Registration of regions: one region per value, whoever comes when, and manual regions beside specs."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal import paths
from memwal.codec import region_manifest
from memwal.effects import PutIfAbsent
from memwal.errors import ArtifactError, InvalidArgument, OutcomeUnknown
from memwal.ids import RegionId, SpecId
from memwal.index import mem_wal, regions, snapshot
from memwal.index.snapshot import RegionRow
from memwal.jobs.merger import merge_region
from memwal.revisions import CONFIG_INLINE_REGIONS, LITERAL, REVISIONS, STRICT, Interpretation
from memwal.table import read
from memwal.table.write import set_config

from ..kit.ground import Actor, Ground, keys, row
from ..kit.interleaving import orders
from ..kit.profiles import read_as
from ..kit.tables import IO, bucket_of, changed, flushed, keys_of, newest, objects_below, opened, registered, table

BUCKETS = memwal.bucket("b", "id", 4)


@pytest.fixture
def made(ground: Ground) -> memwal.Table:
    return table(ground, spec=BUCKETS)


def registering(*values: int) -> Any:
    return regions.register_all(IO, [{"b": value} for value in values])


@pytest.mark.clause("REGION-006", "REGION-007", "AMB-36", "AMB-52")
def test_each_value_gets_one_fresh_region_with_a_version_4_uuid_and_keeps_it(
    ground: Ground, made: memwal.Table
) -> None:
    found = [made.register_region({"b": value}) for value in (0, 1, 2, 3)]
    assert len(set(found)) == 4
    assert [uuid.UUID(region).version for region in found] == [4] * 4
    assert [str(uuid.UUID(region)) for region in found] == found
    assert [opened(ground).register_region({"b": value}) for value in (0, 1, 2, 3)] == found
    assert made.register_regions([{"b": 3}, {"b": 0}, {"b": 3}]) == (found[3], found[0], found[3])


@pytest.mark.clause("REGION-007")
def test_a_value_whose_registration_was_lost_before_anybody_wrote_gets_another_identifier(
    ground: Ground, made: memwal.Table
) -> None:
    before = made.register_region({"b": 2})
    changed(ground, lambda d: replace(d, num_regions=0, inline_snapshots=None))
    assert made.register_region({"b": 2}) != before


@pytest.mark.clause("REGION-006", "REGION-007", "AMB-52")
def test_a_batch_of_old_and_new_values_is_one_commit(ground: Ground, made: memwal.Table) -> None:
    one = made.register_region({"b": 1})
    before = made.version
    found = made.register_regions([{"b": 0}, {"b": 1}, {"b": 2}, {"b": 0}])
    assert (found[1], found[0] == found[3], len(set(found))) == (one, True, 3)
    assert made.version == before + 1
    made.register_regions([{"b": 0}, {"b": 1}])
    assert newest(ground).version == before + 1
    assert made.register_regions([]) == ()


@pytest.mark.clause("REGION-003", "AMB-52")
def test_registrars_of_one_value_get_one_region_in_every_order_of_their_commits(
    ground: Ground, made: memwal.Table
) -> None:
    made.register_region({"b": 3})
    played = 0
    for each in orders(ground.objects, [lambda: registering(0, 1), lambda: registering(1, 0), lambda: registering(1)]):
        first, second, third = (result.region_ids for result in each.results)
        assert first == tuple(reversed(second))
        assert third == first[1:]
        rows = registered(each.ground).values()
        assert sorted(dict(r.values)["b"] for r in rows) == [0, 1, 3]
        played += 1
    assert played > 20


@pytest.mark.clause("AMB-52")
@pytest.mark.parametrize(("profile", "same"), [(STRICT, True), (LITERAL, False)], ids=["strict", "literal"])
def test_registrars_that_do_not_look_again_fork_a_value(
    ground: Ground, made: memwal.Table, profile: Interpretation, same: bool
) -> None:
    slow = Actor(ground, regions.register(read_as(IO, profile), {"b": 0})).until(PutIfAbsent, "/_versions/")
    quick = ground.run(regions.register(read_as(IO, profile), {"b": 0}))
    assert (slow.finish().region_id == quick.region_id) == same


@pytest.mark.clause("AMB-52", "AMB-76", "SNAP-013")
def test_a_creator_that_loses_to_one_of_another_value_names_a_file_with_both(
    ground: Ground, made: memwal.Table
) -> None:
    ground.run(set_config(IO, {CONFIG_INLINE_REGIONS: "0"}))
    slow = Actor(ground, registering(0)).until(PutIfAbsent, "/_versions/")
    first = objects_below(ground, "_indices")
    rival = made.register_region({"b": 1})
    own = slow.finish().region_id
    assert {r: dict(row.values) for r, row in registered(ground).items()} == {own: {"b": 0}, rival: {"b": 1}}
    entry = newest(ground).mem_wal_entry
    assert entry is not None
    assert first != [snapshot.external(entry.uuid.uuid).removeprefix("_indices/")]
    assert opened(ground).register_regions([{"b": 0}, {"b": 1}]) == (own, rival)


@pytest.mark.clause("AMB-52")
def test_a_registrar_that_dies_leaves_the_value_free_or_registered_and_never_half(
    ground: Ground, made: memwal.Table
) -> None:
    whole = Ground(ground.objects)
    whole.run(registering(0))
    for crash in range(len(whole.asked) + 1):
        store = Ground(ground.objects)
        dying = Actor(store, registering(0))
        for _ in range(crash):
            dying.step()
        before = list(registered(store))
        store.drawn = 1_000
        found = store.run(registering(0)).region_ids
        assert list(registered(store)) == list(found)
        assert before in ([], list(found))


@pytest.mark.clause("AMB-52")
@pytest.mark.parametrize("applied", [False, True])
def test_a_commit_whose_outcome_is_unknown_registers_one_region(
    ground: Ground, made: memwal.Table, applied: bool
) -> None:
    actor = Actor(ground, registering(0)).until(PutIfAbsent, "/_versions/")
    actor.answer(OutcomeUnknown("x"), applied=applied)
    found = actor.finish().region_ids
    assert tuple(registered(ground)) == found
    assert made.register_region({"b": 0}) == found[0]


@pytest.mark.clause("REGION-006", "AMB-52", "AMB-53")
def test_a_region_that_somebody_created_for_the_value_without_registering_it_is_found_and_registered(
    ground: Ground, made: memwal.Table
) -> None:
    region = made.register_region({"b": 2})
    flushed(made, region, keys_of(made, 2, 1)[0])
    changed(ground, lambda d: replace(d, num_regions=0, inline_snapshots=None))
    assert made.register_region({"b": 2}) == region
    assert dict(registered(ground)[RegionId(region)].values) == {"b": 2}


@pytest.mark.clause("REGION-002", "AMB-52")
def test_two_regions_with_one_value_are_damage(ground: Ground, made: memwal.Table) -> None:
    twins = [
        RegionRow(
            region_id=RegionId(str(uuid.UUID(int=n, version=4))), spec_id=SpecId(1), values=(("b", 1),), manifest=None
        )
        for n in (1, 2)
    ]

    async def derive(state: Any, details: Any) -> Any:
        return await snapshot.store(IO, state, details, twins)

    ground.run(mem_wal.change(IO, derive))
    with pytest.raises(ArtifactError) as caught:
        made.register_region({"b": 0})
    assert caught.value.clause == "AMB-52"


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.clause("REGION-010", "REGION-024", "REGION-038")
@pytest.mark.parametrize(
    ("values", "clause"),
    [
        ({"b": 4}, "REGION-038"),
        ({"b": -1}, "REGION-038"),
        ({"b": "1"}, "REGION-024"),
        ({"b": 1.5}, "REGION-024"),
        ({"b": 2**31}, "REGION-024"),
        ({"b": [1]}, "REGION-024"),
        ({}, "REGION-010"),
        ({"c": 1}, "REGION-010"),
        ({"b": 1, "c": 1}, "REGION-010"),
    ],
    ids=str,
)
def test_values_that_no_row_can_have_are_refused(made: memwal.Table, values: dict[str, object], clause: str) -> None:
    before = made.version
    for register in (made.register_region, lambda v: made.writer(values=v)):
        with pytest.raises(InvalidArgument) as caught:
            register(values)
        assert caught.value.clause == clause
    assert made.refresh().version == before


NULLABLE = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.mark.clause("AMB-57")
@pytest.mark.parametrize("revision", ["A", "B"])
def test_null_is_a_region_value_of_its_own(ground: Ground, revision: str) -> None:
    spec = memwal.region_spec([memwal.identity("v", "v", immutable=True), memwal.bucket("b", "v", 4, immutable=True)])
    made = table(ground, revision, spec=spec)
    null = made.register_region({"v": None, "b": None})
    other = made.register_region({"v": "x", "b": bucket_of(made, 1, value="x")})
    assert null != other
    assert made.register_region({"b": None, "v": None}) == null
    nothing = pa.table([pa.array([1]), pa.array([None], pa.string())], schema=NULLABLE)
    with made.writer(null, background=False) as writer:
        writer.put(nothing)
        with pytest.raises(InvalidArgument, match="region value"):
            writer.put(row(2, "x"))
        writer.flush()
    with made.writer(other, background=False) as writer, pytest.raises(InvalidArgument, match="region value"):
        writer.put(nothing)
    made.snapshot()
    assert dict(registered(ground)[RegionId(null)].values) == {"v": None, "b": None}


@pytest.mark.clause("AMB-57")
def test_revision_r_has_no_region_for_null_since_null_goes_to_bucket_0(ground: Ground) -> None:
    made = table(ground, "R", spec=memwal.bucket("b", "v", 4, immutable=True))
    with pytest.raises(InvalidArgument, match="AMB-57"):
        made.register_region({"b": None})
    nothing = pa.table([pa.array([1]), pa.array([None], pa.string())], schema=NULLABLE)
    with made.writer(values={"b": 0}, background=False) as writer:
        writer.put(nothing)
    assert keys(made.scan()) == [1]


# --- regions and their spec ------------------------------------------------------------------------------------------


@pytest.mark.clause("REGION-011", "REGION-012")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_every_manifest_of_a_region_names_the_spec_under_which_it_was_created(ground: Ground, revision: str) -> None:
    made = table(ground, revision)
    manual = made.register_region()
    flushed(made, manual, 1)
    made.add_spec(BUCKETS, beside_manual=True)
    governed = made.register_region({"b": 1})
    flushed(made, governed, *keys_of(made, 1, 2))
    made.drain(governed)
    made.add_spec(memwal.bucket("c", "id", 8), beside_manual=True)
    made.gc(retain_versions=1)
    made.snapshot()
    flushed(made, manual, 2)
    assert spec_ids(ground, manual, revision) == [0] * len(versions_of(ground, manual))
    assert spec_ids(ground, governed, revision) == [1] * len(versions_of(ground, governed))
    assert len(versions_of(ground, governed)) >= 6
    assert {r.region_id: r.spec_id for r in registered(ground).values()} == {manual: 0, governed: 1}


def versions_of(ground: Ground, region: str) -> list[str]:
    return [n for n in objects_below(ground, paths.region(RegionId(region))) if n.endswith(".binpb")]


def spec_ids(ground: Ground, region: str, revision: str) -> list[int]:
    folder = f"t/{paths.region(RegionId(region))}"
    decoded = [
        region_manifest.decode(ground.objects[f"{folder}/{name}"], REVISIONS[revision], f"{folder}/{name}")
        for name in versions_of(ground, region)
    ]
    return [manifest.spec_id for manifest in decoded]


@pytest.mark.clause("REGION-012", "AMB-56")
def test_manual_regions_and_specs_are_mixed_only_when_it_is_asked_for(ground: Ground) -> None:
    made = table(ground)
    with pytest.raises(InvalidArgument, match="REGION-012"):
        made.register_region({"b": 1})
    manual = made.register_region()
    assert made.register_region() != manual
    with pytest.raises(InvalidArgument) as caught:
        made.add_spec(BUCKETS)
    assert caught.value.clause == "AMB-56"
    assert made.refresh().spec is None
    flushed(made, manual, 1)
    made.add_spec(BUCKETS, beside_manual=True)
    for register in (made.register_region, made.writer):
        with pytest.raises(InvalidArgument) as caught:
            register()
        assert caught.value.clause == "AMB-56"
    another = made.register_region(beside_spec=True)
    for region, key in ((manual, 2), (another, 3)):
        flushed(opened(ground), region, key)
        assert registered(ground)[RegionId(region)].spec_id == 0
        assert set(spec_ids(ground, region, "B")) == {0}
    flushed(made, made.register_region({"b": bucket_of(made, 4)}), 4)
    assert sorted(keys(made.get(pa.table({"id": pa.array([1, 2, 3, 4, 5])})))) == [1, 2, 3, 4]


@pytest.mark.clause("AMB-52")
def test_a_table_with_a_spec_opens_no_region_that_nobody_registered(made: memwal.Table) -> None:
    for region, clause in (("5c1d9a52-1111-4111-8111-111111111111", "AMB-52"), ("north", "AMB-36")):
        with pytest.raises(InvalidArgument) as caught:
            made.writer(region)
        assert caught.value.clause == clause


# --- keys and regions ------------------------------------------------------------------------------------------------


@pytest.mark.clause("REGION-001", "REGION-003", "REGION-017")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_key_reaches_one_region_only_whoever_writes_it(ground: Ground, revision: str) -> None:
    made = table(ground, revision, spec=BUCKETS)
    other = opened(ground)
    regions_ = made.register_regions([{"b": value} for value in range(4)])
    for key in range(6):
        own = bucket_of(made, key)
        taken = []
        for process in (made, other):
            for value, region in enumerate(regions_):
                with process.writer(region, background=False) as writer:
                    if value == own:
                        writer.put(row(key, f"{value}"))
                        taken.append(region)
                        continue
                    with pytest.raises(InvalidArgument, match="WRITER-015"):
                        writer.put(row(key, f"{value}"))
        assert taken == [other.register_region({"b": own})] * 2


@pytest.mark.clause("REGION-004", "AMB-90")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_the_order_in_which_regions_are_merged_does_not_change_the_base_table(ground: Ground, revision: str) -> None:
    made = table(ground, revision, spec=memwal.bucket("b", "id", 2))
    both = made.register_regions([{"b": 0}, {"b": 1}])
    for value, region in enumerate(both):
        first, second = keys_of(made, value, 2)
        flushed(made, region, first, second, value="old")
        flushed(made, region, first, value="new")
    contents = []
    for order in (both, tuple(reversed(both))):
        store = Ground(ground.objects)
        for region in order:
            store.run(merge_region(IO, RegionId(region)))
        rows = store.run(read.scan(IO, newest(store), ["id", "v"])).to_pylist()
        contents.append(sorted((r["id"], r["v"]) for r in rows))
    assert contents[0] == contents[1]
    assert sorted(v for _, v in contents[0]) == ["new", "new", "old", "old"]


@pytest.mark.clause("REGION-005")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_writes_are_acknowledged_while_a_merge_stands_anywhere_in_its_work(ground: Ground, revision: str) -> None:
    made = table(ground, revision)
    region = RegionId(made.register_region())
    flushed(made, region, 1, 2)
    whole = Ground(ground.objects)
    whole.run(merge_region(IO, region))
    for stopped in range(0, len(whole.asked), 4):
        store = Ground(ground.objects)
        merging = Actor(store, merge_region(IO, region))
        for _ in range(stopped):
            merging.step()
        process = memwal.open("t", store=store)
        with process.writer(region, background=False) as writer:
            writer.put(row(3))
            writer.flush()
            writer.put(row(4))
            assert sorted(keys(process.scan())) == [1, 2, 3, 4]
            assert len(merging.finish()) >= 1
            writer.put(row(5))
            writer.flush()
        assert sorted(keys(process.scan())) == [1, 2, 3, 4, 5]
