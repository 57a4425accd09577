"""The mutants of the checkout: ``conformance/mutants/<GROUP>.toml``.

A mutant is one exact change of a source file that makes the project break a clause, the way an implementer could, and
the test that must fail then. The test carries the marker of each clause that the mutant is written down for.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memwal.errors import InvalidArgument

from ..registry.clauses import GROUPS, ROOT
from ..registry.texts import entries
from .anchors import places, replaced

SOURCES = ("reference/memwal", "simulator/memwal_sim", "conformance/memwal_conformance", "pipeline/memwal_spark")
"""Where a mutant may change something, below the root."""
NOTES = "AMB"
"""The file of mutants that break a note of SPEC_NOTES.md, of whose matter no clause speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """One exact change of a source file."""

    file: str
    """The source file, below the root."""
    old: str
    """Text that the file has exactly once, as `anchors.places` finds it."""
    new: str
    """What stands there instead."""

    def applied(self, root: Path) -> str:
        """The whole changed source.

        Raises `InvalidArgument` if the old text is not there exactly once, or the result cannot be compiled.
        """
        source = self.source(root)
        changed = replaced(source, self.old, self.new, *places(source, self.old))
        try:
            compile(changed, self.file, "exec")
        except SyntaxError as error:
            raise InvalidArgument(f"{self}: line {error.lineno}: {error.msg}") from error
        return changed

    def source(self, root: Path) -> str:
        """The whole source without the change. Raises `InvalidArgument` if the old text is not there exactly once."""
        path = root / self.file
        source = path.read_text("utf-8") if path.is_file() else ""
        if (times := len(places(source, self.old))) != 1:
            raise InvalidArgument(f"{self}: {self.file} has the old text {times} times")
        return source


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant(SourceChange):
    """One change that breaks clauses on purpose."""

    name: str
    group: str
    """The file that it is written down in: the group of its first clause."""
    clauses: tuple[str, ...]
    """The clauses that the changed source breaks."""
    what: str
    """What it does wrong, in one sentence."""
    test: str
    """``<file>::<test>``, below the root and without parameters."""

    def __str__(self) -> str:
        return f"{self.group}.toml: {self.name}"

    def parts(self, root: Path) -> tuple[str, str, str]:
        """The definition that is changed, and the change.

        Raises `InvalidArgument` if the old text is not in the source exactly once.
        """
        source = self.source(root)
        [(begins, _)] = places(source, self.old)
        line = source.count("\n", 0, begins) + 1
        around = [text for (first, last, _), text in definitions(source).items() if first <= line <= last]
        return (around[-1] if around else source), self.old, self.new


def mutants(root: Path = ROOT, groups: Iterable[str] = (*GROUPS, NOTES), about: str = "") -> tuple[Mutant, ...]:
    """The mutants of these groups, in the order of their files; none where there is no checkout.

    ``about``: of files that do not name this none are read. Raises `InvalidArgument` naming file and entry.
    """
    found: dict[str, Mutant] = {}
    for group in groups:
        path = root / "conformance" / "mutants" / f"{group}.toml"
        for entry in entries(path, "mutant", "name") if path.is_file() and about.encode() in path.read_bytes() else ():
            mutant = Mutant(
                name=entry.text("name"),
                group=group,
                clauses=entry.names("clauses"),
                what=entry.text("what"),
                file=entry.text("file"),
                old=entry.exact("old"),
                new=entry.exact("new", ""),
                test=entry.text("test"),
            )
            entry.close()
            if not re.fullmatch("[a-z][a-z0-9_]*", mutant.name) or mutant.name in found:
                raise entry.wrong("the name is malformed or used twice")
            if not mutant.clauses[0].startswith(f"{group}-"):
                raise entry.wrong(f"the first clause is not of the group {group}")
            if not mutant.file.startswith(tuple(f"{folder}/" for folder in SOURCES)) or ".." in mutant.file:
                raise entry.wrong(f"{mutant.file} is not below {', '.join(SOURCES)}")
            if mutant.old == mutant.new:
                raise entry.wrong("old and new are the same")
            found[mutant.name] = mutant
    return tuple(found.values())


@functools.lru_cache(maxsize=512)
def definitions(source: str) -> dict[tuple[int, int, str], str]:
    """First and last line and name of each statement of a module -> its text, with decorators.

    What is inside of classes is there, too, before its class, as ``Class::name``. Statements without a name have none.
    """
    lines = source.splitlines(keepends=True)

    def of(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[tuple[int, int, str], str]]:
        for node in body:
            name = prefix + getattr(node, "name", "")
            if isinstance(node, ast.ClassDef):
                yield from of(node.body, f"{name}::")
            decorators: list[ast.expr] = getattr(node, "decorator_list", [])
            first, last = min([node.lineno, *(each.lineno for each in decorators)]), node.end_lineno or node.lineno
            yield (first, last, name), "".join(lines[first - 1 : last])

    return dict(of(ast.parse(source).body, ""))
