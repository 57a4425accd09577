"""A soak from its settings to its result: founding, the time that clients write, the drain, and the last checks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import simpy
from memwal import invariants
from memwal.effects import Io
from memwal.table import read
from memwal.table.state import latest
from memwal.violations import Violation

from ..bugs import planted
from . import roles
from .actor import Steps
from .founding import KEY, VALUE, all_keys, found, rows_of
from .history import DRAINED
from .prices import Prices
from .samples import CONFLICTS, Row, Sampler, series
from .settings import SoakSettings
from .world import OracleBroken, SoakWorld

VERIFIED = "the store is sound"

_FOUNDER = "founder"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakProgress:
    """How far a soak is, for a display."""

    virtual_ms: float
    of_ms: int
    requests: int
    puts: int
    wall_s: float


Follow = Callable[[SoakProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a soak came to."""

    settings: SoakSettings
    prices: Prices
    violation: Violation | None
    """None: every oracle held to the end."""
    virtual_ms: float
    """When it ended."""
    events: int
    """Events that SimPy processed."""
    wall_s: float
    digest: str
    """Of all requests: equal for equal settings, whatever machine and process."""
    samples: tuple[Row, ...]
    totals: dict[str, Any]
    last_requests: tuple[tuple[Any, ...], ...]
    """The last ones, oldest first; only of a soak that failed."""

    @property
    def events_per_s(self) -> float:
        """Events of SimPy per second of real time."""
        return self.events / max(self.wall_s, 1e-9)

    @property
    def days_per_minute(self) -> float:
        """Virtual days per minute of real time."""
        return self.virtual_ms / 86_400_000 / max(self.wall_s / 60, 1e-9)

    def as_dict(self) -> dict[str, Any]:
        """JSON object with everything but what depends on the machine, which is under ``speed``."""
        violation = self.violation
        return {
            "settings": self.settings.as_dict(),
            "prices": self.prices.as_dict(),
            "violation": None if violation is None else violation.as_json(),
            "virtual_ms": self.virtual_ms,
            "events": self.events,
            "digest": self.digest,
            "totals": self.totals,
            "series": series(list(self.samples)),
            "last_requests": [list(one) for one in self.last_requests],
            "speed": {
                "wall_s": self.wall_s,
                "events_per_s": self.events_per_s,
                "virtual_days_per_minute": self.days_per_minute,
            },
        }


def soak(settings: SoakSettings, *, prices: Prices | None = None, follow: Follow | None = None) -> Result:
    """Run the soak of ``settings``; a broken oracle is in the result, and raises nothing.

    Raises `InvalidArgument` for settings that cannot be.
    """
    with planted(settings.planted()):
        return _Soak(settings, prices or Prices(), follow).run()


