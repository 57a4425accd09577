"""What the gate saw, as a history of the abstract machine: the run of an implementation, or the request that ends it.

Every request that changed the store is a step of the machine, or the run breaks off there. Where one reading of the
texts has to be dropped for it to continue, that is an observation about the implementation, by the note of the reading.
"""

from __future__ import annotations

from collections.abc import Iterator

from memwal.revisions import REVISIONS
from memwal_model.following import Stopped
from memwal_sim.following import ChangeTold, StoreChange, told
from memwal_sim.store import Contents

from ..gate import Gate, RequestFate
from ..verdicts import Finding

CHECK = "steps of the machine"
"""Name of the check."""
UNLEARNED = (RequestFate.APPLIED, RequestFate.LATE, RequestFate.HALF)
"""Fates after which the client does not know that its request was carried out."""

CLAUSES = {
    "claim": "FENCE-005",
    "read_manifest": "FENCE-005",
    "carry_out": "FENCE-017",
    "open_without_barrier": "FENCE-017",
    "flush": "MANIFEST-009",
    "list_generation": "FENCE-009",
    "raise_hint": "MANIFEST-011",
    "delete_entry": "GC-007",
    "doom": "GC-001",
    "unlist": "GC-001",
    "delete_files": "GC-010",
    "prepare_merge": "MERGE-001",
    "merge": "MERGE-006",
    "catch_up": "CATCHUP-001",
    "restore": "TXN-002",
    "commit_snapshot": "TXN-002",
    "expire": "TXN-001",
}
"""Nearest step -> the clause that is broken where it cannot happen."""
LEFT = {
    "epoch": "FENCE-005",
    "pointer": "MANIFEST-009",
    "current": "GEN-003",
    "files": "FLUSH-013",
    "version": "MANIFEST-020",
}
"""Field that is another one than the nearest step leaves -> the clause that is broken, whatever the step."""
LAGS = {"A": "MANIFEST-008", "B": "MANIFEST-038", "R": "MANIFEST-008"}
"""What a flush breaks whose pointer stays before the entries that it covers: nothing at or below it is lost."""
BARRIERS = "AMB-27"
"""The note about entries without rows: what they may stand behind the texts leave open."""
COLLECTED = "AMB-93"
"""The note about files of a generation that go before the manifest that lists it does."""
ANY_CHANGE = "MANIFEST-020"
"""The clause where no step is near."""


def looked(gate: Gate, revision: str, folder: str) -> list[Finding]:
    """What is to be said of a run on the table in ``folder`` of the bucket: nothing, if it is one of the machine."""
    lines = {
        entry.order: f"line {entry.order} of the log, {entry.actor} {entry.operation} {entry.name}"
        for entry in gate.log
    }
    return [
        _finding(each, lines[each.change.order], revision)
        for each in history(gate, revision, folder)
        if each.stopped is not None or each.without
    ]


def history(gate: Gate, revision: str, folder: str) -> list[ChangeTold]:
    """The steps of a run, region by region."""
    first, *changes = _changes(gate, folder)
    return told(REVISIONS[revision], first.contents, changes)


def _finding(each: ChangeTold, line: str, revision: str) -> Finding:
    if each.stopped is None:
        words = f"{CHECK}: {each} ({line}) needs another reading than `{each.without}`"
        clause = next((CLAUSES[name] for name, _ in each.steps if name in CLAUSES), ANY_CHANGE)
        return Finding(clauses=(clause,), broken=words, ambiguity=each.note)
    collected = each.stopped.nearest is not None and each.stopped.nearest[0] == "delete_files"
    ambiguity = BARRIERS if each.stopped.barrier else COLLECTED if collected else None
    return Finding(clauses=(blamed(each.stopped, revision),), broken=f"{CHECK}: {each} ({line})", ambiguity=ambiguity)


def blamed(stopped: Stopped, revision: str) -> str:
    """The clause that is broken where a run breaks off."""
    if stopped.left in LEFT:
        return LEFT[stopped.left]
    name, given = stopped.nearest or ("", ())
    if name == "flush" and given[2] < given[1]:
        return LAGS[revision]
    return CLAUSES.get(name, ANY_CHANGE)


def _changes(gate: Gate, folder: str) -> Iterator[StoreChange]:
    """What the table was in the beginning, and after each change of it."""
    log = {entry.order: entry for entry in gate.log}
    table = Contents()
    for number, state in enumerate(gate.prefixes):
        inside = {name: state.contents.objects[name] for name in state.contents.below(folder)}
        now = Contents({name.removeprefix(f"{folder}/"): data for name, data in inside.items()})
        if number == 0:
            yield StoreChange(now)
        elif now != table:
            entry = log[state.order]
            yield StoreChange(now, entry.actor, entry.fate in UNLEARNED, entry.order)
        table = now
