"""Plans of scans and lookups: which sources are read, in which order, and which are left out."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import memwal
import mmh3
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal.drive import drive
from memwal.effects import Get, Io, Note, RandomHex, Sleep
from memwal.effects import run as run_requests
from memwal.errors import InvalidArgument
from memwal.index import transforms
from memwal.maintained.scalar import Between
from memwal.read import parts
from memwal.read.merging import Deduplicate, Scan, Union
from memwal.read.nodes import BloomFilterGuard, CoalesceFirst, TakeLast, _predicate
from memwal.read.parts import TablePart
from memwal.read.predicates import extract
from memwal.read.view import Raced, ReadRaced, View, over
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.table import state

from ..kit.ground import SCHEMA, Ground
from ..kit.plan_scene import Scene, one, row, scene, sources, unmeasured
from ..kit.profiles import under
from ..kit.tables import table

SIX = ["base_table[gen=-1]", "A[gen=2]", "A[gen=1]", "B[gen=3]", "B[gen=2]", "B[gen=1]"]


@pytest.fixture(scope="module")
def reference() -> Iterator[Scene]:
    made = scene()
    yield made
    for writer in made.writers:
        writer.close()


# --- sources and scans -----------------------------------------------------------------------------------------------


@pytest.mark.clause("PLAN-001", "PLAN-002", "PLAN-012", "PLAN-013", "PLAN-034")
def test_a_scan_has_one_branch_for_the_base_and_one_for_each_generation_of_each_region(reference: Scene) -> None:
    plan = reference.named(reference.table.explain(writers=reference.writers)).splitlines()
    leaves = {f"    ScanExec: {name}" for name in SIX}
    assert plan[:2] == ["DeduplicateExec: partition_by=[id], order_by=[_gen DESC, _rowaddr DESC]", "  UnionExec"]
    assert (len(plan), set(plan[2:])) == (8, leaves)


@pytest.mark.clause("PLAN-012", "PLAN-014", "PLAN-025")
def test_a_scan_gives_of_each_key_the_row_of_the_highest_generation_and_of_that_the_last(reference: Scene) -> None:
    found = reference.table.scan(writers=reference.writers).to_pylist()
    (a0, a1, a2, _), (b0, b1, b2, _) = reference.keys_a, reference.keys_b
    expected = {a0: "a2", a1: "a old", a2: "base", b0: "b3", b1: "b old", b2: "base"}
    assert sorted((each["id"], each["v"]) for each in found) == sorted(expected.items())
    durable = reference.table.scan(consistency="eventual").to_pylist()
    assert {each["v"] for each in durable} == {"base"}, "no snapshot has been built"


def test_a_lookup_that_is_only_planned_finds_nothing(reference: Scene) -> None:
    plan = reference.table.explain(keys=one(reference.keys_a[0]), writers=reference.writers)
    assert plan.startswith("CoalesceFirst")
    assert "rows" not in plan


@pytest.mark.clause("PLAN-014")
def test_of_several_rows_of_a_key_in_a_generation_a_scan_gives_the_last() -> None:
    made = scene()
    key = made.keys_a[3]
    for value in ("1", "2", "3"):
        made.a.put(row(key, v=value))
    for _ in ("in memory", "flushed"):
        for writers in ((), made.writers):
            found = made.table.scan(filter=f"id = {key}", writers=writers)
            assert found.column("v").to_pylist() == ["3"]
        made.a.flush()
    for writer in made.writers:
        writer.close()


def test_below_deduplication_a_filter_brings_an_overwritten_row_back_in_whole_scans_and_in_batches() -> None:
    made = scene()
    key = made.keys_a[3]
    for value in ("old", "newer", "newest"):
        made.a.put(row(key, v=value))
        made.a.flush()
    for profile, expected in (("strict", []), ("literal", ["old"])):
        asked, table = {"filter": "v = 'old'", "writers": made.writers}, under(made.table, profile)
        assert table.scan(**asked).column("v").to_pylist() == expected
        assert [v for part in table.batches(**asked) for v in part.column("v").to_pylist()] == expected
    for writer in made.writers:
        writer.close()


def test_an_analysed_plan_of_a_scan_says_what_became_of_each_node(reference: Scene) -> None:
    told = reference.table.explain(writers=reference.writers, filter="v <> 'base'", analyse=True)
    plan = reference.named(unmeasured(told))
    newest = "filter=[newest]"
    assert plan.splitlines()[:3] == [
        "DeduplicateExec: partition_by=[id], order_by=[_gen DESC, _rowaddr DESC]  [4 rows]",
        "  UnionExec",
        f"    ScanExec: base_table[gen=-1], {newest}  [6 rows of 1 fragment, 0 wanted]",
    ]
    assert sorted(line.strip() for line in plan.splitlines()[3:]) == [
        f"ScanExec: A[gen=1], {newest}  [3 rows of 2 fragments, 1 wanted]",
        f"ScanExec: A[gen=2], {newest}  [1 row of 1 fragment, 1 wanted]",
        f"ScanExec: B[gen=1], {newest}  [3 rows of 2 fragments, 1 wanted]",
        f"ScanExec: B[gen=2], {newest}  [1 row of 1 fragment, 0 wanted]",
        f"ScanExec: B[gen=3], {newest}  [1 row of 1 fragment, 1 wanted]",
    ]


def test_a_limit_gives_as_many_rows_as_there_are_after_older_rows_have_gone(reference: Scene) -> None:
    whole = {each["id"]: each["v"] for each in reference.table.scan(writers=reference.writers).to_pylist()}
    assert len(whole) == 6
    for limit, expected in ((0, 0), (1, 1), (5, 5), (6, 6), (7, 6)):
        found = reference.table.scan(limit=limit, writers=reference.writers).to_pylist()
        assert len({each["id"] for each in found}) == len(found) == expected
        assert all(whole[each["id"]] == each["v"] for each in found)
    kept = reference.table.scan(filter="v = 'base'", limit=2, writers=reference.writers)["v"].to_pylist()
    assert kept == ["base", "base"]
    with pytest.raises(InvalidArgument, match="limit=-1 is negative"):
        reference.table.scan(limit=-1)


@pytest.mark.clause("PLAN-013")
def test_a_scan_reads_the_base_once_for_all_regions(reference: Scene) -> None:
    before = len(reference.ground.asked)
    reference.table.scan(writers=reference.writers)
    asked = [each for each in reference.ground.asked[before:] if each.path.startswith("t/data/")]
    assert asked
    assert len(asked) == len({(type(each).__name__, repr(each)) for each in asked})


@pytest.mark.clause("PLAN-001")
def test_a_merged_generation_is_no_source_any_more() -> None:
    made = scene()
    made.table.merge(made.a.region_id)
    plan = made.named(made.table.explain(writers=made.writers))
    assert sorted(sources(plan, "ScanExec")) == sorted(set(SIX) - {"A[gen=1]"})
    for writer in made.writers:
        writer.close()


@pytest.mark.clause("PLAN-001")
def test_without_its_writer_a_region_has_its_wal_as_a_source_and_an_eventual_plan_has_neither(reference: Scene) -> None:
    strong = reference.named(reference.table.explain())
    assert sorted(sources(strong, "ScanExec")) == sorted(SIX)
    eventual = reference.named(reference.table.explain(consistency="eventual"))
    assert sources(eventual, "ScanExec") == ["base_table[gen=-1]"]


@pytest.mark.clause("PLAN-001")
def test_an_eventual_plan_has_the_generations_of_its_snapshot_and_no_memory_and_no_wal() -> None:
    made = scene()
    made.table.snapshot()
    for writer in made.writers:
        writer.close()
    eventual = made.named(made.table.explain(consistency="eventual"))
    assert sorted(sources(eventual, "ScanExec")) == sorted(set(SIX) - {"A[gen=2]", "B[gen=3]"})


@pytest.mark.clause("PLAN-001", "PLAN-012")
def test_a_memtable_that_waits_for_its_flush_is_a_source_beside_the_one_that_takes_writes() -> None:
    made = scene()
    made.a._threads.run(made.a._writer.freeze())
    made.a.put(row(made.keys_a[3]))
    plan = made.named(made.table.explain(writers=made.writers))
    assert sorted(sources(plan, "ScanExec")) == sorted([*SIX, "A[gen=3]"])
    found = made.table.scan(filter=f"id IN ({made.keys_a[0]}, {made.keys_a[3]})", writers=made.writers)
    assert sorted(found.column("v").to_pylist()) == ["a2", "x"]
    for writer in made.writers:
        writer.close()


@pytest.mark.clause("READ-008")
def test_a_strong_read_needs_the_memory_of_all_regions_and_the_manifests() -> None:
    made = scene("B")
    a, b = made.keys_a[3], made.keys_b[3]
    made.table.snapshot()
    made.a.put(row(a, v="only in memory"), durable=False)
    made.b.put(row(b, v="only in memory"), durable=False)

    def seen(**options: Any) -> list[int]:
        return sorted({a, b} & set(made.table.scan(**options).column("id").to_pylist()))

    assert seen(writers=made.writers) == sorted([a, b])
    assert seen(writers=[made.a]) == [a], "the memory of one region is missing"
    assert seen() == []
    made.a.flush()
    assert seen() == [a], "manifests say what was flushed since the snapshot"
    assert seen(consistency="eventual", writers=[made.b]) == [b], "the snapshot does not"
    for writer in made.writers:
        writer.close()


# --- pruning ---------------------------------------------------------------------------------------------------------

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64())])


@pytest.mark.clause("PLAN-005")
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id = 3", {"id": {3}}),
        ("3 = id AND name = 'a' AND x < 2", {"id": {3}, "name": {"a"}}),
        ("id IN (1, 2) AND id = 2", {"id": {2}}),
        ("id = 1 OR id = 2", {"id": {1, 2}}),
        ("id = 1 OR name = 'a'", {}),
        ("name IS NULL", {"name": {None}}),
        ("NOT id = 3", {}),
        ("id NOT IN (3)", {}),
        ("id = 3.0", {}),
        ("id < 3", {"id": Between(upper=3, with_upper=False)}),
        ("3 >= id OR id = 7", {"id": Between(upper=7)}),
        ("id BETWEEN -1 AND 4 AND id > 2", {"id": Between(lower=2, upper=4, with_lower=False)}),
        ("id NOT BETWEEN 1 AND 4", {}),
        ("id > 3 OR name > 'a'", {}),
        ("id > 3 OR id IS NULL", {}),
        ("id < 3.5", {}),
        ("id = NULL", {}),
        ("x = 1", {}),
        ("lower(name) = 'a' AND id = 4", {"id": {4}}),
        (pc.field("id") == -3, {"id": {-3}}),
        ((pc.field("id") == 3) & (pc.field("name") == "a") & (pc.field("x") < 2), {"id": {3}, "name": {"a"}}),
        (pc.field("id").isin([1, 2]), {"id": {1, 2}}),
        (pc.field("id").isin([1, None]), {}),
        ((pc.field("id") == 1) | (pc.field("x") == 2), {}),
        (pc.field("name").is_null(), {"name": {None}}),
        (~(pc.field("id") == 1), {}),
        (pc.field("id") != 1, {}),
    ],
)
def test_what_a_filter_says_about_single_columns_is_extracted(condition: Any, expected: dict[str, set[Any]]) -> None:
    assert extract(condition, COLUMNS) == expected


@pytest.mark.clause("PLAN-005")
@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 4), pa.large_list(pa.int8()), pa.decimal256(40, 2)], ids=str)
def test_a_column_of_a_type_that_substrait_lacks_hides_nothing_that_is_said_of_the_others(kind: pa.DataType) -> None:
    schema = pa.schema([("v", kind), *COLUMNS])
    other = pc.field("v").is_null()
    assert extract(pc.field("id") == 3, schema) == extract(pc.field(1) == 3, schema) == {"id": {3}}
    assert extract((pc.field("name") == "a") & other, schema) == {"name": {"a"}}
    assert extract((pc.field("name") == "a") | other, schema) == extract(pc.field(0).is_null(), schema) == {}


@pytest.mark.clause("PLAN-005")
def test_texts_that_say_a_time_are_compared_as_times() -> None:
    noon, midnight = datetime(2024, 1, 1, 12), datetime(2024, 1, 1)
    schema = pa.schema([("t", pa.timestamp("us")), ("z", pa.timestamp("us", "Europe/Berlin"))])
    # As texts the first of the two is the lesser one.
    assert extract("t > '2024-01-01 12:00:00' OR t > '2024-01-01T00:00:00'", schema) == {
        "t": Between(lower=midnight, with_lower=False)
    }
    assert extract("t = '2024-01-01T12:00:00'", schema) == {"t": {noon}}
    said = extract("z >= '2024-01-01T12:00:00+05:00' OR z >= '2024-01-01T10:00:00Z'", schema)
    assert said == {"z": Between(lower=datetime(2024, 1, 1, 7, tzinfo=UTC))}
    assert extract("z >= '2024-01-01T12:00:00'", schema) == {"z": Between(lower="2024-01-01T12:00:00")}


def keys_of_other(made: memwal.Table, bucket: int) -> list[tuple[int, int]]:
    """One key of another bucket, with that bucket."""
    schema = pa.schema([pa.field("user_id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    rows = pa.table([pa.array(range(200, 300)), pa.nulls(100, pa.string())], schema=schema)
    found = zip(range(200, 300), made.region_values(rows).column("bucket").to_pylist(), strict=True)
    return [(key, value) for key, value in found if value != bucket][:1]


@pytest.mark.clause("PLAN-004", "PLAN-008", "PLAN-009")
def test_a_scan_for_one_user_reads_only_the_region_of_its_bucket(ground: Ground) -> None:
    schema = pa.schema([pa.field("user_id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    made = memwal.create(
        "t", schema, primary_key=["user_id"], store=ground, spec=transforms.bucket("bucket", "user_id", 10)
    )
    own = abs(mmh3.hash((123).to_bytes(8, "little"))) % 10
    regions = dict(enumerate(made.register_regions([{"bucket": value} for value in range(10)])))
    (other,) = keys_of_other(made, own)
    for key, bucket in ((123, own), other):
        with made.writer(regions[bucket]) as writer:
            writer.put(pa.table([pa.array([key]), pa.array(["here"])], schema=schema))
    for condition in ("user_id = 123", pc.field("user_id") == 123):
        plan = made.explain(filter=condition)
        assert [name for name in sources(plan.replace("region ", ""), "ScanExec") if "base" not in name] == [
            f"{regions[own][:8]}[gen=1]"
        ]
        before = len(ground.asked)
        assert made.scan(filter=condition).column("v").to_pylist() == ["here"]
        wal = [each.path.split("/")[2] for each in ground.asked[before:] if "/wal/" in each.path]
        assert set(wal) == {regions[own]}
    assert len(sources(made.explain(filter="user_id > 122").replace("region ", ""), "ScanExec")) == 3


@pytest.mark.clause("PLAN-009")
def test_pruning_by_a_filter_never_changes_a_result(reference: Scene) -> None:
    everything = reference.table.scan(writers=reference.writers).to_pylist()
    for key in (*reference.keys_a, *reference.keys_b):
        for condition in (f"id = {key}", f"id = {key} OR id = {key + 1}", f"id IN ({key}, 900) AND v <> 'base'"):
            found = reference.table.scan(filter=condition, writers=reference.writers).to_pylist()
            expected = pa.Table.from_pylist(everything, schema=SCHEMA)
            wanted = [key, key + 1] if "OR" in condition else [key]
            kept = [
                e for e in expected.to_pylist() if e["id"] in wanted and ("<>" not in condition or e["v"] != "base")
            ]
            assert sorted(map(str, found)) == sorted(map(str, kept))


# --- lookups ---------------------------------------------------------------------------------------------------------


@pytest.mark.clause("PLAN-016")
def test_a_lookup_loads_the_manifest_of_the_region_of_its_key_and_of_no_other() -> None:
    made = scene()
    before = len(made.ground.asked)
    assert made.get(made.keys_a[1]) == ["a old"]
    paths = [each.path for each in made.ground.asked[before:] if isinstance(each, Get)]
    assert {path.split("/")[2] for path in paths if "/manifest/" in path} == {made.a.region_id}


@pytest.mark.clause("PLAN-016", "PLAN-034")
def test_a_lookup_asks_only_the_region_of_its_key_and_then_the_base(reference: Scene) -> None:
    plan = reference.lookup(reference.keys_a[3])
    assert sources(plan, "TakeLastExec") == ["A[gen=2]", "A[gen=1]", "base_table[gen=-1]"]
    plan = reference.lookup(reference.keys_b[3])
    assert sources(plan, "TakeLastExec") == ["B[gen=3]", "B[gen=2]", "B[gen=1]", "base_table[gen=-1]"]
    below = f"t/_mem_wal/{reference.b.region_id}/"
    asked = reference.read_of(below, reference.keys_a[3])
    assert [path for path in asked if "_gen_" in path] == []


@pytest.mark.clause("PLAN-017", "PLAN-020", "PLAN-029")
def test_a_lookup_goes_from_the_newest_generation_to_the_base_and_stops_where_it_finds_the_key(
    reference: Scene,
) -> None:
    first, second, third, _ = reference.keys_b
    assert [reference.get(key) for key in reference.keys_b] == [["b3"], ["b old"], ["base"], []]
    assert reference.lookup(first).splitlines() == [
        "CoalesceFirstExec: return_first_non_null  [1 of 1 key]",
        "  BloomFilterGuardExec: bf[B[gen=3]]  [positive]",
        "    TakeLastExec: B[gen=3], filter=[id = target]  [1 row of 1 fragment]",
        "  BloomFilterGuardExec: bf[B[gen=2]]  [not asked]",
        "    TakeLastExec: B[gen=2], filter=[id = target]  [not read]",
        "  BloomFilterGuardExec: bf[B[gen=1]]  [not asked]",
        "    TakeLastExec: B[gen=1], filter=[id = target]  [not read]",
        "  TakeLastExec: base_table[gen=-1], filter=[id = target]  [not read]",
    ]
    assert "TakeLastExec: base_table[gen=-1], filter=[id = target]  [not read]" in reference.lookup(second)
    assert "TakeLastExec: base_table[gen=-1], filter=[id = target]  [1 row" in reference.lookup(third)
    assert reference.read_of("t/data/", second) == []
    assert reference.read_of("t/data/", third) != []


@pytest.mark.clause("PLAN-014", "PLAN-017")
def test_of_several_memtables_in_memory_the_newest_is_asked_first() -> None:
    made = scene()
    key = made.keys_a[0]
    made.a._threads.run(made.a._writer.freeze())
    made.a.put(row(key, v="a3"))
    assert made.get(key) == ["a3"]
    plan = made.lookup(key)
    assert sources(plan, "TakeLastExec") == ["A[gen=3]", "A[gen=2]", "A[gen=1]", "base_table[gen=-1]"]
    found = made.table.scan(filter=f"id = {key}", writers=made.writers)
    assert found.column("v").to_pylist() == ["a3"]
    for writer in made.writers:
        writer.close()


@pytest.mark.clause("PLAN-018", "PLAN-032")
def test_a_negative_filter_spares_the_generation_and_a_positive_one_runs_the_node_below(reference: Scene) -> None:
    second, absent = reference.keys_b[1], reference.keys_b[3]
    older, newer = (reference.generation(reference.b.region_id, number) for number in (1, 2))
    assert reference.read_of(newer, second) == [f"{newer}/bloom_filter.bin"]
    assert len(reference.read_of(older, second)) > 1
    assert reference.read_of(older, absent) == [f"{older}/bloom_filter.bin"]
    assert "bf[B[gen=2]]  [negative]\n    TakeLastExec: B[gen=2], filter=[id = target]  [skipped]" in reference.lookup(
        second
    )


@pytest.mark.clause("PLAN-019", "PLAN-027")
def test_of_several_rows_of_a_key_in_a_generation_the_last_is_taken() -> None:
    made = scene("B")
    key = made.keys_a[3]
    for value in ("1", "2", "3"):
        made.a.put(row(key, v=value))
    assert made.get(key) == ["3"]
    made.a.flush()
    assert made.get(key) == ["3"]
    for writer in made.writers:
        writer.close()


@pytest.mark.clause("PLAN-019")
def test_a_filter_that_says_perhaps_for_nothing_leads_on_to_older_sources() -> None:
    made = scene("B")
    for number in (1, 2):
        name = f"{made.generation(made.b.region_id, number)}/bloom_filter.bin"
        made.ground.objects[name] = b"of another engine"
    assert made.get(made.keys_b[2]) == ["base"]
    assert "bf[B[gen=1]]  [positive]\n    TakeLastExec: B[gen=1], filter=[id = target]  [0 rows" in made.lookup(
        made.keys_b[2]
    )
    for writer in made.writers:
        writer.close()


@pytest.mark.clause("PLAN-007", "PLAN-016")
def test_manual_regions_and_regions_of_unknown_value_are_asked_for_every_key(ground: Ground) -> None:
    made = table(ground)
    regions = sorted(made.register_region() for _ in range(2))
    for number, region in enumerate(regions):
        with made.writer(region, background=False) as writer:
            writer.put(row(number, v=f"in {number}"))
            writer.flush()
    assert sorted(made.get(one(0, 1, 2)).column("v").to_pylist()) == ["in 0", "in 1"]
    mixed = table(Ground(), spec=transforms.bucket("b", "id", 2))
    with mixed.writer(mixed.register_region(beside_spec=True), background=False) as writer:
        writer.put(row(5, v="manual"))
    assert mixed.get(one(5)).column("v").to_pylist() == ["manual"]
    assert mixed.scan(filter="id = 5").column("v").to_pylist() == ["manual"]


@pytest.mark.clause("READ-012", "AMB-100")
def test_a_generation_that_is_lost_stops_lookups_and_is_skipped_only_in_the_literal_reading() -> None:
    made = scene("B")
    folder = made.generation(made.b.region_id, 1)
    for name in [name for name in made.ground.objects if name.startswith(f"{folder}/")]:
        del made.ground.objects[name]
    key = made.keys_b[1]
    with pytest.raises(memwal.ArtifactError, match="is gone"):
        made.get(key)
    with pytest.raises(memwal.ArtifactError, match=r"_gen_1.*is gone"):
        list(made.table.batches(writers=made.writers))
    literal = under(made.table, "literal")
    found = literal.get(one(key), ["v"], writers=made.writers)
    assert found.column("v").to_pylist() == ["base"]
    rows = literal.batches(["id"], f"id = {key} AND v = 'base'", writers=made.writers)
    assert [part.to_pylist() for part in rows] == [[{"id": key}]]
    for writer in made.writers:
        writer.close()


@pytest.mark.clause("READ-012")
@pytest.mark.parametrize("lost", [True, False])
def test_parts_of_a_scan_that_cannot_start_again_end_in_damage_or_in_a_race(lost: bool) -> None:
    made = scene("B")
    for writer in made.writers:
        writer.close()
    other = memwal.open("t", store=made.ground)
    parts = made.table.batches()
    next(parts)
    if lost:
        for name in [name for name in made.ground.objects if "_gen_" in name]:
            del made.ground.objects[name]
    else:
        other.merge()
        other.gc(retain_versions=1)
    with pytest.raises(memwal.ArtifactError if lost else ReadRaced) as ended:
        list(parts)
    if lost:
        assert ended.value.clause == "READ-012"


class Waited(Ground):
    """A store whose clients' pauses are kept."""

    def __init__(self, jitter: str) -> None:
        super().__init__()
        self.jitter = jitter
        self.pauses: list[int] = []

    def local(self, request: Any) -> Any:
        if isinstance(request, Sleep):
            self.pauses.append(request.duration_ms)
        if isinstance(request, RandomHex) and request.digits == 4:
            return self.jitter
        return super().local(request)


