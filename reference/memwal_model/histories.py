"""Histories of the machine: lives in which every step happens, and what is lost where a text is read to the letter.

Each is a list of steps as one would tell them: the name of an action and its parameters, or one of the `SPANS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .machine import ACTIONS
from .states import Setting, State, Step, after, broken, possible

SPANS = {
    "own": ("read_manifest {0}", "claim {0}"),
    "barrier": ("send {0}", "carry_out {0} {1}", "recover {0}"),
    "put": ("send {0}", "carry_out {0} {1}", "acknowledge {0}"),
    "flushed": ("flush {0} {1} {2}", "list_generation {0}", "learn_of_listing {0}"),
    "merged": ("prepare_merge {0} {1}", "merge {0}"),
    "indexed": ("load b", "catch_up b i"),
}
"""Several steps that often follow each other; ``{0}`` is the first parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineHistory:
    """Steps from the initial state, and the statement that the last one breaks; empty if none is broken."""

    name: str
    words: str
    told: str
    breaks: str = ""
    setting: Setting = field(default_factory=Setting)

    def steps(self) -> Iterator[Step]:
        for line in self.told.split(","):
            yield from steps_of(line)


def steps_of(line: str) -> Iterator[Step]:
    """The steps that a line tells: one of `SPANS` or an action, and its parameters, as in ``carry_out w1 1``."""
    name, *parameters = line.split()
    for each in SPANS.get(name, ()):
        yield _step(*each.format(*parameters).split())
    if name not in SPANS:
        yield _step(name, *parameters)


