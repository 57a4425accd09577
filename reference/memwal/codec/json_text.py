"""JSON from files and from other programs: nested deeper than is ever meant, it is not JSON.

Whatever walks a value that is nested a thousand deep runs out of stack, first of all the parser itself.
"""

from __future__ import annotations

import json
import re
from typing import Any

NESTED_MOST = 64
"""Levels of lists and objects."""

_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


def parse(text: str | bytes, **options: Any) -> Any:
    """The value that ``text`` says; ``options`` as for `json.loads`. Raises `json.JSONDecodeError`."""
    decoded = text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass")
    if decoded.count("[") + decoded.count("{") > NESTED_MOST:
        _check_nesting(decoded)
    return json.loads(decoded, **options)


def _check_nesting(text: str) -> None:
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > NESTED_MOST:
            raise json.JSONDecodeError(f"nested deeper than {NESTED_MOST} levels", text, found.start())
