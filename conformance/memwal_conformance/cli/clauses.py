"""``memwal clauses``: the registry, what stands behind each clause, and whether it all holds.

Exit codes: 0 nothing wrong, 1 something does not hold, 2 usage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from memwal.errors import InvalidArgument, check_name
from memwal_sim.cli.terminal import FOUND, USAGE, Json, mistakes_are_usage, print_json, stdout
from rich.markup import escape
from rich.table import Table

from .. import matrix as generated
from ..generated.clause_matrix import clauses_html, clauses_page, figures
from ..proving.mutants import Death, Mutant, dead, mutants, record
from ..proving.mutants import faults as mutant_faults
from ..proving.standing import Standing, differing, faults, named, standing, standings
from ..proving.trials import trials
from ..registry.clauses import GROUPS, texts
from ..registry.clauses import clauses as registry
from ..vectors import BadCase

app = typer.Typer(
    help="The clauses of the specification: what each says, what implements it, what tests it.",
    no_args_is_help=True,
)
Seeds = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with the texts; their digests are compared.")]
FORMATS = ("md", "html", "json")


def commands(parent: typer.Typer) -> None:
    """Add ``clauses`` to ``parent``."""
    parent.add_typer(app, name="clauses", invoke_without_command=True)


@app.callback()
def clauses(
    context: typer.Context,
    check_now: Annotated[bool, typer.Option("--check", help="The same as the command check.")] = False,
) -> None:
    """The clauses of the specification: what each says, what implements it, what tests it."""
    if check_now:
        if context.invoked_subcommand is not None:
            raise typer.BadParameter("--check goes without another command")
        check()
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_(
    group: Annotated[str, typer.Option(help="Group, such as FENCE.")] = "",
    level: Annotated[str, typer.Option(help="MUST, SHOULD or MAY.")] = "",
    status: Annotated[
        str, typer.Option(help="tested, open, excluded, ambiguous, unheld, mutation-checked or unchecked.")
    ] = "",
    revision: Annotated[str, typer.Option(help="A, B, 0, or T for the table documents.")] = "",
    kind: Annotated[
        str, typer.Option(help="storage-layout, algorithm, invariant, behaviour, performance-intent.")
    ] = "",
    ways: Annotated[
        int | None, typer.Option(min=0, help="Broken on purpose in so many ways, each of them noticed.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List clauses."""
    with _usage():
        wanted = {"group": group.upper(), "level": level.upper(), "status": status, "revision": revision, "kind": kind}
        chosen = choose(standings(), {name: value for name, value in wanted.items() if value})
        chosen = [each for each in chosen if ways in (None, each.ways)]
    if as_json:
        print_json([as_dict(each) for each in chosen])
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("clause", "level", "revisions", "status", "statement"):
        table.add_column(column, no_wrap=column != "statement")
    for each in chosen:
        clause = each.clause
        table.add_row(clause.id, clause.level, " ".join(clause.revisions), _status(each), escape(clause.statement))
    stdout.print(table)
    stdout.print(figures(chosen), highlight=False, soft_wrap=True)


@app.command()
def show(
    clause: Annotated[str, typer.Argument(metavar="CLAUSE", help="Its id, such as FENCE-003.")], as_json: Json = False
) -> None:
    """Show one clause and everything that stands behind it."""
    with _usage():
        found = standing(clause)
    if as_json:
        print_json(as_dict(found))
        return
    about = found.clause
    stdout.print(f"[bold]{about.id}[/]  {about.level}  {about.kind}  {_status(found)}", highlight=False)
    stdout.print(about.statement, markup=False, highlight=False)
    lists = {
        "place": about.place,
        "notes": about.ambiguities,
        "reason": (about.reason,) if about.reason else (),
        "code": found.code,
        "tests": found.tests,
        "vectors": tuple(case for case in found.cases if case.startswith("vectors/")),
        "scenarios": tuple(case for case in found.cases if case.startswith("scenarios/")),
        "end to end": found.end_to_end,
        "structural checks": tuple(c.removeprefix("check: ") for c in found.cases if c.startswith("check: ")),
        "planted": tuple(
            f"{'noticed' if p.dead else 'NOT NOTICED'}: {p.kind} {p.name} in {p.where}: {p.what}" for p in found.planted
        ),
    }
    for name, lines in lists.items():
        if lines or name in ("code", "tests", "planted"):
            stdout.print(f"[bold]{name}[/]", highlight=False)
            for line in lines or ("none",):
                stdout.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def matrix(
    format_: Annotated[str, typer.Option("--format", help="md, html or json.")] = "md",
    out: Annotated[Path | None, typer.Option(help="File to write; default is standard output.")] = None,
) -> None:
    """Write the matrix of all clauses: code, tests, cases, planted bugs, status."""
    with _usage():
        check_name("format", format_, FORMATS)
        known = standings()
        if format_ == "json":
            text = json.dumps([as_dict(each) for each in known], indent=1, ensure_ascii=False) + "\n"
        else:
            text = clauses_page(known) if format_ == "md" else clauses_html(known)
        if out is None:
            typer.echo(text, nl=False)
        else:
            out.write_text(text, "utf-8")


