"""A plugin of pytest that records which blocks of the engine each test enters, and how long it takes.

A *block* is the body of a function, or one of the bodies in it: of a branch, a loop, a ``try`` or a ``case``. The
engine's modules are compiled with a mark at the beginning of each, so that recording costs little; their lines stay
as they are. Run as ``pytest -p memwal_conformance.proving.entering --entered=FOLDER``: of each file of tests that came
to its end, ``FOLDER`` has a file of JSON (`record_of`) with its tests that passed.

Nothing of the engine is imported here: what is imported before the plugin is not marked.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import pytest

_MARK = "__memwal_entered__"


def blocks(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Each block of a module, an outer one before those in it.

    The body of a function has its name (``Class.method``), those in it have their first line, too
    (``Class.method: return None``): so a name means the same block when others come or go.
    """
    yield from _definitions(tree, "")


def record_of(test_file: Path, folder: Path) -> Path:
    """Where the record of a file of tests is, as the file is now."""
    return folder / f"{test_file.stem}-{hashlib.sha256(test_file.read_bytes()).hexdigest()[:16]}.json"


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _definitions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{child.name}"
            yield name, child.body
            for body in itertools.islice(_bodies(child), 1, None):
                first_line, *_ = ast.unparse(body[0]).splitlines()
                yield f"{name}: {first_line}", body
        else:
            yield from _definitions(child, prefix)


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The bodies in a definition, also those of definitions in it."""
    for _, value in ast.iter_fields(node):
        parts = value if isinstance(value, list) else [value]
        if parts and isinstance(parts[0], ast.stmt):
            yield parts
        for part in parts:
            if isinstance(part, ast.AST):
                yield from _bodies(part)


class _Marking(SourceFileLoader):
    """Compiles a module of the engine with its marks."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        for name, body in list(blocks(tree)):
            call = ast.parse(f"{_MARK}({f'{fullname}:{name}'!r})").body[0]
            said = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
            for each in ast.walk(call):
                ast.copy_location(each, body[0])
            body.insert(1 if said else 0, call)
        return compile(tree, path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the modules of the engine, but for those that protobuf wrote."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not f"{fullname}.".startswith("memwal.") or fullname.startswith("memwal.codec.pb"):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Marking(fullname, spec.origin)
        return spec


class _Recorder:
    """Keeps what each test enters, and writes it down at the end of its file."""

    def __init__(self, folder: Path, entered: set[str]) -> None:
        self._folder, self._entered = folder, entered
        self._tests: dict[str, tuple[float, set[str]]] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        self._entered.clear()
        began = _cpu_s()
        done = yield
        self._tests[item.nodeid] = max(0.01, round(_cpu_s() - began, 2)), set(self._entered)
        if nextitem is None or nextitem.path != item.path:
            self._write(item.path)
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def _write(self, test_file: Path) -> None:
        passed = {name: found for name, found in self._tests.items() if name not in self._failed}
        names = sorted(set().union(*(entered for _, entered in passed.values())))
        number = {name: index for index, name in enumerate(names)}
        tests = {name: [took, sorted(number[each] for each in entered)] for name, (took, entered) in passed.items()}
        record_of(test_file, self._folder).write_text(json.dumps({"blocks": names, "tests": tests}), "utf-8")
        self._tests.clear()


def _cpu_s() -> float:
    """Seconds of CPU that this process and its children have had."""
    return sum(os.times()[:4])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--entered", type=Path, required=True, metavar="FOLDER", help="for what each test enters")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    entered = set[str]()
    setattr(builtins, _MARK, entered.add)
    sys.meta_path.insert(0, _Finder())  # before conftests import what they need of the engine
    early_config.pluginmanager.register(_Recorder(early_config.known_args_namespace.entered, entered))
