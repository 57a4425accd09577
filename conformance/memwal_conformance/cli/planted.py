"""``memwal conformance planted``: all that is wrong on purpose, and who was seen to notice it.

Exit codes: 0 nothing wrong, 1 something is not noticed or not known to be, 2 usage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from memwal.cli.terminal import entries
from memwal.errors import InvalidArgument, check_name
from memwal_sim.cli.terminal import FOUND, Jobs, Json, On, print_json, stdout
from memwal_sim.parallel import HERE, Workers

from .clauses import usage

if TYPE_CHECKING:
    from ..proving import deaths
    from ..proving.planted import Planted

app = typer.Typer(
    help="What is wrong on purpose (readings, bugs, adapters, invalid vectors, mutants), and what notices it.",
    no_args_is_help=True,
)
Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Names of planted things. Default: all.")]
Kind = Annotated[
    list[str] | None, typer.Option(help="Of this kind only: reading, bug, adapter, vector, mutant. Repeatable.")
]
Group = Annotated[list[str] | None, typer.Option(help="Only what breaks clauses of this group; repeatable.")]
Clause = Annotated[list[str] | None, typer.Option(help="Only what breaks this clause or note; repeatable.")]
Again = Annotated[bool, typer.Option("--again", help="Also those whose recorded death is not stale.")]


def commands(parent: typer.Typer) -> None:
    """Add ``planted`` to ``parent``."""
    parent.add_typer(app, name="planted")


@app.command("list")
def list_(
    names: Names = None, kind: Kind = None, group: Group = None, clause: Clause = None, as_json: Json = False
) -> None:
    """List what is planted: name, kind, clauses, what is wrong."""
    from ..proving import deaths
    from ..proving.planted import KINDS

    with usage():
        chosen, kept = _chosen(names, kind, group, clause), deaths.by_name(deaths.deaths())
    if as_json:
        print_json([as_dict(each, kept.get(each.name, [])) for each in chosen])
        return
    entries((f"{each.name}  {each.kind}, breaks {', '.join(each.clauses)}", each.what) for each in chosen)
    counts = Counter(each.kind for each in chosen)
    stdout.print(", ".join(f"{counts[kind]} of kind {kind}" for kind in KINDS if counts[kind]), highlight=False)


@app.command()
def show(name: Annotated[str, typer.Argument(help="Its name.")], as_json: Json = False) -> None:
    """Show one planted thing, and everything that was seen to find it."""
    from ..proving import deaths
    from ..proving.planted import KINDS, choose, register

    with usage():
        (found,) = choose([name], register())
        kept = deaths.by_name(deaths.deaths()).get(name, [])
    if as_json:
        print_json(as_dict(found, kept))
        return
    fresh = deaths.fresh(found, kept)
    lines = [
        f"{found.name}  {found.kind}, {KINDS[found.kind]}  {', '.join(found.clauses)}",
        found.what,
        f"defined in {found.file}",
        *(f"{'by' if death in fresh else 'STALE:'} {death.killer}: {death.said}" for death in kept),
        *([] if kept else [f"it was not seen to be noticed; to ask: {', '.join(found.killers)}"]),
        *([f"not by the suite: {found.unseen}"] if found.unseen else []),
    ]
    for line in lines:
        stdout.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def kill(
    names: Names = None,
    kind: Kind = None,
    group: Group = None,
    clause: Clause = None,
    again: Again = False,
    survey: Annotated[bool, typer.Option("--survey", help="Try bugs with every case of the suite.")] = False,
    gate: Annotated[bool, typer.Option("--gate", help="Try bugs with every scenario at the gate.")] = False,
    jobs: Jobs = 1,
    on: On = HERE,
    as_json: Json = False,
) -> None:
    """Run what must find each planted thing, where no current record exists, and record the outcome.

    Needs a checkout, since mutants change its sources (in a copy) and its tests kill them. Exit code 1 if one survives.
    """
    from ..proving import deaths, killing
    from ..proving.planted import register

    with usage():
        chosen = _chosen(names, kind, group, clause)
        more = (*[killing.CASES] * survey, *[killing.GATE] * gate)
        wanted = killing.asked(chosen, again=again, survey=more)
        told, known, kept = list[killing.Attempt](), register(), deaths.deaths()
        seen: dict[deaths.Key, deaths.Death | None] = {}
        try:
            for attempt in killing.attempts(wanted, Workers(jobs, on)):
                seen |= attempt.seen(kept)
                told.append(attempt)
                if not as_json:
                    line = f"{attempt.verdict:8}  {attempt.planted}  {attempt.seconds:.1f} s  {attempt.message}"
                    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
        finally:
            deaths.record(known, seen)
    lost = [attempt for attempt in told if attempt.verdict != "killed"]
    if as_json:
        print_json([{"name": each.planted, "verdict": each.verdict, "message": each.message} for each in told])
    else:
        line = f"{len(told) - len(lost)} of {len(told)} killed; {len(chosen) - len(wanted)} were known to be"
        stdout.print(line, highlight=False)
    if lost:
        raise typer.Exit(FOUND)


@app.command()
def draw(
    seed: Annotated[str, typer.Option(help="Seed: another text draws other things.")] = "0",
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    kind: Annotated[str, typer.Option(help="bug, or mutant (a changed source of the engine).")] = "bug",
) -> None:
    """Draw bugs or mutants of the engine by lot, ask every case that is not at the gate, and only then name them.

    Exit code 1 if no case shows one of them, and no reason is recorded.
    """
    from ..proving import drawing

    with usage():
        drawn = drawing.drawn(drawing.pool(kind), seed, count)
        told = []
        for number, each in enumerate(drawn, 1):
            told.append(drawing.shown(each))
            stdout.print(f"{number}: {told[-1].said()}", markup=False, highlight=False, soft_wrap=True)
    for number, found in enumerate(told, 1):
        stdout.print(f"{number} was {found.unveiled()}", markup=False, highlight=False, soft_wrap=True)
    stdout.print(f"{sum(bool(found.cases) for found in told)} of {len(told)} were shown", highlight=False)
    if any(not found.cases and not found.planted.unseen for found in told):
        raise typer.Exit(FOUND)


@app.command()
def check() -> None:
    """Check that each planted thing exists, and that its record of being found is not stale."""
    from ..proving import deaths
    from ..proving.planted import KINDS, register
    from ..registry.clauses import marked

    with usage():
        known = register()
        found = deaths.faults(known, marked())
    for line in found:
        stdout.print(line, markup=False, highlight=False, soft_wrap=True)
    counts = Counter(each.kind for each in known.values())
    stdout.print(", ".join(f"{counts[kind]} of kind {kind}" for kind in KINDS), highlight=False, soft_wrap=True)
    if found:
        raise typer.Exit(FOUND)


def break_(
    names: Names = None,
    group: Group = None,
    clause: Clause = None,
    again: Again = False,
    jobs: Jobs = 1,
    on: On = HERE,
    as_json: Json = False,
) -> None:
    """See each mutant die: `memwal conformance planted kill --kind mutant`."""
    kill(names, kind=["mutant"], group=group, clause=clause, again=again, jobs=jobs, on=on, as_json=as_json)


def _chosen(
    names: Sequence[str] | None,
    kinds: Sequence[str] | None,
    groups: Sequence[str] | None,
    clauses: Sequence[str] | None,
) -> list[Planted]:
    """What is meant. Raises `InvalidArgument` for an unknown name, and where nothing is left."""
    from ..proving.planted import choose, register
    from ..registry.clauses import GROUPS
    from ..registry.clauses import clauses as registry

    for group in groups or ():
        check_name("group", group.upper(), GROUPS)
    known = register()
    wanted = {each.upper() for each in clauses or ()}
    for each in wanted:
        check_name(
            "clause", each, [*(one.id for one in registry()), *(id_ for p in known.values() for id_ in p.clauses)]
        )
    areas = {each.upper() for each in groups or ()}
    found = [
        each
        for each in choose(names or (), known, kinds or ())
        if (not wanted or not wanted.isdisjoint(each.clauses))
        and (not areas or not areas.isdisjoint(id_.partition("-")[0] for id_ in each.clauses))
    ]
    if not found:
        raise InvalidArgument(
            f"nothing is planted for that{'' if known else ': run this in a checkout of the project'}"
        )
    return found


def as_dict(each: Planted, kept: Sequence[deaths.Death]) -> dict[str, Any]:
    """One planted thing as JSON."""
    from ..proving import deaths

    fresh = deaths.fresh(each, kept)
    return {
        "name": each.name,
        "kind": each.kind,
        "clauses": list(each.clauses),
        "what": each.what,
        "file": each.file,
        "killers": list(each.killers),
        "unseen": each.unseen,
        "deaths": [
            {"killer": death.killer, "clauses": death.clauses, "said": death.said, "stale": death not in fresh}
            for death in kept
        ],
    }
