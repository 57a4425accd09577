"""The heart of the engine reads as specification: ids stand with words at the line that they explain."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from memwal_conformance.registry import clauses as registry

ENGINE = registry.ROOT / "reference" / "memwal"
HEART = ("region", "jobs", "read")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
WORDS = 3
"""At least as many stand beside the ids of a comment."""


def ids_in(text: str) -> set[str]:
    """Ids of clauses in a text, whether the registry has them or not; those of notes are another test's."""
    groups = {clause.group for clause in registry.clauses()}
    return {found[0] for found in re.finditer(r"\b([A-Z]+)-[0-9]{3}\b", text) if found[1] in groups}


def comments(source: str) -> dict[int, str]:
    """Comments by line; those on lines of their own that follow each other are one, at the last line."""
    found: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, own = token.start[0], not token.line[: token.start[1]].strip()
            before = found.pop(line - 1) if own and found.get(line - 1, "").endswith("\n") else ""
            found[line] = before + token.string.lstrip("# ") + ("\n" if own else "")
    return found


def bare(source: str) -> list[str]:
    """Comments in which an id stands without words."""
    alone = []
    for comment in comments(source).values():
        rest = re.sub(r"\b[A-Z]+-[0-9]{2,3}(, [0-9]{2,3})*\b", "", comment)
        if rest != comment and len(re.findall(r"[A-Za-z']+", rest)) < WORDS:
            alone.append(comment.strip())
    return alone


def unexplained(source: str) -> list[int]:
    """Lines that continue with a loop and have no comment, there or on the line above."""
    said = comments(source)
    lines = [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Continue)]
    return sorted(line for line in lines if not {line, line - 1} & said.keys())


def lists(source: str) -> list[str]:
    """Lists of notes in docstrings: far from the lines that they explain."""
    docs = (ast.get_docstring(node) for node in ast.walk(ast.parse(source)) if isinstance(node, _DOCUMENTED))
    return [found[0] for doc in docs if doc for found in re.finditer(r"AMB-[0-9]+(,| to)\s+(AMB-)?[0-9]+", doc)]


def nameless(source: str) -> list[int]:
    """Lines on which a function of the module itself is told yes or no, and nobody reads of what."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    own = {
        node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    flags = [
        call.lineno
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in own
        and any(isinstance(each, ast.Constant) and isinstance(each.value, bool) for each in call.args)
    ]
    return sorted(flags)


def sources(*rooms: str) -> Iterator[tuple[str, str]]:
    for path in sorted(file for room in rooms for file in (ENGINE / room).rglob("*.py")):
        yield Path(path).relative_to(ENGINE).as_posix(), path.read_text("utf-8")


def test_every_clause_that_the_engine_names_is_in_the_registry() -> None:
    known = {clause.id for clause in registry.clauses()}
    assert {(name, id_) for name, source in sources(".") for id_ in ids_in(source) - known} == set()


def test_no_id_stands_in_a_comment_of_the_heart_without_words() -> None:
    assert {name: found for name, source in sources(*HEART) if (found := bare(source))} == {}


def test_every_continue_of_the_heart_says_why() -> None:
    assert {name: found for name, source in sources(*HEART) if (found := unexplained(source))} == {}


def test_no_docstring_of_the_heart_lists_ids() -> None:
    assert {name: found for name, source in sources(*HEART) if (found := lists(source))} == {}


def test_every_flag_in_a_call_of_the_heart_has_its_name() -> None:
    assert {name: found for name, source in sources(*HEART) if (found := nameless(source))} == {}


def test_what_is_looked_for_is_found() -> None:
    source = """
for each in them:
    # FENCE-004, AMB-30, 31
    if each:
        continue
    # FENCE-004: the newest manifest
    # is loaded.
    if not each:  # it goes on
        continue
    other()  # nothing
    continue  # it is merged
"""
    assert bare(source) == ["FENCE-004, AMB-30, 31"]
    assert unexplained(source) == [5]
    assert lists('"""Of it.\n\nSource: AMB-07, 09, 13 (the pointer)."""') == ["AMB-07, 09"]
    assert nameless("def f(a): ...\nf(True)\nf(a=True)\ng(False)") == [2]
    assert ids_in("FENCE-004, FENCE-999, AMB-31 and UTF-008") == {"FENCE-004", "FENCE-999"}
