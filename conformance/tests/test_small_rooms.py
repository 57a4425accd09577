"""Modules are small rooms, functions fit on a screen, and a class has its name for itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from memwal_conformance.registry import clauses as registry

PACKAGES = (
    "reference/memwal",
    "reference/memwal_model",
    "simulator/memwal_sim",
    "conformance/memwal_conformance",
    "pipeline/memwal_spark",
    "pipeline/pyspark_memwal",
)
GENERATED = "codec/pb"
MODULE_LINES, FUNCTION_LINES = 400, 60
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def sources() -> dict[str, str]:
    files = sorted(file for package in PACKAGES for file in (registry.ROOT / package).rglob("*.py"))
    return {
        path.relative_to(registry.ROOT).as_posix(): path.read_text("utf-8")
        for path in files
        if GENERATED not in path.as_posix()
    }


parsed = cache(ast.parse)


def inside(node: ast.AST) -> Iterator[_Function]:
    """The functions in ``node``, and not those in them."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, _Function):
            yield each
        else:
            yield from inside(each)


def long_functions(source: str) -> dict[str, int]:
    """Functions with too many lines of statements.

    The signature does not count, which for a command is the table of its options, nor the words of the docstring; a
    function in another one counts for itself.
    """
    found = {}
    for node in ast.walk(parsed(source)):
        if isinstance(node, _Function):
            first = node.body[1:2] if ast.get_docstring(node) is not None else node.body[:1]
            lines = (node.end_lineno or 0) - min(each.lineno for each in first) + 1 if first else 0
            lines -= sum((each.end_lineno or 0) - each.lineno + 1 for each in inside(node))
            if lines > FUNCTION_LINES:
                found[node.name] = lines
    return found


def test_no_module_has_more_than_400_lines() -> None:
    assert {name: n for name, source in sources().items() if (n := len(source.splitlines())) > MODULE_LINES} == {}


def test_no_function_has_more_than_60_lines_of_statements() -> None:
    assert {name: found for name, source in sources().items() if (found := long_functions(source))} == {}


def test_what_counts_as_a_line_of_a_function() -> None:
    def function(name: str, statements: int, within: str = "") -> str:
        body = "".join(f"{within}    x = {number}\n" for number in range(statements))
        lines = [f"def {name}(", "    x: int,", ") -> None:", '    """Words.', "", '    More."""']
        return "".join(f"{within}{line}\n" for line in lines) + body

    assert long_functions(function("fits", 60)) == {}
    assert long_functions(function("long", 61)) == {"long": 61}
    assert long_functions(function("outer", 60) + function("inner", 30, "    ")) == {}
    assert long_functions(function("outer", 3) + function("inner", 61, "    ")) == {"inner": 61}


def test_no_two_modules_have_a_class_of_one_name() -> None:
    homes: dict[str, set[str]] = {}
    for name, source in sources().items():
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(name)
    assert {name: sorted(found) for name, found in homes.items() if len(found) > 1} == {}
