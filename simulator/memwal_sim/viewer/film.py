"""What a replay looked like: the world after each step, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memwal.effects import StoreRequest
from memwal.errors import EngineBug
from memwal.violations import Violation

from ..process import Ended, Pause
from ..simulation import Simulation, StepTaken, broken
from ..store import Contents
from ..traces.replay import Replayed, replay, replay_in
from ..traces.trace import Step, Trace
from ..world import ENGINE, Ghosts, Oracle, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The world after one step."""

    taken: StepTaken | None
    """The step; None for the world before the first."""
    contents: Contents
    pauses: tuple[Pause | None, ...]
    """Where each actor stands: the request that it waits with, or its end; None before it enters."""
    under_way: tuple[tuple[str, StoreRequest[Any]], ...]
    """Requests that may still land, with who made them, oldest first."""
    ghosts: Ghosts
    verdicts: tuple[Violation | None, ...]
    """What each oracle says; None: what it asks for holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """A replay and all that was seen of it."""

    name: str
    """Of the trace's file."""
    replayed: Replayed
    actors: tuple[str, ...]
    oracles: tuple[str, ...]
    frames: tuple[Frame, ...]
    """One more than steps: the first is the world before them."""

    @property
    def steps(self) -> Sequence[Step]:
        """What was replayed."""
        return self.replayed.steps

    def taken(self) -> list[StepTaken]:
        """What was replayed, one for each of `steps`."""
        return [frame.taken for frame in self.frames if frame.taken is not None]

    def at(self, number: int) -> StepTaken:
        """What was replayed in step ``number``, from 1."""
        taken = self.frames[number].taken
        if taken is None:
            raise EngineBug(f"step {number} of a film was not replayed")
        return taken

    def changed(self, number: int) -> bool:
        """Whether the store holds something else after step ``number`` than before."""
        before, after = self.frames[number - 1].contents, self.frames[number].contents
        return before is not after and before.objects != after.objects

    def steps_of(self, actor: str) -> list[int]:
        """Numbers of the steps in which ``actor`` made a request; those in which one landed late are none."""
        return [number for number, each in enumerate(self.taken(), 1) if each.actor == actor and each.fate is not None]

    def end(self, actor: str) -> Ended | None:
        """How ``actor`` ended; None if it waits with a request after the last step."""
        pause = self.frames[-1].pauses[self.actors.index(actor)]
        return pause if isinstance(pause, Ended) else None

    def crashed_after(self, actor: str) -> int | None:
        """Step after which ``actor`` makes no request though it could and others do: it may as well have crashed.

        0 if it makes none at all; None for an actor that ended, or whose request is the last of all, and in a replay
        that was stopped before the end.
        """
        if self.replayed.stopped_early:
            return None
        own = self.steps_of(actor)
        last = own[-1] if own else 0
        return None if self.end(actor) is not None or last == len(self.steps) else last


class Camera:
    """Takes a frame of each step; a `memwal_sim.traces.replay.Watch`."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.actors: tuple[str, ...] = ()
        self.oracles: tuple[str, ...] = ()

    def __call__(self, simulation: Simulation, taken: StepTaken | None) -> None:
        """Take one."""
        self.actors = tuple(simulation.running)
        self.oracles = (ENGINE, *(_name(oracle, number) for number, oracle in enumerate(simulation.world.oracles, 1)))
        self.frames.append(
            Frame(
                taken=taken,
                contents=simulation.contents,
                pauses=tuple(running.pause for running in simulation.running.values()),
                under_way=tuple(simulation.under_way),
                ghosts=simulation.ghosts,
                verdicts=_verdicts(simulation),
            )
        )

    def film(self, name: str, replayed: Replayed) -> Film:
        """All that was taken of ``replayed``."""
        late = len(self.actors)
        frames = (replace(frame, pauses=frame.pauses + (None,) * (late - len(frame.pauses))) for frame in self.frames)
        return Film(name=name, replayed=replayed, actors=self.actors, oracles=self.oracles, frames=tuple(frames))


def _name(oracle: Oracle, number: int) -> str:
    judge = getattr(oracle, "judge", oracle)
    return str(getattr(judge, "__name__", f"oracle {number}")).replace("_", " ")


def _verdicts(simulation: Simulation) -> tuple[Violation | None, ...]:
    ends = ((name, running.pause) for name, running in simulation.running.items())
    failed = [broken(name, pause) for name, pause in ends if isinstance(pause, Ended)]
    first = next((each for each in failed if each is not None), None)
    return (first, *(oracle(simulation.contents, simulation.ghosts) for oracle in simulation.world.oracles))


def film(path: Path, until: int | None = None, dump: Path | None = None) -> Film:
    """`memwal_sim.traces.replay.replay`, watched; raises what that raises."""
    camera = Camera()
    return camera.film(path.name, replay(path, until, dump, camera))


def film_of(world: World, trace: Trace, name: str = "trace", until: int | None = None) -> Film:
    """As `film`, for a trace and a world in hand."""
    camera = Camera()
    return camera.film(name, replay_in(world, trace, until, None, camera))
