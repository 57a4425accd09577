"""From a history to a trace: moves are made once more, and each becomes a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from importlib import resources
from importlib.resources.abc import Traversable

from memwal.effects import Note
from memwal.errors import EngineBug
from memwal.stores.memory import Raised, Reply, Returned
from memwal.violations import Violation

from ..exploring.exploration import Move
from ..names import operation, symbolic, words
from ..simulation import Simulation, StepTaken
from ..store import SWITCHED, Contents, reply_digest
from ..world import World
from .trace import LANDED, Step

_DIGITS = 16


def record(world: World, moves: Iterable[Move], only: str | None = None) -> tuple[tuple[Step, ...], Violation | None]:
    """Make ``moves`` in ``world``; the steps, and what the oracles, or ``only`` one, say of the last state."""
    simulation = Simulation(world)
    steps = []
    for index, move in enumerate(moves, 1):
        if move.landed is not None:
            taken = simulation.land(move.actor, move.landed)
        elif move.fate is not None:
            taken = simulation.step(move.actor, move.fate)
        else:
            raise EngineBug(f"a move of {move.actor} with neither a fate nor a request that lands")
        steps.append(step(index, taken, simulation.contents))
    return tuple(steps), simulation.violation(only)


def step(index: int, taken: StepTaken, contents: Contents) -> Step:
    """The step number ``index`` for ``taken``, after which the store holds ``contents``."""
    return Step(
        index=index,
        actor=taken.actor,
        site=taken.site,
        operation=operation(taken.request),
        path=symbolic(taken.request.path),
        outcome=LANDED if taken.fate is None else taken.fate.label,
        answer=_answer(taken.reply),
        reply=reply_digest(taken.reply),
        store=store_digest(contents),
        notes=tuple(_text(note) for note in taken.notes),
    )


def store_digest(contents: Contents) -> str:
    """The digest of ``contents`` in traces: 16 hexadecimal digits."""
    return contents.digest[:_DIGITS]


@cache
def engine_digest() -> str:
    """16 hexadecimal digits that stand for the sources of the engine, names and bytes."""
    digest = blake2b(digest_size=_DIGITS // 2)
    for name, source in sorted(_sources(resources.files("memwal"), "")):
        digest.update(f"{name}\0{len(source)}\0".encode() + source)
    return digest.hexdigest()


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{prefix}{entry.name}", entry.read_bytes()


def _answer(reply: Reply) -> str:
    if reply is SWITCHED:
        return "nothing yet"
    match reply:
        case Raised(kind=kind):
            return words(kind.__name__, " ")
        case Returned(value=bytes(value)):
            return f"{len(value)} bytes"
        case Returned(value=tuple(value)):
            return f"{len(value)} names"
        case Returned(value=int(value)):
            return f"size {value}"
    return "done"


def _text(note: Note) -> str:
    return " ".join([note.event, *(f"{name}={value}" for name, value in note.fields)])
