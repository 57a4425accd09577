"""Words of scripts that many of these histories use, and the worlds that they are played in."""

from __future__ import annotations

from typing import Any

PLAIN, COLLECTED, INDEXED = "worked_examples", "worked_examples_collected", "worked_examples_indexed"


def rows(**values: str) -> dict[str, Any]:
    """Put these in one write."""
    return {"rows": values}


FLUSH: dict[str, Any] = {"flush": None}
READ: dict[str, Any] = {"read": None}
MERGE: dict[str, Any] = {"merge": None}
SNAPSHOT: dict[str, Any] = {"snapshot": None}
COLLECT: dict[str, Any] = {"collect": {"retain_versions": 1}}