class _Soak:
    def __init__(self, settings: SoakSettings, prices: Prices, follow: Follow | None) -> None:
        self.settings, self.prices, self.follow = settings, prices, follow
        self.world = SoakWorld(settings)
        self.sampler = Sampler(self.world, prices)
        self.events = 0
        self.checks = 0
        self.began_s = time.monotonic()

    def run(self) -> Result:
        violation = None
        try:
            self._found()
            self._live()
            self._drain()
        except OracleBroken as broken:
            violation = broken.violation
        return self._result(violation)

    def _found(self) -> None:
        """Create the table, calmly; half of the keys are in its base from the beginning."""
        world, settings = self.world, self.settings
        preloaded = tuple(all_keys(settings)[::2])
        number, value = world.history.begin(_FOUNDER, preloaded, -1.0)
        world.network.calm = True
        actor = world.actor(_FOUNDER, _FOUNDER, mortal=False)
        process = world.env.process(world.lived(actor, actor.run(found(settings, dict.fromkeys(preloaded, value)))))
        self._step_until(process)
        world.founded = process.value
        if world.founded is None:
            how = ", ".join(how for role, how in world.ends if role == _FOUNDER)
            raise OracleBroken(Violation("FORMAT-001", "the table can be created", f"creating it ended in {how}"))
        world.history.acknowledge(number, world.env.now)
        world.network.calm = False

    def _live(self) -> None:
        """Every process runs until the time is over and all processes have ended."""
        world, env = self.world, self.world.env
        for steps in roles.everybody(world):
            env.process(steps)
        env.process(self._sampling())
        if self.settings.check_every_ms:
            env.process(self._checking())
        self._step_until(env.timeout(self.settings.duration_ms))
        world.closing = True
        world.network.calm = True
        while world.alive:
            self._step()

    def _drain(self) -> None:
        world = self.world
        self._step_until(world.env.process(roles.drain(world)))
        rows = rows_of(world.at_once(_base(world.io)))
        handle = world.history.start_read(world.env.now)
        world.judge(world.history.end_read(handle, rows, world.env.now, DRAINED))
        report = world.at_once(invariants.verify(world.io))
        for finding in report.findings:
            raise OracleBroken(replace(finding, oracle=VERIFIED, counterexample=(("invariant", finding.oracle),)))
        self.checks += 1
        self.sampler.take()

    def _sampling(self) -> Steps[None]:
        while True:
            self.sampler.take()
            self._tell()
            yield self.world.env.timeout(self.settings.sample_every_ms)

    def _checking(self) -> Steps[None]:
        while True:
            yield self.world.env.timeout(self.settings.check_every_ms)
            self._check()

    def _check(self) -> None:
        """The invariants that hold in every state, on the store as it is at this moment."""
        world = self.world
        self.checks += 1
        for broken in world.at_once(invariants.check(world.io)):
            raise OracleBroken(broken)
        world.history.forget(world.env.now)

    def _step_until(self, event: simpy.Event) -> None:
        while not event.processed:
            self._step()

    def _step(self) -> None:
        self.events += 1
        self.world.env.step()

    def _tell(self) -> None:
        if self.follow is not None:
            world = self.world
            self.follow(
                SoakProgress(
                    virtual_ms=world.env.now,
                    of_ms=self.settings.duration_ms,
                    requests=world.traffic.total,
                    puts=world.history.acknowledged,
                    wall_s=time.monotonic() - self.began_s,
                )
            )

    def _result(self, violation: Violation | None) -> Result:
        world = self.world
        return Result(
            settings=self.settings,
            prices=self.prices,
            violation=violation,
            virtual_ms=world.env.now,
            events=self.events,
            wall_s=time.monotonic() - self.began_s,
            digest=world.traffic.digest,
            samples=tuple(self.sampler.rows),
            totals=self._totals(),
            last_requests=tuple(world.traffic.last) if violation is not None else (),
        )

    def _totals(self) -> dict[str, Any]:
        world, traffic = self.world, self.world.traffic
        return {
            "puts_begun": world.history.begun,
            "puts_acknowledged": world.history.acknowledged,
            "requests": dict(sorted(traffic.requests.items())),
            "requests_by_role": {
                role: {kind: n for (whose, kind), n in sorted(traffic.by_role.items()) if whose == role}
                for role in sorted({role for role, _ in traffic.by_role})
            },
            "faults": dict(sorted(traffic.fates.items())),
            "bytes_up": traffic.bytes_up,
            "bytes_down": traffic.bytes_down,
            "user_bytes": world.user_bytes,
            "reads": dict(sorted(world.reads.items())),
            "ends": {f"{role}: {how}": count for (role, how), count in sorted(world.ends.items())},
            "notes": dict(sorted(world.notes.items())),
            "conflicts": {name: world.notes[name] for name in CONFLICTS},
            "deletions_judged": world.guard.judged,
            "checks": self.checks,
            "cost": self.prices.of_requests(traffic.requests) + self.prices.of_storage(self.sampler.stored_gb_ms),
        }


async def _base(io: Io) -> Any:
    return await read.scan(io, await latest(io), [KEY, VALUE])