def _step(name: str, *parameters: str) -> Step:
    if name not in ACTIONS:
        raise KeyError(f"no action of the machine: {name}")
    return name, tuple(int(each) if each.isdecimal() else each for each in parameters)


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a history."""

    states: tuple[State, ...]
    refused: Step | None
    """The first step that could not happen; None if all happened."""
    broken: str
    """The statement that is broken after the last step that happened; empty if none."""


def run(history: MachineHistory, setting: Setting | None = None) -> Run:
    """Take the steps one after another, until one cannot happen or breaks a statement."""
    states = [(setting or history.setting).initial()]
    for step in history.steps():
        if not possible(states[-1], step):
            return Run(tuple(states), step, "")
        states.append(after(states[-1], step))
        if found := broken(states[-2], step, states[-1], theorems=bool(history.breaks)):
            return Run(tuple(states), None, found)
    return Run(tuple(states), None, "")


LIVES = (
    MachineHistory(
        name="from_put_to_base",
        words="Rows are put, flushed, read, merged, indexed, and what nothing needs any more is collected.",
        told="own w1, open_without_barrier w1, put w1 1, put w1 2, raise_hint 1, flushed w1 1 2, put w1 3,"
        "begin_read r, read_regions r, read_base r, read_generation r 1, read_entry r, read_end r, succeed r,"
        "merged m1 1, indexed, load b, gather b, commit_snapshot b, expire 1, doom 1, unlist 1 1, delete_files 1,"
        "delete_entry 1, delete_entry 2, delete_manifests 3, restore 3",
    ),
    MachineHistory(
        name="fenced_twice",
        words="A writer is fenced while it puts, its successor while it recovers; a reader asks the owner's memory.",
        told="create_region, own w1, open_without_barrier w1, put w1 1, send w1, own w2, own w3, replay w3,"
        "barrier w3 2, crash w1, replay w2, crash w2, put w3 3, begin_read r, read_memory r w3,"
        "read_regions r, read_base r, succeed r, flush w3 1 3, list_generation w3, crash w3, delete_orphan w3,"
        "claim_of_nobody",
    ),
)


def _without(name: str, words: str, breaks: str, told: str, **setting: bool | int) -> MachineHistory:
    chosen = Setting(without=frozenset({name}), **setting)  # type: ignore[arg-type]
    return MachineHistory(name=name, words=words, told=told, breaks=breaks, setting=chosen)


_PUT = "own w1, open_without_barrier w1, put w1 1,"
_FENCED = f"{_PUT} own w2, replay w2, barrier w2 2,"
_FLUSHED = f"{_PUT} flushed w1 1 1,"
_COLLECTED = "merged m1 1, indexed, expire 1, doom 1, unlist 1 1,"

HAZARDS = (
    _without(
        "zero_by_generation",
        "A fresh region's pointer is 0, and so is the position of its first entry: recovery starts behind it.",
        "acknowledged_is_in_reach",
        "own w1, open_without_barrier w1, put w1 0",
        first=0,
    ),
    _without(
        "replay_from_pointer",
        "Recovery starts behind the last-seen hint, and the next flush leaves out what was before.",
        "acknowledged_is_in_reach",
        f"{_PUT} raise_hint 1, crash w1, own w2, barrier w2 2, flush w2 1 2, list_generation w2",
    ),
    _without(
        "conditional_wal_put",
        "A fenced writer's put replaces its successor's barrier.",
        "zombie_below_barrier",
        f"{_FENCED} put w2 3, send w1, carry_out w1 2, acknowledge w1",
        collects_wal=False,
    ),
    _without(
        "stop_on_taken_position",
        "A fenced writer goes to the position behind its successor's barrier.",
        "epochs_never_fall_in_wal",
        f"{_FENCED} skip_taken w1, send w1, carry_out w1 3",
        collects_wal=False,
    ),
    _without(
        "resolve_unknown_put",
        "A put without an answer is not resolved, and the next one leaves a hole.",
        "wal_has_no_hole",
        "own w1, open_without_barrier w1, send w1, skip_unknown w1, send w1, carry_out w1 2",
    ),
    _without(
        "claim_barrier",
        "Nothing stands in the way of a fenced writer's next put.",
        "zombie_below_barrier",
        f"{_PUT} own w2, replay w2, open_without_barrier w2, send w1, carry_out w1 2, acknowledge w1",
        collects_wal=False,
    ),
    _without(
        "verify_after_put",
        "A put that waited long is carried out at a position that was freed.",
        "acknowledged_is_in_reach",
        f"{_PUT} send w1, own w2, replay w2, barrier w2 2, put w2 3, flushed w2 1 3, {_COLLECTED}"
        "delete_entry 1, delete_entry 2, carry_out w1 2, acknowledge w1",
    ),
    _without(
        "stop_on_newer_epoch",
        "A slow claimer skips its successor's entries and puts its barrier behind them.",
        "epochs_never_fall_in_wal",
        f"{_PUT} own w2, own w3, replay w3, barrier w3 2, replay w2, replay_skips_newer w2, send w2, carry_out w2 3",
    ),
    _without(
        "own_claim_needs_confirmation",
        "Two writers have read the same version; one wins, the other finds what it wanted.",
        "one_owner",
        "read_manifest w1, read_manifest w2, claim w1, claim_recognised w2",
    ),
    _without(
        "reverify_each_attempt",
        "A fenced writer lists its generation on top of its successor's claim.",
        "epoch_never_falls",
        f"{_PUT} flush w1 1 1, own w2, list_generation w1",
    ),
    _without(
        "stored_epoch_is_kept",
        "A builder that read the manifest before a claim undoes the claim.",
        "epoch_never_falls",
        f"read_manifest w2, {_PUT} raise_hint_on_old_manifest w2 1",
    ),
    _without(
        "guard_collected_versions",
        "A claim that waited long creates a version that was collected.",
        "one_owner",
        "read_manifest w1, own w2, open_without_barrier w2, put w2 1, raise_hint 1, delete_manifests 2,"
        "claim_of_a_freed_number w1",
    ),
    _without(
        "list_when_hint_fails",
        "The hint is lost and version 1 was collected: a claim begins the region anew.",
        "one_owner",
        f"{_PUT} raise_hint 1, delete_manifests 2, read_manifest w2, claim_as_new w2",
    ),
    _without(
        "flush_in_order",
        "A later generation is listed before an earlier one, and the pointer goes past both.",
        "acknowledged_is_in_reach",
        f"{_PUT} put w1 2, flush w1 2 2, list_generation w1",
    ),
    _without(
        "last_row_is_merged",
        "Of two rows of a key in one generation the first goes to the base.",
        "base_has_newest",
        f"{_PUT} put w1 2, flushed w1 1 2, merged m1 1",
    ),
    _without(
        "rebase_index_fields",
        "A builder commits the progress that it loaded before a merge, which is to be merged once more.",
        "base_has_only_merged",
        f"{_FLUSHED} load b, merged m1 1, commit_snapshot b",
    ),
    _without(
        "credit_indexed_version",
        "An index is credited with a merge that came after it was built.",
        "credit_is_true",
        f"{_FLUSHED} load b, merged m1 1, catch_up b i",
    ),
    _without(
        "absence_needs_coverage",
        "A generation is collected that no index covers.",
        "collected_is_covered",
        f"{_FLUSHED} merged m1 1, expire 1, doom 1",
    ),
    _without(
        "snapshot_uuid_per_build",
        "A build writes its snapshot to the file of a committed version.",
        "snapshot_stays",
        "own w1, load b, gather b, overwrite_snapshot b",
    ),
    _without(
        "contiguous_merge",
        "A generation is skipped: its keys are in no table version.",
        "base_has_newest",
        f"{_FLUSHED} put w1 2, flushed w1 2 2, merged m1 2",
    ),
    _without(
        "progress_in_conflict",
        "Two mergers merge the same generation.",
        "merged_once_and_in_order",
        f"{_FLUSHED} prepare_merge m1 1, prepare_merge m2 1, merge m1, merge m2",
    ),
    _without(
        "restore_of_retained",
        "A version is restored whose progress is below what was collected.",
        "acknowledged_is_in_reach",
        f"{_FLUSHED} {_COLLECTED} delete_files 1, restore 1",
    ),
    _without(
        "keep_for_retained",
        "A generation is collected that an older retained version has not merged.",
        "collected_is_merged",
        f"{_FLUSHED} merged m1 1, indexed, doom 1",
    ),
    _without(
        "orphans_by_generation",
        "A collector takes a flush under way for one that failed.",
        "acknowledged_is_in_reach",
        f"{_PUT} flush w1 1 1, delete_orphan w1, list_generation w1",
    ),
    _without(
        "skip_only_merged",
        "A reader skips a generation that is gone, and that its base version has not merged.",
        "strong_read_sees_all",
        f"{_FLUSHED} begin_read r, read_regions r, read_base r, {_COLLECTED} delete_files 1, read_end r, succeed r",
    ),
    _without(
        "regions_before_base",
        "A reader reads the base before a merge, and the manifest after the collection.",
        "strong_read_sees_all",
        f"{_FLUSHED} begin_read r, read_base r, {_COLLECTED} read_regions r, read_end r, succeed r",
    ),
    _without(
        "memory_of_the_owner",
        "A reader believes the memory of a writer that was fenced.",
        "strong_read_sees_all",
        f"{_FENCED} put w2 3, begin_read r, read_memory r w1, read_regions r, read_base r, succeed r",
    ),
    _without(
        "atomic_create",
        "A second claim of one version replaces the first.",
        "one_owner",
        "read_manifest w1, read_manifest w2, claim w1, claim_over_another w2",
    ),
    _without(
        "nothing_lost",
        "The store loses an entry.",
        "acknowledged_is_in_reach",
        f"{_PUT} lose_entry 1",
    ),
    _without(
        "lists_all",
        "A put that waited long is carried out at a position that was freed, and the listing hides the newer claim.",
        "acknowledged_is_in_reach",
        f"{_PUT} send w1, own w2, replay w2, barrier w2 2, put w2 3, flushed w2 1 3, {_COLLECTED}"
        "delete_entry 1, delete_entry 2, carry_out w1 2, acknowledge_unlisted w1",
    ),
)
"""For each assumption of the machine: a history without it that breaks a statement."""
