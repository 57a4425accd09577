"""One run of a life, as it was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from memwal_sim.histories.history import History
from memwal_sim.store import Contents

from ..gate import CrashState, LogEntry
from ..verdicts import Finding
from .asking import WrongAnswer
from .lives import WRITES, ForeignLife


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """One run, as it was recorded."""

    life: ForeignLife
    history: History
    """All calls, as their clients know them."""
    begun: Mapping[str, int]
    """Name of a write -> how many changes of the store had been made when it was called."""
    states: tuple[CrashState, ...]
    """Promises are names of writes."""
    log: tuple[LogEntry, ...]
    operations: tuple[tuple[int, str, str], ...]
    """Each as the order of the last request that had been made when it began, its actor, and what it was."""
    told: tuple[str, ...]
    """What was asked, in order, and what came of it."""
    ended: tuple[str, ...]
    """How actors ended that were not killed: ``hang at …`` or ``crash at …``."""
    breaks: tuple[Finding, ...]
    """Where the run is none of the abstract machine."""
    wrong_answers: tuple[WrongAnswer, ...]
    region_ids: tuple[str, ...]
    inconclusive: str
    cut: bool = False
    """Its time was over before all operations had begun."""
    exhausted: bool = False
    """It came to a limit of the gate: the implementation goes round in circles."""
    fenced: frozenset[str] = frozenset()
    """Names of reads through the memory of a writer whose region another one had opened."""

    def during(self, entry: LogEntry) -> str:
        """The operation in which an actor made a request; empty if it had none under way."""
        mine = [verb for after, actor, verb in self.operations if actor == entry.actor and after < entry.order]
        return mine[-1] if mine else ""

    def at(self, state: CrashState) -> History:
        """What was called and promised by the time of a crash in ``state``."""
        promised = {promise.what for promise in state.acknowledged}
        calls = []
        for call in self.history.writes:
            if self.begun.get(call.name, 0) > state.index:
                continue
            kept = not call.process or call.name in promised
            calls.append(call if kept and call.outcome == "ok" else replace(call, outcome="unknown", returned=None))
        return History(tuple(calls))


def nothing_done(lived: Lived) -> str:
    """Why a life that was left alone shows nothing: none of its writes was acknowledged, and no actor has ended."""
    writes = any(step.verb in WRITES for step in lived.life.steps)
    done = any(call.process for call in lived.history.acknowledged)
    failed = [line for line in lived.told if not line.endswith(": done")]
    return failed[0].splitlines()[0] if writes and not done and not lived.ended and failed else ""


def not_begun(life: ForeignLife, why: str) -> Lived:
    """A life whose table was not made, since the process ended meanwhile."""
    return Lived(
        life=life,
        history=History(),
        begun={},
        states=(CrashState(0, Contents(), (), 0),),
        log=(),
        operations=(),
        told=(f"the table: {why}",),
        ended=("crash at the making of a table",),
        breaks=(),
        wrong_answers=(),
        region_ids=(),
        inconclusive="",
    )
