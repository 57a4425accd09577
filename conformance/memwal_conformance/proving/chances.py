"""Random mutants: small changes of the protocol modules, drawn and not chosen, to see where tests look away.

A change is one of `OPERATORS` at one place of the source. What only says something is left alone: messages of errors,
assertions (``strict`` of a ``zip`` is one), docstrings, ``repr`` of a field, annotations, decorators. The same seed and
source give the same changes.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from memwal.errors import InvalidArgument

from ..registry.clauses import ROOT
from .entering import blocks
from .mutants import SourceChange

ROOMS = ("codec", "index", "jobs", "read", "region", "table")
"""The folders of the engine whose modules are changed."""
Replaced = tuple[ast.expr | ast.stmt, str]
"""A node, and the text that takes its place."""
_FLIPPED: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_LOOSER = (ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.NamedExpr, ast.UnaryOp)
"""What needs its brackets, which are no part of it, on a side of a comparison."""
_EITHER_WAY = ("max", "min", "pc.add", "pc.and_", "pc.and_kleene", "pc.equal", "pc.multiply", "pc.or_", "pc.or_kleene")
"""What gives the same for arguments in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """One random change."""

    operator: str
    change: SourceChange
    line: int
    """Where it is, from 1."""
    block: str
    """The innermost block (`entering`) around it; empty if there is none, and it is not in the body of a function."""

    @property
    def name(self) -> str:
        """File, line and operator."""
        return f"{self.change.file}:{self.line} {self.operator}"

    def digest(self, root: Path) -> str:
        """Of the source and the change: 64 hexadecimal digits."""
        parts = (self.change.source(root), self.change.old, self.change.new)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def modules(root: Path = ROOT, rooms: tuple[str, ...] = ROOMS) -> list[str]:
    """The files that may be changed, below the root."""
    folder = root / "reference" / "memwal"
    found = [path for room in rooms for path in (folder / room).rglob("*.py") if "pb" not in path.parts]
    return sorted(str(path.relative_to(root)) for path in found)


def chosen(seed: int, count: int, root: Path = ROOT, files: list[str] | None = None) -> list[Chance]:
    """``count`` changes of ``files`` (default: all `modules`), each as likely as any other; all if there are fewer.

    Raises `InvalidArgument` for a file that is not there.
    """
    known = [each for file in files or modules(root) for each in chances(file, root)]
    return Random(seed).sample(known, min(count, len(known)))


def chances(file: str, root: Path = ROOT) -> list[Chance]:
    """All changes of one file, in the order of its lines."""
    path = root / file
    if not path.is_file():
        raise InvalidArgument(f"{file}: there is no such file")
    source = path.read_text("utf-8")
    tree, found = ast.parse(source), []
    inside = {
        line: name for name, body in blocks(tree) for line in range(body[0].lineno, (body[-1].end_lineno or 0) + 1)
    }
    for node in _nodes(tree):
        for operator, changes in OPERATORS.items():
            for old, new in changes(node, source):
                change, line = _change(file, source, old, new), old.lineno
                found.append(Chance(operator=operator, change=change, line=line, block=inside.get(line, "")))
    return sorted(found, key=lambda each: each.line)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """What may be changed."""
    match node:
        case ast.Assert() | ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            if isinstance(node, ast.Raise):
                yield node  # the statement, not what it says
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts: list[ast.AST] = [*node.args.defaults, *(d for d in node.args.kw_defaults if d), *node.body]
        case ast.ClassDef():
            parts = list(node.body)
        case ast.AnnAssign():
            parts = [] if node.value is None else [node.value]
        case ast.Expr(value=ast.Constant()) | ast.keyword(arg="strict" | "repr"):
            return
        case _:
            parts = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.stmt | ast.expr | ast.comprehension):
        yield node
    for part in parts:
        yield from _nodes(part)


def _text(node: ast.expr | ast.stmt, source: str) -> str:
    return source[slice(*_span(node, source))]


def _span(node: ast.expr | ast.stmt, source: str) -> tuple[int, int]:
    """First and last character of a node; `ast` gives lines, and bytes in them."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    lines, starts = _lines(source)

    def place(line: int, column_bytes: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column_bytes].decode())

    return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)


@functools.lru_cache(maxsize=4)
def _lines(source: str) -> tuple[list[str], list[int]]:
    """The lines, and how many characters are before each."""
    lines = source.splitlines(keepends=True)
    return lines, list(itertools.accumulate(map(len, lines), initial=0))


def _flips(node: ast.AST, source: str) -> Iterator[Replaced]:
    """A comparison of two: its neighbour, or its contrary."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = (
            f"({_text(side, source)})" if isinstance(side, _LOOSER) else _text(side, source)
            for side in (node.left, node.comparators[0])
        )
        yield node, f"{left} {_FLIPPED[type(node.ops[0])]} {right}"


def _negates(node: ast.AST, source: str) -> Iterator[Replaced]:
    """A condition: its contrary. A comparison is `_flips`'s unless it is an order."""
    tests: list[ast.expr] = []
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        tests = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = node.ifs
    for test in tests:
        if not isinstance(test, ast.Compare) or isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            yield test, f"(not ({_text(test, source)}))"


def _joins(node: ast.AST, source: str) -> Iterator[Replaced]:
    """``and`` for ``or``, and the other way round."""
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield node, "(" + word.join(f"({_text(value, source)})" for value in node.values) + ")"


def _shifts(node: ast.AST, source: str) -> Iterator[Replaced]:
    """A number one higher; a sum for a difference, and the other way round."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield node, str(node.value + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = "-" if isinstance(node.op, ast.Add) else "+"
        yield node, f"({_text(node.left, source)} {sign} {_text(node.right, source)})"


def _turns(node: ast.AST, _source: str) -> Iterator[Replaced]:
    """True for False, and the other way round."""
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield node, str(not node.value)


def _drops(node: ast.AST, _source: str) -> Iterator[Replaced]:
    """A statement that does something: nothing."""
    does = isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break)
    calls = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    stores = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    if does or calls or stores:
        assert isinstance(node, ast.stmt)
        yield node, "pass"


def _swaps(node: ast.AST, source: str) -> Iterator[Replaced]:
    """The last two arguments of a call in the other order, where that is another call."""
    if isinstance(node, ast.Call) and len(node.args) > 1 and _text(node.func, source) not in _EITHER_WAY:
        one, other = node.args[-2:]
        if not isinstance(one, ast.Starred) and not isinstance(other, ast.Starred):
            first, second = _text(one, source), _text(other, source)
            if first != second:
                (start, end), (one_at, one_end), (other_at, other_end) = (
                    _span(each, source) for each in (node, one, other)
                )
                kept = source[start:one_at], source[one_end:other_at], source[other_end:end]
                yield node, kept[0] + second + kept[1] + first + kept[2]


OPERATORS: Mapping[str, Callable[[ast.AST, str], Iterator[Replaced]]] = {
    "flip": _flips,
    "negate": _negates,
    "and-or": _joins,
    "off by one": _shifts,
    "true-false": _turns,
    "drop": _drops,
    "swap": _swaps,
}


def _change(file: str, source: str, node: ast.expr | ast.stmt, new: str) -> SourceChange:
    """The lines of ``node`` with the new text in them, and as many lines before as make them stand there once."""
    (start, end), (lines, starts) = _span(node, source), _lines(source)
    first, last = node.lineno - 1, node.end_lineno
    while source.count(old := "".join(lines[first:last])) != 1 and first:
        first -= 1
    before = starts[first]
    return SourceChange(file=file, old=old, new=old[: start - before] + new + old[end - before :])
