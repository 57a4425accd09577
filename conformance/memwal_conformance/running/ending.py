"""The end of a case: what is looked at whatever its steps asked for, and how its actors are taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..adapters.process import AdapterCrash, AdapterProcess, AdapterTimeout
from ..judge import entries, structure
from ..judge.wire import DamagedBytes
from ..protocol import AdapterError, Json, ProtocolViolation
from ..verdicts import Finding
from . import filters
from .checks import CheckContext


def at_end(context: CheckContext, free: Sequence[AdapterProcess] = ()) -> list[Finding]:
    """What is said in every case: of filters, of which ``free`` are asked, of key indexes, and of epochs in the WAL.

    Raises what a broken adapter raises.
    """
    try:
        stored = context.store()
    except DamagedBytes:
        return []  # no table, which other checks are about
    clauses = structure.KEY_INDEX.clauses.get(context.revision, ())
    found = [one for one in structure.KEY_INDEX.look(stored) if isinstance(one, str)] if clauses else []
    # WAL-011 is a clause of A and B.
    written = context.written if context.revision != "R" else ()
    dated = [one for one in entries.wal_of_claims(stored, written) if isinstance(one, str)]
    return [
        *filters.asked(stored, context.names.scenario.schema, free),
        *(Finding(clauses=clauses, broken=f"{structure.KEY_INDEX.name}: {what}") for what in found[:1]),
        *(Finding(clauses=("WAL-011",), broken=f"wal_of_claims: {what}") for what in dated[:1]),
    ]


def take_back(process: AdapterProcess, configured: Json, finish: Callable[[AdapterProcess], None]) -> None:
    """Have an actor drop all that is open, by `configure`, and hand it to ``finish``; one that does not is killed."""
    try:
        process.call("configure", configured)
    except (AdapterError, AdapterCrash, AdapterTimeout, ProtocolViolation):
        process.kill()
    else:
        finish(process)
