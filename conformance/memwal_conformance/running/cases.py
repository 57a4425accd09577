"""Runs a scenario of any kind: a plain one, all crashes of a life, or the orders of a race."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from ..adapters.process import AdapterProcess
from ..protocol import Json
from ..verdicts import CaseResult
from . import crashing, racing, runner
from .crashing import WHEN, When
from .racing import Order, RacedOrder
from .runner import ScenarioRun
from .scenarios import SuiteScenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much of what a scenario stands for is run."""

    every: int = 1
    """Each so-many-th crash."""
    orders: int | None = None
    """So many orders of a race; None: all."""
    seed: str = "0"
    """Of random orders."""


def variants(scenario: SuiteScenario) -> tuple[str, ...]:
    """The cases that a scenario is, under each revision."""
    return WHEN if scenario.crash is not None else ("",)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRunner:
    """What it takes to run scenarios; see `runner.run` for the members."""

    revision: str
    folder: Path
    start: Callable[[str], AdapterProcess]
    finish: Callable[[AdapterProcess], None]
    levels: dict[str, str]
    settings: Mapping[str, str]
    case: str
    note: Callable[[Json], None] = lambda step: None
    watch: Callable[[Callable[[], int]], None] = lambda seen: None
    taken: Callable[[], tuple[Json, ...]] = lambda: ()
    """Gives the steps that were noted since the last time."""
    keep: Path | None = None
    """Where the schedule, the log and the store of a race that fails go."""

    def run(self, scenario: SuiteScenario, variant: str = "", amount: Amount | None = None) -> CaseResult:
        """Run one of the `variants` of a scenario."""
        chosen = amount or Amount()
        if scenario.crash is not None:
            first = sum(map(ord, self.revision + variant))  # other ones for each case, so that a slice of all sees more
            return crashing.run(scenario, cast(When, variant), self.once, every=chosen.every, first=first)
        if scenario.race is not None:
            return racing.run(
                scenario,
                lambda order: self._raced(scenario, order),
                self.once,
                most=chosen.orders,
                seed=chosen.seed,
                keep=self.keep,
            )
        return self.once(scenario)

    def once(self, scenario: SuiteScenario, between: Callable[[ScenarioRun], None] | None = None) -> CaseResult:
        """Run a scenario that is neither a life nor a race; ``between`` is that of `runner.run`."""
        folder = self.folder / f"{sum(1 for _ in self.folder.iterdir())}"
        folder.mkdir()
        self.taken()
        result = runner.run(
            scenario,
            self.revision,
            folder=folder,
            start=self.start,
            finish=self.finish,
            levels=self.levels,
            case=self.case,
            note=self.note,
            watch=self.watch,
            settings=self.settings,
            between=between,
        )
        return replace(result, steps=self.taken())

    def _raced(self, scenario: SuiteScenario, order: Order) -> RacedOrder:
        race = racing.RaceRun(scenario, order)
        result = self.once(scenario, race)
        return RacedOrder(result, race.steps, race.contents)
