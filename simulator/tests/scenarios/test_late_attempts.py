"""Attempts that come late: explored with writers that compare, and with engines that compare with less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from memwal.effects import Io
from memwal.ids import RegionId
from memwal.index.opening import Members
from memwal.read import sequences
from memwal.read.fragments import restricted
from memwal.read.sources import MemoryView
from memwal.read.view import View
from memwal_sim.bugs import replacing
from memwal_sim.exploring.exploration import Bounds, Exploration
from memwal_sim.exploring.explorer import explore
from memwal_sim.scenarios.scenario import Scenario, find, setting

MEMORY, STORED = find("late_attempt"), find("late_attempt_after_a_flush")

_stored_sequences, _narrowed = sequences.stored_sequences, sequences._narrowed


async def without_memory(
    io: Io, by: str, memory: MemoryView, of_region: Members | None, *, keys: bool
) -> pa.Table | pa.Scalar:
    return await _stored_sequences(io, by, replace(memory, tables=()), of_region, keys=keys)


async def without_generations(io: Io, view: View, region: RegionId) -> tuple[View, bool]:
    narrowed, mixed = await _narrowed(io, view, region)
    return replace(narrowed, manifests={r: replace(m, flushed=()) for r, m in narrowed.manifests.items()}), mixed


async def without_base(io: Io, view: View, region: RegionId) -> tuple[View, bool]:
    narrowed, mixed = await _narrowed(io, view, region)
    return replace(narrowed, base=restricted(narrowed.base, ())), mixed


def explored(scenario: Scenario, replaced: dict[str, Callable[..., Any]] | None = None) -> Exploration:
    with replacing(replaced or {}):
        return explore(scenario.build(setting("B")), Bounds(preemptions=1))


@pytest.mark.parametrize(
    ("scenario", "where", "less"),
    [
        (MEMORY, "memwal.jobs.opening:stored_sequences", without_memory),
        (STORED, "memwal.read.sequences:_narrowed", without_generations),
        (STORED, "memwal.read.sequences:_narrowed", without_base),
    ],
    ids=["memory", "generations", "base"],
)
@pytest.mark.clause("AMB-148")
def test_an_engine_that_compares_with_less_loses_a_newer_row_and_is_found(
    scenario: Scenario, where: str, less: Callable[..., Any]
) -> None:
    violation = explored(scenario, {where: less}).violation
    assert violation is not None
    assert (violation.clause, violation.oracle) == ("AMB-148", "acknowledged writes survive")
    assert "put k=v2 and was acknowledged, and k holds v1" in violation.reason