@pytest.mark.clause("READ-012")
def test_a_read_that_keeps_racing_pauses_longer_each_time_and_gives_up() -> None:
    async def racing(_view: View) -> None:
        raise Raced("wal", generation=False)

    pauses = {}
    for jitter in ("0000", "ffff"):
        ground = Waited(jitter)
        table(ground)
        ground.pauses.clear()
        with pytest.raises(ReadRaced, match="wal was gone at attempt 20"):
            ground.run(over(Io("t", interpretation=STRICT), None, racing))
        pauses[jitter] = ground.pauses
    assert pauses["0000"] == [5, 10, 20, 40, 80, 160, 320, *[500] * 12]
    assert pauses["ffff"][:8] == [9, 19, 39, 79, 159, 319, 639, 999]


@pytest.mark.clause("READ-012", "AMB-101")
@pytest.mark.parametrize("what", ["bloom_filter.bin", "_versions"])
def test_a_lookup_that_is_overtaken_by_a_merge_and_a_collection_finds_the_row_in_the_base(what: str) -> None:
    made = scene("B")
    key = made.keys_b[1]
    for writer in made.writers:
        writer.close()
    other = memwal.open("t", store=made.ground)

    def overtaken(request: Any) -> None:
        if f"_gen_1/{what}" in request.path and made.b.region_id in request.path:
            made.ground.before = lambda request: None
            other.merge()
            other.gc(retain_versions=1)

    made.ground.before = overtaken
    assert made.table.get(one(key), ["v"]).column("v").to_pylist() == ["b old"]
    assert not [name for name in made.ground.objects if "_gen_" in name], "they are gone"


