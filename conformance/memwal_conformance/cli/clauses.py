"""``memwal conformance clauses``: the registry, the evidence for each clause, and whether it all holds.

Exit codes: 0 nothing wrong, 1 something does not hold, 2 usage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from memwal.cli.terminal import entries, say, tell
from memwal.errors import InvalidArgument, check_name
from memwal.words import counted
from memwal_sim.cli.terminal import FOUND, USAGE, Json, mistakes_are_usage, print_json, stdout

if TYPE_CHECKING:
    from ..proving.coverage import ClauseCoverage

app = typer.Typer(
    help="Show the clauses of the specification: what each says, what implements it, what tests it.",
    no_args_is_help=True,
)
Seeds = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with the texts, whose digests are compared.")]
FORMATS = ("md", "html", "json")


def commands(parent: typer.Typer) -> None:
    """Add ``clauses`` to ``parent``."""
    parent.add_typer(app, name="clauses", invoke_without_command=True)


@app.callback()
def clauses(
    context: typer.Context,
    check_now: Annotated[bool, typer.Option("--check", help="The same as the command check.")] = False,
) -> None:
    """Show the clauses of the specification: what each says, what implements it, what tests it."""
    if check_now:
        if context.invoked_subcommand is not None:
            raise typer.BadParameter("use --check without another command")
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
        int | None,
        typer.Option(
            min=0, help="Only clauses that are broken on purpose in this many ways, each of which is noticed."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List clauses with what is recorded of them; `check` finds stale records."""
    from ..proving.coverage import recorded

    _say_if_installed()
    with usage():
        wanted = {"group": group.upper(), "level": level.upper(), "status": status, "revision": revision, "kind": kind}
        chosen = choose(
            recorded(group.upper(), tests_too=as_json), {name: value for name, value in wanted.items() if value}
        )
        chosen = [each for each in chosen if ways in (None, each.ways)]
    if as_json:
        print_json([_registered(each) for each in chosen])
        return
    entries(
        (
            f"{each.clause.id}  {each.clause.level}  {' '.join(each.clause.revisions)}  {_status(each)}",
            each.clause.statement,
        )
        for each in chosen
    )
    tested, checked = (sum(each.status == "tested" for each in chosen), sum(each.mutation_checked for each in chosen))
    say(f"{counted(len(chosen), 'clause')}: {tested} tested, {checked} mutation-checked")


@app.command()
def show(
    clause: Annotated[str, typer.Argument(metavar="CLAUSE", help="Its id, such as FENCE-003.")], as_json: Json = False
) -> None:
    """Show one clause and all the evidence for it."""
    from ..proving.coverage import coverage_of
    from ..registry.texts import links

    _say_if_installed()
    with usage():
        found = coverage_of(clause)
    if as_json:
        print_json(as_dict(found))
        return
    about = found.clause
    stdout.print(f"[bold]{about.id}[/]  {about.level}  {about.kind}  {_status(found)}", highlight=False)
    stdout.print(about.statement, markup=False, highlight=False)
    lists = {
        "place": about.place,
        "public text": links(about.place),
        "notes": about.ambiguities,
        "reason": (about.reason,) if about.reason else (),
        "code": found.code,
        "tests": found.tests,
        "vectors": tuple(case for case in found.cases if case.startswith("vectors/")),
        "scenarios": tuple(case for case in found.cases if case.startswith("scenarios/")),
        "end to end": found.end_to_end,
        "structural checks": tuple(c.removeprefix("check: ") for c in found.cases if c.startswith("check: ")),
        "planted": tuple(
            f"{'noticed' if p.dead else 'NOT NOTICED'}: {p.kind} {p.name} by {p.where}: {p.what}" for p in found.planted
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
    out: Annotated[Path | None, typer.Option(help="File to write. Default: standard output.")] = None,
) -> None:
    """Write the matrix of all clauses: code, tests, cases, planted bugs, status."""
    from ..generated.clause_matrix import clauses_html, clauses_page
    from ..proving.coverage import coverages

    with usage():
        check_name("format", format_, FORMATS)
        known = coverages()
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
    """Check statuses, names, generated pages and, if given, digests of the texts."""
    from ..registry.clauses import in_checkout

    if not in_checkout():
        raise InvalidArgument("`clauses check` compares tests, mutants and pages: run it in a checkout of the project")
    from .. import matrix as generated
    from ..generated.clause_matrix import figures
    from ..proving.coverage import coverages, differing, faults, named
    from ..registry.texts import texts

    with usage():
        known = coverages()
        found = faults(known, named().by_whom())
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


def _say_if_installed() -> None:
    from ..registry.clauses import in_checkout

    if not in_checkout():
        tell("tests and mutants are in the project's sources: without a checkout the statuses leave them out")


def choose(known: tuple[ClauseCoverage, ...], wanted: dict[str, str]) -> list[ClauseCoverage]:
    """The clauses that match all of ``wanted``. Raises `InvalidArgument` for a value that no clause could have."""
    from ..registry.clauses import GROUPS, clauses

    every = clauses()
    allowed = {
        "group": set(GROUPS),
        "level": {each.level for each in every},
        "status": {"tested", "open", "excluded", "ambiguous", "unheld", "mutation-checked", "unchecked"},
        "revision": {revision for each in every for revision in each.revisions},
        "kind": {each.kind for each in every},
    }
    for name, value in wanted.items():
        check_name(name, value, sorted(allowed[name]))
    return [each for each in known if all(value in _values(each)[name] for name, value in wanted.items())]


def _values(each: ClauseCoverage) -> dict[str, tuple[str, ...]]:
    clause = each.clause
    return {
        "group": (clause.group,),
        "level": (clause.level,),
        "status": (each.status, "mutation-checked" if each.mutation_checked else "unchecked"),
        "revision": clause.revisions,
        "kind": (clause.kind,),
    }


def as_dict(each: ClauseCoverage) -> dict[str, Any]:
    """One clause with all the evidence for it, as JSON."""
    return _registered(each) | {
        "code": list(each.code),
        "cases": list(each.cases),
        "end_to_end": list(each.end_to_end),
    }


def _registered(each: ClauseCoverage) -> dict[str, Any]:
    """One clause as JSON: what is in the registry, with its tests and what is planted."""
    from ..registry.texts import links

    clause = each.clause
    return {
        "id": clause.id,
        "group": clause.group,
        "level": clause.level,
        "revisions": list(clause.revisions),
        "place": list(clause.place),
        "public": list(links(clause.place)),
        "kind": clause.kind,
        "observable": clause.observable,
        "statement": clause.statement,
        "notes": list(clause.ambiguities),
        "status": each.status,
        "reason": clause.reason,
        "mutation_checked": each.mutation_checked,
        "tests": list(each.tests),
        "ways": each.ways,
        "planted": [
            {"name": p.name, "kind": p.kind, "what": p.what, "where": p.where, "noticed": p.dead} for p in each.planted
        ],
    }


def _status(each: ClauseCoverage) -> str:
    return (
        f"{each.status}, {'mutation-checked' if each.mutation_checked else 'unchecked'}"
        if each.status == "tested"
        else {"unheld": "does not hold yet"}.get(each.status, each.status)
    )


@contextmanager
def usage() -> Iterator[None]:
    """What the user named wrongly, and a registry or a case that cannot be read, end the command with one line."""
    from ..vectors import BadCase

    with mistakes_are_usage():
        try:
            yield
        except (BadCase, ImportError) as error:
            tell(f"error: {error}")
            raise typer.Exit(USAGE) from error
