"""``memwal conformance clauses mutate``: random changes of the protocol modules, and whether any test notices.

Exit codes: 0 enough are noticed, 1 too few, 2 usage.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from memwal_sim.cli.terminal import FOUND, Jobs, Json, On, mistakes_are_usage, print_json, stdout
from memwal_sim.parallel import HERE, Workers

if TYPE_CHECKING:
    from ..proving.passes import TriedMutant

ENTERED = Path("out") / "mutate" / "entered"
"""What each test enters."""


def mutate(
    seed: Annotated[int, typer.Option(help="Seed for the choice of changes.")] = 1,
    count: Annotated[int, typer.Option(min=1, help="How many changes.")] = 200,
    minutes: Annotated[float, typer.Option(help="Start no further trial after this time.")] = 600,
    module: Annotated[list[str] | None, typer.Option(help="A source file to change; repeatable. Default: all.")] = None,
    least: Annotated[
        float, typer.Option(min=0, max=100, help="Percentage of unexplained changes that must be noticed.")
    ] = 95,
    budget: Annotated[float, typer.Option(help="Seconds of CPU for the tests of one change.")] = 60.0,
    state: Annotated[
        Path | None, typer.Option(help="File with the results so far. Default: out/mutate/seed-N.json.")
    ] = None,
    jobs: Jobs = 1,
    on: On = HERE,
    as_json: Json = False,
) -> None:
    """Change the protocol modules at random, and list the changes that no test notices.

    A change is tried with the tests that enter the block that it is in. Which they are is recorded when the command
    runs for the first time, which takes as long as the tests do, and then for files of tests that have changed
    (out/mutate/entered). A pass that was ended continues where it was; survivors are tried again. Needs a checkout.
    """
    from ..proving.chances import chosen
    from ..proving.passes import TriedMutant, explained, keep, kept, made, tried
    from ..proving.watching import table
    from ..registry.clauses import ROOT

    with mistakes_are_usage():
        changes = chosen(seed, count, files=module)
        file = state or Path("out") / "mutate" / f"seed-{seed}.json"
        reasons, known, seen = explained(), kept(file), list[TriedMutant]()
        until = time.monotonic() + minutes * 60
        watching = table(ENTERED, minutes * 60)
        left = (until - time.monotonic()) / 60
        asked_of = Workers(jobs, on)
        for each in tried(changes, known, watching, minutes=left, budget_s=budget, workers=asked_of):
            seen.append(each)
            keep(file, list((known | {each.digest: each for each in seen}).values()))
            if not as_json:
                line = f"{each.verdict:8}  {each.name}  {each.seconds:.1f} s  {each.test or each.message}"
                stdout.print(line, markup=False, highlight=False, soft_wrap=True)
    what = {each.digest(ROOT): each.change for each in changes}
    told = {each.digest: "" if each.noticed else reasons.get(made(what[each.digest]), "") for each in seen}
    survivors = [each for each in seen if not each.noticed and not told[each.digest]]
    judged = sum(each.noticed for each in seen) + len(survivors)
    rate = 100 * (judged - len(survivors)) / judged if judged else 0.0
    if as_json:
        asked = {"seed": seed, "chosen": len(changes), "tried": len(seen), "noticed_percent": round(rate, 1)}
        counts = Counter(each.verdict for each in seen)
        mutants = [
            {"name": each.name, "verdict": each.verdict, "test": each.test, "whole": each.whole}
            | {"diff": each.diff, "explained": told[each.digest]}
            for each in seen
        ]
        print_json({**asked, "verdicts": dict(counts), "mutants": mutants})
    else:
        _tell(seen, survivors, len(changes), rate)
    if rate < least:
        raise typer.Exit(FOUND)


def _tell(seen: Sequence[TriedMutant], survivors: Sequence[TriedMutant], wanted: int, rate: float) -> None:
    for each in survivors:
        cut = "" if each.whole else " (its tests were cut off)"
        stdout.print(f"\n{each.name}: no test notices{cut}\n{each.diff}", markup=False, highlight=False, soft_wrap=True)
    counts = Counter(each.verdict for each in seen)
    parts = ", ".join(f"{counts[name]} {name}" for name in ("killed", "stumbled", "endless", "survived"))
    without = counts["survived"] - len(survivors)
    line = f"{len(seen)} of {wanted} tried: {parts} ({without} explained); {rate:.1f} % of the others noticed"
    stdout.print(line, highlight=False, soft_wrap=True)


def commands(clauses: typer.Typer) -> None:
    """Add ``mutate`` to ``memwal conformance clauses``."""
    clauses.command("mutate")(mutate)