def test_many_keys_of_several_regions_are_found_at_once(reference: Scene) -> None:
    keys = [*reference.keys_a, *reference.keys_b]
    found = reference.table.get(one(*keys), writers=reference.writers).to_pylist()
    assert sorted(each["v"] for each in found) == ["a old", "a2", "b old", "b3", "base", "base"]


def test_a_deleted_key_is_found_as_deleted_and_not_looked_for_in_older_sources() -> None:
    made = scene("R")
    key = made.keys_a[0]
    made.a.delete(one(key))
    assert made.get(key) == []
    assert "A[gen=1], filter=[id = target]  [not read]" in made.lookup(key)
    made.a.flush()
    assert made.get(key) == []
    for writer in made.writers:
        writer.close()


@pytest.mark.parametrize(("count", "narrowed"), [(1_000, True), (1_001, False)])
def test_a_thousand_keys_narrow_down_what_is_opened_and_more_do_not(count: int, narrowed: bool) -> None:
    known = _predicate(pa.table({"k": pa.array(range(count), pa.int64())}))
    assert known == ({"k": frozenset(range(count))} if narrowed else {})


# --- nodes -----------------------------------------------------------------------------------------------------------


def run(coroutine: Any) -> Any:
    """Run protocol code that makes no request but notes."""

    def perform(request: Any) -> None:
        assert isinstance(request, Note)

    return run_requests(coroutine, perform)