@app.command()
def check(seeds: Seeds = None) -> None:
    """Check everything that has to hold: statuses, names, mutants, generated pages, and digests of texts if given."""
    with _usage():
        known = standings()
        found = faults(known, named().by_whom()) + mutant_faults(mutants(), named().tests)
        stale = generated.out_of_date()
        found += [f"{generated.pages()[page].path.name} is out of date: {generated.command(page)}" for page in stale]
        if seeds is not None:
            found += differing(seeds)
    for line in found:
        stdout.print(line, markup=False, highlight=False, soft_wrap=True)
    compared = f"{len(texts())} texts" if seeds is not None else "no texts (--seeds)"
    stdout.print(f"{figures(known)}; digests of {compared} compared", highlight=False, soft_wrap=True)
    if found:
        raise typer.Exit(FOUND)


@app.command("break")
@app.command("prove", hidden=True)
def break_(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Mutants; default is all.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Mutants of this group of clauses only; repeatable.")] = None,
    clause: Annotated[list[str] | None, typer.Option(help="Mutants of this clause only; repeatable.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also those whose death is known and not stale.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Trials at a time, each in a copy of the checkout.")] = 1,
    as_json: Json = False,
) -> None:
    """Break each clause on purpose: run the test of each mutant with it, and keep which ones are killed.

    Needs a checkout, since mutants change its sources (in a copy) and its tests kill them. Exit code 1 if one survives.
    """
    with _usage():
        groups = [each.upper() for each in group or GROUPS]
        for each in groups:
            check_name("group", each, GROUPS)
        known = mutants(groups=groups)
        for each in clause or ():
            check_name("clause", each.upper(), [known_clause.id for known_clause in registry()])
        chosen = _mutants(known, names or [], {each.upper() for each in clause or ()})
        killed = set() if again else dead(chosen)
        waiting = [each for each in chosen if each.name not in killed]
        seen: dict[str, Death | None] = {}
        told = []
        try:
            for trial in trials(waiting, jobs):
                seen[trial.mutant.name] = trial.death
                told.append(trial)
                if not as_json:
                    line = f"{trial.verdict:8}  {trial.mutant.name}  {trial.seconds:.1f} s  {trial.message}"
                    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
        finally:
            record(mutants(), seen)
    lost = [trial for trial in told if trial.verdict != "killed"]
    if as_json:
        print_json([{"name": t.mutant.name, "verdict": t.verdict, "message": t.message} for t in told])
    else:
        known_dead = len(chosen) - len(told)
        line = f"{len(told) - len(lost)} of {len(told)} killed; {known_dead} were known to be"
        stdout.print(line, highlight=False)
    if lost:
        raise typer.Exit(FOUND)


def _mutants(known: tuple[Mutant, ...], names: list[str], clauses: set[str]) -> list[Mutant]:
    """Those of ``known`` that are meant. Raises `InvalidArgument` where there is none."""
    for name in names:
        check_name("mutant", name, [each.name for each in known])
    found = [
        each
        for each in known
        if (not names or each.name in names) and (not clauses or not clauses.isdisjoint(each.clauses))
    ]
    if not found:
        raise InvalidArgument(f"no mutant is written down for that{'' if known else ': they come with the sources'}")
    return found


def choose(known: tuple[Standing, ...], wanted: dict[str, str]) -> list[Standing]:
    """The clauses that match all of ``wanted``. Raises `InvalidArgument` for a value that no clause could have."""
    allowed = {
        "group": set(GROUPS),
        "level": {each.clause.level for each in known},
        "status": {"tested", "open", "excluded", "ambiguous", "unheld", "mutation-checked", "unchecked"},
        "revision": {revision for each in known for revision in each.clause.revisions},
        "kind": {each.clause.kind for each in known},
    }
    for name, value in wanted.items():
        check_name(name, value, sorted(allowed[name]))
    return [each for each in known if all(value in _values(each)[name] for name, value in wanted.items())]


def _values(each: Standing) -> dict[str, tuple[str, ...]]:
    clause = each.clause
    return {
        "group": (clause.group,),
        "level": (clause.level,),
        "status": (each.status, "mutation-checked" if each.mutation_checked else "unchecked"),
        "revision": clause.revisions,
        "kind": (clause.kind,),
    }


def as_dict(each: Standing) -> dict[str, Any]:
    """One clause as JSON."""
    clause = each.clause
    return {
        "id": clause.id,
        "group": clause.group,
        "level": clause.level,
        "revisions": list(clause.revisions),
        "place": list(clause.place),
        "kind": clause.kind,
        "observable": clause.observable,
        "statement": clause.statement,
        "notes": list(clause.ambiguities),
        "status": each.status,
        "reason": clause.reason,
        "mutation_checked": each.mutation_checked,
        "code": list(each.code),
        "tests": list(each.tests),
        "cases": list(each.cases),
        "end_to_end": list(each.end_to_end),
        "ways": each.ways,
        "planted": [
            {"name": p.name, "kind": p.kind, "what": p.what, "where": p.where, "noticed": p.dead} for p in each.planted
        ],
    }


def _status(each: Standing) -> str:
    return (
        f"{each.status}, {'mutation-checked' if each.mutation_checked else 'unchecked'}"
        if each.status == "tested"
        else {"unheld": "does not hold yet"}.get(each.status, each.status)
    )


@contextmanager
def _usage() -> Iterator[None]:
    """What the user named wrongly, and a registry or a case that cannot be read, end the command with one line."""
    with mistakes_are_usage():
        try:
            yield
        except (BadCase, ImportError) as error:
            stdout.print(f"error: {error}", markup=False, soft_wrap=True)
            raise typer.Exit(USAGE) from error
