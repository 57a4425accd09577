"""What a Python worker of Spark's is spared between two tasks.

Spark collects garbage after each task, and Python looks at every object of all modules then: 0.04 s of a task that may
take less. Modules stay as they are, so that they need not be looked at again.
"""

from __future__ import annotations

import gc
import sys

_settled = 0
"""Modules that this worker had when it was settled last."""


def settle() -> None:
    """Leave out what is there now of all collections to come. At the end of a task; only new modules give it work."""
    global _settled
    if len(sys.modules) != _settled:
        _settled = len(sys.modules)
        gc.freeze()
