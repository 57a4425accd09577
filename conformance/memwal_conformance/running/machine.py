"""What the gate saw, as a history of the abstract machine: the run of an implementation, or the request that ends it.

Every request that changed the store is a step of the machine, or the run breaks off there; so it does where a client is
told that its rows are stored, and no step has stored them by then. Where one reading of the
texts has to be dropped for it to continue, that is an observation about the implementation, by the note of the reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memwal.ids import RegionId
from memwal.revisions import REVISIONS
from memwal_sim import blame
from memwal_sim.following import ChangeTold, RowsTold, StoreChange, told
from memwal_sim.store import Contents

from ..gate import Gate, RequestFate
from ..verdicts import Finding

CHECK = "steps of the machine"
"""Name of the check."""
UNLEARNED = (RequestFate.APPLIED, RequestFate.LATE, RequestFate.HALF)
"""Fates after which the client does not know that its request was carried out."""

_ONLY_VERSION = re.compile(r"version: \d+ -> \d+")
"""A change of a manifest's version, and of nothing else."""
BARRIERS = "AMB-27"
"""The note about entries without rows: what they may stand behind the texts leave open."""
COLLECTED = "AMB-93"
"""The note about files of a generation that go before the manifest that lists it does."""


def looked(gate: Gate, revision: str, folder: str, acknowledged: Iterable[RowsTold] = ()) -> list[Finding]:
    """What is to be said of a run on the table in ``folder`` of the bucket: nothing, if it is one of the machine.

    ``acknowledged``: what clients were told to be stored, in order.
    """
    lines = {
        entry.order: f"line {entry.order} of the log, {entry.actor} {entry.operation} {entry.name}"
        for entry in gate.log
    }
    found, before = [], dict[RegionId, ChangeTold]()
    for each in history(gate, revision, folder, acknowledged):
        line = lines.get(each.change.order, "")
        if repeats(before.get(each.region), each):
            found.append(_repeated(each, line))
        elif each.stopped is not None or each.without:
            found.append(_finding(each, line, revision))
        before[each.region] = each
    return found


def repeats(before: ChangeTold | None, each: ChangeTold) -> bool:
    """Whether a manifest version has the content of the one before, whose write its actor was not answered.

    The client took its own manifest for that of another, and wrote the same change again. It looks like a claim that
    leaves the epoch as it is, and is none.
    """
    if before is None or each.stopped is None or not before.change.lost:
        return False
    return before.change.actor == each.change.actor and _ONLY_VERSION.fullmatch(each.stopped.changed) is not None


def _repeated(each: ChangeTold, line: str) -> Finding:
    assert each.stopped is not None
    words = f"region {each.region}: {each.stopped.changed}: the same content once more, after a write without an answer"
    return Finding(clauses=(blame.ANY_CHANGE,), broken=f"{CHECK}: {words} ({line})")


def history(gate: Gate, revision: str, folder: str, acknowledged: Iterable[RowsTold] = ()) -> list[ChangeTold]:
    """The steps of a run, region by region; the arguments are those of `looked`."""
    first, *changes = _changes(gate, folder)
    events: list[StoreChange | RowsTold] = [*changes, *acknowledged]
    events.sort(key=lambda each: (each.order, isinstance(each, RowsTold)))
    return told(REVISIONS[revision], first.contents, events)


def _finding(each: ChangeTold, line: str, revision: str) -> Finding:
    if each.stopped is None:
        words = f"{CHECK}: {each} ({line}) needs another reading than `{each.without}`"
        return Finding(clauses=(blame.without(each.steps, each.strictly),), broken=words, ambiguity=each.note)
    collected = each.stopped.nearest is not None and each.stopped.nearest[0] == "delete_files"
    ambiguity = BARRIERS if each.stopped.barrier else COLLECTED if collected else None
    clause = blame.blamed(each.stopped, revision)
    return Finding(clauses=(clause,), broken=f"{CHECK}: {each} ({line})", ambiguity=ambiguity)


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
