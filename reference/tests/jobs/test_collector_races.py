"""The garbage collector beside every other process: at every request of theirs, and at every request of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from memwal import paths
from memwal.codec import table_manifest
from memwal.effects import Delete, Get, Head, Io, List, ListFolders, Protocol, PutIfAbsent
from memwal.errors import AlreadyExists, Fenced, MemwalError, NotFound, OutcomeUnknown, Throttled
from memwal.ids import RegionId, TableVersion
from memwal.index import regions
from memwal.index.opening import region_of
from memwal.invariants.runner import verify
from memwal.jobs.collector import Decision, Policy, collect
from memwal.jobs.merger import merge_region
from memwal.read import scan as reading
from memwal.region.opening import open_writer
from memwal.revisions import STRICT
from memwal.table import tags, write
from memwal.table.state import TableState, latest, load, versions

from ..kit.collector_scene import (
    BUSY_ROWS,
    EVERY,
    at_version,
    busy,
    folders,
    generation,
    listed,
    manifest_versions,
    newest_manifest,
    run,
    strong,
    table,
    tag,
    wal_positions,
)
from ..kit.ground import Actor, Ground, row
from ..kit.profiles import read_as
from ..kit.revisions import B_FIRST
from ..kit.tables import IO, by_id, history, objects_below

Process = Callable[[], Protocol[Any]]
TIGHT = Policy(retain_versions=1, retain_manifests=2)


@dataclass
class Played:
    """Two processes, played to their ends, or what they failed with."""

    ground: Ground
    first: Any
    second: Any
    at: int
    """How many requests of the first came before the whole of the second."""


def outcome(steps: Callable[[], Any]) -> Any:
    try:
        return steps()
    except MemwalError as error:
        return error


def at_every_request(objects: dict[str, bytes], first: Process, second: Process) -> Iterator[Played]:
    """Play the second process whole at each request of the first, on copies of one store."""
    at = 0
    while True:
        ground = Ground(objects)
        actor = Actor(ground, first())
        for _ in range(at):
            if actor.waiting is not None:
                actor.step()
        if actor.waiting is None:
            return
        other = outcome(partial(ground.run, second()))
        yield Played(ground, outcome(actor.finish), other, at)
        at += 1


def collecting(policy: Policy = TIGHT, io: Io = IO) -> Process:
    return lambda: collect(io, policy)


def both_ways(objects: dict[str, bytes], other: Process, policy: Policy = TIGHT) -> Iterator[Played]:
    """The collector at each request of the other, and the other at each request of the collector."""
    yield from at_every_request(objects, other, collecting(policy))
    for played in at_every_request(objects, collecting(policy), other):
        yield Played(played.ground, played.second, played.first, -played.at)


@dataclass
class Well:
    """Checks that neither process failed, that readers see ``rows``, that no invariant is broken, and that another run
    of the collector leaves it so and nothing behind. Stores that are equal are looked at once."""

    rows: dict[int, str]
    seen: set[frozenset[tuple[str, bytes]]] = field(default_factory=set)

    def __call__(self, played: Played) -> bool:
        """Whether this store was not seen before."""
        assert not isinstance(played.first, MemwalError), (played.at, played.first)
        assert not isinstance(played.second, MemwalError), (played.at, played.second)
        ground, found = played.ground, frozenset(played.ground.objects.items())
        if found in self.seen:
            return False
        self.seen.add(found)
        assert strong(ground) == self.rows, played.at
        assert ground.run(verify(IO)).findings == (), played.at
        run(ground, retain_versions=1, retain_manifests=2)
        assert strong(ground) == self.rows, played.at
        assert not any(name.startswith("t/_expired/") for name in ground.objects)
        return True


async def writing(region: RegionId) -> str:
    """Claim the region, replay, put, flush, and put again."""
    state = await latest(IO)
    (known,) = [each for each in await regions.known(IO, state) if each.region_id == region]
    writer = await open_writer(region_of(IO, state, known))
    await writer.put(row(6, "six"))
    await writer.flush()
    await writer.put(row(7, "seven"))
    return "written"


@pytest.mark.clause("GC-014", "GC-007", "AMB-94", "AMB-98", "AMB-33")
@B_FIRST
def test_a_writer_claims_puts_and_flushes_beside_the_collector_at_every_request(revision: str) -> None:
    ground, region = busy(revision)
    well, count = Well({**BUSY_ROWS, 6: "six", 7: "seven"}), 0
    for played in both_ways(ground.objects, lambda: writing(region)):
        if well(played):
            assert listed(played.ground, region, revision) == folders(played.ground, region) == [3, 4]
        count += 1
    assert count > 120


@pytest.mark.clause("AMB-94")
def test_under_the_literal_reading_the_collector_takes_a_flush_in_progress_for_a_left_over() -> None:
    ground, region = busy("B")
    literal = collecting(io=read_as(IO, replace(STRICT, orphans_by_generation=False)))
    lost = [
        outcome(partial(strong, played.ground)) != {**BUSY_ROWS, 6: "six", 7: "seven"}
        for played in at_every_request(ground.objects, lambda: writing(region), literal)
    ]
    assert sum(lost) > 3
    assert lost != [True] * len(lost)


@pytest.mark.clause("GC-014", "AMB-98", "GC-003")
@B_FIRST
def test_a_merger_works_beside_the_collector_at_every_request(revision: str) -> None:
    ground, region = busy(revision)
    well = Well(BUSY_ROWS)
    for played in both_ways(ground.objects, lambda: merge_region(IO, region)):
        if well(played):
            assert listed(played.ground, region, revision) == folders(played.ground, region) == []
        assert [merged.generation for merged in played.first] == [3]


@pytest.mark.clause("GC-014", "AMB-98", "AMB-76")
@pytest.mark.parametrize("most", [0, 100])
def test_a_snapshot_is_built_beside_the_collector_at_every_request(most: int) -> None:
    ground, _ = busy("B")
    well = Well(BUSY_ROWS)
    for played in both_ways(ground.objects, lambda: regions.build_snapshot(IO, inline_most=most)):
        if well(played):
            assert len(objects_below(played.ground, "_indices")) == (1 if most == 0 else 0)
            assert at_version(played.ground, history(played.ground)[-1]).keys() == {1, 2, 3, 4}


@pytest.mark.clause("GC-014")
def test_direct_writes_to_the_base_go_on_beside_the_collector_at_every_request() -> None:
    ground, _ = busy("B")
    well = Well({**BUSY_ROWS, 8: "direct"})
    for played in both_ways(ground.objects, lambda: write.append(IO, row(8, "direct"))):
        well(played)
    well = Well({key: value for key, value in BUSY_ROWS.items() if key != 2})
    for played in both_ways(ground.objects, lambda: write.delete(IO, _is_two, "id = 2")):
        well(played)


def _is_two(rows: pa.Table) -> Any:
    return rows.column("id").to_numpy() == 2


@pytest.mark.clause("AMB-98")
@pytest.mark.parametrize("keep", [1, 4])
def test_two_collectors_end_where_one_does(keep: int) -> None:
    ground, region = busy("B")
    alone = Ground(ground.objects)
    run(alone, retain_versions=1, retain_manifests=2)
    names = {n for n in alone.objects if "/manifest/" not in n}
    other = Policy(retain_versions=keep, retain_manifests=2)
    for played in both_ways(ground.objects, collecting(other)):
        assert not isinstance(played.first, MemwalError)
        assert not isinstance(played.second, MemwalError)
        if keep == 1:
            assert played.ground.objects == alone.objects
        assert {n for n in played.ground.objects if "/manifest/" not in n} == names
        assert newest_manifest(played.ground, region, "B").flushed == newest_manifest(alone, region, "B").flushed


@pytest.mark.clause("AMB-93", "GC-010")
@B_FIRST
def test_a_collector_that_stops_anywhere_is_carried_on_by_the_next(revision: str) -> None:
    ground, region = busy(revision)
    alone = Ground(ground.objects)
    run(alone, retain_versions=1, retain_manifests=2)
    hint = f"t/{paths.region(region)}/{paths.VERSION_HINT}"
    at = 0
    while True:
        stopped = Ground(ground.objects)
        actor = Actor(stopped, collect(IO, TIGHT))
        for _ in range(at):
            if actor.waiting is not None:
                actor.step()
        if actor.waiting is None:
            break
        assert strong(stopped) == BUSY_ROWS
        run(stopped, retain_versions=1, retain_manifests=2)
        left, expected = dict(stopped.objects), dict(alone.objects)
        assert left.pop(hint)
        assert expected.pop(hint)
        assert left == expected, at
        at += 1
    assert at > 100


@pytest.mark.parametrize(("failure", "applied"), [(OutcomeUnknown, False), (OutcomeUnknown, True), (Throttled, False)])
def test_a_change_that_is_not_answered_is_made_again(failure: type[OutcomeUnknown | Throttled], applied: bool) -> None:
    ground, region = busy("B")
    alone = Ground(ground.objects)
    run(alone, retain_versions=1, retain_manifests=2)
    for at in range(200):
        bumpy = Ground(ground.objects)
        actor = Actor(bumpy, collect(IO, TIGHT))
        changed = 0
        while actor.waiting is not None:
            changing = not isinstance(actor.waiting, Get | Head | List | ListFolders)
            if changing and changed == at:
                actor.answer(failure(actor.waiting.path), applied=applied)
            else:
                actor.step()
            changed += changing
        actor.finish()
        assert strong(bumpy) == BUSY_ROWS
        names = {name for name in bumpy.objects if "/manifest/" not in name}
        assert names == {name for name in alone.objects if "/manifest/" not in name}
        assert len(manifest_versions(bumpy, region)) == 2
        if changed <= at:
            return
    pytest.fail("the collector never ended")


def tagging(version: int) -> Protocol[str]:
    """What a table library does to make a tag: look whether the version is there, then name it."""

    async def steps() -> str:
        await IO.head(paths.table_manifest(TableVersion(version)))
        await IO.put("_refs/tags/kept.json", b'{"version": %d}' % version)
        return "tagged"

    return steps()


@pytest.mark.clause("GC-003")
def test_a_tag_of_a_version_that_is_expired_meanwhile_is_refused_and_gone() -> None:
    ground = Ground()
    made = table(ground, "B")
    version = made.version
    made.base.append(row(1, "a"))
    late = Actor(ground, tags.create(IO, "late", TableVersion(version))).until(PutIfAbsent, "tags/late")
    late.step()
    assert "t/_refs/tags/late.json" in ground.objects
    del ground.objects[f"t/_versions/{2**64 - 1 - version:020d}.manifest"]
    with pytest.raises(NotFound):
        late.finish()
    assert "t/_refs/tags/late.json" not in ground.objects


@pytest.mark.clause("AMB-98", "GC-003")
def test_a_tag_that_is_made_in_one_go_beside_the_collector_keeps_its_version_or_is_refused() -> None:
    ground, _ = busy("B")
    states = history(ground)
    tagged = states[3]
    expected = at_version(ground, tagged)
    kept = 0
    for played in at_every_request(ground.objects, collecting(), lambda: tagging(tagged.version)):
        assert strong(played.ground) == BUSY_ROWS
        if isinstance(played.second, NotFound):
            continue
        if tagged.version in played.ground.run(versions(IO)):
            assert at_version(played.ground, played.ground.run(load(IO, tagged.version))) == expected
            kept += 1
        else:
            pytest.fail(f"the tag made at request {played.at} names a version that is gone")
    assert kept > 5


@pytest.mark.clause("AMB-98")
def test_a_tag_of_a_version_that_was_expired_by_a_collector_that_stopped_gets_it_back() -> None:
    ground, _ = busy("B")
    tagged = history(ground)[3]
    expected = at_version(ground, tagged)
    actor = Actor(ground, collect(IO, TIGHT)).until(Delete, paths.table_manifest(tagged.version))
    tag(ground, "kept", tagged.version)
    actor.step()
    assert tagged.version not in ground.run(versions(IO))
    run(ground, retain_versions=1, retain_manifests=2)
    assert at_version(ground, ground.run(load(IO, tagged.version))) == expected
    late = history(ground)[0].version
    assert late == tagged.version


@pytest.mark.clause("AMB-98")
def test_a_version_whose_files_are_being_collected_does_not_come_back() -> None:
    made = table_with_replaced_rows()
    expired = history(made)[2]
    actor = Actor(made, collect(IO, TIGHT)).until(Delete, "/data/")
    actor.step()
    tag(made, "late", expired.version)
    run(made, retain_versions=1)
    assert expired.version not in made.run(versions(IO))
    assert strong(made) == {2: "x"}


def table_with_replaced_rows() -> Ground:
    ground = Ground()
    made = table(ground)
    made.base.append(row(1, "x"))
    made.base.append(row(2, "x"))
    made.base.delete("id = 1")
    return ground


def restoring(version: int) -> Protocol[TableVersion]:
    """Make an earlier version the newest again, as other writers do: its manifest under the next number."""

    async def steps() -> TableVersion:
        earlier = await load(IO, TableVersion(version))
        while True:
            number = TableVersion((await versions(IO))[-1] + 1)
            message = type(earlier.manifest.message)()
            message.CopyFrom(earlier.manifest.message)
            message.version = number
            manifest = replace(earlier.manifest, message=message)
            try:
                await IO.put_if_absent(paths.table_manifest(number), table_manifest.encode(manifest))
            except AlreadyExists:
                continue
            return number

    return steps()


@pytest.mark.clause("AMB-98", "GC-004", "AMB-87")
def test_a_retained_version_can_be_restored_beside_the_collector_at_every_request() -> None:
    ground, region = busy("B")
    retained = history(ground)[-3]
    assert retained.mem_wal.progress(region) == 1
    policy = Policy(retain_versions=3, retain_manifests=2)
    for played in both_ways(ground.objects, lambda: restoring(retained.version), policy):
        assert not isinstance(played.first, MemwalError)
        assert not isinstance(played.second, MemwalError)
        assert strong(played.ground) == BUSY_ROWS
        played.ground.run(merge_region(IO, region))
        run(played.ground, retain_versions=1, retain_manifests=2)
        assert strong(played.ground) == BUSY_ROWS


@pytest.mark.clause("AMB-98", "GC-001", "AMB-87")
def test_a_restore_in_one_go_of_a_version_that_is_being_expired_is_refused_or_loses_nothing() -> None:
    ground, region = busy("B")
    earlier = history(ground)[-3]
    assert earlier.mem_wal.progress(region) == 1
    restored = 0
    for played in at_every_request(ground.objects, collecting(), lambda: restoring(earlier.version)):
        assert strong(played.ground) == BUSY_ROWS, played.at
        restored += not isinstance(played.second, NotFound)
        played.ground.run(merge_region(IO, region))
        run(played.ground, retain_versions=1)
        assert strong(played.ground) == BUSY_ROWS, played.at
    assert restored > 5


# --- readers and mergers in flight -----------------------------------------------------------------------------------


def unmerged(revision: str) -> tuple[Ground, RegionId, dict[int, str]]:
    """A table with two generations that are not merged, and the rows that it has."""
    ground = Ground()
    made = table(ground, revision)
    made.base.append(pa.concat_tables([row(1, "base"), row(2, "base")]))
    region = generation(made, None, (1, "one"), (3, "one"))
    generation(made, region, (1, "two"), (4, "two"))
    return ground, RegionId(region), {1: "two", 2: "base", 3: "one", 4: "two"}


async def merging_and_collecting(region: RegionId) -> tuple[Decision, ...]:
    await merge_region(IO, region)
    return await collect(IO, TIGHT)


@pytest.mark.clause("AMB-92", "READ-012", "GC-003")
@EVERY
def test_a_strong_reader_whose_sources_are_merged_and_collected_starts_again_and_misses_nothing(revision: str) -> None:
    ground, region, rows = unmerged(revision)
    again = 0
    for played in at_every_request(ground.objects, lambda: reading.scan(IO), lambda: merging_and_collecting(region)):
        assert by_id(played.first) == rows, played.at
        assert sum(d.collected and d.kind == "generation" for d in played.second) == 2
        again += bool(played.ground.events("read_again"))
    assert again > 3


@pytest.mark.clause("AMB-92", "MERGE-009")
@B_FIRST
def test_a_merger_whose_source_is_merged_by_another_and_collected_commits_nothing_of_it(revision: str) -> None:
    ground, region, rows = unmerged(revision)
    for played in at_every_request(
        ground.objects, lambda: merge_region(IO, region), lambda: merging_and_collecting(region)
    ):
        assert not isinstance(played.second, MemwalError)
        assert isinstance(played.first, tuple | MemwalError)
        newest = played.ground.run(latest(IO))
        assert newest.mem_wal.progress(region) == 2, played.at
        assert strong(played.ground) == rows, played.at
        assert by_id(played.ground.run(scan_base(newest))) == rows, played.at
        assert played.ground.run(merge_region(IO, region)) == ()


async def scan_base(state: TableState) -> pa.Table:
    from memwal.table import read

    return await read.scan(IO, state)


@pytest.mark.clause("AMB-92")
def test_a_reader_of_an_old_version_that_is_dropped_meanwhile_fails_and_never_sees_less() -> None:
    ground, _ = busy("B")
    old = history(ground)[4]
    expected = at_version(ground, old)
    for played in at_every_request(ground.objects, lambda: reading.scan(IO, version=old), collecting()):
        if not isinstance(played.first, MemwalError):
            assert by_id(played.first) == expected


# --- stalled writers -------------------------------------------------------------------------------------------------


def stalled_put(ground: Ground, region: RegionId, *, verifies: bool) -> Actor[None]:
    """A writer that stands before its put of an entry with row 9."""
    state = ground.run(latest(IO))
    (known,) = [each for each in ground.run(regions.known(IO, state)) if each.region_id == region]
    opened = replace(region_of(IO, state, known), wal_collection=verifies)
    writer = ground.run(open_writer(opened))
    return Actor(ground, writer.put(row(9, "late"))).until(PutIfAbsent, "/wal/")


def collected_past(ground: Ground, region: RegionId, revision: str, name: str) -> None:
    """Another writer takes over and flushes, all is merged, and the entry's position is collected."""
    ground.run(writing(region))
    state = ground.run(latest(IO))
    (known,) = [each for each in ground.run(regions.known(IO, state)) if each.region_id == region]
    ground.run(ground.run(open_writer(region_of(IO, state, known))).flush())
    ground.run(merge_region(IO, region))
    run(ground, retain_versions=1, retain_manifests=2)
    assert name not in ground.objects
    assert wal_positions(ground, region, revision) == []


