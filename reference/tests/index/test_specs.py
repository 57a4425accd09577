"""Region specs: what they must satisfy when they are added, and how a table changes from one to the next."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import memwal
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal.cli import main
from memwal.codec.index_details import RegionField, RegionSpec
from memwal.effects import PutIfAbsent
from memwal.errors import Fenced, InvalidArgument, Outcome, OutcomeUnknown
from memwal.ids import FieldId, RegionId, SpecId
from memwal.index import corpus, drained, regions, requirements, transforms
from memwal.index.opening import region_of
from memwal.jobs import spec_change
from memwal.jobs.spec_change import Changed, ChangeLost, NotDrained
from memwal.region.claim import claim
from memwal.region.opening import open_writer
from memwal.revisions import LITERAL, STRICT, B, Interpretation

from ..kit.ground import Actor, Ground, keys, row
from ..kit.interleaving import any_commit, orders
from ..kit.profiles import under
from ..kit.tables import IO, bucket_of, changed, flushed, keys_of, newest, opened, registered, table, writing

# --- requirements ----------------------------------------------------------------------------------------------------

Columns = Sequence[pa.Array]


def refuted(
    compute: Callable[[Columns], pa.Array],
    *kinds: pa.DataType,
    result: pa.DataType | None = None,
    promoted: bool = True,
) -> tuple[str, str]:
    """Clause and message by which a field is refused."""
    with pytest.raises(InvalidArgument) as caught:
        requirements.check("f", compute, kinds, result or pa.int64(), promoted=promoted)
    return caught.value.clause, str(caught.value)


def accepted(compute: Callable[[Columns], pa.Array], *kinds: pa.DataType, result: pa.DataType | None = None) -> None:
    requirements.check("f", compute, kinds, result or pa.int64(), promoted=True)


def whole(columns: Columns) -> pa.Array:
    """The first source as int64; a missing column is NULL."""
    return columns[0].cast(pa.int64())


@pytest.mark.clause("REGION-021")
@pytest.mark.parametrize("value", [-1.0, 0.5, float("inf")])
def test_a_field_that_tells_a_float_from_the_same_one_in_a_wider_type_is_refuted(value: float) -> None:
    def tells(columns: Columns) -> pa.Array:
        wide = columns[0].type == pa.float64()
        return pa.array([int(wide and each == value) for each in columns[0].to_pylist()], pa.int64())

    clause, message = refuted(tells, pa.float32())
    assert clause == "REGION-021"
    assert "double" in message


def test_a_field_that_meets_all_requirements_is_accepted() -> None:
    for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.bool_()):
        accepted(whole, kind)
    accepted(lambda columns: columns[0], pa.string(), result=pa.string())


@pytest.mark.clause("REGION-019")
def test_a_field_whose_value_differs_between_two_evaluations_is_refuted() -> None:
    calls = iter(range(1_000))

    def counting(columns: Columns) -> pa.Array:
        number = next(calls)
        return pc.if_else(pc.equal(whole(columns), 7), number, whole(columns))

    clause, text = refuted(counting, pa.int64())
    assert clause == "REGION-019"
    assert "col0=7 (int64)" in text


@pytest.mark.clause("REGION-019")
def test_a_field_whose_value_depends_on_the_place_of_the_row_is_refuted_by_the_smallest_value() -> None:
    for kind, smallest in ((pa.string(), "col0='' (string)"), (pa.int32(), "col0=0 (int32)")):
        clause, text = refuted(lambda columns: pa.array(np.arange(len(columns[0]))), kind)
        assert clause == "REGION-019"
        assert smallest in text


@pytest.mark.clause("REGION-019", "AMB-58")
def test_a_field_without_a_value_for_some_input_is_refuted_by_the_smallest_one() -> None:
    def halves(columns: Columns) -> pa.Array:
        if pc.any(pc.equal(pc.abs(whole(columns)), 5)).as_py():
            raise InvalidArgument("no five")
        return whole(columns)

    clause, text = refuted(halves, pa.int16())
    assert clause == "REGION-019"
    assert "col0=5 (int16)" in text
    assert "no five" in text


@pytest.mark.clause("REGION-021", "AMB-64")
@pytest.mark.parametrize(
    ("kind", "other", "smallest"),
    [
        (pa.int8(), "int16", "0"),
        (pa.int32(), "int64", "0"),
        (pa.uint8(), "int16", "0"),
        (pa.uint32(), "int64", "0"),
        (pa.int64(), "int8", "0"),
        (pa.float32(), "float", "0.0"),
        (pa.float64(), "float", "0.0"),
    ],
    ids=str,
)
def test_a_field_that_depends_on_the_width_of_a_number_is_refuted(kind: pa.DataType, other: str, smallest: str) -> None:
    def wide(columns: Columns) -> pa.Array:
        width = columns[0].type.bit_width if columns[0].type != pa.null() else 0
        return pc.if_else(pc.is_valid(columns[0]), pa.scalar(width, pa.int64()), pa.scalar(None, pa.int64()))

    clause, text = refuted(wide, kind)
    assert clause == "REGION-021"
    assert f"col0={smallest} ({kind})" in text
    assert other in text
    requirements.check("f", wide, [kind], pa.int64(), promoted=False)


@pytest.mark.clause("REGION-021", "AMB-64")
def test_promotion_is_asked_within_integers_and_within_floats_and_for_values_that_both_types_have() -> None:
    def family(columns: Columns) -> pa.Array:
        kind = columns[0].type
        number = 1 if pa.types.is_integer(kind) else 2
        return pc.if_else(pc.is_valid(columns[0]), pa.scalar(number, pa.int64()), pa.scalar(None, pa.int64()))

    for kind in (pa.int8(), pa.uint64(), pa.float32()):
        accepted(family, kind)

    def following(columns: Columns) -> pa.Array:
        column = columns[0] if columns[0].type != pa.null() else columns[0].cast(pa.int8())
        return pc.add(column, pa.scalar(1, column.type)).cast(pa.int64())

    clause, text = refuted(following, pa.int8())
    assert (clause, "col0=127 (int8): it is -128, and 128 where col0 is int16" in text) == ("REGION-021", True)


@pytest.mark.clause("REGION-022")
def test_a_field_that_treats_a_missing_column_otherwise_than_null_is_refuted() -> None:
    def odd(columns: Columns) -> pa.Array:
        return pa.array([99] * len(columns[0])) if columns[0].type == pa.null() else whole(columns)

    clause, text = refuted(odd, pa.int64())
    assert (clause, "99 without col0" in text) == ("REGION-022", True)

    def failing(columns: Columns) -> pa.Array:
        if columns[1].type == pa.null():
            raise InvalidArgument("what is that?")
        return whole(columns)

    clause, text = refuted(failing, pa.int64(), pa.string())
    assert (clause, "without col1" in text) == ("REGION-022", True)


@pytest.mark.clause("REGION-023")
def test_a_field_that_has_no_value_for_null_is_refuted_and_one_that_has_any_is_not() -> None:
    def strict(columns: Columns) -> pa.Array:
        if columns[0].null_count:
            raise InvalidArgument("NULL")
        return whole(columns)

    clause, text = refuted(strict, pa.int64())
    assert (clause, "col0=None" in text) == ("REGION-023", True)
    accepted(lambda columns: whole(columns).fill_null(7), pa.int64())


@pytest.mark.clause("REGION-024")
def test_a_field_whose_values_are_of_another_type_than_declared_is_refuted() -> None:
    clause, text = refuted(whole, pa.int64(), result=pa.int32())
    assert clause == "REGION-024"
    assert "it is int64, and int32 is declared" in text


ALL_TYPES = [
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    pa.bool_(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(1, 0), pa.decimal256(60, -3),
    pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "Asia/Tokyo")),
]  # fmt: skip


@pytest.mark.parametrize("kind", ALL_TYPES, ids=str)
def test_the_corpus_has_distinct_values_of_every_type_and_null_and_is_the_same_each_time(kind: pa.DataType) -> None:
    values = corpus.of(kind)
    assert values.type == kind
    assert values.null_count == 0
    listed = [str(v) for v in values.to_pylist()]
    assert len(set(listed)) == len(listed) >= 2
    (column,) = corpus.rows([kind])
    assert column.null_count == 1
    assert str(column.to_pylist()) == str(corpus.rows([kind])[0].to_pylist())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_corpus_has_the_end_of_a_leap_day_in_every_unit(unit: str) -> None:
    moments = corpus.of(pa.timestamp(unit)).cast(pa.timestamp("us"), safe=False).to_pylist()
    assert datetime(2024, 2, 29, 23, 59, 59) in moments


def test_the_corpus_has_the_extremes_of_integers_and_the_keys_of_the_least_hash() -> None:
    assert set(corpus.of(pa.int8()).to_pylist()) >= {-128, 127, 0}
    assert set(corpus.of(pa.uint64()).to_pylist()) >= {2**64 - 1, 2841062569}
    assert set(corpus.of(pa.int64()).to_pylist()) >= {2**63 - 1, -(2**63), 2841062569, -4026370631}
    pairs = corpus.rows([pa.int64(), pa.string()])
    rows = set(zip(pairs[0].to_pylist(), pairs[1].to_pylist(), strict=True))
    assert {(None, None), (0, None), (None, ""), (-(2**63), "")} <= rows
    assert len(corpus.rows([pa.int64()] * 4)[0]) < 1_200


KEY = pa.schema([("id", pa.int64()), ("name", pa.string()), ("small", pa.int8()), ("big", pa.uint64())])


def checked(request: memwal.SpecRequest) -> None:  # type: ignore[name-defined]
    ids = {name: FieldId(i) for i, name in enumerate(KEY.names)}
    made = transforms.resolve(request, SpecId(1), KEY, ids, B)
    transforms.check_spec(made, KEY, {i: n for n, i in ids.items()}, KEY.names, B)


@pytest.mark.clause("REGION-019", "REGION-021", "REGION-039", "AMB-58")
@pytest.mark.parametrize(
    ("text", "column", "clause", "counterexample"),
    [
        ("abs(murmur3(col0)) % 10", "id", "REGION-019", "col0=2841062569"),
        ("abs(col0) % 4", "id", "REGION-019", "col0=-9223372036854775808"),
        ("abs(col0) % 4", "small", "REGION-019", "col0=-128"),
        ("10 % col0", "id", "REGION-019", "col0=0"),
        ("cast(col0 as int)", "name", "REGION-019", "col0=''"),
        ("cast(col0 as bigint)", "big", "REGION-019", f"col0={2**64 - 1}"),
        ("-col0", "small", "REGION-021", "col0=-128"),
        ("col0 + col0", "small", "REGION-021", "col0=100"),
    ],
)
def test_an_expression_that_fails_a_requirement_is_refused_with_its_smallest_counterexample(
    text: str, column: str, clause: str, counterexample: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        checked(memwal.expression("f", text, column))
    assert caught.value.clause == clause
    assert counterexample in str(caught.value)


@pytest.mark.clause("REGION-019", "REGION-021", "REGION-022", "REGION-023")
@pytest.mark.parametrize(
    "request_",
    [
        memwal.bucket("f", "id", 10), memwal.bucket("f", ["id", "name"], 10), memwal.truncate("f", "small", 7),
        memwal.truncate("f", "name", 2), memwal.identity("f", "big"), memwal.expression("f", "col0 % 10", "id"),
        memwal.expression("f", "abs(murmur3(col0) % 10)", "id"), memwal.expression("f", "coalesce(col0, 0)", "small"),
        memwal.expression("f", "murmur3_multi(col0, col1)", ["name", "id"]), memwal.expression("f", "7", "id"),
        memwal.expression("f", "left(col0, 2)", "name"),
    ],
    ids=lambda r: f"{r.fields[0].transform or r.fields[0].expression}",
)  # fmt: skip
def test_transforms_and_sound_expressions_meet_all_requirements(request_: Any) -> None:
    checked(request_)


def test_a_region_value_in_nanoseconds_is_refused_since_nobody_can_name_it() -> None:
    schema = pa.schema([("t", pa.timestamp("ns"))])
    made = transforms.resolve(memwal.identity("f", "t"), SpecId(1), schema, {"t": FieldId(0)}, B)
    with pytest.raises(InvalidArgument, match="nanoseconds"):
        transforms.check_spec(made, schema, {FieldId(0): "t"}, ["t"], B)


# --- several specs ---------------------------------------------------------------------------------------------------


ONE = memwal.bucket("b", "id", 4)
TWO = memwal.bucket("c", "id", 8)


@pytest.mark.clause("REGION-008", "REGION-009", "REGION-010", "REGION-014", "AMB-54")
def test_ids_of_specs_rise_by_one_and_are_never_used_again(ground: Ground) -> None:
    made = table(ground)
    assert (made.spec, made.specs) == (None, ())
    assert [made.add_spec(spec).spec_id for spec in (ONE, TWO, memwal.identity("i", "id"))] == [1, 2, 3]
    assert [spec.spec_id for spec in opened(ground).specs] == [1, 2, 3]
    made.remove_spec(2)
    made.remove_spec(1)
    assert [spec.spec_id for spec in opened(ground).specs] == [3]
    assert made.add_spec(ONE).spec_id == 4
    for gone, clause in ((4, "AMB-54"), (2, "REGION-008")):
        with pytest.raises(InvalidArgument) as caught:
            made.remove_spec(gone)
        assert caught.value.clause == clause


@pytest.mark.clause("REGION-009", "AMB-54")
def test_a_spec_that_a_region_names_stays_and_an_id_that_only_a_region_names_is_not_used_again(ground: Ground) -> None:
    made = table(ground, spec=ONE)
    made.register_region({"b": 1})
    made.add_spec(TWO)
    with pytest.raises(InvalidArgument, match="region spec 1 cannot be dropped, because it has 1 region"):
        made.remove_spec(1)
    region = made.register_region({"c": 1})
    flushed(made, region, keys_of(made, 1, 1, "c")[0])
    made.merge()
    changed(ground, lambda d: replace(d, specs=d.specs[:1]))
    assert opened(ground).add_spec(memwal.identity("i", "id")).spec_id == 3


@pytest.mark.clause("REGION-013", "AMB-67")
def test_a_field_id_means_one_thing_over_all_specs(ground: Ground) -> None:
    made = table(ground, spec=memwal.region_spec([ONE, memwal.identity("i", "id")]))
    for other in (memwal.bucket("b", "id", 8), memwal.truncate("i", "id", 5)):
        with pytest.raises(InvalidArgument) as caught:
            made.add_spec(memwal.region_spec([TWO, other]))
        assert caught.value.clause == "AMB-67"
    assert made.add_spec(memwal.region_spec([TWO, memwal.identity("i", "id")])).spec_id == 2


@pytest.mark.clause("REGION-016", "AMB-55")
def test_an_unsound_spec_changes_nothing(ground: Ground) -> None:
    made = table(ground, spec=ONE)
    before = made.version
    for request, clause in (
        (memwal.identity("i", "v"), "AMB-55"),
        (memwal.identity("i", "nope"), "REGION-014"),
        (memwal.expression("e", "now()", "id"), "REGION-020"),
        (memwal.expression("e", "col0", "id", "int32"), "REGION-024"),
    ):
        with pytest.raises(InvalidArgument) as caught:
            made.add_spec(request)
        assert caught.value.clause == clause
    assert newest(ground).version == before


@pytest.mark.clause("REGION-002", "REGION-011", "REGION-017", "AMB-54", "AMB-142")
def test_a_new_spec_needs_drained_regions_and_then_governs_new_writes(ground: Ground, revision: str) -> None:
    made = table(ground, revision, spec=ONE)
    own, two = keys_of(made, 1, 2)
    region = made.register_region({"b": 1})
    unclaimed = made.register_region({"b": 2})
    flushed(made, region, own, value="old")
    with made.writer(region, background=False) as writer:
        writer.put(row(two, "old"))
    before = newest(ground).version
    with pytest.raises(NotDrained) as caught:
        made.add_spec(TWO)
    assert list(caught.value.reasons) == [region]
    made.merge()
    with pytest.raises(NotDrained, match="WAL is not flushed"):
        made.add_spec(TWO)
    assert newest(ground).version == before + 1
    assert [g for _, g in made.drain(region).merged] == [2]
    spec = made.add_spec(TWO)
    assert (spec.spec_id, opened(ground).spec) == (2, spec)
    before_writers = {info.region_id: info.manifest for info in made.regions()}
    for old in (region, unclaimed):
        with pytest.raises(InvalidArgument) as refused:
            opened(ground).writer(old)
        assert refused.value.clause == "AMB-54"
    assert {info.region_id: info.manifest for info in made.regions()} == before_writers
    with made.writer(values={"c": bucket_of(made, own, "c")}, background=False) as writer:
        writer.put(row(own, "new"))
        writer.flush()
    made.merge()
    assert {r["id"]: r["v"] for r in made.scan().to_pylist()} == {own: "new", two: "old"}
    rows = registered(ground)
    assert {rows[RegionId(r)].spec_id for r in (region, unclaimed)} == {1}


@pytest.mark.clause("REGION-002", "REGION-003", "REGION-011", "AMB-54", "AMB-67")
def test_a_field_that_comes_back_under_a_later_spec_has_regions_of_its_own(ground: Ground, revision: str) -> None:
    made = table(ground, revision, spec=ONE)
    key = keys_of(made, 1, 1)[0]
    first = made.register_region({"b": 1})
    flushed(made, first, key, value="old")
    made.add_spec(TWO, drain=True)
    again = made.add_spec(ONE, drain=True)
    assert (again.spec_id, again.fields) == (3, made.specs[0].fields)
    later = made.register_region({"b": 1})
    assert later != first
    assert opened(ground).register_region({"b": 1}) == later
    assert {region: row.spec_id for region, row in registered(ground).items()} == {first: 1, later: 3}
    with pytest.raises(InvalidArgument, match="AMB-54"):
        opened(ground).writer(first)
    flushed(made, later, key, value="new")
    found = [{"id": key, "v": "new"}]
    for _ in ("flushed", "merged"):
        assert made.scan().to_pylist() == found
        assert made.scan(filter=f"id = {key}").to_pylist() == found
        assert opened(ground).get(row(key).select(["id"])).to_pylist() == found
        made.merge()


def test_adding_a_spec_can_drain_the_older_regions_first(ground: Ground) -> None:
    made = table(ground, spec=ONE)
    for key in range(6):
        with made.writer(values={"b": bucket_of(made, key)}, background=False) as writer:
            writer.put(row(key))
    assert made.add_spec(TWO, drain=True).spec_id == 2
    assert sorted(keys(made.scan())) == list(range(6))
    assert all(not info.manifest or info.merged == 1 for info in made.regions())


@pytest.mark.clause("REGION-003", "AMB-54", "AMB-142")
@pytest.mark.parametrize(("profile", "lost"), [(STRICT, False), (LITERAL, True)], ids=["strict", "literal"])
def test_a_second_spec_that_governs_at_once_lets_an_old_row_win(
    ground: Ground, profile: Interpretation, lost: bool
) -> None:
    made = table(ground, spec=ONE)
    key = keys_of(made, 1, 1)[0]
    flushed(made, made.register_region({"b": 1}), key, value="old")
    try:
        under(made, profile).add_spec(TWO)
    except NotDrained:
        under(made, profile).add_spec(TWO, drain=True)
    made.refresh()
    region = made.register_region({"c": bucket_of(made, key, "c")})
    flushed(made, region, key, value="new")
    made.merge(region)
    made.merge()
    assert made.scan().to_pylist() == [{"id": key, "v": "old" if lost else "new"}]


@pytest.mark.clause("AMB-142")
@pytest.mark.parametrize(("profile", "lost"), [(STRICT, False), (LITERAL, True)], ids=["strict", "literal"])
def test_a_writer_that_read_the_old_spec_is_fenced_by_a_change_of_specs(
    ground: Ground, profile: Interpretation, lost: bool
) -> None:
    made = table(ground, spec=ONE)
    first, second = keys_of(made, 1, 2)
    region = made.register_region({"b": 1})
    writer = made.writer(region, background=False)
    writer.put(row(first))
    writer.flush()
    made.merge()
    under(opened(ground), profile).add_spec(TWO)
    if lost:
        writer.put(row(second))
    else:
        with pytest.raises(Fenced):
            writer.put(row(second))
    assert sorted(keys(made.scan())) == ([first, second] if lost else [first])


# --- beside writers, and after crashes -------------------------------------------------------------------------------


class Scene:
    """A drained region of spec 1, claimed before, and a key for it that nobody has written."""

    def __init__(self, revision: str) -> None:
        ground = Ground()
        made = table(ground, revision, spec=ONE)
        self.first, self.second = keys_of(made, 1, 2)
        region = made.register_region({"b": 1})
        flushed(made, region, self.first)
        made.merge()
        self.objects = ground.objects
        self.state = newest(ground)
        self.row = registered(ground)[RegionId(region)]

    def change(self) -> Any:
        return spec_change.add_spec(IO, TWO)

    def write(self) -> Any:
        return writing(self.state, self.row, row(self.second))

    def undrained(self, ground: Ground) -> dict[RegionId, str]:
        return ground.run(drained.undrained(IO, newest(ground), [1]))


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene("B")


@pytest.mark.clause("REGION-002", "REGION-003", "AMB-54", "AMB-142")
def test_in_every_order_of_a_change_and_a_writer_with_the_old_spec_at_most_one_gets_through(scene: Scene) -> None:
    outcomes = set()
    for each in orders(scene.objects, [scene.change, scene.write], any_commit, switches_most=4):
        change, written = each.results
        outcomes.add((type(change).__name__, type(written).__name__))
        assert not (isinstance(change, Changed) and written == "written"), each.order
        assert newest(each.ground).mem_wal.spec_change == ""
        governing = regions.active_spec(newest(each.ground).mem_wal)
        assert governing is not None
        assert governing.spec_id == (2 if isinstance(change, Changed) else 1)
        if isinstance(change, Changed):
            assert scene.undrained(each.ground) == {}
        if written == "written":
            assert scene.second in keys(memwal.open("t", store=each.ground).scan())
    assert {c for c, _ in outcomes} == {"Changed", "NotDrained", "ChangeLost"}
    assert {w for _, w in outcomes} == {"str", "Fenced", "InvalidArgument"}


@pytest.mark.clause("AMB-142")
def test_of_two_changes_in_any_order_the_specs_that_were_committed_are_all_there(scene: Scene) -> None:
    three = memwal.bucket("d", "id", 2)
    for each in orders(scene.objects, [scene.change, lambda: spec_change.add_spec(IO, three)], switches_most=3):
        done = [r.spec for r in each.results if isinstance(r, Changed)]
        assert all(isinstance(r, Changed | ChangeLost) for r in each.results), each.order
        details = newest(each.ground).mem_wal
        assert [s.spec_id for s in details.specs] == list(range(1, len(done) + 2))
        assert all(spec in details.specs for spec in done)
        assert details.spec_change == ""


@pytest.mark.clause("AMB-142", "REGION-009")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_change_that_dies_anywhere_leaves_a_table_that_takes_writes_and_the_next_change(revision: str) -> None:
    scene = Scene(revision)
    whole = Ground(scene.objects)
    whole.run(scene.change())
    specs_seen = set()
    for crash in range(0, len(whole.asked) + 1, 1 if revision == "B" else 4):
        ground = Ground(scene.objects)
        dying = Actor(ground, scene.change())
        for _ in range(crash):
            dying.step()
        process = memwal.open("t", store=ground)
        assert process.spec is not None
        specs_seen.add(int(process.spec.spec_id))
        field = process.spec.fields[0].field_id
        with process.writer(values={field: bucket_of(process, scene.second, field)}, background=False) as writer:
            writer.put(row(scene.second))
        assert sorted(keys(process.scan())) == sorted([scene.first, scene.second])
        assert newest(ground).mem_wal.spec_change == ""
        last = int(process.spec.spec_id)
        assert process.add_spec(memwal.bucket("e", "id", 3), drain=True).spec_id == last + 1
    assert specs_seen == {1, 2}


@pytest.mark.clause("AMB-142")
@pytest.mark.parametrize("applied", [False, True])
def test_a_change_whose_requests_are_not_answered_is_done_once_or_leaves_no_token(scene: Scene, applied: bool) -> None:
    whole = Ground(scene.objects)
    whole.run(scene.change())
    commits = [at for at, r in enumerate(whole.asked) if isinstance(r, PutIfAbsent)]
    for at in commits:
        ground = Ground(scene.objects)
        actor = Actor(ground, scene.change())
        for _ in range(at):
            actor.step()
        assert actor.waiting is not None
        actor.answer(OutcomeUnknown(actor.waiting.path), applied=applied)
        try:
            assert actor.finish().spec.spec_id == 2
        except Outcome:
            assert [s.spec_id for s in newest(ground).mem_wal.specs] == [1]
        details = newest(ground).mem_wal
        assert details.spec_change == ""
        assert len(details.specs) <= 2


@pytest.mark.clause("AMB-142")
def test_a_writer_that_meets_the_token_of_a_change_goes_on_and_the_change_fails(scene: Scene) -> None:
    ground = Ground(scene.objects)
    change = Actor(ground, scene.change()).until(PutIfAbsent, "/manifest/")
    assert newest(ground).mem_wal.spec_change != ""
    assert ground.run(scene.write()) == "written"
    assert newest(ground).mem_wal.spec_change == ""
    assert ground.events("spec_change_stopped") == [{"region": scene.row.region_id}]
    with pytest.raises((ChangeLost, NotDrained)):
        change.finish()
    assert [s.spec_id for s in newest(ground).mem_wal.specs] == [1]


@pytest.mark.clause("AMB-142")
@pytest.mark.parametrize("loss", ["the token", "the claim"])
def test_a_change_that_lost_its_token_or_a_claim_to_any_engine_is_not_committed(scene: Scene, loss: str) -> None:
    ground = Ground(scene.objects)
    change = Actor(ground, scene.change()).until(PutIfAbsent, "/wal/")
    change.step()  # the barrier, after which the region is fenced
    if loss == "the token":
        changed(ground, lambda d: replace(d, spec_change=""))
    else:
        ground.run(claim(region_of(IO, scene.state, scene.row)))
    with pytest.raises(ChangeLost, match="token" if loss == "the token" else "opened under epoch"):
        change.finish()
    details = newest(ground).mem_wal
    assert ([s.spec_id for s in details.specs], details.spec_change) == ([1], "")


@pytest.mark.clause("AMB-56", "AMB-142")
def test_a_manual_region_that_is_claimed_while_a_spec_is_added_is_kept_out_or_keeps_the_spec_out() -> None:
    start = Ground()
    table(start)
    state = newest(start)
    manual = regions.RegionRow(
        region_id=RegionId("5c1d9a52-1111-4111-8111-111111111111"), spec_id=SpecId(0), values=(), manifest=None
    )

    async def write() -> str:
        writer = await open_writer(region_of(IO, state, manual))
        await spec_change.admit(IO, manual, registered=False)
        await writer.put(row(1))
        return "written"

    for each in orders(start.objects, [lambda: spec_change.add_spec(IO, ONE), write], any_commit):
        change, written = each.results
        assert not (isinstance(change, Changed) and written == "written"), each.order
        assert isinstance(change, Changed | ChangeLost | InvalidArgument)


@pytest.mark.clause("AMB-54", "AMB-56")
def test_a_manual_region_is_asked_for_the_active_spec_unless_it_is_registered(ground: Ground) -> None:
    table(ground)
    ground.run(spec_change.add_spec(IO, ONE))
    manual = regions.RegionRow(
        region_id=RegionId("5c1d9a52-1111-4111-8111-111111111111"), spec_id=SpecId(0), values=(), manifest=None
    )
    ground.run(spec_change.admit(IO, manual))
    with pytest.raises(InvalidArgument, match=r"is of spec 0, and spec 1 governs new writes.*AMB-54"):
        ground.run(spec_change.admit(IO, manual, registered=False))


# --- columns that regions depend on ----------------------------------------------------------------------------------


WIDE = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("w", pa.int32()), ("x", pa.int32())])


@pytest.mark.clause("AMB-66", "AMB-63", "AMB-131")
def test_a_source_column_may_change_once_every_region_of_its_spec_is_drained_and_a_key_never(ground: Ground) -> None:
    spec = memwal.region_spec([memwal.identity("v", "v", immutable=True), memwal.bucket("w", "w", 4, immutable=True)])
    made = memwal.create("t", WIDE, primary_key=["id"], spec=spec, store=ground)
    rows = pa.table([pa.array([1]), ["a"], pa.array([5], pa.int32()), pa.array([6], pa.int32())], schema=WIDE)
    values = made.region_values(rows).to_pylist()[0]

    def clause(*columns: str) -> str:
        try:
            ground.run(drained.check_columns_may_change(IO, newest(ground), columns))
        except InvalidArgument as refused:
            return refused.clause
        return ""

    assert (clause("v"), clause("w", "x"), clause("x"), clause("id"), clause("x", "id")) == (
        "",
        "",
        "",
        "AMB-55",
        "AMB-55",
    )
    region = made.register_region(values)
    with made.writer(region, background=False) as writer:
        writer.put(rows)
        assert (clause("v"), clause("w", "x"), clause("x")) == ("AMB-66", "AMB-66", "")
        writer.flush()
    assert clause("w") == "AMB-66"
    made.merge()
    assert (clause("v"), clause("w")) == ("", "")
    with made.writer(region, background=False):
        assert clause("v") == ""


@pytest.mark.clause("AMB-66")
def test_only_regions_of_a_spec_over_the_column_hold_its_change_back(ground: Ground) -> None:
    made = memwal.create("t", WIDE, primary_key=["id"], spec=memwal.identity("v", "v", immutable=True), store=ground)
    made.add_spec(memwal.identity("w", "w", immutable=True))
    rows = pa.table([pa.array([1]), ["a"], pa.array([5], pa.int32()), pa.array([6], pa.int32())], schema=WIDE)
    with made.writer(values={"w": 5}, background=False) as writer:
        writer.put(rows)
    state = newest(ground)
    ground.run(drained.check_columns_may_change(IO, state, ["v"]))
    with pytest.raises(InvalidArgument, match="AMB-66"):
        ground.run(drained.check_columns_may_change(IO, state, ["w"]))
    assert [s.spec_id for s in drained.specs_over(state, ["v", "w"])] == [1, 2]


@pytest.mark.clause("AMB-87")
def test_what_needs_a_drained_table_names_the_regions_that_are_not(ground: Ground) -> None:
    made = table(ground)
    ground.run(drained.check_drained(IO, newest(ground), "replacing the table"))
    many = made.register_regions([None] * 7)
    for key, region in enumerate(many):
        with made.writer(region, background=False) as writer:
            writer.put(row(key))
    with pytest.raises(InvalidArgument, match=r"replacing the table needs all regions drained.*and 2 more") as caught:
        ground.run(drained.check_drained(IO, newest(ground), "replacing the table"))
    assert caught.value.clause == "AMB-87"


def test_draining_a_region_flushes_merges_and_fences_its_writer(ground: Ground, revision: str) -> None:
    made = table(ground, revision)
    writer = made.writer(background=False)
    writer.put(row(1))
    report = opened(ground).drain(writer.region_id)
    assert (report.merged, report.rows) == (((writer.region_id, 1),), 1)
    with pytest.raises(Fenced):
        writer.put(row(2))
    assert opened(ground).drain(writer.region_id).merged == ()


# --- the command line ------------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Output of `memwal …`, which ends with status 0."""
    with pytest.raises(SystemExit) as ended:
        main.app(list(arguments))
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_specs_are_shown_added_and_drained_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "t")
    made = memwal.create(place, WIDE, primary_key=["id"])
    assert "its writers name their regions" in run(capsys, "specs", place)
    added = json.loads(
        run(capsys, "specs", place, "--add", "b=bucket(id, 8)", "--add", "i=expression(id: col0 % 7)", "--json")
    )
    assert added == {
        "specs": [
            {
                "spec_id": 1,
                "governs_new_writes": True,
                "fields": [
                    {
                        "field_id": "b",
                        "columns": ["id"],
                        "source_ids": [0],
                        "transform": "bucket",
                        "expression": None,
                        "result_type": "int32",
                        "parameters": {"hash": "textbook", "num_buckets": "8"},
                    },
                    {
                        "field_id": "i",
                        "columns": ["id"],
                        "source_ids": [0],
                        "transform": None,
                        "expression": "col0 % 7",
                        "result_type": "int64",
                        "parameters": {},
                    },
                ],
            }
        ]
    }
    rows = pa.table([pa.array([1]), ["a"], pa.array([5], pa.int32()), pa.array([6], pa.int32())], schema=WIDE)
    with made.refresh().writer(values=made.region_values(rows).to_pylist()[0], background=False) as writer:
        writer.put(rows)
    shown = run(capsys, "specs", place, "--add", "t=truncate(id, 10)", "--drain")
    assert [line.split(",")[0] for line in shown.splitlines() if line.startswith("spec")] == ["spec 1", "spec 2"]
    assert "t int64 = truncate(id), width=10" in shown
    drained_ = json.loads(run(capsys, "drain", place, memwal.open(place).register_region({"t": 0}), "--json"))
    assert drained_ == {"merged": [], "rows": 0, "deleted": 0, "commits": 0, "compacted": 0}


@pytest.mark.parametrize(
    "text",
    [
        "b",
        "b=bucket",
        "b=bucket()",
        "b=bucket(id)",
        "b=zorder(id)",
        "b=truncate(id, v, 3)",
        "y=year(a, b)",
        "e=expression(id)",
    ],
)
def test_a_field_that_is_not_understood_is_refused_by_its_text(text: str) -> None:
    from memwal.cli import specs

    with pytest.raises(InvalidArgument) as caught:
        specs.parsed(text)
    assert repr(text) in str(caught.value)


def test_a_spec_that_is_shown_names_a_source_that_is_gone() -> None:
    from memwal.cli import specs

    ground = Ground()
    made = table(ground, spec=ONE)
    lost = RegionField(field_id="f", source_ids=(FieldId(40),), transform="identity", result_type="int64")
    changed(ground, lambda d: replace(d, specs=(RegionSpec(spec_id=SpecId(2), fields=(lost,)),)))
    assert specs._line(lost, made.refresh()) == "f int64 = identity(field 40, which is gone)"
