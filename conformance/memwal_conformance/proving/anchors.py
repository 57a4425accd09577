"""Where a change belongs in a source, whatever comments, line breaks and indentation stand there by now.

The old text of a change is found as it is written or, failing that, by its words and signs alone, with any white space
and comments between them, and with or without the comma that a formatter puts before a closing bracket.
"""

from __future__ import annotations

import ast
import re
import textwrap
from functools import cache

_STRING = (
    r"""[rRbBfFuU]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
)
_STRING_OR_COMMENT = re.compile(rf"({_STRING})|[ \t]*#[^\n]*", re.DOTALL)
_WORD_OR_SIGN = re.compile(r"\w+|[^\s\w]")
_GAP = r"(?:\s|#[^\n]*\n)*"


def without_comments(text: str) -> str:
    """Lines of Python without comments, and without lines that are blank then."""
    bare = _STRING_OR_COMMENT.sub(lambda found: found[1] or "", text)
    return "\n".join(line.rstrip() for line in bare.splitlines() if line.strip())


@cache
def without_prose(text: str) -> str:
    """As `without_comments`, and without the docstrings of Python that can be parsed."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return without_comments(text)
    lines = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    return without_comments("\n".join(lines))


def places(source: str, old: str) -> list[tuple[int, int]]:
    """Beginning and end of each place of ``source`` where ``old`` is found.

    Whole lines stay whole: where ``old`` begins with its indentation or ends with its line, so does the place.
    """
    line = "^" if _begins_its_line(old) else ""
    exact = [(each.start(), each.end()) for each in re.finditer(line + re.escape(old), source, re.MULTILINE)]
    if exact:
        return exact
    found = [(each.start(), each.end()) for each in _pattern(without_comments(old)).finditer(source)]
    return [_whole(source, old, *each) for each in found]


def replaced(source: str, old: str, new: str, place: tuple[int, int]) -> str:
    """``source`` with ``new`` at the ``place`` that was found for ``old``, indented as what stands there."""
    first, last = place
    there = source[first:last]
    deeper = _indentation(there) - _indentation(old) if _begins_its_line(old) else 0
    lines = new.splitlines(keepends=True)
    if deeper:
        lines = [
            " " * max(0, _indentation(line) + deeper) + line.lstrip(" ") if line.strip() else line for line in lines
        ]
    return source[:first] + "".join(lines) + source[last:]


def _pattern(old: str) -> re.Pattern[str]:
    signs = _WORD_OR_SIGN.findall(old)
    parts = []
    for index, sign in enumerate(signs):
        if sign == "," and "".join(signs[index + 1 : index + 2]) in {")", "]", "}"}:
            continue  # it comes back before the bracket, where there may be one
        comma = f"(?:,{_GAP})?" if sign in {")", "]", "}"} and index else ""
        parts.append(comma + re.escape(sign))
    return re.compile(_GAP.join(parts))


def _whole(source: str, old: str, first: int, last: int) -> tuple[int, int]:
    line = source.rfind("\n", 0, first) + 1
    if _begins_its_line(old) and not source[line:first].strip():
        first = line
    if old.endswith("\n") and (rest := re.compile(r"[ \t]*(?:#[^\n]*)?\n").match(source, last)):
        last = rest.end()
    return first, last


def _begins_its_line(old: str) -> bool:
    return old.startswith(" ")


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip(" "))
