"""What a test stands on: the helpers that it uses, and theirs, in its own file and in the tests' folders.

A name of a test leads to a definition of its module, of a module of tests that this one imports from, or, for the
argument of a test or of a fixture, to a fixture of a ``conftest.py`` above. Other tests of a file are no part of it,
and neither are fixtures of a conftest that all tests have without a word: those set the room up and tidy it.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memwal.errors import InvalidArgument

PATHS = ("simulator/tests", "conformance/tests")
"""Folders below the root from which tests of other folders import, too: ``pythonpath`` of pyproject.toml."""
OURS = ("memwal", "memwal_sim", "memwal_conformance")
"""The packages whose modules a test can use."""
_PYTEST = ("pytestmark",)
"""Names that pytest looks for in each module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footing:
    """What one test stands on."""

    sources: tuple[str, ...]
    """The text of the test and of each helper, in the order of files and lines."""
    uses: frozenset[str]
    """Names of our packages that they use, dotted: ``memwal.create``, ``memwal.region.claim.claim``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Definition:
    """One statement of a module that gives names."""

    place: tuple[int, int]
    """First and last line."""
    text: str
    uses: frozenset[str]
    """Names that the module or an import of it gives, dotted where attributes of a name are used."""
    fixtures: frozenset[str]
    """What it asks for by the names of its arguments, or by ``usefixtures``."""
    automatic: bool
    """A fixture that every test in reach has."""


@dataclass(frozen=True, slots=True)
class _Module:
    """A file of tests, or a helper of tests."""

    definitions: dict[str, list[_Definition]] = field(default_factory=dict)
    """By name; what is in a class is there by itself, too, as ``Class::name``."""
    imports: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    """Name -> dots before the module, the module, and the name in it (empty: the module itself)."""


def footing(root: Path, test: str) -> Footing:
    """What ``test`` (``<file>::<test>``, below ``root``) stands on. Raises `InvalidArgument` if it is not there."""
    file, _, name = test.partition("::")
    path, read = root / file, functools.cache(_read)
    if name not in read(path).definitions:
        raise InvalidArgument(f"there is no test {test}")
    conftests = [each for each in _conftests(root, path) if each != path]
    automatic = [
        (path, found)
        for found, definitions in read(path).definitions.items()
        if found in _PYTEST or any(each.automatic for each in definitions)
    ]
    waiting = [(each, found, False) for each, found in [(path, name), *automatic]]
    seen, uses = set[tuple[Path, str, bool]](), set[str]()
    sources: dict[tuple[str, int, int], str] = {}
    while waiting:
        place, wanted, is_fixture = waiting.pop()
        if (place, wanted, is_fixture) in seen:
            continue
        seen.add((place, wanted, is_fixture))
        module, (first, *_) = read(place), wanted.split(".")
        for definition in module.definitions.get(wanted) or module.definitions.get(first, []):
            sources[str(place), *definition.place] = definition.text
            waiting += [(place, used, False) for used in definition.uses]
            waiting += [(place, used, True) for used in definition.fixtures]
        if first in module.imports:
            waiting += [(each, found, False) for each, found in _imported(root, place, module, wanted)]
            uses |= _of_ours(module, wanted)
        elif is_fixture and first not in module.definitions:
            waiting += [(each, first, True) for each in conftests if first in read(each).definitions]
    return Footing(sources=tuple(sources[key] for key in sorted(sources)), uses=frozenset(uses))


def _imported(root: Path, place: Path, module: _Module, wanted: str) -> Iterator[tuple[Path, str]]:
    """Where a name that ``module`` imports is defined, if that is a module of tests."""
    first, *rest = wanted.split(".")
    dots, name, inner = module.imports[first]
    if name.partition(".")[0] in (*OURS, *sys.stdlib_module_names):
        return
    folders = [place.parents[dots - 1]] if dots else [place.parent, *(root / folder for folder in PATHS)]
    path = [part for part in name.split(".") if part]
    for folder in folders:
        if path and (file := folder.joinpath(*path).with_suffix(".py")).is_file():
            yield file, inner or ".".join(rest)
        elif inner and (file := folder.joinpath(*path, f"{inner}.py")).is_file():
            yield file, ".".join(rest)


def _of_ours(module: _Module, wanted: str) -> set[str]:
    """What of our packages a name that was imported is."""
    first, *rest = wanted.split(".")
    dots, name, inner = module.imports.get(first, (0, "", ""))
    dotted = ".".join(filter(None, (name, inner, *rest)))
    return {dotted} if not dots and name.partition(".")[0] in OURS else set()


def _conftests(root: Path, path: Path) -> list[Path]:
    """The conftests above ``path``, nearest first."""
    found = [folder / "conftest.py" for folder in path.parents if folder.is_relative_to(root)]
    return [each for each in found if each.is_file()]


def _read(path: Path) -> _Module:
    if not path.is_file():
        return _Module()
    state = path.stat()
    return _module(path, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=512)
def _module(path: Path, _changed_ns: int, _size: int) -> _Module:
    """The module of ``path`` as it is since it was changed."""
    source = path.read_text("utf-8")
    module, lines = _Module(), source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        for name, inner in _named(node):
            decorators: list[ast.expr] = getattr(inner, "decorator_list", [])
            first = min([inner.lineno, *(each.lineno for each in decorators)])
            last = inner.end_lineno or first
            definition = _Definition(
                place=(first, last),
                text="".join(lines[first - 1 : last]),
                uses=frozenset(_in_its_class(_names([inner], frozenset()), name)),
                fixtures=frozenset(_in_its_class(_fixtures(inner), name)),
                automatic=any("autouse" in ast.unparse(each) for each in decorators),
            )
            module.definitions.setdefault(name, []).append(definition)
        for each in ast.walk(node):
            if isinstance(each, ast.ImportFrom):
                for alias in each.names:
                    module.imports[alias.asname or alias.name] = each.level, each.module or "", alias.name
            elif isinstance(each, ast.Import):
                for alias in each.names:
                    name = alias.name if alias.asname else alias.name.partition(".")[0]
                    module.imports[alias.asname or name] = 0, name, ""
    return module


def _named(node: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """The names that a statement of a module gives, with what they stand for."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name, node
    elif isinstance(node, ast.ClassDef):
        yield node.name, node
        yield from ((f"{node.name}::{name}", inner) for each in node.body for name, inner in _named(each))
    elif not isinstance(node, ast.Import | ast.ImportFrom):
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        names |= {each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        yield from ((name, node) for name in sorted(names))


def _in_its_class(used: Iterator[str], name: str) -> Iterator[str]:
    """What is ``used``, and for a test of a class what the rest of it gives, by `self` or as a fixture."""
    for each in used:
        yield each
        if "::" in name:
            yield f"{name.partition('::')[0]}::{each.removeprefix('self.').removeprefix('cls.')}"


_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def _names(nodes: Iterable[ast.AST], local: frozenset[str]) -> Iterator[str]:
    """The names that code uses and that are not ``local``; annotations, which nothing evaluates, give none."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and (dotted := _dotted(node)):
            if dotted.partition(".")[0] not in local:
                yield dotted
        elif isinstance(node, ast.Name):
            if node.id not in local:
                yield node.id
        elif isinstance(node, ast.AnnAssign):
            yield from _names([each for each in (node.target, node.value) if each is not None], local)
        elif isinstance(node, _Function):
            yield from _names([*node.decorator_list, node.args], local)
            yield from _names(node.body, local | _arguments(node) | _bound(node.body))
        elif isinstance(node, ast.Lambda):
            yield from _names([node.args], local)
            yield from _names([node.body], local | _arguments(node))
        elif isinstance(node, _Comprehension):
            yield from _names(ast.iter_child_nodes(node), local | _bound(each.target for each in node.generators))
        elif not isinstance(node, ast.arg):
            yield from _names(ast.iter_child_nodes(node), local)


def _arguments(node: _Function | ast.Lambda) -> frozenset[str]:
    """Names of arguments, but `self` and `cls`: by these a method uses its class."""
    return frozenset(each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)) - {"self", "cls"}


def _bound(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Names that code gives a value to, and that are its function's own; imports are looked for by themselves."""
    found, shared, waiting = set[str](), set[str](), list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Global):
            shared.update(node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue  # what is inside has names of its own
        if not isinstance(node, ast.Lambda | _Comprehension):
            waiting += ast.iter_child_nodes(node)
    return frozenset(found - shared)


def _fixtures(node: ast.stmt) -> Iterator[str]:
    """Arguments of a test or fixture, and what ``usefixtures`` names, here and in the classes and functions inside."""
    for each in ast.walk(node):
        if isinstance(each, _Function | ast.ClassDef):
            named = [decorator for decorator in each.decorator_list if "usefixtures" in ast.unparse(decorator)]
            yield from (str(one.value) for by in named for one in ast.walk(by) if isinstance(one, ast.Constant))
        if isinstance(each, _Function) and (
            each.name.startswith("test") or any("fixture" in ast.unparse(by) for by in each.decorator_list)
        ):
            yield from _arguments(each)


def _dotted(node: ast.expr) -> str:
    """``a.b.c``; empty where there is no name at the beginning."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute() if before := _dotted(node.value):
            return f"{before}.{node.attr}"
    return ""
