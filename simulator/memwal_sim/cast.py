"""Processes as data: what a trace has to say of a world that somebody made up as it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Arguments: TypeAlias = Mapping[str, Any]
"""What a part is told besides its role: JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process of a cast."""

    name: str
    """Unique in its cast."""
    role: str
    """Name of a role in the play."""
    arguments: Arguments = field(default_factory=dict)
