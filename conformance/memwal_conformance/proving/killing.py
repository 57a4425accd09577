"""Seeing planted things die: who has to notice one is asked, and what comes of it is kept.

Tests are asked in copies of the checkout (`trials`), oracles by exploring (`memwal_sim.evidence.kills`), cases of the
suite through an adapter (`broken_survey`).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memwal_sim import bugs, parallel
from memwal_sim.evidence import kills, turned
from memwal_sim.parallel import ALONE, Workers

from . import broken_survey, deaths
from .deaths import Death, Key
from .mutants import Mutant
from .planted import Planted, place_in, place_of, register
from .trials import trials

CASES, GATE = "case ", f"case {broken_survey.AT_GATE}"
"""In place of killers: all cases of the suite that are not at the gate, and all that are."""
Asked = tuple[str, tuple[str, ...]]
"""Name of a planted thing, and the killers that are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What became of one planted thing."""

    planted: str
    asked: tuple[str, ...]
    deaths: tuple[Death, ...]
    verdict: str
    """``killed``, ``survived``, ``broken`` or ``too long``: the worst of all that were asked."""
    message: str
    seconds: float

    def seen(self, kept: Iterable[Key]) -> dict[Key, Death | None]:
        """What is to be recorded, given what was ``kept``: what was asked and has not noticed is forgotten."""
        places = tuple(map(place_in, self.asked))
        before = [key for key in kept if key[0] == self.planted and key[1].startswith(places)]
        return {**dict.fromkeys(before), **{death.key: death for death in self.deaths}}


def asked(
    chosen: Sequence[Planted], *, again: bool, survey: Sequence[str] = ()
) -> list[tuple[Planted, tuple[str, ...]]]:
    """Those to be asked: what is wanted, with ``again`` all that ever noticed, and the ``survey`` of each bug."""
    kept = deaths.by_name(deaths.deaths())
    found = []
    for planted in chosen:
        mine = kept.get(planted.name, [])
        wanted = [*planted.killers, *(each.killer for each in mine)] if again else deaths.wanting(planted, mine)
        places = {place_in(killer): killer for killer in planted.killers}
        named = dict.fromkeys(places.get(place_in(each), each) for each in wanted)
        more = survey if planted.kind == "bug" else ()
        if named or more:
            found.append((planted, (*named, *more)))
    return found


def attempts(wanted: Sequence[tuple[Planted, Collection[str]]], workers: Workers = ALONE) -> Iterator[Attempt]:
    """What becomes of each, as they end. Raises `InvalidArgument` for a mutant that does not apply."""
    mutants = [planted.thing for planted, _ in wanted if isinstance(planted.thing, Mutant)]
    for trial in trials(mutants, workers):
        yield Attempt(
            planted=trial.mutant.name,
            asked=(f"test {trial.mutant.test}",),
            deaths=(trial.death,) if trial.death else (),
            verdict=trial.verdict,
            message=trial.message,
            seconds=trial.seconds,
        )
    others = [(planted.name, tuple(killers)) for planted, killers in wanted if planted.kind != "mutant"]
    for _, attempt in parallel.each(attempt_of, others, workers):
        yield attempt


@functools.cache
def _project() -> Mapping[str, Planted]:
    return register()


def attempt_of(one: Asked) -> Attempt:
    """Ask the oracles and cases that are named."""
    name, killers = one
    planted, began = _project()[name], time.monotonic()
    found = [*_explored(planted, killers), *_surveyed(planted, killers)]
    lost = [killer for killer in killers if not any(death.killer.startswith(killer) for death in found)]
    return Attempt(
        planted=name,
        asked=killers,
        deaths=tuple(found),
        verdict="survived" if lost else "killed",
        message="; ".join(f"not by {killer.strip(': ')}" for killer in lost) or f"by {len(found)}",
        seconds=time.monotonic() - began,
    )


def _explored(planted: Planted, killers: Sequence[str]) -> list[Death]:
    wanted = {place_in(killer) for killer in killers if killer.startswith("oracle ")}
    if isinstance(planted.thing, bugs.Bug):
        return _of_oracles(planted, kills.of_bug(planted.thing)) if wanted else []
    chosen = [each for each in turned.alone(bugs.load()) if each.reading == planted.name] if wanted else []
    noticed = (
        kills.of_reading(each)
        for each in chosen
        if f"oracle {place_of(bugs.load()[each.bug].scenario, each.revision)}: " in wanted
    )
    return [death for found in noticed for death in _of_oracles(planted, found)]


def _of_oracles(planted: Planted, noticed: kills.Noticed) -> list[Death]:
    """A reading that lives has a line, too; of a bug only its own oracle speaks for the clauses."""
    place, own = place_of(noticed.scenario, noticed.revision), getattr(planted.thing, "oracle", None)
    explored = "" if own else f" in {noticed.explored}"
    said = {oracle: f"{after}{explored}" for oracle, after in noticed.oracles.items()}
    if not said and not own:
        said = {deaths.NONE: noticed.explored}
    killers = {f"oracle {place}: {oracle}": (oracle, words) for oracle, words in said.items()}
    return [
        Death(
            planted=planted.name,
            killer=killer,
            digest=deaths.digest(planted, killer),
            said=words,
            clauses=None if own in (None, oracle) else (),
        )
        for killer, (oracle, words) in killers.items()
    ]


def _surveyed(planted: Planted, killers: Sequence[str]) -> list[Death]:
    named = [each.removeprefix("case ") for each in killers if each.startswith("case ") and each not in (CASES, GATE)]
    found = broken_survey.survey(planted, named) if named else {}
    if CASES in killers:
        found |= broken_survey.survey(planted)
    if GATE in killers:
        found |= broken_survey.survey_at_the_gate(planted)
    return broken_survey.seen(planted, found)
