"""Marks of finished tasks in the base table's config, where they are once their generation is merged (AMB-149)."""

from __future__ import annotations

from collections.abc import Iterable

from ..clauses import implements
from ..codec import marks as coding
from ..codec.marks import Mark
from ..effects import Io
from ..ids import RegionId
from .state import TableState
from .write import retried, with_config


def merged_marks(state: TableState, region: RegionId) -> tuple[Mark, ...]:
    """The marks of ``region`` that ``state`` has."""
    return coding.decode(state.config.get(_key(region)), state.path)


@implements("AMB-149")
async def record(io: Io, region: RegionId, marks: Iterable[Mark]) -> TableState:
    """Record ``marks`` of ``region``; the table keeps the newest batch of each application. Returns the newest state.

    To be done before the generation with the marks is merged: its rows are durable, so that the mark is true already.
    """
    new = tuple(marks)

    async def attempt(state: TableState) -> TableState:
        known = merged_marks(state, region)
        kept = coding.joined([*known, *new])
        return state if kept == known else await with_config(io, state, {_key(region): coding.encode(kept)})

    return await retried(io, attempt)


def _key(region: RegionId) -> str:
    return f"{coding.DONE}.{region}"