class Source:
    """A source of three fragments, in memory, that says which of them were read."""

    generation, region_id, name = 1, None, "source"

    def __init__(self, *fragments: dict[int, str]) -> None:
        self.held = fragments
        self.read: list[int] = []

    async def may_contain(self, keys: pa.Table) -> Any:
        raise AssertionError

    async def fragments(self, _predicate: Any) -> dict[int, None]:
        return dict.fromkeys(range(len(self.held)))

    async def is_small(self, _fragment: int) -> bool:
        return True

    async def rows(self, names: Any, fragments: Any = None) -> pa.Table:
        self.read += fragments
        found = [(key, v) for number in fragments for key, v in self.held[number].items()]
        return pa.table({"id": pa.array([k for k, _ in found], pa.int64()), "v": [v for _, v in found]}).select(names)


@pytest.mark.clause("PLAN-027", "PLAN-028")
def test_take_last_goes_backwards_and_stops_at_the_first_fragment_with_the_key() -> None:
    source = Source({1: "a", 2: "b"}, {1: "c"}, {3: "d"})
    found = run(TakeLast(source, ("id",), ("v",)).find(one(1)))
    assert (found.to_pylist(), source.read) == ([{"id": 1, "v": "c"}], [2, 1])
    source.read.clear()
    found = run(TakeLast(source, ("id",), ("v",)).find(one(2, 3)))
    assert (sorted(found.column("v").to_pylist()), source.read) == (["b", "d"], [2, 1, 0])


