"""Golden folders: what one implementation writes, judged, and read by others (producers x consumers).

Layout: ``<revision>/objects/<kind>/<case>/{case.json,expected.json,input/…}`` are vectors whose input the
implementation wrote; ``<revision>/tables/<life>/{made.json,table/…}`` tables that it filled through its messages and
left by SIGKILL.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memwal_conformance.adapters.harness import Harness
from memwal_conformance.judge import content, store, structure
from memwal_conformance.judge.wire import DamagedBytes
from memwal_conformance.places import vector_files
from memwal_conformance.protocol import AdapterError, Json

from . import lives, objects, tables
from .case import Vector, load

MADE = "made.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What came of one golden object or table, or of one look at it."""

    name: str
    """Path below the golden folder, and the direction where something was asked."""
    wrong: str | None
    """None: in order."""
    asked: bool = True
    """False: a message is not answered by the implementation; ``wrong`` then names it."""


def fill(root: Path, harness: Harness, revisions: Iterable[str]) -> Iterator[Said]:
    """Let an implementation write all golden objects and tables below ``root``, and judge each.

    Raises what a broken adapter raises.
    """
    hello = harness.hello()
    for revision in revisions:
        for file in vector_files():
            vector = load(file)
            if vector.revision == revision and "encode" in vector.directions and vector.kind != "bloom":
                message = "eval.legacy" if vector.kind == "legacy" else "eval.encode"
                if not hello.answers(message) or f"{message} {vector.kind}" in hello.without:
                    yield Said(name=f"{revision}/objects/{vector.kind}/{vector.name}", wrong=message, asked=False)
                    continue
                yield _object(root, vector, harness)
        for name, life in lives.LIVES.items():
            if revision not in life.revisions:
                continue
            missing = [message for message in life.messages if not hello.answers(message)]
            if missing:
                yield Said(name=f"{revision}/tables/{name}", wrong=missing[0], asked=False)
            else:
                yield _table(root, revision, name, harness)


def _object(root: Path, vector: Vector, harness: Harness) -> Said:
    place = root / vector.revision / "objects" / vector.kind / vector.name
    call = harness.shared(vector.revision if vector.revision != "0" else harness.hello().revisions[0]).call
    name = place.relative_to(root).as_posix()
    try:
        data = base64.b64decode(objects.written(vector, call))
    except AdapterError as error:
        return Said(name=name, wrong=f"refused: {error}")
    (model,) = (p for p in (vector.folder / "input").rglob("*") if p.is_file())
    file = place / "input" / model.relative_to(vector.folder / "input")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    for copied in ("case.json", "expected.json"):
        (place / copied).write_bytes((vector.folder / copied).read_bytes())
    return Said(name=name, wrong=objects.encode(vector, call))


def _table(root: Path, revision: str, name: str, harness: Harness) -> Said:
    life = lives.LIVES[name]
    place = (root / revision / "tables" / name).resolve()
    place.mkdir(parents=True, exist_ok=True)
    actor = harness.actor(f"golden {name}", revision)
    said = f"{revision}/tables/{name}"
    try:
        region = lives.live(life, str(place / "table"), actor.call)
    except AdapterError as error:
        return Said(name=said, wrong=f"refused: {error}")
    finally:
        actor.kill()
    made = {
        "title": life.title,
        "producer": f"{harness.hello().implementation} {harness.hello().version}",
        "region_id": region,
        "rows": lives.rows(life.rows),
        "flushed": life.flushed,
    }
    (place / MADE).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return Said(name=said, wrong=judged(place / "table", revision, life))


def judged(table: Path, revision: str, life: lives.Life) -> str | None:
    """What the judge finds wrong with a golden table."""
    try:
        found = store.read(table, revision, ["id"])
        faults = [f"{result.check}: {result.faults[0]}" for result in structure.run(found) if result.faults]
        if faults:
            return faults[0]
        there = {(row["id"], row["v"]) for row in content.live(content.durable(found))}
    except DamagedBytes as error:
        return f"the judge cannot read it: {error}"
    return None if there == set(life.rows) else f"the judge finds {sorted(there)}, expected {sorted(life.rows)}"


def consume(root: Path, harness: Harness) -> Iterator[Said]:
    """Let an implementation read what is below ``root``.

    Raises what a broken adapter raises.
    """
    hello = harness.hello()
    for file in sorted(root.glob("*/objects/*/*/case.json")):
        vector = _loaded(file)
        message = "eval.legacy" if vector.kind == "legacy" else "eval.decode"
        said = file.parent.relative_to(root).as_posix()
        known = vector.revision == "0" or vector.revision in hello.revisions
        if not known or not hello.answers(message) or f"{message} {vector.kind}" in hello.without:
            yield Said(name=said, wrong=message if known else f"revision {vector.revision}", asked=False)
            continue
        under = hello.revisions[0] if vector.revision == "0" else vector.revision
        try:
            wrong = objects.decode(vector, harness.shared(under).call)
        except AdapterError as error:
            wrong = f"refused: {error}"
        yield Said(name=said, wrong=wrong)
    for file in sorted(root.glob(f"*/tables/*/{MADE}")):
        yield from _consumed(root, file, harness)


def _loaded(file: Path) -> Vector:
    """A golden object as a vector: its folder lies one deeper than that of a vector of the suite."""
    case, expected = (json.loads((file.parent / name).read_text("utf-8")) for name in ("case.json", "expected.json"))
    return Vector(
        folder=file.parent,
        revision=file.parents[3].name,
        kind=case["kind"],
        area=case["kind"],
        name=file.parent.name,
        title=case["title"],
        directions=("decode",),
        clauses=tuple(case["clauses"]),
        ambiguity=case.get("ambiguity"),
        outcomes=(),
        compare="equal",
        chosen=None,
        expected=expected,
    )


def _consumed(root: Path, file: Path, harness: Harness) -> Iterator[Said]:
    made: Json = json.loads(file.read_text("utf-8"))
    hello, revision = harness.hello(), file.parents[2].name
    questions: dict[str, Any] = {"recover": {"region_id": made["region_id"], "rows": made["rows"]}}
    if made["flushed"]:
        questions["read"] = {"strong": [made["rows"]]}
    for direction, expected in questions.items():
        said = f"{file.parent.relative_to(root).as_posix()} {direction}"
        if revision not in hello.revisions:
            yield Said(name=said, wrong=f"revision {revision}", asked=False)
            continue
        missing = [message for message in tables.MESSAGES[direction] if not hello.answers(message)]
        if missing:
            yield Said(name=said, wrong=missing[0], asked=False)
            continue
        try:
            wrong = tables.ask_about(file.parent / "table", direction, expected, harness.shared(revision).call)
        except AdapterError as error:
            wrong = f"refused: {error}"
        yield Said(name=said, wrong=wrong)