@pytest.mark.clause("AMB-25", "GC-007")
@EVERY
def test_a_put_that_was_stalled_until_its_position_was_collected_is_not_acknowledged(
    revision: str,
) -> None:
    ground, region = busy(revision)
    put = stalled_put(ground, region, verifies=True)
    assert put.waiting is not None
    name = put.waiting.path
    collected_past(ground, region, revision, name)
    with pytest.raises(Fenced):
        put.finish()
    assert name in ground.objects
    assert strong(ground) == {**BUSY_ROWS, 6: "six", 7: "seven"}
    run(ground, retain_versions=1)
    assert name not in ground.objects


@pytest.mark.clause("AMB-25")
def test_without_the_verification_such_a_put_is_acknowledged_and_lost() -> None:
    ground, region = busy("B")
    put = stalled_put(ground, region, verifies=False)
    assert put.waiting is not None
    collected_past(ground, region, "B", put.waiting.path)
    put.finish()
    assert 9 not in strong(ground)


@pytest.mark.clause("AMB-30", "GC-008", "GC-014")
@EVERY
def test_a_claim_that_was_stalled_until_its_manifest_version_was_collected_claims_anew(revision: str) -> None:
    ground, region = busy(revision)
    claim = Actor(ground, writing(region)).until(PutIfAbsent, "/manifest/")
    assert claim.waiting is not None
    name = claim.waiting.path
    for _ in range(3):
        ground.run(writing(region))
    run(ground, retain_versions=1, retain_manifests=2)
    assert name not in ground.objects
    before = newest_manifest(ground, region, revision)
    assert claim.finish() == "written"
    after = newest_manifest(ground, region, revision)
    assert after.epoch == before.epoch + 1
    assert after.generation_current == before.generation_current + 1
    assert strong(ground) == {**BUSY_ROWS, 6: "six", 7: "seven"}
