"""Files of data: scenarios, examples, workflows, clauses and mutants as TOML, which is read table by table.

A reader of a table takes its fields one by one, and closes it: a field that was not taken is refused. Errors are
`InvalidArgument`, and say file and entry, what is wrong there, and the nearest name that there is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from memwal.errors import InvalidArgument, check_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table of a file, and where it is."""

    where: str
    """File and entry."""
    fields: Mapping[str, Any]
    taken: set[str] = field(default_factory=set)

    def need(self, name: str, kind: type[T]) -> T:
        """The field ``name``, which has to be there."""
        if name not in self.fields:
            raise self.wrong(f"{name} is missing; the fields are {', '.join(self.fields) or 'none'}")
        return self._taken(name, kind)

    def take(self, name: str, kind: type[T], default: T) -> T:
        """The field ``name``, or ``default``."""
        self.taken.add(name)
        return self._taken(name, kind) if name in self.fields else default

    def maybe(self, name: str, kind: type[T]) -> T | None:
        """The field ``name``, or None."""
        self.taken.add(name)
        return self._taken(name, kind) if name in self.fields else None

    def _taken(self, name: str, kind: type[T]) -> T:
        self.taken.add(name)
        found: T = self.fields[name]
        if type(found) is not kind:
            raise self.wrong(f"{name} is not {_KINDS[kind]}: {found!r}")
        return found

    def exact(self, name: str, default: str | None = None) -> str:
        """The text ``name`` as it stands; it has to be there, and not empty, if there is no ``default``."""
        if default is not None:
            return self.take(name, str, default)
        if not (found := self.need(name, str)):
            raise self.wrong(f"{name} is empty")
        return found

    def text(self, name: str, default: str | None = None) -> str:
        """The same with its lines as one."""
        return " ".join(self.exact(name, default).split())

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of the list ``name``; none if there is none."""
        found = self.take(name, list, [])
        if not all(isinstance(each, str) for each in found):
            raise self.wrong(f"{name} is not a list of texts: {found!r}")
        return tuple(found)

    def names(self, name: str) -> tuple[str, ...]:
        """The texts of the list ``name``, which are different, and one at least."""
        found = self.texts(name)
        if not found or "" in found or len(set(found)) != len(found):
            raise self.wrong(f"{name} is not a list of different texts: {list(found)!r}")
        return found

    def table(self, name: str) -> DataTable:
        """The table ``name``; one without fields if there is none."""
        return DataTable(f"{self.where}, {name}", self.take(name, dict, {}))

    def tables(self, name: str, called: str = "name") -> tuple[DataTable, ...]:
        """The tables of the list ``name``, by number and their field ``called``; none if there is none."""
        return tuple(self._tables(name, called))

    def _tables(self, name: str, called: str) -> Iterator[DataTable]:
        for number, fields in enumerate(self.take(name, list, []), 1):
            if not isinstance(fields, dict):
                raise self.wrong(f"{name.removesuffix('s')} {number} is not a table: {fields!r}")
            known = f" ({fields[called]})" if called in fields else ""
            yield DataTable(f"{self.where}, {name.removesuffix('s')} {number}{known}", fields)

    def wrong(self, reason: str) -> InvalidArgument:
        """The error that says ``reason`` with the place of this table."""
        return InvalidArgument(f"{self.where}: {reason}")

    def close(self) -> None:
        """Refuse what was not taken."""
        for name in self.fields:
            with self.placed():
                check_name("field", name, sorted(self.taken))

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Whatever is refused within is refused with the place of this table."""
        try:
            yield
        except InvalidArgument as refused:
            raise InvalidArgument(f"{self.where}: {refused}", clause=refused.clause) from refused


_KINDS: Mapping[type, str] = {
    str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table",
}  # fmt: skip


def parsed(name: str, text: str) -> DataTable:
    """The file ``name`` with this text."""
    try:
        return DataTable(name, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"{name} is not TOML: {error}") from error


def load(path: Path) -> DataTable:
    """The file at ``path``; raises `InvalidArgument` if it is not UTF-8."""
    try:
        return parsed(str(path), path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path} is not UTF-8 from byte {error.start} on") from error


def read(name: str) -> DataTable:
    """The file ``name`` of this folder."""
    return parsed(name, resources.files(__package__).joinpath(name).read_text("utf-8"))


def read_all(folder: str) -> Sequence[DataTable]:
    """The files of a folder of this folder, by name."""
    found = sorted(file.name for file in resources.files(__package__).joinpath(folder).iterdir())
    return [read(f"{folder}/{name}") for name in found if name.endswith(".toml")]
