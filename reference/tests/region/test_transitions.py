"""Who may change which field of a region's manifest, asserted where a step is made."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest
from memwal.codec import index_details, region_manifest, wal
from memwal.codec.index_details import IndexDetails
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal.codec.wal import WalEntry
from memwal.effects import Io
from memwal.errors import EngineBug
from memwal.ids import Epoch, Generation, ManifestVersion, Milliseconds, SpecId, WalPosition
from memwal.region import manifest as manifests
from memwal.region import transitions
from memwal.region.transitions import CLAIM, COLLECTOR, FLUSH, INDEX_BUILDER, SEALING, TRIGGERS, Trigger
from memwal.revisions import STRICT, A, B, R, Revision

from ..kit.ground import REGION, ROOT, Ground, put_manifests


def listed(number: int) -> FlushedGeneration:
    return FlushedGeneration(generation=Generation(number), path=f"0000000{number}_gen_{number}")


BEFORE = RegionManifest(
    version=ManifestVersion(7),
    region_id=REGION,
    spec_id=SpecId(3),
    epoch=Epoch(4),
    position_replay_after=WalPosition(20),
    position_last_seen=WalPosition(22),
    generation_current=Generation(4),
    flushed=(listed(2), listed(3)),
)
NEXT = replace(BEFORE, version=ManifestVersion(8))
STEPS: dict[Trigger, RegionManifest] = {
    CLAIM: replace(NEXT, epoch=Epoch(5)),
    FLUSH: replace(
        NEXT,
        position_replay_after=WalPosition(25),
        position_last_seen=WalPosition(25),
        generation_current=Generation(5),
        flushed=(*BEFORE.flushed, listed(4)),
    ),
    INDEX_BUILDER: replace(NEXT, position_last_seen=WalPosition(24)),
    COLLECTOR: replace(NEXT, flushed=(listed(3),)),
    SEALING: replace(NEXT, sealed=True),
}
OTHERWISE: dict[str, Any] = {
    "version": ManifestVersion(9),
    "region_id": "00000000-0000-4000-8000-000000000009",
    "spec_id": SpecId(4),
    "epoch": Epoch(9),
    "position_replay_after": WalPosition(19),
    "position_last_seen": WalPosition(21),
    "generation_current": Generation(9),
    "flushed": (listed(3), listed(2)),
    "shard_fields": (("b", b"\x00"),),
    "unknown": b"\x08\x01",
    "shard_fields_unknown": (b"\x08\x01",),
}
"""Values that no trigger gives these fields."""


@pytest.mark.clause("MANIFEST-034", "MANIFEST-035", "MANIFEST-036", "MANIFEST-037", "MANIFEST-040")
@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: trigger.name)
def test_a_step_changes_what_its_trigger_names_and_nothing_else(trigger: Trigger) -> None:
    after = STEPS[trigger]
    transitions.check(trigger, BEFORE, after, R)
    assert transitions.explained(BEFORE, after)
    assert {field.name for field in fields(RegionManifest)} == OTHERWISE.keys() | {"sealed"}
    for name, value in {**OTHERWISE, "sealed": not after.sealed}.items():
        with pytest.raises(EngineBug, match=name):
            transitions.check(trigger, BEFORE, replace(after, **{name: value}), R)
    for other in TRIGGERS:
        if other is not trigger:
            with pytest.raises(EngineBug):
                transitions.check(other, BEFORE, after, R)


@pytest.mark.clause("MANIFEST-035", "GEN-003")
def test_a_flush_lists_the_generation_that_is_current() -> None:
    with pytest.raises(EngineBug, match="flushed"):
        transitions.check(FLUSH, BEFORE, replace(STEPS[FLUSH], flushed=(*BEFORE.flushed, listed(1))), R)


@pytest.mark.clause("AMB-35")
def test_a_region_begins_with_a_claim_and_with_nothing_in_it() -> None:
    first = RegionManifest(region_id=REGION, spec_id=SpecId(0), **transitions.fresh(B))
    assert (first.version, first.epoch, first.position_replay_after, first.generation_current) == (1, 1, 0, 1)
    transitions.check(CLAIM, None, first, B)
    for name in transitions.fresh(B).keys() - {"sealed"}:
        with pytest.raises(EngineBug, match=name):
            transitions.check(CLAIM, None, replace(first, **{name: OTHERWISE[name]}), B)
    with pytest.raises(EngineBug, match="creates no region"):
        transitions.check(FLUSH, None, first, B)


@pytest.mark.clause("MANIFEST-040", "AMB-29")
def test_a_step_that_is_not_its_triggers_ends_before_anything_is_written(ground: Ground) -> None:
    put_manifests(ground, B, BEFORE, hint_at=7)
    before = dict(ground.objects)

    async def derive(_: RegionManifest | None) -> RegionManifest:
        return replace(STEPS[CLAIM], flushed=())

    io = Io(ROOT, interpretation=STRICT)
    with pytest.raises(EngineBug, match="by claim flushed"):
        ground.run(manifests.advance(io, B, CLAIM, derive, collected=False))
    assert ground.objects == before
    literal = replace(io, interpretation=replace(STRICT, reverify_each_attempt=False))
    assert ground.run(manifests.advance(literal, B, CLAIM, derive, collected=False)).committed


def _manifest() -> bytes:
    return region_manifest.encode(BEFORE, B)


def _details() -> bytes:
    details = IndexDetails(snapshot_ts_ms=Milliseconds(5), num_regions=2, inline_snapshots=b"x")
    return index_details.encode(details, B)


def _entry(revision: Revision) -> bytes:
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    return wal.encode(WalEntry(epoch=Epoch(3), rows=rows), revision)


def test_a_manifest_and_index_details_are_read_again_when_they_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _manifest()
    assert _details()
    monkeypatch.setattr("memwal.codec.region_manifest.Epoch", lambda number: Epoch(number + 1))
    monkeypatch.setattr("memwal.codec.index_details.Milliseconds", lambda number: Milliseconds(number + 1))
    for encode in (_manifest, _details):
        with pytest.raises(EngineBug, match="readers find"):
            encode()


@pytest.mark.parametrize("revision", [A, B], ids=["lance", "arrow"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows, metadata: (rows.slice(1), metadata),
        lambda rows, metadata: (rows, {b"writer_epoch": b"9"}),
        lambda rows, metadata: (rows, {**metadata, b"more": b""}),
    ],
    ids=["rows", "epoch", "metadata"],
)
def test_the_envelope_of_an_entry_is_read_again_when_it_is_encoded(
    revision: Revision, wrong: Callable[..., tuple[pa.Table, wal.Metadata]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _entry(revision)
    honest = wal._ENCODE[revision.wal_container]
    monkeypatch.setitem(wal._ENCODE, revision.wal_container, lambda *given: honest(*wrong(*given)))
    with pytest.raises(EngineBug, match="readers find"):
        _entry(revision)
