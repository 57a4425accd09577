"""Scenarios: data on disk, and the values that their steps name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import cells, protocol
from .protocol import Hello, Json
from .vectors import BadCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario; see ``schema/scenario.json`` for the steps."""

    file: Path
    title: str
    smoke: bool
    revisions: tuple[str, ...]
    clauses: tuple[str, ...]
    schema: list[Json]
    primary_key: tuple[str, ...]
    steps: tuple[Json, ...]

    def steps_of(self, revision: str) -> list[Json]:
        """The steps of a revision."""
        return [step for step in self.steps if revision in step.get("only", protocol.REVISIONS)]

    def cited(self, revision: str) -> tuple[str, ...]:
        """All clauses that the scenario and its own steps name, each once."""
        steps = self.steps_of(revision)
        return tuple(dict.fromkeys([*self.clauses, *(c for step in steps for c in step.get("clauses", ()))]))

    def missing(self, revision: str, hello: Hello) -> list[str]:
        """Messages and parameters that the steps of a revision need and the implementation does not answer."""
        sent = [step for step in self.steps_of(revision) if "send" in step]
        needed = {step["send"] for step in sent}
        given = {f"{step['send']} {parameter}" for step in sent for parameter in step.get("with", {})}
        return sorted([*(m for m in needed if not hello.answers(m)), *(given & set(hello.without))])


def load(file: Path) -> Scenario:
    """The scenario in ``file``. Raises `BadCase`."""
    try:
        described = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadCase(f"{file}: {error}") from error
    wrong = protocol.problem("urn:memwal:scenario#/$defs/scenario", described)
    if wrong is not None:
        raise BadCase(f"{file}: {wrong}")
    for step in described["steps"]:
        if "send" in step and step["send"] not in protocol.messages():
            raise BadCase(f"{file}: there is no message {step['send']}")
    names = [column["name"] for column in described["schema"]]
    if missing := [name for name in described["primary_key"] if name not in names]:
        raise BadCase(f"{file}: the key column {missing[0]} is not in the schema")
    return Scenario(
        file=file,
        title=described["title"],
        smoke=described.get("smoke", False),
        revisions=tuple(described.get("revisions", protocol.REVISIONS)),
        clauses=tuple(described["clauses"]),
        schema=described["schema"],
        primary_key=tuple(described["primary_key"]),
        steps=tuple(described["steps"]),
    )


class NothingNamed(BadCase):
    """A step names a member that no answer has."""


@dataclass(slots=True)
class Names:
    """What the names in a scenario's steps stand for while it runs."""

    scenario: Scenario
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
