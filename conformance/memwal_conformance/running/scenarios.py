"""Scenarios: data on disk, and the values that their steps name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memwal.words import reason

from .. import cells, protocol
from ..protocol import Hello, Json
from ..vectors import BadCase
from .including import INCLUDE, expanded


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteScenario:
    """One scenario; see ``schema/scenario.json`` for the steps."""

    file: Path
    title: str
    smoke: bool
    revisions: tuple[str, ...]
    clauses: tuple[str, ...]
    schema: list[Json]
    primary_key: tuple[str, ...]
    steps: tuple[Json, ...]
    described: Json = field(default_factory=dict)
    """All of it, as it stands in the file, with what it includes."""
    rules: tuple[Json, ...] | None = None
    """Of the gate; None: the table is a folder, and there is no gate."""
    crash: str | None = None
    """The actor that is killed at each of its changes."""
    race: Json | None = None
    """The race, as the schema has it."""
    afterwards: tuple[Json, ...] = ()
    """What follows each crash and each order of a race."""

    @property
    def gated(self) -> bool:
        """Whether the table is behind the gate."""
        return self.rules is not None

    def behind_gate(self) -> SuiteScenario:
        """The same scenario with its table behind the gate, if it is not there already."""
        return self if self.gated else made({**self.described, "gate": {"rules": []}}, self.file)

    def steps_of(self, revision: str) -> list[Json]:
        """The steps of a revision."""
        return [step for step in self.steps if revision in step.get("only", protocol.REVISIONS)]

    def every_step(self, revision: str) -> list[Json]:
        """Those, the operations of a race, and what follows."""
        raced = [step for steps in (self.race or {}).get("operations", {}).values() for step in steps]
        after = [step for step in self.afterwards if revision in step.get("only", protocol.REVISIONS)]
        return [*self.steps_of(revision), *raced, *after]

    def cited(self, revision: str) -> tuple[str, ...]:
        """All clauses that the scenario and its own steps name, each once."""
        steps = self.every_step(revision)
        return tuple(dict.fromkeys([*self.clauses, *(c for step in steps for c in step.get("clauses", ()))]))

    def missing(self, revision: str, hello: Hello) -> list[str]:
        """Messages and parameters that the steps of a revision need and the implementation does not answer."""
        sent = [step for step in self.every_step(revision) if "send" in step]
        needed = {step["send"] for step in sent}
        given = {f"{step['send']} {parameter}" for step in sent for parameter in step.get("with", {})}
        asked = {"s3": self.gated, "concurrent": self.at_once(revision)}
        lacks = [name for name, needs in asked.items() if needs and name not in hello.capabilities]
        return sorted([*(m for m in needed if not hello.answers(m, revision)), *(given & set(hello.without)), *lacks])

    def at_once(self, revision: str) -> bool:
        """Whether an actor is sent a message while another one has no answer."""
        if any("/" in lane for lane in (self.race or {}).get("operations", ())):
            return True
        waiting: Counter[str] = Counter()
        for step in self.steps_of(revision):
            if "kill" in step:
                del waiting[step["kill"]]
            elif "await" in step:
                waiting[step["await"]] -= 1
            elif "send" in step and waiting[step["actor"]] > 0:
                return True
            elif step.get("meanwhile"):
                waiting[step["actor"]] += 1
        return False


def load(file: Path) -> SuiteScenario:
    """The scenario in ``file``. Raises `BadCase`."""
    try:
        described = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadCase(f"{file}: {reason(error)}") from error
    return made(described, file)


def made(described: Any, file: Path) -> SuiteScenario:
    """The scenario that ``described`` is, called as ``file``, with what it includes. Raises `BadCase`."""
    described = expanded(described, file)
    wrong = protocol.problem("urn:memwal:scenario#/$defs/scenario", described)
    if wrong is not None:
        raise BadCase(f"{file}: {wrong}")
    if wrong := _misplaced(described):
        raise BadCase(f"{file}: {wrong}")
    names = [column["name"] for column in described["schema"]]
    if missing := [name for name in described["primary_key"] if name not in names]:
        raise BadCase(f"{file}: the key column {missing[0]} is not in the schema")
    return SuiteScenario(
        file=file,
        title=described["title"],
        smoke=described.get("smoke", False),
        revisions=tuple(described.get("revisions", protocol.REVISIONS)),
        clauses=tuple(described["clauses"]),
        schema=described["schema"],
        primary_key=tuple(described["primary_key"]),
        steps=tuple(described["steps"]),
        described=described,
        rules=tuple(described["gate"]["rules"]) if "gate" in described else None,
        crash=described["crash"]["actor"] if "crash" in described else None,
        race=described.get("race"),
        afterwards=tuple(described.get("afterwards", ())),
    )


def _misplaced(described: Json) -> str | None:
    """What a schema cannot say: messages and rules that are named and not there, and parts that need the gate."""
    raced = [step for steps in described.get("race", {}).get("operations", {}).values() for step in steps]
    steps = [*described["steps"], *raced, *described.get("afterwards", ())]
    for step in steps:
        if INCLUDE in step:
            return f"{step[INCLUDE]} cannot be included by steps that are included themselves"
        if "send" in step and step["send"] not in protocol.messages():
            return f"there is no message {step['send']}"
    faulted = [m for m in ("crash", "race") if m in described]
    if "gate" not in described:
        used = [word for step in steps for word in ("arm", "reached", "release", "await", "meanwhile") if word in step]
        return f"{[*faulted, *used][0]} needs a gate" if faulted or used else None
    labels = [rule["label"] for rule in described["gate"]["rules"]]
    named = [step[word] for step in steps for word in ("arm", "reached", "release") if word in step]
    named = [label for each in named for label in ([each] if isinstance(each, str) else each)]
    if strange := [label for label in named if label not in labels]:
        return f"there is no rule {strange[0]!r}"
    if len(set(labels)) < len(labels):
        return "two rules have one label"
    if len(faulted) == 2 or bool(faulted) != ("afterwards" in described):
        return "afterwards belongs to one of crash and race"
    return None


class NothingNamed(BadCase):
    """A step names a member that no answer has."""


@dataclass(slots=True)
class Names:
    """What the names in a scenario's steps stand for while it runs."""

    scenario: SuiteScenario
    table: str
    answers: dict[str, Json]

    def resolve(self, value: Any) -> Any:
        """``value`` with every name and shorthand replaced. Raises `NothingNamed`."""
        if isinstance(value, str):
            return self.look_up(value) if value.startswith("$") else value
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"$rows"}:
            return rows(self.scenario.schema, value["$rows"])
        if set(value) == {"$keys"}:
            return rows(self.key_columns(), value["$keys"])
        if set(value) == {"$cell"}:
            return cells.cell(*value["$cell"])
        return {name: self.resolve(item) for name, item in value.items()}

    def key_columns(self) -> list[Json]:
        """Descriptions of the key columns, in the order of the key."""
        by_name = {column["name"]: column for column in self.scenario.schema}
        return [by_name[name] for name in self.scenario.primary_key]

    def look_up(self, name: str) -> Any:
        """The value of ``$table``, ``$answer`` or ``$answer.member``. Raises `NothingNamed`."""
        if name == "$table":
            return self.table
        first, *members = name[1:].split(".")
        found: Any = self.answers.get(first)
        for member in members:
            if isinstance(found, list):
                found = found[int(member)] if member.isdigit() and int(member) < len(found) else None
            else:
                found = found.get(member) if isinstance(found, Mapping) else None
        if found is None:
            raise NothingNamed(f"{self.scenario.file.name}: nothing is named {name}")
        return found


def rows(schema: Sequence[Json], plain: Sequence[Sequence[Any]]) -> Json:
    """Rows of the protocol from plain values under a schema."""
    tagged = [[cells.cell(c["type"], v) for c, v in zip(schema, row, strict=True)] for row in plain]
    return {"columns": list(schema), "rows": tagged}


def plain_rows(answer: Mapping[str, Any]) -> list[Json]:
    """Rows of an answer as dictionaries of Python values."""
    names = [column["name"] for column in answer["columns"]]
    return [dict(zip(names, map(cells.value, row), strict=True)) for row in answer["rows"]]