@pytest.mark.clause("PLAN-028", "PLAN-033")
def test_take_last_and_scans_read_only_the_fragments_that_a_native_btree_over_the_key_names(tmp_path: Path) -> None:
    place = tmp_path / "t"
    marked = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=marked), ("v", pa.string())])
    for start in (0, 100, 200):
        rows = pa.table([pa.array(range(start, start + 100)), pa.array([f"v{start}"] * 100)], schema=schema)
        lance.write_dataset(rows, str(place), mode="append" if start else "create", data_storage_version="2.1")
    lance.dataset(str(place)).create_scalar_index("id", "BTREE", name="by_id")
    made = memwal.enable(place)
    made.base.append(pa.table([pa.array(range(300, 400)), pa.array(["not indexed"] * 100)], schema=schema))
    store = LocalStore(place)
    current = drive(state.latest(Io(interpretation=STRICT)), store)

    part = TablePart(io=Io(interpretation=STRICT), generation=-1, region_id=None, base=current, state=current)
    node = TakeLast(part, ("id",), ("v",))
    assert {
        fragment: None if rows is None else rows.tolist()
        for fragment, rows in drive(part.fragments({"id": frozenset([150])}), store).items()
    } == {1: [(1 << 32) + 50], 3: None}
    assert drive(node.find(one(150)), store).column("v").to_pylist() == ["v100"]
    assert node.fragments_read == 2, "the one without cover, and the one that the index names"
    by_index = made.explain(filter="id = 150", analyse=True)
    assert "base_table[gen=-1], columns=[id], via=index [by_id]  [1 row given, 101 read, 1 fragment" in by_index
    assert made.scan(filter="id = 150").column("v").to_pylist() == ["v100"]
    assert made.scan(filter="id IN (50, 350)").num_rows == 2
    assert "fragments=" not in made.explain(filter="v = 'v100'")


