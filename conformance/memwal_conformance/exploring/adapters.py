"""Adapters as explorations start them: processes kept warm, and a hang that is one sooner than in a case."""

from __future__ import annotations

from collections.abc import Mapping

from ..adapters import versions
from ..adapters.aided import Command
from ..adapters.harness import Harness

NATIVE = {"storage.timeout": "2s", "environment": "on"}
"""What the native package is set to where nothing else is said: a request without an answer costs half a minute, and
some of its searches, in old versions all of its writers, ignore the options that lead to the store."""
START_S = 60.0
"""How long a process of an adapter may take to start: a busy machine is no hang."""
LIMIT_S = 15.0
"""How long a message may take before it is a hang, unless something else is said."""


def explored(
    command: Command, settings: Mapping[str, str], helpers: Mapping[str, Command], *, limit_s: float = LIMIT_S
) -> Harness:
    """The adapter of ``command``; ``helpers`` play the roles that it does not claim. Close it."""
    own = NATIVE if command[-1] == versions.MODULE else {}
    start_s = max(limit_s, START_S)
    return Harness(command, limit_s, {**own, **settings}, roles_by=helpers, start_s=start_s)
