"""Processes as data: what a trace has to say of a world that was made up on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Arguments: TypeAlias = Mapping[str, Any]
"""What an actor is given besides its role: JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """One process of a workload."""

    name: str
    """Unique in its workload."""
    role: str
    """Name of a role in the scenario."""
    arguments: Arguments = field(default_factory=dict)
