"""The mutants of the checkout: ``conformance/mutants/<GROUP>.toml``, and which of them were seen to be killed.

A mutant is one exact change of a source file that makes the project break a clause, the way an implementer could, and
the test that must fail then. The test carries the marker of each clause that the mutant is written down for. Seen
deaths are data, too (`KILLED`): each is good for the code, the test and its helpers (`footing`) that it
was seen with, and stale when one of them has changed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memwal.errors import InvalidArgument

from ..registry.clauses import GROUPS, ROOT, entries
from .anchors import places, replaced, without_comments
from .footing import footing

SOURCES = ("reference/memwal", "simulator/memwal_sim", "conformance/memwal_conformance", "pipeline/memwal_spark")
"""Where a mutant may change something, below the root."""
KILLED = Path("conformance/mutants/killed.jsonl")
"""A line for each mutant that was seen to die: name, digest, and what its test said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
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
class Mutant(Change):
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

    def digest(self, root: Path) -> str:
        """Of the definition that is changed, the change, and all that the test stands on: 64 hexadecimal digits.

        Comments do not count.

        Raises `InvalidArgument` if the old text is not in the source exactly once, or the test is not there.
        """
        source = self.source(root)
        [(begins, _)] = places(source, self.old)
        line = source.count("\n", 0, begins) + 1
        around = [text for (first, last, _), text in _definitions(source).items() if first <= line <= last]
        try:
            standing_on = footing(root, self.test).sources
        except InvalidArgument as error:
            raise InvalidArgument(f"{self}: {error}") from error
        parts = (around[-1] if around else source, self.old, self.new, *standing_on)
        return hashlib.sha256("\0".join(map(without_comments, parts)).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How a mutant was seen to die."""

    digest: str
    message: str
    """First line of what the test said."""


def mutants(root: Path = ROOT, groups: Iterable[str] = GROUPS) -> tuple[Mutant, ...]:
    """The mutants of these groups, in the order of their files; none where there is no checkout.

    Raises `InvalidArgument` naming file and entry.
    """
    found: dict[str, Mutant] = {}
    for group in groups:
        path = root / "conformance" / "mutants" / f"{group}.toml"
        for entry in entries(path, "mutant", "name") if path.is_file() else ():
            mutant = Mutant(
                name=entry.text("name"),
                group=group,
                clauses=entry.texts("clauses"),
                what=entry.text("what"),
                file=entry.text("file"),
                old=entry.text("old"),
                new=entry.text("new", ""),
                test=entry.text("test"),
            )
            entry.done()
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


def deaths(root: Path = ROOT) -> dict[str, Death]:
    """Mutant -> how it was seen to die, also where that is stale by now."""
    path = root / KILLED
    lines = path.read_text("utf-8").split("\n")[:-1] if path.is_file() else []
    return {name: Death(digest=digest, message=message) for name, digest, message in map(json.loads, lines)}


def record(known: Iterable[Mutant], seen: Mapping[str, Death | None], root: Path = ROOT) -> None:
    """Keep what was ``seen`` of some mutants (None: it survived); ``known`` are all that are written down.

    What is kept of mutants that are no longer written down is forgotten.
    """
    kept: dict[str, Death | None] = {**deaths(root), **seen}
    found = {name: death for name in sorted(each.name for each in known) if (death := kept.get(name)) is not None}
    lines = [json.dumps([name, each.digest, each.message], ensure_ascii=False) for name, each in found.items()]
    (root / KILLED).write_text("".join(f"{line}\n" for line in lines), "utf-8")


def dead(known: Iterable[Mutant], root: Path = ROOT) -> set[str]:
    """Names of those whose death was seen with the code and the test as they are."""
    seen = deaths(root)
    return {each.name for each in known if each.name in seen and seen[each.name].digest == each.digest(root)}


def faults(known: Sequence[Mutant], marked: Mapping[str, tuple[str, ...]], root: Path = ROOT) -> list[str]:
    """What is wrong with what is written down, given clause -> tests that carry its marker. Empty: nothing."""
    found, seen = [], deaths(root)
    for mutant in known:
        try:
            digest = mutant.digest(root)
        except InvalidArgument as error:
            found.append(str(error))
            continue
        where = f"{mutant.group}.toml: {mutant.name}"
        unmarked = [clause for clause in mutant.clauses if mutant.test not in marked.get(clause, ())]
        found += [f"{where}: {mutant.test} does not carry the marker of {clause}" for clause in unmarked]
        if mutant.name not in seen:
            found.append(f"{where}: nobody has seen {mutant.test} fail: memwal clauses break")
        elif seen[mutant.name].digest != digest:
            found.append(f"{where}: its code or its test has changed since: memwal clauses break")
    return found


@functools.lru_cache(maxsize=512)
def _definitions(source: str) -> dict[tuple[int, int, str], str]:
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
