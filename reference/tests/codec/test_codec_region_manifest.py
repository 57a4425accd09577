"""Region manifests: the bytes of the texts, what is kept, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest, decode, encode
from memwal.errors import ArtifactError, InvalidArgument
from memwal.ids import Epoch, Generation, ManifestVersion, RegionId, SpecId, WalPosition
from memwal.revisions import A, B, R, Revision

from ..kit.wire import blob, fields, fixed, num

REGION = RegionId("7c9e6679-7425-40de-944b-e07fc1f90ae7")
REGION_BYTES = bytes.fromhex("7c9e6679742540de944be07fc1f90ae7")
OTHER = "0f8fad5b-d9cb-469f-a165-70867728950e"
PATH = "somewhere.binpb"
"""A name that says neither region nor version."""

MANIFEST = RegionManifest(
    version=ManifestVersion(5),
    region_id=REGION,
    spec_id=SpecId(1),
    epoch=Epoch(3),
    position_replay_after=WalPosition(10),
    position_last_seen=WalPosition(300),
    generation_current=Generation(3),
    flushed=(
        FlushedGeneration(generation=Generation(1), path="a1b2c3d4_gen_1"),
        FlushedGeneration(generation=Generation(2), path="e5f6a7b8_gen_2"),
    ),
)
BYTES = bytes.fromhex(
    "0805"  # 1, version
    "1003"  # 2, epoch
    "180a"  # 3, replay after
    "20ac02"  # 4, last seen: 300 = 0b10_0101100
    "3003"  # 6, current generation
    "4212"  # 8, 18 bytes
    "0801120e61316232633364345f67656e5f31"  # 1 and "a1b2c3d4_gen_1"
    "4212"
    "0802120e65356636613762385f67656e5f32"  # 2 and "e5f6a7b8_gen_2"
    "5001"  # 10, spec
    "5a120a107c9e6679742540de944be07fc1f90ae7"  # 11, the region's id in network order
)
MANIFEST_R = replace(
    MANIFEST,
    flushed=(
        FlushedGeneration(
            generation=Generation(1),
            path="a1b2c3d4_gen_1",
            in_memory_bytes=300,
            physical_rows=4,
            primary_key_bytes=0,
        ),
    ),
    shard_fields=(("bucket", b"\x03\x00\x00\x00"),),
    sealed=True,
)
BYTES_R = bytes.fromhex(
    "08051003180a20ac023003"
    "4219"  # 8, 25 bytes: an optional 0 is on the wire
    "0801120e61316232633364345f67656e5f3118ac0220042800"
    "5001"
    "5a120a107c9e6679742540de944be07fc1f90ae7"
    "720e0a066275636b6574120403000000"  # 14, "bucket" and four bytes
    "7801"  # 15, sealed
)

HEAD = num(1, 5) + num(2, 3)
ID = blob(11, blob(1, REGION_BYTES))


def listed(number: int, path: str) -> bytes:
    return blob(8, num(1, number), blob(2, path.encode()))


@pytest.mark.clause("MANIFEST-002", "MANIFEST-003", "MANIFEST-004", "MANIFEST-005", "MANIFEST-006", "MANIFEST-008")
@pytest.mark.clause("MANIFEST-010", "MANIFEST-013", "MANIFEST-015", "MANIFEST-016", "MANIFEST-038", "AMB-03", "AMB-36")
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
def test_a_manifest_has_its_fields_at_the_numbers_of_the_texts(revision: Revision) -> None:
    assert encode(MANIFEST, revision) == BYTES
    assert decode(BYTES, revision, PATH) == MANIFEST


@pytest.mark.clause("AMB-53")
def test_revision_r_adds_shard_fields_a_status_and_accounting() -> None:
    assert encode(MANIFEST_R, R) == BYTES_R
    assert decode(BYTES_R, R, PATH) == MANIFEST_R


@pytest.mark.parametrize("revision", [A, B], ids=lambda r: r.name)
def test_to_a_and_b_the_fields_of_r_are_unknown_ones_that_survive_a_rewrite(revision: Revision) -> None:
    found = decode(BYTES_R, revision, PATH)
    assert (found.shard_fields, found.sealed, found.flushed[0].in_memory_bytes) == ((), False, None)
    assert found.unknown == bytes.fromhex("720e0a066275636b65741204030000007801")
    assert found.flushed[0].unknown == bytes.fromhex("18ac0220042800")
    assert encode(found, revision) == BYTES_R
    raised = replace(found, epoch=Epoch(4))
    assert decode(encode(raised, revision), R, PATH) == replace(MANIFEST_R, epoch=Epoch(4))


@pytest.mark.parametrize("revision", [A, B], ids=lambda r: r.name)
@pytest.mark.parametrize(
    "manifest",
    [
        replace(MANIFEST, sealed=True),
        replace(MANIFEST, shard_fields=(("bucket", b"\x00"),)),
        replace(MANIFEST, flushed=(replace(MANIFEST.flushed[0], physical_rows=0),)),
    ],
    ids=["sealed", "shard_fields", "accounting"],
)
def test_a_and_b_do_not_write_the_fields_of_r(manifest: RegionManifest, revision: Revision) -> None:
    with pytest.raises(InvalidArgument, match="AMB-53"):
        encode(manifest, revision)


@pytest.mark.clause("AMB-03")
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
def test_unknown_fields_of_the_manifest_and_of_each_generation_survive_a_rewrite(revision: Revision) -> None:
    generation = blob(8, num(1, 1), blob(2, b"a1b2c3d4_gen_1"), blob(900, b"of the generation"), num(901, 1 << 63))
    data = HEAD + num(6, 2) + generation + ID + num(1000, 300) + blob(1001, b"of the manifest")
    found = decode(data, revision, PATH)
    assert found.unknown == num(1000, 300) + blob(1001, b"of the manifest")
    assert [g.unknown for g in found.flushed] == [blob(900, b"of the generation") + num(901, 1 << 63)]
    assert encode(found, revision) == data
    assert encode(replace(found, epoch=Epoch(4)), revision) == data.replace(b"\x10\x03", b"\x10\x04", 1)


@pytest.mark.parametrize("revision", [A, B], ids=lambda r: r.name)
@pytest.mark.parametrize("length", range(len(BYTES)))
def test_a_manifest_of_a_or_b_that_is_cut_anywhere_is_refused(length: int, revision: Revision) -> None:
    with pytest.raises(ArtifactError) as caught:
        decode(BYTES[:length], revision, "x/y.binpb")
    assert caught.value.clause in ("MANIFEST-002", "MANIFEST-003")
    assert caught.value.path == "x/y.binpb"


@pytest.mark.parametrize("length", range(len(BYTES_R)))
def test_a_manifest_of_r_that_is_cut_is_refused_or_lost_only_shard_fields_and_status(length: int) -> None:
    after_id = len(BYTES_R) - 18  # fields 14 and 15 take 16 and 2 bytes
    expected = {
        after_id: replace(MANIFEST_R, shard_fields=(), sealed=False),
        after_id + 16: replace(MANIFEST_R, sealed=False),
    }
    if length in expected:
        assert decode(BYTES_R[:length], R, PATH) == expected[length]
    else:
        with pytest.raises(ArtifactError):
            decode(BYTES_R[:length], R, PATH)


@pytest.mark.parametrize("length", range(len(BYTES), len(BYTES) + 8))
def test_a_cut_behind_the_region_id_loses_only_unknown_fields(length: int) -> None:
    data = BYTES + num(1000, 300) + num(1001, 5)
    boundaries = {len(BYTES): b"", len(BYTES) + 4: num(1000, 300)}
    if length in boundaries:
        assert decode(data[:length], B, PATH) == replace(MANIFEST, unknown=boundaries[length])
    elif length < len(data):
        with pytest.raises(ArtifactError):
            decode(data[:length], B, PATH)


REFUSED: dict[str, tuple[bytes, str]] = {
    "no bytes at all": (b"", "MANIFEST-003"),
    "text": (b'{"version": 1}', "MANIFEST-002"),
    "no region id": (HEAD, "MANIFEST-003"),
    "an empty region id": (HEAD + blob(11), "MANIFEST-003"),
    "a region id of 15 bytes": (HEAD + blob(11, blob(1, REGION_BYTES[:15])), "MANIFEST-003"),
    "a region id of 17 bytes": (HEAD + blob(11, blob(1, REGION_BYTES, b"\x00")), "MANIFEST-003"),
    "no version": (num(2, 1) + ID, "MANIFEST-018"),
    "version 0": (num(1, 0) + num(2, 1) + ID, "MANIFEST-018"),
    "a generation listed twice": (
        HEAD + num(6, 3) + listed(1, "a1b2c3d4_gen_1") + listed(1, "e5f6a7b8_gen_1") + ID,
        "GEN-013",
    ),
    "the current generation listed": (HEAD + num(6, 2) + listed(2, "a1b2c3d4_gen_2") + ID, "MANIFEST-014"),
    "a generation above the current one": (HEAD + num(6, 2) + listed(9, "a1b2c3d4_gen_9") + ID, "MANIFEST-014"),
    "a generation and no current one": (HEAD + listed(1, "a1b2c3d4_gen_1") + ID, "MANIFEST-014"),
    "generation 0": (HEAD + num(6, 2) + listed(0, "a1b2c3d4_gen_0") + ID, "MANIFEST-016"),
    "a generation without a folder": (HEAD + num(6, 2) + blob(8, num(1, 1)) + ID, "MANIFEST-017"),
    "a folder of another generation": (HEAD + num(6, 3) + listed(1, "a1b2c3d4_gen_2") + ID, "MANIFEST-017"),
    "a folder outside the region": (HEAD + num(6, 2) + listed(1, "../a1b2c3d4_gen_1") + ID, "MANIFEST-017"),
    "a folder name that is not text": (HEAD + num(6, 2) + blob(8, num(1, 1), blob(2, b"\xff")) + ID, "MANIFEST-002"),
    "a replay pointer of 8 fixed bytes": (HEAD + fixed(3, bytes(8)) + ID, "MANIFEST-002"),
    "a current generation of 8 fixed bytes": (HEAD + fixed(6, bytes(8)) + ID, "MANIFEST-002"),
    "a folder as a number": (HEAD + num(6, 2) + blob(8, num(1, 1), num(2, 1)) + ID, "MANIFEST-016"),
    "a generation number as text": (HEAD + num(6, 2) + blob(8, blob(1, b"1")) + ID, "MANIFEST-016"),
}


@pytest.mark.clause("MANIFEST-002", "MANIFEST-003", "MANIFEST-014", "MANIFEST-016", "MANIFEST-017", "MANIFEST-018")
@pytest.mark.clause("GEN-013")
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
@pytest.mark.parametrize("fault", REFUSED)
def test_a_manifest_that_contradicts_itself_is_refused_by_the_clause_it_breaks(fault: str, revision: Revision) -> None:
    data, clause = REFUSED[fault]
    with pytest.raises(ArtifactError) as caught:
        decode(data, revision, PATH)
    assert (caught.value.clause, caught.value.path) == (clause, PATH)


def test_a_status_that_r_does_not_define_is_refused_rather_than_rewritten_as_active() -> None:
    with pytest.raises(ArtifactError, match="status 2"):
        decode(BYTES + num(15, 2), R, PATH)


def name(version: str, region: str = str(REGION), root: str = "") -> str:
    return f"{root}_mem_wal/{region}/manifest/{version}.binpb"


FIVE = "101" + "0" * 61
SIX = "011" + "0" * 61


@pytest.mark.clause("MANIFEST-003", "MANIFEST-004", "MANIFEST-024", "MANIFEST-025", "AMB-36")
@pytest.mark.parametrize(
    ("path", "clause"),
    [
        (name(SIX), "MANIFEST-004"),
        (f"{SIX}.binpb", "MANIFEST-004"),
        (name(FIVE, OTHER), "MANIFEST-003"),
        (name(FIVE, REGION.upper()), "MANIFEST-003"),
        (name(FIVE, OTHER, root=f"_mem_wal/{REGION}/"), "MANIFEST-003"),
    ],
)
def test_a_manifest_that_contradicts_its_name_is_refused(path: str, clause: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        decode(BYTES, B, path)
    assert (caught.value.clause, caught.value.path) == (clause, path)


@pytest.mark.parametrize(
    "path",
    [
        name(FIVE),
        name(FIVE, root="bucket/table/"),
        name(FIVE, root=f"_mem_wal/{OTHER}/table/"),
        f"{FIVE}.binpb",
        f"{FIVE}.binpb.tmp",
        "_mem_wal",
        "",
    ],
)
def test_a_manifest_that_agrees_with_what_its_name_says_is_accepted(path: str) -> None:
    assert decode(BYTES, B, path) == MANIFEST


@pytest.mark.clause("AMB-35")
def test_a_current_generation_of_0_reads_as_1_and_an_epoch_of_0_is_accepted() -> None:
    found = decode(num(1, 1) + ID, B, PATH)
    assert (found.generation_current, found.epoch, found.version, found.flushed) == (1, 0, 1, ())
    assert encode(found, B) == num(1, 1) + num(6, 1) + ID


def test_generations_keep_the_order_in_which_they_are_listed() -> None:
    data = HEAD + num(6, 4) + listed(3, "a1b2c3d4_gen_3") + listed(1, "e5f6a7b8_gen_1") + ID
    assert [g.generation for g in decode(data, B, PATH).flushed] == [3, 1]
    assert encode(decode(data, B, PATH), B) == data


uint64 = st.integers(0, 2**64 - 1)
later_fields = st.lists(st.builds(num, st.integers(100, 2**29 - 1), uint64), max_size=2).map(b"".join)
counts = st.none() | uint64


@st.composite
def manifests(draw: Callable[..., Any], revision: Revision) -> RegionManifest:
    numbers = draw(st.lists(st.integers(1, 2**64 - 2), max_size=4, unique=True))
    generations = tuple(
        FlushedGeneration(
            generation=Generation(number),
            path=f"{draw(st.integers(0, 2**32 - 1)):08x}_gen_{number}",
            in_memory_bytes=draw(counts) if revision.shard_fields else None,
            physical_rows=draw(counts) if revision.shard_fields else None,
            primary_key_bytes=draw(counts) if revision.shard_fields else None,
            unknown=draw(later_fields),
        )
        for number in numbers
    )
    entries = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=9), st.binary(max_size=9)), max_size=3)
    return RegionManifest(
        version=ManifestVersion(draw(st.integers(1, 2**64 - 1))),
        region_id=RegionId(str(draw(st.uuids()))),
        spec_id=SpecId(draw(st.integers(0, 2**32 - 1))),
        epoch=Epoch(draw(uint64)),
        position_replay_after=WalPosition(draw(uint64)),
        position_last_seen=WalPosition(draw(uint64)),
        generation_current=Generation(draw(st.integers(max(numbers, default=0) + 1, 2**64 - 1))),
        flushed=generations,
        shard_fields=tuple(draw(entries)) if revision.shard_fields else (),
        sealed=draw(st.booleans()) if revision.shard_fields else False,
        unknown=draw(later_fields),
    )


@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
@given(data=st.data())
def test_every_manifest_survives_a_round_trip_with_its_fields_in_order(revision: Revision, data: st.DataObject) -> None:
    manifest = data.draw(manifests(revision))
    written = encode(manifest, revision)
    assert decode(written, revision, PATH) == manifest
    known = [number for number, _ in fields(written) if number < 100]
    assert known == sorted(known)
    assert known[-1] == 11 or revision is R


@given(data=st.data())
def test_every_cut_of_a_manifest_is_refused_or_keeps_all_fields_up_to_the_region_id(data: st.DataObject) -> None:
    manifest = data.draw(manifests(R))
    written = encode(manifest, R)
    id_ends = next(end for number, end in fields(written) if number == 11)
    bare = replace(manifest, shard_fields=(), sealed=False, unknown=b"")
    for length in range(len(written)):
        try:
            found = decode(written[:length], R, PATH)
        except ArtifactError:
            continue
        assert length >= id_ends
        assert replace(found, shard_fields=(), sealed=False, unknown=b"") == bare
        assert manifest.unknown.startswith(found.unknown)
        assert manifest.shard_fields[: len(found.shard_fields)] == found.shard_fields


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
