"""The report of a conformance run: ``report.html``, ``summary.json``, ``run.jsonl`` and one file for each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memwal.lazy import loader

if TYPE_CHECKING:
    from .finished import Finished, hello_json
    from .writing import write

__getattr__ = loader(__name__, {"finished": ("Finished", "hello_json"), "writing": ("write",)})

__all__ = ["Finished", "hello_json", "write"]