@pytest.mark.clause("PLAN-026")
def test_a_streamed_scan_gives_newer_rows_before_the_base_has_been_read(reference: Scene) -> None:
    before = len(reference.ground.asked)
    rows = reference.table.batches(writers=reference.writers)
    first = next(rows).to_pylist()
    assert {each["v"] for each in first} <= {"a2", "b3"}
    assert not [each for each in reference.ground.asked[before:] if each.path.startswith("t/data/")]
    everything = [*first, *(each for part in rows for each in part.to_pylist())]
    expected = reference.table.scan(writers=reference.writers).to_pylist()
    assert sorted(map(str, everything)) == sorted(map(str, expected))
    assert [part.to_pylist() for part in reference.table.batches(["v"], "v = 'a old'")] == [[{"v": "a old"}]]


class Counting:
    """A node of a lookup that has some keys and counts how often it runs."""

    inputs = ()
    text = ""

    def __init__(self, *keys: int) -> None:
        self.keys, self.asked, self.outcome = keys, [], ""

    async def find(self, keys: pa.Table) -> pa.Table:
        asked = keys.column("id").to_pylist()
        self.asked.append(asked)
        return one(*(key for key in asked if key in self.keys))


@pytest.mark.clause("PLAN-029")
def test_coalesce_first_takes_the_first_input_that_has_the_key_and_does_not_run_the_others() -> None:
    inputs = [Counting(), Counting(1), Counting(1, 2), Counting(1, 2)]
    assert run(CoalesceFirst(("id",), inputs).find(one(1))).to_pylist() == [{"id": 1}]
    assert [each.asked for each in inputs] == [[[1]], [[1]], [], []]
    found = run(CoalesceFirst(("id",), inputs).find(one(1, 2)))
    assert sorted(found.column("id").to_pylist()) == [1, 2]
    assert [each.asked[1:] for each in inputs[:2]] == [[[1, 2]], [[1, 2]]]
    assert [each.asked for each in inputs[2:]] == [[[2]], []]


