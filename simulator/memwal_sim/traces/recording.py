"""From a history to a trace: moves are played once more, and each becomes a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from importlib import resources
from importlib.resources.abc import Traversable

from memwal.effects import Note
from memwal.errors import EngineBug
from memwal.stores.memory import Raised, Reply, Returned

from ..exploring.exploration import Move
from ..names import operation, symbolic, words
from ..stage import Played, Stage
from ..store import TURNED, Contents, reply_digest
from ..world import Violation, World
from .trace import LANDED, Step

_DIGITS = 16


def record(world: World, moves: Iterable[Move], only: str | None = None) -> tuple[tuple[Step, ...], Violation | None]:
    """Play ``moves`` in ``world``; the steps, and what the oracles, or ``only`` one, say of the last state."""
    stage = Stage(world)
    steps = []
    for index, move in enumerate(moves, 1):
        if move.landed is not None:
            played = stage.land(move.actor, move.landed)
        elif move.fate is not None:
            played = stage.play(move.actor, move.fate)
        else:
            raise EngineBug(f"a move of {move.actor} with neither a fate nor a request that lands")
        steps.append(step(index, played, stage.contents))
    return tuple(steps), stage.violation(only)


def step(index: int, played: Played, contents: Contents) -> Step:
    """The step number ``index`` for ``played``, after which the store holds ``contents``."""
    return Step(
        index=index,
        actor=played.actor,
        site=played.site,
        operation=operation(played.request),
        path=symbolic(played.request.path),
        outcome=LANDED if played.fate is None else played.fate.label,
        answer=_answer(played.reply),
        reply=reply_digest(played.reply),
        store=store_digest(contents),
        notes=tuple(_text(note) for note in played.notes),
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
    if reply is TURNED:
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
