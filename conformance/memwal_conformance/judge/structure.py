"""Structural checks on a table's folder: cheap, without a client, and each pointing at the clause that is broken.

Every check says how many things it looked at, so that a check that had nothing to look at proves nothing.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from . import bloom, content, entries, generations, key_index, progress, snapshots, table
from .choice import Breach, Choice, Seen, breach
from .generations import steps, trigger, where
from .store import JudgedStore
from .wire import DamagedBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A named check over a whole store."""

    name: str
    clauses: Mapping[str, tuple[str, ...]]
    """Clauses by revision; a revision without any is not checked."""
    look: Callable[[JudgedStore], Seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check found."""

    check: str
    clauses: tuple[str, ...]
    """All that it is about; what is wrong breaks some of them."""
    looked_at: int
    broken: tuple[Breach, ...]
    choices: tuple[Choice, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong, in words."""
        return tuple(one.what for one in self.broken)

    @property
    def blamed(self) -> tuple[str, ...]:
        """The clauses that are broken, each once."""
        return tuple(dict.fromkeys(clause for one in self.broken for clause in one.clauses))


def run(store: JudgedStore) -> list[CheckResult]:
    """All checks that the store's revision has."""
    named = ((check, check.clauses.get(store.layout.revision, ())) for check in CHECKS)
    return [result(check.name, clauses, check.look(store)) for check, clauses in named if clauses]


def result(name: str, clauses: tuple[str, ...], seen: Seen) -> CheckResult:
    """What a check has said, one by one, put together."""
    told = list(seen)
    whole = [Breach(what=one, clauses=clauses) if isinstance(one, str) else one for one in told]
    faults = tuple(one for one in whole if isinstance(one, Breach))
    choices = tuple(one for one in whole if isinstance(one, Choice))
    return CheckResult(check=name, clauses=clauses, looked_at=len(told), broken=faults, choices=choices)


def _everywhere(*clauses: str) -> dict[str, tuple[str, ...]]:
    return {"A": clauses, "B": clauses, "R": clauses}


def objects_decode(store: JudgedStore) -> Seen:
    """Every manifest, hint and WAL entry decodes, and says what its path says."""
    revision = store.layout.revision
    for region in store.regions.values():
        for name, reason in region.damaged:
            whole = next(clause for start, clause in _WHOLE[revision].items() if name.startswith(start))
            yield breach(f"{region.region_id}/{name}: {reason}", reason.clauses.get(revision, whole))
        yield from (None for _ in (*region.manifests, *region.wal))


def region_folders(store: JudgedStore) -> Seen:
    """Region folders are named by version 4 UUIDs and hold manifest/, wal/ and generation folders only."""
    yield from (breach(f"_mem_wal/{name} is not a region id", "GEN-019") for name in store.strangers)
    for region in store.regions.values():
        other = uuid.UUID(region.region_id).version != 4
        yield breach(f"{region.region_id} is no version 4 UUID", "REGION-006") if other else None
        for name in region.strangers:
            yield breach(f"{region.region_id}/{name} has no place in the layout", "GEN-019")


def manifest_versions(store: JudgedStore) -> Seen:
    """Retained manifest versions are one block; every region with data has a manifest."""
    for region in store.regions.values():
        versions = sorted(region.manifests)
        if not versions:
            used = bool(region.wal or region.generations)
            yield breach(f"{region.region_id}: data, but no manifest", "FENCE-006") if used else None
            continue
        gaps = [a + 1 for a, b in pairwise(versions) if b != a + 1]
        yield breach(f"{region.region_id}: manifest version {gaps[0]} is missing", "MANIFEST-020") if gaps else None
        if versions[0] == 0:
            yield breach(f"{region.region_id}: there is a manifest version 0", "MANIFEST-018")


def epoch_steps(store: JudgedStore) -> Seen:
    """writer_epoch never decreases, and rises by one at most."""
    for region, before, after in steps(store):
        clause = "MANIFEST-007" if after.epoch < before.epoch else "FENCE-005"
        good = before.epoch <= after.epoch <= before.epoch + 1
        yield None if good else breach(f"{where(region, after)}: epoch {before.epoch} -> {after.epoch}", clause)


def retired_field(store: JudgedStore) -> Seen:
    """Merge progress, once field 7, is in no manifest."""
    for region in store.regions.values():
        for manifest in region.manifests.values():
            there = 7 in manifest.numbers
            yield f"{region.region_id}: version {manifest.version} has the retired field 7" if there else None


def pointer_steps(store: JudgedStore) -> Seen:
    """The replay pointer never moves back."""
    for region, before, after in steps(store):
        back = after.replay_after < before.replay_after
        yield f"{where(region, after)}: pointer {before.replay_after} -> {after.replay_after}" if back else None


def generation_steps(store: JudgedStore) -> Seen:
    """current_generation never decreases and is above every listed generation."""
    for region in store.regions.values():
        before = 0
        for manifest in region.manifests.values():
            listed = max((g.number for g in manifest.generations), default=0)
            now = manifest.current_generation
            good = now >= before and (now > listed or not manifest.generations)
            yield None if good else f"{where(region, manifest)}: generation {before} -> {now}, newest listed {listed}"
            before = now


def spec_steps(store: JudgedStore) -> Seen:
    """The region spec id is the same in every version."""
    for region, before, after in steps(store):
        same = before.spec_id == after.spec_id
        yield None if same else f"{where(region, after)}: spec {before.spec_id} -> {after.spec_id}"


def known_specs(store: JudgedStore) -> Seen:
    """A region is of a spec that a retained version of the table has, or of none, and then its spec id is 0."""
    versions = (store.table, *table.retained(store.root))
    known = {spec["spec_id"] for version in versions for each in version.memwal for spec in each.region_specs}
    for region in store.regions.values():
        if region.newest is not None:
            found = str(region.newest.spec_id)
            unknown = found != "0" and found not in known
            yield f"{region.region_id}: region_spec_id is {found}, and no region spec has that id" if unknown else None


def triggers(store: JudgedStore) -> Seen:
    """Every new version changes the fields of exactly one trigger; the last-seen hint may always rise."""
    for region, before, after in steps(store):
        yield None if trigger(before, after) else f"{where(region, after)}: no trigger makes this change"


def hints(store: JudgedStore) -> Seen:
    """A hint names a version that exists or existed, or the next one, which may be lost if both are stored at once."""
    for region in store.regions.values():
        hint, newest = region.hint, 0 if region.newest is None else region.newest.version
        if hint is not None:
            told = f"{region.region_id}: the hint says {hint}, and the newest version is {newest}"
            yield (Choice(what=told, ambiguity="AMB-31") if hint == newest + 1 else told) if hint > newest else None


def one_index(store: JudgedStore) -> Seen:
    """The table has one MemWAL index, with one progress entry per region, below the generation being filled."""
    yield None if len(store.table.memwal) == 1 else f"the table has {len(store.table.memwal)} MemWAL indexes"
    for details in store.table.memwal:
        regions = [region_id for region_id, _ in details.merged]
        for region_id, generation in details.merged:
            region = store.regions.get(region_id)
            if regions.count(region_id) > 1:
                yield f"merged_generations has {regions.count(region_id)} entries for {region_id}"
            elif region is not None and region.newest and generation >= region.newest.current_generation:
                yield f"{region_id}: merged {generation}, but the next generation is {region.newest.current_generation}"
            else:
                yield None


def catch_up(store: JudgedStore) -> Seen:
    """No index is said to have caught up with more than has been merged, nor twice with one region."""
    for details in store.table.memwal:
        for name, pairs in details.catchup:
            for region_id, generation in pairs:
                ahead = generation > store.merged(region_id)
                text = f"{name} caught up with generation {generation} of {region_id}, merged {store.merged(region_id)}"
                yield text if ahead else None
        names = [name for name, _ in details.catchup]
        yield from (f"index_catchup has {name} twice" for name in sorted(set(names)) if names.count(name) > 1)


def disjoint_regions(store: JudgedStore) -> Seen:
    """No key is in two regions."""
    owner: dict[content.Key, str] = {}
    for region in store.regions.values():
        try:
            found = content.region_keys(store, region) if store.key else set()
        except DamagedBytes as error:
            yield f"{region.region_id}: {error}"
            continue
        twice = sorted(repr(k) for k in found if k in owner)
        owner.update((k, region.region_id) for k in found)
        if found:
            yield f"{region.region_id} shares key {twice[0]} with another region" if twice else None


_CONTAINER = {"A": ("WAL-008", "WAL-010"), "B": ("WAL-009", "WAL-010"), "R": ("WAL-009", "WAL-010")}
_WHOLE = {
    revision: {"wal/": clauses[0], "manifest/version_hint": "MANIFEST-026", "manifest/": "MANIFEST-002"}
    for revision, clauses in _CONTAINER.items()
}
"""Beginning of an object's name -> the clause that is broken where it does not decode."""

KEY_INDEX = Check(name="key indexes", clauses={"R": ("FLUSH-013", "READ-002")}, look=key_index.complete)
"""It is made at the end of every case, too; the engine's invariant of this kind is `key_indexes_have_every_key`."""
CHECKS: tuple[Check, ...] = (
    Check(
        name="objects decode",
        clauses={r: (*c, "MANIFEST-002", "MANIFEST-003", "MANIFEST-004", "MANIFEST-026") for r, c in _CONTAINER.items()}
        | {r: (*_CONTAINER[r], "MANIFEST-002", "MANIFEST-026") for r in ("B", "R")},
        look=objects_decode,
    ),
    Check(name="WAL forms", clauses={r: _CONTAINER[r] for r in ("A", "B", "R")}, look=entries.wal_forms),
    Check(name="region folders", clauses=_everywhere("REGION-006", "GEN-019"), look=region_folders),
    Check(
        name="WAL names",
        clauses={"A": ("WAL-013", "WAL-014"), "B": ("WAL-013", "WAL-015"), "R": ("WAL-013", "WAL-015")},
        look=entries.wal_names,
    ),
    Check(
        name="WAL positions",
        clauses={"A": ("WAL-004",), "B": ("WAL-005",), "R": ("WAL-004",)},
        look=entries.wal_positions,
    ),
    Check(name="WAL epochs", clauses=_everywhere("WAL-011", "FENCE-017"), look=entries.wal_epochs),
    Check(name="WAL generations", clauses={"R": ("WAL-018",)}, look=entries.wal_generations),
    Check(
        name="manifest versions",
        clauses=_everywhere("MANIFEST-018", "MANIFEST-020", "FENCE-006"),
        look=manifest_versions,
    ),
    Check(name="retired field", clauses={"A": ("MANIFEST-015",)}, look=retired_field),
    Check(name="epoch steps", clauses=_everywhere("MANIFEST-007", "FENCE-005"), look=epoch_steps),
    Check(name="pointer steps", clauses=_everywhere("MANIFEST-009"), look=pointer_steps),
    Check(name="generation steps", clauses=_everywhere("MANIFEST-014"), look=generation_steps),
    Check(name="spec steps", clauses=_everywhere("REGION-011"), look=spec_steps),
    Check(name="region specs", clauses={"A": ("REGION-011",), "B": ("REGION-011",)}, look=known_specs),
    Check(name="triggers", clauses={"A": ("MANIFEST-040",)}, look=triggers),
    Check(
        name="generation list",
        clauses=_everywhere("GEN-004", "GEN-013", "MANIFEST-017", "FLUSH-013"),
        look=generations.generation_list,
    ),
    Check(name="generation tables", clauses=_everywhere("GEN-001", "GEN-008"), look=generations.generation_tables),
    Check(name="bloom filters", clauses=_everywhere("GEN-010"), look=bloom.filters),
    KEY_INDEX,
    Check(
        name="generation content",
        clauses={
            r: ("MANIFEST-009", "FLUSH-013", "GEN-001", "WAL-001", clause) for r, clause in generations.POINTER.items()
        },
        look=generations.generation_content,
    ),
    Check(name="hints", clauses=_everywhere("MANIFEST-026"), look=hints),
    Check(name="one MemWAL index", clauses=_everywhere("INDEX-001", "INDEX-018"), look=one_index),
    Check(name="merge progress", clauses=dict.fromkeys(("A", "B"), ("INDEX-020", "MERGE-006")), look=progress.steps),
    Check(name="catch-up", clauses=_everywhere("CATCHUP-001", "CATCHUP-008"), look=catch_up),
    Check(
        name="snapshots",
        clauses={"A": ("INDEX-009", "INDEX-014"), "B": ("INDEX-009", "INDEX-014")},
        look=snapshots.there,
    ),
    *(
        Check(
            name=f"snapshot column {at + 1}",
            clauses={"A": (clause,), "B": (clause,)},
            look=functools.partial(snapshots.column, at),
        )
        for at, clause in enumerate(snapshots.CLAUSES)
    ),
    Check(
        name="snapshot rows",
        clauses={
            "A": ("SNAP-001", "SNAP-003", "SNAP-021", "INDEX-012", "INDEX-022"),
            "B": ("SNAP-001", "SNAP-003", "INDEX-022"),
        },
        look=snapshots.rows,
    ),
    Check(name="disjoint regions", clauses=_everywhere("REGION-002"), look=disjoint_regions),
)
"""In the order of reporting."""
