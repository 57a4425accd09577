"""A film as data for the page: whatever is equal is there once, and steps say only what they change.

Trees of decoded bytes are shared down to single nodes, since successive versions of an object differ in little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from memwal.effects import GetRanges
from memwal.revisions import REVISIONS
from memwal.stores.memory import Returned
from memwal.violations import Violation

from ..names import symbolic
from ..process import Ended, Pause
from ..simulation import StepTaken
from ..store import Contents
from ..traces.trace import Step
from ..world import Ghosts
from .addresses import Addresses, home
from .decoding import Decoded, decode, part
from .film import Film, Frame
from .remarks import asked, is_fault
from .trees import TreeNode, node

GONE = -1
"""In place of a number of bytes: the object was deleted. In place of a violation: what is asked for holds."""
_SPECIAL = frozenset({"notes"})
"""Fields of a step that are shown otherwise than as a fact."""


class Numbered:
    """Values by number: equal ones have one number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """Number of ``value``, which is hashable."""
        found = self._numbers.setdefault(value, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found


class Facts:
    """The data of one page."""

    def __init__(self, film: Film, address: Addresses) -> None:
        self._film, self._address = film, address
        self._revision = REVISIONS[film.replayed.header.revision]
        self._texts, self._nodes, self._blobs, self._paths = Numbered(), Numbered(), Numbered(), Numbered()
        self._violations, self._verdicts, self._rows = Numbered(), Numbered(), Numbered()
        self._ghosts: dict[Ghosts, int] = {}
        self._decoded: dict[tuple[str, bytes, int | None], int] = {}

    def as_json(self) -> dict[str, Any]:
        """All of it, JSON-ready."""
        film, first = self._film, self._film.frames[0]
        start = {
            "contents": self._changes(Contents(), first.contents),
            "states": [self._state(pause) for pause in first.pauses],
            **self._common(first),
        }
        steps = [self._step(*each) for each in zip(film.steps, film.frames, film.frames[1:], strict=False)]
        return {
            "actors": film.actors,
            "oracles": film.oracles,
            "fields": [field.name for field in fields(Step) if field.name not in _SPECIAL],
            "violationAt": film.replayed.violation_at,
            "divergedAt": film.replayed.diverged_at,
            "start": start,
            "steps": steps,
            "texts": self._texts.values,
            "nodes": self._nodes.values,
            "blobs": self._blobs.values,
            "paths": self._paths.values,
            "violations": self._violations.values,
            "verdicts": self._verdicts.values,
            "rows": self._rows.values,
        }

    def _common(self, frame: Frame) -> dict[str, Any]:
        return {
            "verdicts": self._verdicts.number(tuple(self._violation(each) for each in frame.verdicts)),
            "flying": [self._text(f"{name}: {asked(request, self._address)}") for name, request in frame.under_way],
            "ghosts": self._ghost(frame.ghosts),
        }

    def _ghost(self, ghosts: Ghosts) -> int:
        known = self._ghosts.get(ghosts)
        if known is None:
            known = self._ghosts[ghosts] = self._node(node("", ghosts))
        return known

    def _step(self, step: Step, before: Frame, after: Frame) -> dict[str, Any]:
        taken = self._film.at(step.index)
        actor = self._film.actors.index(step.actor)
        facts = [getattr(step, field.name) for field in fields(Step) if field.name not in _SPECIAL]
        return {
            "actor": actor,
            "facts": [self._text(str(fact)) for fact in facts],
            "fault": step.outcome if is_fault(taken) else "",
            "notes": [self._text(note) for note in step.notes],
            "path": self._path(taken.request.path),
            "target": self._path(taken.request.target) if hasattr(taken.request, "target") else None,
            "sent": self._sent(taken),
            "got": self._got(taken),
            "state": self._state(after.pauses[actor]),
            "contents": self._changes(before.contents, after.contents),
            **self._common(after),
        }

    def _sent(self, taken: StepTaken) -> int | None:
        data: bytes | None = getattr(taken.request, "data", None)
        return None if data is None else self._blob(taken.request.path, data)

    def _got(self, taken: StepTaken) -> dict[str, Any] | None:
        match taken.reply:
            case Returned(value=bytes(data)) if not isinstance(taken.request, GetRanges):
                return {"blob": self._blob(taken.request.path, data, _first(taken))}
            case Returned(value=tuple(names)):
                found = tuple(TreeNode(name if "/" not in name else self._address(name)) for name in names)
                return {"names": self._node(TreeNode("", children=found))}
        return None

    def _blob(self, path: str, data: bytes, first: int | None = None) -> int:
        """Number of the bytes; ``first``: where they begin, if they are but a part of an object."""
        known = self._decoded.get((path, data, first))
        if known is None:
            found = decode(path, data, self._revision) if first is None else part(path, data, first)
            known = self._decoded[path, data, first] = self._blobs.number(self._as_json(found))
        return known

    def _as_json(self, found: Decoded) -> tuple[Any, ...]:
        nodes = tuple(self._node(each) for each in found.nodes)
        return (found.kind, found.size_bytes, found.summary, nodes, found.problem, found.dump)

    def _node(self, found: TreeNode) -> int:
        children = tuple(self._node(child) for child in found.children)
        rows = None if found.rows is None else self._rows.number((found.rows.columns, found.rows.rows, found.rows.left))
        return self._nodes.number((self._text(found.name), self._text(found.text), children, rows))

    def _text(self, text: str) -> int:
        return self._texts.number(text)

    def _path(self, path: str) -> int:
        at = home(path)
        return self._paths.number((path, self._address(path), at.table, at.region, symbolic(path)))

    def _changes(self, before: Contents, after: Contents) -> list[int]:
        """Path and bytes of each object that is another, in turns."""
        if before is after:
            return []
        return [number for pair in self._changed(before.objects, after.objects) for number in pair]

    def _changed(self, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterable[tuple[int, int]]:
        for path in sorted({*before, *after}):
            data = after.get(path)
            if data is None:
                yield self._path(path), GONE
            elif data is not before.get(path):
                yield self._path(path), self._blob(path, data)

    def _state(self, pause: Pause | None) -> int:
        if pause is None:
            return self._text("not there yet")
        if not isinstance(pause, Ended):
            return self._text(f"waits with {asked(pause, self._address)}")
        if pause.failure is None:
            return self._text("ended")
        return self._text(f"ended with {pause.failure.kind}: {pause.failure.text}")

    def _violation(self, violation: Violation | None) -> int:
        if violation is None:
            return GONE
        return self._violations.number((violation.clause, violation.oracle, violation.reason, violation.shown))


def _first(taken: StepTaken) -> int | None:
    """Where the bytes of a read begin, if it asks for a part of the object."""
    offset, length = getattr(taken.request, "offset", 0), getattr(taken.request, "length", None)
    return None if offset == 0 and length is None else offset