class Guarded(Source):
    """A source whose filter denies odd keys."""

    async def may_contain(self, asked: Any) -> Any:
        return asked.table.column("id").to_numpy() % 2 == 0


@pytest.mark.clause("PLAN-032")
def test_the_guard_runs_its_input_for_keys_that_the_filter_does_not_deny_and_for_no_others() -> None:
    child = Counting(1, 2, 4)
    guard = BloomFilterGuard(Guarded(), child)
    assert run(guard.find(one(1))).num_rows == 0
    assert child.asked == []
    assert run(guard.find(one(1, 2))).to_pylist() == [{"id": 2}]
    assert child.asked == [[2]]
    assert run(guard.find(one(6))).num_rows == 0, "a positive answer for a key that is not there"


class Batches(Source):
    """A source that says which of its batches were taken; it has one fragment, and gives the newest batch first."""

    def __init__(self, number: int, taken: list[str], *batches: dict[int, str]) -> None:
        self.generation, self.held, self.taken = number, batches, taken

    async def fragments(self, _predicate: Any) -> list[int]:
        return [0]

    async def stream(self, names: Any, _fragment: int, choice: Any) -> AsyncIterator[pa.Table]:
        for number, batch in enumerate(self.held):
            self.taken.append(f"{self.generation}.{number}")
            rows = pa.table({"id": pa.array(batch["id"], pa.int64()), "v": batch["v"]})
            (stage,) = choice.stages
            yield rows.filter(pa.array(stage.mask(rows.select(stage.columns)))).select(names)


@pytest.mark.clause("PLAN-014", "PLAN-025", "PLAN-026")
def test_deduplication_streams_and_keeps_the_highest_generation_and_of_it_the_last_row() -> None:
    taken: list[str] = []
    newest = Batches(2, taken, {"id": [1, 2, 1], "v": ["old", "b", "a"]}, {"id": [2, 3], "v": ["old", "c"]})
    older = Batches(1, taken, {"id": [3, 4, 1], "v": ["old", "d", "old"]})
    base = Batches(-1, taken, {"id": [5, 4], "v": ["e", "old"]}, {"id": [5, 6], "v": ["old", "f"]})
    names = ("id", "v")
    union = Union(Io(interpretation=STRICT), Scan(base, names), [[Scan(newest, names), Scan(older, names)]])
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    like = SimpleNamespace(primary_key=("id",), schema=schema, field_ids={"id": 0, "v": 1})

    async def whole() -> list[tuple[list[str], list[str]]]:
        return [(rows.column("v").to_pylist(), list(taken)) async for rows in Deduplicate(like, names, union).stream()]

    found = run(whole())
    assert [sorted(values) for values, _ in found] == [["a", "b"], ["c"], ["d"], ["e"], ["f"]]
    order = ["2.0", "2.1", "1.0", "-1.0", "-1.1"]
    assert [seen for _, seen in found] == [order[: n + 1] for n in range(5)], "before the next batch is asked for"


# --- against a model -------------------------------------------------------------------------------------------------

KEYED = pa.schema(
    [pa.field("k", pa.string(), nullable=False), pa.field("n", pa.int32(), nullable=False), pa.field("v", pa.int64())]
)
SPECS = {
    "bucket": transforms.bucket("f", ["k", "n"], 3),
    "truncate": transforms.truncate("f", "k", 1),
    "identity": transforms.identity("f", "n"),
}


LITERAL = {"v IS NULL": lambda v: v is None, "v >= 4": lambda v: v is not None and v >= 4}
"""Conditions evaluated below deduplication: the newest row that matches wins, also one that a merge has replaced."""


