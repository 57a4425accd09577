"""Which tests look at a definition: a table of module -> test files, worked out from what the files name.

Files that import the module, or have the name of it or of a module that imports it, come first, and of these the ones
that name the changed definition most often; then those that import a module that imports it, then those of its room,
and last `GENERAL`, which run the whole engine. Short files come before long ones: the first test that fails ends a
trial.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from ..registry.clauses import ROOT

FOLDERS = ("reference/tests", "simulator/tests")
GENERAL = (
    "reference/tests/test_table_api.py",
    "reference/tests/test_engine.py",
    "reference/tests/test_recovery.py",
    "reference/tests/test_merger.py",
    "reference/tests/test_collector.py",
    "reference/tests/test_transactions.py",
    "reference/tests/test_plans.py",
    "reference/tests/test_verify.py",
    "simulator/tests/test_recorded.py",
    "simulator/tests/test_recorded_expected.py",
    "simulator/tests/test_certificates.py",
)
"""Tests of the whole engine: they may notice what no test of the module does."""
FILES_MOST = 24
"""Files of one trial, `GENERAL` included."""


def watchers(file: str, inside: str, root: Path = ROOT) -> list[str]:
    """The test files to run for a change of ``inside`` in the source ``file``, the likeliest to notice first."""
    module = _dotted(file)
    room, users = module.rpartition(".")[0], _users(root, module)
    ranked: list[tuple[int, int, str]] = []
    named = {f"test_{each.rpartition('.')[2]}.py" for each in (module, *users)}
    for path, (imported, text) in _tests(root).items():
        if Path(path).name in named:
            ranked.append((-1, 0, path))
        elif module in imported:
            before = "" if f"{module}.{inside}" in imported else rf"{module.rpartition('.')[2]}\w*\."
            calls = len(re.findall(rf"\b{before}{inside}\b", text)) if inside else 0
            ranked.append((-calls, len(text), path))
        elif not users.isdisjoint(imported):
            ranked.append((1, len(text), path))
        elif any(name == room or name.startswith(f"{room}.") for name in imported):
            ranked.append((2, len(text), path))
    general = [each for each in GENERAL if (root / each).is_file()]
    first = [path for *_, path in sorted(ranked) if path not in general]
    return [*first[: FILES_MOST - len(general)], *general]


def _dotted(file: str) -> str:
    return file.removeprefix("reference/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _users(root: Path, module: str) -> set[str]:
    """The modules of the engine that import ``module``."""
    wanted = {module, tuple(module.rpartition(".")[::2])}
    return {own for own, imported in _engine(root).items() if not wanted.isdisjoint(imported)}


@functools.lru_cache(maxsize=4)
def _engine(root: Path) -> dict[str, set[str | tuple[str, ...]]]:
    """Module of the engine -> modules that it imports from, and what from each as ``(module, name)``."""
    found: dict[str, set[str | tuple[str, ...]]] = {}
    for path in (root / "reference" / "memwal").rglob("*.py"):
        own = _dotted(str(path.relative_to(root)))
        imported = found.setdefault(own, set())
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                above = own.split(".")[: -node.level] if node.level and path.name != "__init__.py" else own.split(".")
                source = ".".join([*above, *([node.module] if node.module else [])]) if node.level else node.module
                imported |= {source or "", *((source or "", each.name) for each in node.names)}
    return found


@functools.lru_cache(maxsize=4)
def _tests(root: Path) -> dict[str, tuple[set[str], str]]:
    """Test file -> the modules that it imports, itself or through the helpers beside it, and its text."""
    own: dict[str, tuple[set[str], str]] = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).glob("*.py")):
            text = path.read_text("utf-8")
            own[str(path.relative_to(root))] = (_imports(text, folder), text)
    found = {}
    for name, (imported, text) in own.items():
        if Path(name).name.startswith("test_"):
            helped = [own[each][0] for each in imported if each in own]
            found[name] = (imported.union(*helped), text)
    return found


def _imports(text: str, folder: str) -> set[str]:
    """Modules by their dotted names, and helpers of the same folder by their files."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found |= {f"{folder}/{name}.py" for name in (node.module, *(each.name for each in node.names)) if name}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, f"{folder}/{node.module}.py", *(f"{node.module}.{each.name}" for each in node.names)}
    return found
