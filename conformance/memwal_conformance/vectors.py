"""Artifact vectors: what a case on disk asks of an implementation, and how its answer is compared."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import cells, protocol
from .judge import artifacts, wal
from .judge.store import LAYOUTS
from .judge.wire import Damaged
from .protocol import AdapterError, Json
from .verdicts import Finding

Call = Callable[[str, Json], Json]
"""Sends a message and gives its result, or raises `AdapterError`."""

UNORDERED = ("flushed_generations", "merged_generations", "index_catchup", "caught_up_generations", "shard_fields")
"""Lists whose order means nothing."""


class BadCase(Exception):
    """A case on disk that the suite itself cannot use; the text names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One artifact vector; see ``schema/case.json``."""

    folder: Path
    revision: str
    kind: str
    area: str
    """Name of the folder between revision and case: the kind, or ``invalid``."""
    name: str
    title: str
    directions: tuple[str, ...]
    clauses: tuple[str, ...]
    ambiguity: str | None
    compare: str
    expected: Any


def load(file: Path) -> Vector:
    """The vector whose ``case.json`` is ``file``. Raises `BadCase`."""
    folder = file.parent
    try:
        case = json.loads(file.read_text("utf-8"))
        expected = json.loads((folder / "expected.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadCase(f"{file}: {error}") from error
    wrong = protocol.problem("urn:memwal:case#/$defs/case", case)
    if wrong is not None:
        raise BadCase(f"{file}: {wrong}")
    revision = folder.parent.parent.name
    if revision not in protocol.REVISIONS:
        raise BadCase(f"{file}: not below a folder named after a revision")
    return Vector(
        folder=folder,
        revision=revision,
        kind=case["kind"],
        area=folder.parent.name,
        name=folder.name,
        title=case["title"],
        directions=tuple(case["directions"]),
        clauses=tuple(case["clauses"]),
        ambiguity=case.get("ambiguity"),
        compare=case.get("compare", "equal"),
        expected=expected,
    )


def message(vector: Vector, direction: str) -> str:
    """The message that a direction of a vector needs."""
    return f"eval.{vector.kind}" if direction == "eval" else f"eval.{direction}"


def run(vector: Vector, direction: str, call: Call) -> Finding:
    """Ask and compare. Raises what ``call`` raises for anything but an error reply."""
    try:
        broken = DIRECTIONS[direction](vector, call)
    except AdapterError as error:
        broken = f"refused: {error}"
    return Finding(clauses=vector.clauses, broken=broken, ambiguity=vector.ambiguity)


def _eval(vector: Vector, call: Call) -> str | None:
    asked = json.loads((vector.folder / "input" / "questions.json").read_text("utf-8"))
    answers = [call(message(vector, "eval"), question) for question in asked]
    if vector.compare == "all_equal":
        different = [i for i, answer in enumerate(answers) if answer != answers[0]]
        if not different:
            return None
        return f"{asked[0]} gives {answers[0]}, {asked[different[0]]} gives {answers[different[0]]}"
    if len(answers) != len(vector.expected):
        raise BadCase(f"{vector.folder}: {len(asked)} questions, {len(vector.expected)} answers")
    for question, answer, expected in zip(asked, answers, vector.expected, strict=True):
        if not COMPARISONS[vector.compare](answer, expected):
            return f"{question} gives {answer}, expected {expected}"
    return None


def _equal(answer: Json, expected: Json) -> bool:
    return answer == expected


def _stem(answer: Json, expected: Json) -> bool:
    return bool(answer["name"].partition(".")[0] == expected["name"].partition(".")[0])


def _below(answer: Json, expected: Json) -> bool:
    bound = int(expected["values"][0][0]["v"])
    return all(cell["v"] is None or 0 <= int(cell["v"]) < bound for row in answer["values"] for cell in row)


COMPARISONS: dict[str, Callable[[Json, Json], bool]] = {"equal": _equal, "stem": _stem, "below": _below}
"""How one answer is held against the expected one (``all_equal`` compares answers with each other)."""


def _decode(vector: Vector, call: Call) -> str | None:
    files = [p for p in sorted((vector.folder / "input").rglob("*")) if p.is_file()]
    if len(files) != 1:
        raise BadCase(f"{vector.folder}: input/ holds {len(files)} files instead of one")
    params: Json = {"kind": vector.kind, "data": base64.b64encode(files[0].read_bytes()).decode()}
    if vector.kind != "index_details":
        params["path"] = files[0].relative_to(vector.folder / "input").as_posix()
    expected_error = vector.expected.get("error")
    try:
        answer = call("eval.decode", params)
    except AdapterError as error:
        if expected_error is None:
            raise
        return None if error.kind == expected_error else f"refused as {error}, expected the kind {expected_error}"
    if expected_error is not None:
        return f"accepted: {_short(answer)}"
    return difference(vector.expected, answer)


def _encode(vector: Vector, call: Call) -> str | None:
    data = base64.b64decode(call("eval.encode", vector.expected)["data"])
    try:
        written = DECODERS[vector.kind](data, vector)
    except Damaged as error:
        return f"what was written does not decode: {error}"
    return difference(vector.expected, written)


def _manifest_view(data: bytes, _: Vector) -> Json:
    return {"manifest": artifacts.manifest(data).view()}


def _hint_view(data: bytes, _: Vector) -> Json:
    return {"hint": {"version": str(artifacts.hint(data))}}


def _details_view(data: bytes, _: Vector) -> Json:
    return {"index_details": artifacts.index_details(data).view()}


def _wal_view(data: bytes, vector: Vector) -> Json:
    entry = wal.decode(data, LAYOUTS[vector.revision].container)
    view: Json = {"writer_epoch": str(entry.epoch), "rows": cells.to_rows(entry.rows)}
    if entry.generation is not None:
        view["generation"] = str(entry.generation)
    return {"wal": view}


DIRECTIONS: dict[str, Callable[[Vector, Call], str | None]] = {"eval": _eval, "decode": _decode, "encode": _encode}
"""Direction of a vector -> how it is asked; gives what is wrong, or None."""

DECODERS: dict[str, Callable[[bytes, Vector], Json]] = {
    "manifest": _manifest_view,
    "hint": _hint_view,
    "index_details": _details_view,
    "wal": _wal_view,
}
"""Kind -> the judge's own view of bytes that an implementation wrote."""


def difference(expected: Any, found: Any, place: str = "") -> str | None:
    """The first place where ``found`` lacks or contradicts ``expected``.

    Members that only ``found`` has are its own business; the order of the lists in `UNORDERED` means nothing.
    """
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for name, value in expected.items():
            if name not in found:
                return f"{place}{name} is missing"
            ours, theirs = value, found[name]
            if name in UNORDERED:
                ours, theirs = _sorted(ours), _sorted(theirs)
            wrong = difference(ours, theirs, f"{place}{name}.")
            if wrong is not None:
                return wrong
        return None
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        wrongs = (difference(a, b, f"{place}{i}.") for i, (a, b) in enumerate(zip(expected, found, strict=True)))
        return next((wrong for wrong in wrongs if wrong is not None), None)
    return None if expected == found else f"{place.rstrip('.')} is {_short(found)}, expected {_short(expected)}"


def _sorted(items: list[Any]) -> list[Any]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + "…"