@pytest.mark.clause("PLAN-007", "PLAN-012", "PLAN-014", "PLAN-015", "PLAN-016", "PLAN-017", "PLAN-019")
@pytest.mark.parametrize("seed", range(12))
def test_scans_and_lookups_of_random_tables_are_those_of_a_dictionary(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 4 < 2:  # lookups read key columns before others, as they do in large fragments
        monkeypatch.setattr(parts, "APART_ROWS", 0)
    random_ = random.Random(seed)
    revision = "ABR"[seed % 3]
    name = list(SPECS)[seed % len(SPECS)]
    keys = [(k, n) for k in ("", "a", "ab", "b", "é") for n in (-1, 0, 2)]
    model: dict[tuple[str, int], int | None] = {key: random_.randrange(9) for key in random_.sample(keys, 6)}
    base, written = dict(model), {key: [] for key in keys}  # written: every write of a key, oldest first
    flushed = dict.fromkeys(keys, 0)  # how many of them are in generations

    def rows(pairs: dict[tuple[str, int], int | None]) -> pa.Table:
        columns = [[k for k, _ in pairs], [n for _, n in pairs], list(pairs.values())]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, KEYED, strict=True)], schema=KEYED)

    made = memwal.create("t", rows(model), primary_key=["k", "n"], revision=revision, store=Ground(), spec=SPECS[name])
    regions = made.region_values(rows(dict.fromkeys(keys, 0))).column("f").to_pylist()
    owner = dict(zip(keys, regions, strict=True))
    writers = {value: made.writer(values={"f": value}, background=False) for value in dict.fromkeys(regions)}
    for _ in range(25):
        key, what = random_.choice(keys), random_.random()
        writer = writers[owner[key]]
        if what < 0.55:
            model[key] = random_.choice([None, random_.randrange(9)])
            written[key].append(model[key])
            writer.put(rows({key: model[key]}), durable=random_.random() < 0.7)
        elif what < 0.7 and made.revision.tombstones:
            model.pop(key, None)
            written[key].append("deleted")
            writer.delete(rows({key: 0}).select(["k", "n"]))
        elif what < 0.9:
            writer.flush()
            for each in keys:
                if owner[each] == owner[key]:
                    if made.revision.mask_older:  # a generation holds the last row of a key only
                        written[each][flushed[each] :] = written[each][flushed[each] :][-1:]
                    flushed[each] = len(written[each])
        else:
            made.merge(writer.region_id)
            for each in keys:
                if owner[each] == owner[key] and flushed[each]:
                    base.pop(each, None)
                    if written[each][flushed[each] - 1] != "deleted":
                        base[each] = written[each][flushed[each] - 1]
    held = list(writers.values())

    def seen(table: pa.Table) -> set[tuple[Any, ...]]:
        found = {tuple(each.values()) for each in table.to_pylist()}
        assert table.num_rows == len(found)
        return found

    expected = {(k, n, v) for (k, n), v in model.items()}
    assert seen(made.scan(writers=held)) == expected
    assert seen(pa.concat_tables([KEYED.empty_table(), *made.batches(writers=held)])) == expected
    for k, n in keys:
        asked = rows({(k, n): 0}).select(["k", "n"])
        assert seen(made.get(asked, writers=held)) == {each for each in expected if each[:2] == (k, n)}
        assert seen(made.scan(filter=(pc.field("k") == k) & (pc.field("n") == n), writers=held)) == {
            each for each in expected if each[:2] == (k, n)
        }
    assert seen(made.get(rows(dict.fromkeys(keys, 0)).select(["k", "n"]), writers=held)) == expected
    few = [v for v in range(9) if v % 2]
    assert seen(made.scan(filter=pc.field("v").isin(few), writers=held)) == {e for e in expected if e[2] in few}
    assert seen(made.scan(filter="v IS NULL", writers=held)) == {e for e in expected if e[2] is None}
    for condition, holds in LITERAL.items():
        literal = set()
        for key in keys:
            matching = [v for v in written[key] if holds(None if v == "deleted" else v)]
            if matching and matching[-1] != "deleted":
                literal.add((*key, matching[-1]))
            elif not matching and key in base and holds(base[key]):
                literal.add((*key, base[key]))
        asked, table = {"filter": condition, "writers": held}, under(made, "literal")
        assert seen(table.scan(**asked)) == literal
        assert seen(pa.concat_tables([KEYED.empty_table(), *table.batches(**asked)])) == literal
    for writer in held:
        writer.close()
    assert seen(made.get(rows(dict.fromkeys(keys, 0)).select(["k", "n"]))) == expected, "from the WAL"
    assert seen(pa.concat_tables([KEYED.empty_table(), *made.batches()])) == expected


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.clause("PLAN-019", "PLAN-028", "AMB-105")
def test_of_a_large_fragment_key_columns_are_read_and_then_the_rows_of_the_last_matches_only(
    tmp_path: Path, indexed: bool
) -> None:
    place = tmp_path / "t"
    marked = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=marked), ("v", pa.string())])
    for start, name in ((0, "first"), (5_000, "second")):
        keys = [*range(start, start + 10_000), start + 17]
        rows = pa.table([keys, [*(f"{name} {key}" for key in keys[:-1]), f"{name} again"]], schema=schema)
        lance.write_dataset(rows, str(place), mode="append" if start else "create", data_storage_version="2.1")
    if indexed:
        lance.dataset(str(place)).create_scalar_index("id", "BTREE", name="by_id")
    lance.dataset(str(place)).delete("v = 'second 6000' OR v = 'second 14999'")
    store = LocalStore(place)
    current = drive(state.latest(Io(interpretation=STRICT)), store)
    part = TablePart(io=Io(interpretation=STRICT), generation=-1, region_id=None, base=current, state=current)
    read: list[Any] = []
    original = TablePart.rows
    node = TakeLast(part, ("id",), ("v",))

    async def rows_of(self: TablePart, names: Any, fragments: Any = None) -> pa.Table:
        read.append((tuple(names), tuple(fragments)))
        return await original(self, names, fragments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TablePart, "rows", rows_of)
        found = drive(node.find(one(0, 17, 5017, 6000, 7000, 14_999, 20_000)), store)
    assert sorted(found.column("v").to_pylist()) == [
        "first 0",
        "first 6000",
        "first again",
        "second 7000",
        "second again",
    ]
    assert read == ([] if indexed else [(("id",), (1,)), (("id",), (0,))])
