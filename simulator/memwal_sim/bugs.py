"""Planted bugs: named, switchable errors of the engine that an exploration has to find.

A harness that cannot fail proves nothing. Bugs that are another reading of an ambiguity and nothing else are data:
``faults/bugs/<group>/readings.toml``. The others replace functions of the engine, so they are code: each Python file
there defines one ``BUG``. All say which clause they break and which oracle must notice. What a file of code says of its
bug is read without running it: its code, and with it the engine, is loaded when something is to be replaced.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from memwal.errors import InvalidArgument, check_name
from memwal.revisions import Interpretation

from . import data, places
from .data import DataTable
from .outcomes import Fate

_ENGINE = "memwal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """One planted bug."""

    name: str
    """Unique; also the name of its file, if it has one of its own."""
    clause: str
    """Requirement or ambiguity that it breaks."""
    what: str
    """What the engine does wrong, in one sentence."""
    why: str
    """What comes of it, and why an author might write it."""
    scenario: str
    """Scenario in which an exploration finds it."""
    oracle: str
    """Name of the oracle that finds it."""
    violated: str
    """Clause that the oracle names."""
    faults: int = 0
    """Fault budget that it needs there."""
    kinds: frozenset[Fate] | None = None
    """The faults that it needs; None: any of the scenario's."""
    revision: str = "B"
    """Revision under which the scenario runs."""
    readings: Mapping[str, object] = field(default_factory=dict)
    """Fields of `memwal.revisions.Interpretation`, and the values that they take."""
    unseen: str = ""
    """Why no case of the conformance suite shows it; empty if one does."""
    group: str = ""
    """The folder that it is in."""
    title: str = ""
    """One line for lists: the first of its file, if it has one of its own."""
    replaced: Mapping[str, Callable[..., Any] | property] = field(default_factory=dict)
    """``module:function`` or ``module:Class.method`` of the engine -> what stands there instead."""

    def __reduce__(self) -> tuple[Callable[[str], Bug], tuple[str]]:
        """Another process finds it by its name."""
        return _named, (self.name,)


def load(folder: Path | None = None, about: str = "") -> dict[str, Bug]:
    """All bugs below ``folder`` (default: the project's) by name, in the order of groups and names.

    ``about``: only files that name this are read. Raises `InvalidArgument` with the file for one that defines no bug,
    and for a bug that is malformed or there twice.
    """
    found: dict[str, Bug] = {}
    root = folder or places.faults() / "bugs"
    for path in sorted([*root.rglob("*.py"), *root.rglob("readings.toml")]):
        if about.encode() not in path.read_bytes():
            continue
        for bug in [_of_code(path)] if path.suffix == ".py" else _of_data(path):
            if bug.name in found:
                raise InvalidArgument(f"{path}: there is already a planted bug {bug.name!r}: choose another name")
            found[bug.name] = replace(bug, group=path.parent.name)
    return dict(sorted(found.items(), key=lambda item: (item[1].group, item[0])))


def _of_code(path: Path) -> Bug:
    module = ast.parse(path.read_bytes())
    calls = [node.value for node in module.body if isinstance(node, ast.Assign) and _is_named(node.targets[0], "BUG")]
    if not calls or not isinstance(calls[-1], ast.Call) or not _is_named(calls[-1].func, "Bug"):
        raise InvalidArgument(f"{path} must define BUG")
    said = {str(each.arg): _said(each.value, path) for each in calls[-1].keywords if each.arg != "replaced"}
    targets = [_targets(each.value, path) for each in calls[-1].keywords if each.arg == "replaced"]
    replaced = _Code(path, targets[0] if targets else ())
    bug = Bug(**said, title=(ast.get_docstring(module) or "").partition("\n")[0], replaced=replaced)
    if bug.name != path.stem:
        raise InvalidArgument(f"{path} defines a bug called {bug.name!r}: it must have the file's name")
    return bug


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _said(value: ast.expr, path: Path) -> Any:
    """A field of a bug: a literal, or ``frozenset({Fate.…, …})``."""
    try:
        if isinstance(value, ast.Call) and _is_named(value.func, "frozenset") and isinstance(value.args[0], ast.Set):
            return frozenset(Fate[each.attr] for each in value.args[0].elts if isinstance(each, ast.Attribute))
        return ast.literal_eval(value)
    except ValueError as error:
        raise InvalidArgument(f"{path}, line {value.lineno}: {ast.unparse(value)} is not a literal") from error


def _targets(value: ast.expr, path: Path) -> tuple[str, ...]:
    """What `Bug.replaced` names, as it is written in the file."""
    if not isinstance(value, ast.Dict):
        raise InvalidArgument(
            f"{path}, line {value.lineno}: `replaced` must be written as {{'module:function': function}}"
        )
    return tuple(_said(key, path) for key in value.keys if key is not None)


class _Code(Mapping[str, Callable[..., Any] | property]):
    """What the file at ``path`` replaces; its code runs when a replacement is asked for."""

    def __init__(self, path: Path, targets: tuple[str, ...]) -> None:
        self._path, self._targets = path, targets

    @cached_property
    def _replaced(self) -> Mapping[str, Callable[..., Any] | property]:
        bug = _module(self._path).BUG
        assert isinstance(bug, Bug), self._path
        return bug.replaced

    def __getitem__(self, target: str) -> Callable[..., Any] | property:
        return self._replaced[target]

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)


