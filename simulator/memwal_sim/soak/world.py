"""Everything that the processes of one soak share, and what they report while they run."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, TypeVar

import numpy as np
import simpy
from memwal.effects import Note, Protocol, StoreRequest, run
from memwal.errors import InvalidArgument, Outcome
from memwal.ids import RegionId
from memwal.stores.memory import Objects, Raised
from memwal.violations import Violation

from ..outcomes import ENGINE_CLAUSE
from .actor import ActorContext, Crashed, SoakActor, Steps
from .founding import Founded
from .guard import Guard
from .history import SoakHistory
from .network import Network, generator
from .settings import SoakSettings
from .traffic import Traffic
from .views import Views

T = TypeVar("T")

BROKEN = "no process breaks"
PUT_BEGUN, PUT_DONE = "put_begun", "put_done"
"""Notes that clients make around a put."""

_JOB_LIFE_MS = 3000.0
_JOBS_THAT_CRASH = 0.05


class OracleBroken(Exception):
    """An oracle was broken. Ends the soak."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation)
        self.violation = violation


class SoakWorld:
    """State of a soak: the store, the clock, what was written, what was counted."""

    def __init__(self, settings: SoakSettings) -> None:
        self.settings = settings
        self.io = settings.table()
        self.env = simpy.Environment()
        self.store = Objects()
        self.network = Network(settings)
        self.traffic = Traffic(settings.requests_kept)
        self.views = Views(self.store, settings.revision_())
        self.guard = Guard(self.store, self.views)
        self.history = SoakHistory(settings.value_bytes)
        self.site = ActorContext(
            env=self.env,
            store=self.store,
            network=self.network,
            traffic=self.traffic,
            timeout_ms=settings.timeout_ms,
            hear=self.hear,
            before=self.before,
        )
        self.founded: Founded | None = None
        self.closing = False
        """Whether clients stop."""
        self.notes: Counter[str] = Counter()
        """Event -> how often a process noted it."""
        self.ends: Counter[tuple[str, str]] = Counter()
        """Role and how it ended -> processes."""
        self.frozen_rows: dict[tuple[RegionId, int], int] = {}
        """Rows of each MemTable that was sealed and not yet seen merged."""
        self.user_bytes = 0
        """Bytes of the rows that clients put, in Arrow memory."""
        self.reads: Counter[str] = Counter()
        """Role -> reads that ended."""
        self.alive = 0
        """Processes that have not ended."""

    @property
    def table(self) -> Founded:
        """The table, which is there once the soak runs."""
        assert self.founded is not None
        return self.founded

    def actor(self, name: str, role: str, *, mortal: bool = True) -> SoakActor:
        """A new actor. ``mortal``: a job, which crashes now and then where the settings say so."""
        random = generator(self.settings.seed, name)
        crash_at_ms = math.inf
        crashes = mortal and self.settings.crash_every_ms > 0 and not self.closing
        if crashes and random.random() < _JOBS_THAT_CRASH:
            crash_at_ms = self.env.now + float(random.exponential(_JOB_LIFE_MS))
        return SoakActor(name=name, role=role, site=self.site, random=random, crash_at_ms=crash_at_ms)

    def hear(self, note: Note) -> None:
        """A process made a note."""
        self.notes[note.event] += 1
        if note.event == "frozen":
            fields = dict(note.fields)
            region, generation, rows = fields["region"], fields["generation"], fields["rows"]
            self.frozen_rows[region, generation] = rows  # type: ignore[index, assignment]

    def before(self, request: StoreRequest[Any]) -> None:
        """A request is about to be applied."""
        self.judge(self.guard.judge(request))

    def judge(self, violation: Violation | None) -> None:
        """End the soak if something is broken."""
        if violation is not None:
            raise OracleBroken(violation)

    def lived(self, actor: SoakActor, life: Steps[T]) -> Steps[T | None]:
        """Run ``life`` to its end, whatever that is; None if it failed. A break of the engine ends the soak."""
        self.alive += 1
        try:
            result = yield from life
        except Crashed:
            self.ends[actor.role, "crashed"] += 1
        except Outcome as outcome:
            self.ends[actor.role, type(outcome).__name__] += 1
        except OracleBroken:
            raise
        except Exception as failure:
            raise OracleBroken(_broken(actor, failure)) from failure
        else:
            self.ends[actor.role, "done"] += 1
            return result
        finally:
            self.alive -= 1
        return None

    def at_once(self, coroutine: Protocol[T]) -> T:
        """Run ``coroutine`` on the store outside of time, uncounted: for oracles, which only read."""

        def perform(request: Any) -> Any:
            if not isinstance(request, StoreRequest):
                return None
            reply = self.store.perform(request)
            if isinstance(reply, Raised):
                raise reply.error()
            return reply.value

        return run(coroutine, perform)

    def drawn(self, random: np.random.Generator, mean_ms: float) -> int:
        """A pause around ``mean_ms``: uniform from half of it to one and a half."""
        return int(mean_ms * (0.5 + float(random.random())))


def _broken(actor: SoakActor, failure: Exception) -> Violation:
    clause = getattr(failure, "clause", "") or ENGINE_CLAUSE
    kind = "misused" if isinstance(failure, InvalidArgument) else "broke"
    reason = f"{actor.name} {kind}: {type(failure).__name__}: {failure}"
    return Violation(clause, BROKEN, reason, (("process", actor.name), ("error", type(failure).__name__)))
