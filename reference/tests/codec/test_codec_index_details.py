"""The details of the MemWAL index: the bytes of the texts, revision 0 told apart, what is kept and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.codec.index_details import (
    INDEX_NAME,
    TYPE_URL,
    IndexCatchup,
    IndexDetails,
    RegionField,
    RegionSpec,
    decode,
    encode,
)
from memwal.errors import ArtifactError, InvalidArgument
from memwal.ids import FieldId, Generation, Milliseconds, RegionId, SpecId
from memwal.revisions import A, B, R, Revision

from ..kit.wire import blob, fields, fixed, num

PATH = "_versions/18446744073709551612.manifest"
REGION = RegionId("7c9e6679-7425-40de-944b-e07fc1f90ae7")
OTHER = RegionId("0f8fad5b-d9cb-469f-a165-70867728950e")
ID = "0a120a107c9e6679742540de944be07fc1f90ae7"  # 1, a UUID message with 16 bytes in network order
OTHER_ID = "0a120a100f8fad5bd9cb469fa16570867728950e"

EMPTY = IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None)
DETAILS = IndexDetails(
    snapshot_ts_ms=Milliseconds(1_700_000_000_000),
    num_regions=2,
    inline_snapshots=b"LANC",
    specs=(
        RegionSpec(
            spec_id=SpecId(1),
            fields=(
                RegionField(
                    field_id="b",
                    source_ids=(FieldId(0), FieldId(300)),
                    transform="multi_bucket",
                    result_type="int32",
                    parameters=(("num_buckets", "8"),),
                ),
                RegionField(field_id="e", source_ids=(FieldId(2),), expression="col0", result_type="string"),
            ),
        ),
        RegionSpec(spec_id=SpecId(2), fields=()),
    ),
    maintained_indexes=("vec", "ft"),
    merged=((REGION, Generation(4)), (OTHER, Generation(1))),
    catchup=(
        IndexCatchup(index_name="vec", generations=((REGION, Generation(3)),)),
        IndexCatchup(index_name="ft", generations=((OTHER, Generation(1)),)),
    ),
)
BYTES = bytes.fromhex(
    "0880d095ffbc31"  # 1, the time stamp: 1.7e12 in groups of seven bits
    "1002"  # 2, regions
    "1a044c414e43"  # 3, the inline snapshot
    "3a49"  # 7, a spec of 73 bytes
    "0801"  # its id
    "122f"  # a field of 47 bytes
    "0a0162"  # "b"
    "120300ac02"  # source ids, packed: 0, 300
    "1a0c6d756c74695f6275636b6574"  # "multi_bucket"
    "2a05696e743332"  # "int32"
    "32100a0b6e756d5f6275636b657473120138"  # "num_buckets" = "8"
    "1214"  # a field of 20 bytes
    "0a0165"  # "e"
    "120102"
    "2204636f6c30"  # "col0"
    "2a06737472696e67"  # "string"
    "3a020802"  # 7 again, a spec without fields
    "4203766563"  # 8, "vec"
    "42026674"  # 8, "ft"
    "4a16" + ID + "1004"  # 9, merged
    "4a16" + OTHER_ID + "1001"
    "521d"  # 10, catch-up of 29 bytes
    "0a03766563"
    "1216" + ID + "1003"
    "521c"  # 10, of 28 bytes
    "0a026674"
    "1216" + OTHER_ID + "1001"
)

DETAILS_R = replace(DETAILS, writer_defaults=(("durable_write", "true"), ("x", "")), maintain_all=False)
BYTES_R = BYTES + bytes.fromhex(
    "5a15"  # 11, 21 bytes
    "0a0d64757261626c655f7772697465120474727565"
    "5a05"
    "0a01781200"
    "6000"  # 12, an optional false is on the wire
)


@pytest.mark.clause("INDEX-010", "INDEX-011", "INDEX-012", "INDEX-013", "INDEX-015", "INDEX-016", "INDEX-018")
@pytest.mark.clause("INDEX-019", "REGION-013", "REGION-014", "REGION-016", "AMB-03", "AMB-36", "AMB-72")
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
def test_the_details_have_their_fields_at_the_numbers_of_the_texts(revision: Revision) -> None:
    assert encode(DETAILS, revision) == BYTES
    assert decode(BYTES, revision, PATH) == DETAILS


def test_revision_r_adds_writer_defaults_and_maintain_all() -> None:
    assert encode(DETAILS_R, R) == BYTES_R
    assert decode(BYTES_R, R, PATH) == DETAILS_R


@pytest.mark.clause("AMB-05")
def test_the_index_is_created_under_the_released_name_and_type() -> None:
    assert INDEX_NAME == "__lance_mem_wal"
    assert TYPE_URL == "/lance.table.MemWalIndexDetails"


@pytest.mark.parametrize("revision", [A, B], ids=lambda r: r.name)
def test_to_a_and_b_the_fields_of_r_are_unknown_ones_that_survive_a_rewrite(revision: Revision) -> None:
    found = decode(BYTES_R, revision, PATH)
    assert replace(found, unknown=b"") == DETAILS
    assert encode(found, revision) == BYTES_R


@pytest.mark.parametrize("revision", [A, B], ids=lambda r: r.name)
@pytest.mark.parametrize("change", [{"maintain_all": False}, {"writer_defaults": (("a", "b"),)}], ids=str)
def test_a_and_b_do_not_write_the_fields_of_r(change: dict[str, Any], revision: Revision) -> None:
    with pytest.raises(InvalidArgument, match=f"revision {revision.name}"):
        encode(replace(DETAILS, **change), revision)


def test_no_bytes_are_details_that_say_nothing() -> None:
    assert decode(b"", B, PATH) == EMPTY
    assert encode(EMPTY, B) == b""


@pytest.mark.clause("INDEX-013")
def test_an_empty_inline_snapshot_differs_from_an_absent_one() -> None:
    assert decode(blob(3), B, PATH).inline_snapshots == b""
    assert encode(replace(EMPTY, inline_snapshots=b""), B) == blob(3)
    assert decode(b"", B, PATH).inline_snapshots is None


@pytest.mark.clause("AMB-80")
def test_the_progress_of_a_region_without_an_entry_is_0() -> None:
    assert DETAILS.progress(REGION) == 4
    assert DETAILS.progress(OTHER) == 1
    assert DETAILS.progress(RegionId("00000000-0000-4000-8000-000000000000")) == 0


def test_source_ids_that_are_not_packed_are_read_too() -> None:
    data = blob(7, num(1, 1), blob(2, blob(1, b"b"), num(2, 5), num(2, 6)))
    assert decode(data, B, PATH).specs[0].fields[0].source_ids == (5, 6)


@pytest.mark.clause("AMB-03")
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
def test_unknown_fields_of_details_specs_fields_and_catchup_survive_a_rewrite(revision: Revision) -> None:
    field = blob(2, blob(1, b"b"), num(601, 1))
    spec = blob(7, num(1, 1), field, num(602, 2))
    catchup = blob(10, blob(1, b"vec"), num(603, 3))
    data = num(1, 9) + spec + catchup + num(604, 4)
    found = decode(data, revision, PATH)
    assert encode(found, revision) == data
    later = replace(found, snapshot_ts_ms=Milliseconds(10))
    assert encode(later, revision) == num(1, 10) + spec + catchup + num(604, 4)


@pytest.mark.clause("AMB-03")
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
def test_unknown_fields_inside_progress_entries_and_their_region_ids_survive_a_rewrite(revision: Revision) -> None:
    def entry(field: int, region: int, generation: int, *later: bytes) -> bytes:
        return blob(field, blob(1, blob(1, bytes([region] * 16)), num(700, region)), num(2, generation), *later)

    merged = entry(9, 1, 4, num(701, 5)) + entry(9, 2, 9)
    catchup = blob(10, blob(1, b"vec"), entry(2, 1, 3, blob(702, b"x")), num(603, 1))
    data = num(1, 9) + merged + catchup
    found = decode(data, revision, PATH)
    assert encode(found, revision) == data
    first, second = (region for region, _ in found.merged)
    later = replace(found, merged=((second, Generation(10)), (first, Generation(5))))
    expected = num(1, 9) + entry(9, 2, 10) + entry(9, 1, 5, num(701, 5)) + catchup
    assert encode(later, revision) == expected
    assert encode(replace(found, merged=((second, Generation(9)),)), revision) == num(1, 9) + entry(9, 2, 9) + catchup


@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
def test_the_token_of_a_change_of_specs_is_a_field_of_its_own_beside_the_unknown_ones(revision: Revision) -> None:
    data = num(1, 9) + num(604, 4) + blob(50_142, b"token") + blob(50_143, b"token")
    found = decode(data, revision, PATH)
    assert found.spec_change == "token"
    assert decode(encode(found, revision), revision, PATH) == found
    without = encode(replace(found, spec_change=""), revision)
    assert without == num(1, 9) + num(604, 4) + blob(50_143, b"token")
    assert decode(BYTES_R + blob(50_142, b"t"), revision, PATH) == replace(
        decode(BYTES_R, revision, PATH), spec_change="t"
    )


@pytest.mark.parametrize("field", [num(50_142, 1), blob(50_142, b"\xff")], ids=["a number", "no text"])
def test_a_token_that_is_no_text_is_refused(field: bytes) -> None:
    with pytest.raises(ArtifactError, match="INDEX-010"):
        decode(num(1, 9) + field, B, PATH)


def test_unknown_fields_of_every_wire_type_survive_beside_the_token() -> None:
    group = bytes.fromhex("a338") + num(1, 5) + bytes.fromhex("a438")  # field 900, a group with one field
    fixed32 = bytes.fromhex("ad3801020304")  # field 901
    later = group + fixed32 + fixed(902, bytes(range(8))) + num(903, 2**64 - 1) + blob(904, b"x")
    found = decode(later + blob(50_142, b"token"), B, PATH)
    assert found.spec_change == "token"
    assert encode(replace(found, spec_change=""), B) == later


# ---------------------------------------------------------------------------------------------------------------------
# Revision 0

OPEN, SEALED, FLUSHED, MERGED = range(4)


def record(region: str, generation: int, state: int) -> bytes:
    identity = blob(1, blob(1, region.encode()), num(2, generation))
    places = blob(2, b"memory://m") + blob(3, b"wal") + blob(4, b"\x00")
    return blob(1, identity, places, num(5, state) if state else b"", blob(6, b"owner"), num(7, 3))


@pytest.mark.clause("AMB-04", "LEGACY-005", "LEGACY-006", "LEGACY-026")
@pytest.mark.parametrize("state", [OPEN, SEALED, FLUSHED])
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
def test_revision_0_details_with_a_record_that_is_not_merged_are_refused(revision: Revision, state: int) -> None:
    data = record("north", 1, MERGED) + record("south", 7, state)
    with pytest.raises(ArtifactError, match="south/7") as caught:
        decode(data, revision, PATH)
    assert (caught.value.clause, caught.value.path) == ("AMB-04", PATH)
    assert "north" not in caught.value.reason


@pytest.mark.clause("AMB-04", "AMB-135")
def test_revision_0_details_whose_records_are_all_merged_have_nothing_to_read_and_are_never_rewritten() -> None:
    data = record("north", 1, MERGED) + record("south", 7, MERGED)
    found = decode(data, B, PATH)
    assert replace(found, records_0=b"") == EMPTY
    assert found.records_0 == data
    with pytest.raises(InvalidArgument, match="AMB-135"):
        encode(replace(found, num_regions=1), B)


@pytest.mark.clause("AMB-04")
@pytest.mark.parametrize("later", [num(1, 5), num(2, 1), blob(9, blob(1, blob(1, bytes(16))), num(2, 1))], ids=range(3))
def test_records_of_revision_0_beside_fields_of_later_revisions_are_refused(later: bytes) -> None:
    for data in (record("north", 1, MERGED) + later, later + record("north", 1, MERGED)):
        with pytest.raises(ArtifactError, match="AMB-04"):
            decode(data, B, PATH)


@pytest.mark.clause("AMB-04")
def test_a_revision_0_list_is_recognised_behind_other_fields_and_under_a_long_tag() -> None:
    with pytest.raises(ArtifactError, match="AMB-04"):
        decode(num(900, 1) + record("south", 7, FLUSHED), B, PATH)
    long_tag = b"\x8a\x00" + record("south", 7, FLUSHED)[1:]
    with pytest.raises(ArtifactError, match="AMB-04"):
        decode(long_tag, B, PATH)


@pytest.mark.clause("AMB-04")
def test_a_revision_0_list_with_a_damaged_record_is_refused() -> None:
    with pytest.raises(ArtifactError, match="LEGACY-005"):
        decode(blob(1, b"\x0a\xff"), B, PATH)


def test_a_time_stamp_before_1970_is_no_revision_0_list() -> None:
    assert decode(num(1, -5), B, PATH).snapshot_ts_ms == -5


# ---------------------------------------------------------------------------------------------------------------------
# Refused

WHOLE_ID = blob(1, blob(1, bytes(16)))
REFUSED: dict[str, tuple[bytes, str]] = {
    "text": (b'{"regions": 1}', "INDEX-010"),
    "a time stamp of 4 fixed bytes": (b"\x0d\x00\x00\x00\x00", "INDEX-010"),
    "merge progress as a number": (num(9, 1), "INDEX-010"),
    "a snapshot as a number": (num(3, 1), "INDEX-010"),
    "an index name that is not text": (blob(8, b"\xff"), "INDEX-010"),
    "merge progress without a region": (blob(9, num(2, 1)), "INDEX-018"),
    "merge progress of a short region id": (blob(9, blob(1, blob(1, bytes(15))), num(2, 1)), "INDEX-018"),
    "a merged generation as text": (blob(9, WHOLE_ID, blob(2, b"1")), "INDEX-018"),
    "two entries of one region": (blob(9, WHOLE_ID, num(2, 1)) + blob(9, WHOLE_ID, num(2, 2)), "INDEX-018"),
    "catch-up of a short region id": (blob(10, blob(1, b"i"), blob(2, blob(1, blob(1, b"x")))), "INDEX-018"),
    "two catch-up entries of one index": (blob(10, blob(1, b"i")) + blob(10, blob(1, b"i")), "INDEX-019"),
    "a catch-up name as a number": (blob(10, num(1, 1)), "INDEX-019"),
    "a spec id as text": (blob(7, blob(1, b"1")), "INDEX-015"),
    "a transform as a number": (blob(7, blob(2, num(3, 1))), "INDEX-015"),
}


@pytest.mark.clause("INDEX-010", "INDEX-015", "INDEX-018", "INDEX-019", "AMB-72")
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
@pytest.mark.parametrize("fault", REFUSED)
def test_damaged_details_are_refused_by_the_clause_they_break(fault: str, revision: Revision) -> None:
    data, clause = REFUSED[fault]
    with pytest.raises(ArtifactError) as caught:
        decode(data, revision, PATH)
    assert (caught.value.clause, caught.value.path) == (clause, PATH)


@pytest.mark.parametrize("length", range(len(BYTES_R)))
def test_details_that_are_cut_are_refused_unless_the_cut_is_between_two_fields(length: int) -> None:
    if length in {0, *(end for _, end in fields(BYTES_R))}:
        found = decode(BYTES_R[:length], R, PATH)
        assert encode(found, R) == BYTES_R[:length]
    else:
        with pytest.raises(ArtifactError):
            decode(BYTES_R[:length], R, PATH)


@given(st.binary(max_size=80))
def test_arbitrary_bytes_give_no_other_error(data: bytes) -> None:
    with suppress(ArtifactError):
        decode(data, R, PATH)


@given(st.integers(0, len(BYTES_R) - 1), st.integers(1, 255))
def test_a_changed_byte_gives_no_other_error_and_what_is_read_is_rewritten_the_same(at: int, change: int) -> None:
    damaged = BYTES_R[:at] + bytes((BYTES_R[at] ^ change,)) + BYTES_R[at + 1 :]
    try:
        found = decode(damaged, R, PATH)
    except ArtifactError:
        return
    assert decode(encode(found, R), R, PATH) == found


# ---------------------------------------------------------------------------------------------------------------------
# Round trips

texts = st.text(st.characters(codec="utf-8"), max_size=8)
pairs = st.dictionaries(texts, texts, max_size=3).map(lambda found: tuple(sorted(found.items())))
uint64 = st.integers(0, 2**64 - 1)
later_fields = st.lists(st.builds(num, st.integers(100, 2**29 - 1), uint64), max_size=2).map(b"".join)
regions = st.uuids().map(lambda found: RegionId(str(found)))
progress = st.dictionaries(regions, uint64, max_size=3).map(
    lambda found: tuple((region, Generation(number)) for region, number in found.items())
)
region_fields = st.builds(
    RegionField,
    field_id=texts,
    source_ids=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3).map(tuple),
    transform=st.none() | texts,
    expression=st.none() | texts,
    result_type=texts,
    parameters=pairs,
    unknown=later_fields,
)
specs = st.builds(
    RegionSpec,
    spec_id=st.integers(0, 2**32 - 1),
    fields=st.lists(region_fields, max_size=2).map(tuple),
    unknown=later_fields,
)


@st.composite
def details(draw: Callable[..., Any], revision: Revision) -> IndexDetails:
    names = draw(st.lists(texts, unique=True, max_size=2))
    return IndexDetails(
        snapshot_ts_ms=Milliseconds(draw(st.integers(-(2**63), 2**63 - 1))),
        num_regions=draw(st.integers(0, 2**32 - 1)),
        inline_snapshots=draw(st.none() | st.binary(max_size=8)),
        specs=tuple(draw(st.lists(specs, max_size=2))),
        maintained_indexes=tuple(draw(st.lists(texts, max_size=2))),
        merged=draw(progress),
        catchup=tuple(
            IndexCatchup(index_name=name, generations=draw(progress), unknown=draw(later_fields)) for name in names
        ),
        writer_defaults=draw(pairs) if revision.shard_fields else (),
        maintain_all=draw(st.none() | st.booleans()) if revision.shard_fields else None,
        unknown=draw(later_fields),
    )


@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
@given(data=st.data())
def test_all_details_survive_a_round_trip_with_their_fields_in_order(revision: Revision, data: st.DataObject) -> None:
    made = data.draw(details(revision))
    written = encode(made, revision)
    assert decode(written, revision, PATH) == made
    known = [number for number, _ in fields(written) if number < 100]
    assert known == sorted(known)
