"""Artifact vectors: what a case on disk asks of an implementation, and how its answer is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memwal.lazy import loader

if TYPE_CHECKING:
    from .asking import WHOLE_TABLES, Call, configured, messages, missing, run
    from .case import REVISIONS, BadCase, Vector, load
    from .comparing import UNORDERED, difference, rows_differ

__getattr__ = loader(__name__, {
    "asking": ("WHOLE_TABLES", "Call", "configured", "messages", "missing", "run"),
    "case": ("REVISIONS", "BadCase", "Vector", "load"),
    "comparing": ("UNORDERED", "difference", "rows_differ"),
})  # fmt: skip

__all__ = [
    "REVISIONS",
    "UNORDERED",
    "WHOLE_TABLES",
    "BadCase",
    "Call",
    "Vector",
    "configured",
    "difference",
    "load",
    "messages",
    "missing",
    "rows_differ",
    "run",
]
