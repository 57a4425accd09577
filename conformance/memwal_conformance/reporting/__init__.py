"""The report of a conformance run: ``report.html``, ``summary.json``, ``run.jsonl`` and one file for each failure."""

from .finished import Finished, hello_json
from .writing import write

__all__ = ["Finished", "hello_json", "write"]