def _of_data(path: Path) -> Iterator[Bug]:
    file = data.load(path)
    file.need("bug", list)
    yield from map(_bug, file.tables("bug"))
    file.close()


def _bug(table: DataTable) -> Bug:
    bug = Bug(
        name=table.text("name"),
        title=table.text("title"),
        clause=table.text("clause"),
        what=table.text("what"),
        why=table.text("why"),
        scenario=table.text("scenario"),
        oracle=table.text("oracle"),
        violated=table.text("violated"),
        faults=table.take("faults", int, 0),
        revision=table.text("revision", "B"),
        unseen=table.text("unseen", ""),
        readings=table.need("readings", dict),
    )
    table.close()
    with table.placed():
        for name in bug.readings:
            check_name("reading", name, [each.name for each in fields(Interpretation)])
    return bug


@cache
def _project() -> Mapping[str, Bug]:
    """The project's, read once: their files are as many as their bugs, and every trace names some or none."""
    return load()


def choose(names: Iterable[str], known: Mapping[str, Bug] | None = None) -> tuple[Bug, ...]:
    """The bugs called ``names``; raises `InvalidArgument` with the names that there are."""
    bugs = _project() if known is None else known
    chosen = tuple(names)
    for name in chosen:
        check_name("planted bug", name, sorted(bugs), listed_by="memwal conformance planted list")
    return tuple(bugs[name] for name in chosen)


def _named(name: str) -> Bug:
    (found,) = choose([name])
    return found


def readings(bugs: Iterable[Bug]) -> dict[str, object]:
    """The readings that ``bugs`` choose; raises `InvalidArgument` if two choose differently."""
    chosen: dict[str, object] = {}
    for bug in bugs:
        for name, value in bug.readings.items():
            if chosen.setdefault(name, value) != value:
                raise InvalidArgument(f"two planted bugs set {name} to different values: name one of them")
    return chosen


@contextmanager
def planted(bugs: Iterable[Bug]) -> Iterator[None]:
    """Replace the engine's functions while the context is open. Readings are not a matter of this: see `readings`.

    Raises `InvalidArgument` for a function that the engine does not have.
    """
    with ExitStack() as stack:
        for bug in bugs:
            stack.enter_context(replacing(bug.replaced))
        yield


@contextmanager
def replacing(replaced: Mapping[str, Callable[..., Any] | property]) -> Iterator[None]:
    """Replace functions of the engine while the context is open; ``replaced`` is as `Bug.replaced` has it.

    Raises `InvalidArgument` for a function that the engine does not have.
    """
    with ExitStack() as stack:
        for target, replacement in replaced.items():
            stack.enter_context(_replaced(target, replacement))
        yield


@contextmanager
def _replaced(target: str, replacement: Callable[..., Any] | property) -> Iterator[None]:
    place, name = owner(target)
    original = getattr(place, name)
    change = _Replacement(place, name, original, replacement)
    change.make()
    _changes.append(change)
    try:
        yield
    finally:
        _changes.remove(change)
        change.undo()


@dataclass(frozen=True, slots=True, eq=False)
class _Replacement:
    """A function of the engine that is replaced."""

    place: Any
    name: str
    original: Any
    replacement: Any

    def make(self) -> None:
        self._put(self.original, self.replacement)

    def undo(self) -> None:
        self._put(self.replacement, self.original)

    def _put(self, old: object, new: object) -> None:
        """Also in modules that were imported since: the engine imports some of its own when they are used."""
        importers = [] if isinstance(self.place, type) else _importers(old, self.name)
        for place in (self.place, *importers):
            setattr(place, self.name, new)


_changes: list[_Replacement] = []
"""What is replaced now, in order: the engine's functions are there once for the whole process, too."""


@contextmanager
def none_planted() -> Iterator[None]:
    """The engine as it is while the context is open: for what is made once, and kept for runs with any bug or none."""
    now = tuple(_changes)
    for change in reversed(now):
        change.undo()
    try:
        yield
    finally:
        for change in now:
            change.make()


def owner(target: str) -> tuple[Any, str]:
    """Module or class of the engine that has what ``target`` names as `Bug.replaced` does, and its name there.

    Raises `InvalidArgument` if the engine has no such thing.
    """
    module, _, dotted = target.partition(":")
    *outer, name = dotted.split(".")
    if module.partition(".")[0] != _ENGINE:
        raise InvalidArgument(f"{target} is not a part of the engine: plant bugs in the engine only")
    try:
        place: Any = importlib.import_module(module)
        for part in outer:
            place = getattr(place, part)
        getattr(place, name)
    except (ModuleNotFoundError, AttributeError):
        raise InvalidArgument(f"the engine has no {target}: name the function as it is called now") from None
    return place, name


def _importers(original: object, name: str) -> list[ModuleType]:
    """Modules of the engine that hold ``original`` under ``name`` because they imported it."""
    engine = [module for key, module in sys.modules.items() if key == _ENGINE or key.startswith(f"{_ENGINE}.")]
    return [module for module in engine if vars(module).get(name) is original]


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"memwal_planted_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"{path.name} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
