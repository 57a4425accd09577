"""Marks of finished tasks in the base table's config, where they are once their generation is merged (AMB-149)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
async def record(io: Io, marks: Mapping[RegionId, Iterable[Mark]]) -> TableState:
    """Record marks of regions; the table keeps the newest batch of each application. Returns the newest state.

    To be done before the generations with the marks are merged: their rows are durable, so that a mark is true already.
    """
    new = {region: tuple(given) for region, given in marks.items()}

    async def attempt(state: TableState) -> TableState:
        known = {region: merged_marks(state, region) for region in new}
        kept = {region: coding.joined([*known[region], *given]) for region, given in new.items()}
        changed = {_key(region): coding.encode(each) for region, each in kept.items() if each != known[region]}
        return await with_config(io, state, changed) if changed else state

    return await retried(io, attempt)


def _key(region: RegionId) -> str:
    return f"{coding.DONE}.{region}"
