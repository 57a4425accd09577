"""``memwal conformance explore`` and ``memwal conformance findings``: another implementation, explored.

Exit codes: 0 nothing found, 1 something was, 2 usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from memwal.cli.terminal import entries
from memwal.errors import InvalidArgument, check_name
from memwal_sim.cli.terminal import mistakes_are_usage
from memwal_sim.parallel import HERE

if TYPE_CHECKING:
    from ..exploring.findings import ForeignFinding

findings_app = typer.Typer(
    no_args_is_help=True, help="Show what an exploration found, as a list or one finding in full."
)


def commands(above: typer.Typer) -> None:
    """Add the commands to an app."""
    above.command("explore")(explore)
    above.add_typer(findings_app, name="findings")


def explore(
    against: Annotated[
        str, typer.Option(metavar="ADAPTER", help="Command of the adapter, or `native` or `reference`.")
    ],
    life: Annotated[list[str] | None, typer.Argument(help="Lives to run. Default: all.")] = None,
    revision: Annotated[str | None, typer.Option(help="Default: the newest that the adapter has.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="How long to explore. More time finds more.")] = 600.0,
    preemptions: Annotated[int, typer.Option(min=0, max=4, help="Most interruptions in one order of requests.")] = 2,
    drawn: Annotated[int, typer.Option(min=0, help="Number of further lives, drawn by Hypothesis from the seed.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of drawn lives and of random orders.")] = 0,
    jobs: Annotated[
        int, typer.Option(min=1, max=64, help="Runs at a time; on spark, places that the lives are dealt to.")
    ] = 2,
    on: Annotated[
        str, typer.Option(help="here, or spark: the session as for `memwal explore hunt`; each place has the budget.")
    ] = HERE,
    roles_by: Annotated[
        str,
        typer.Option(help="What runs the jobs that the adapter does not claim: suite, reference or none."),
    ] = "suite",
    setting: Annotated[list[str] | None, typer.Option(help="Setting of the adapter; repeatable.")] = None,
    native_version: Annotated[
        str | None, typer.Option(help="With `native`: use this version, in an environment of its own.")
    ] = None,
    enough: Annotated[int | None, typer.Option(min=1, help="Stop after this many findings. Default: continue.")] = None,
    limit: Annotated[
        float, typer.Option(min=1, help="Seconds after which a message without an answer counts as a hang.")
    ] = 15.0,
    out: Annotated[Path, typer.Option(help="Folder for findings.json, logs and reproductions.")] = Path("out/findings"),
    lives: Annotated[Path | None, typer.Option(help="A file with your own lives, like conformance/lives.toml.")] = None,
    list_lives: Annotated[bool, typer.Option("--list", help="List the lives and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings.json instead of text.")] = False,
) -> None:
    """Run short lives of an implementation under every fault, crash and order of requests that the budget allows."""
    from ..exploring import findings, sharing, showing
    from ..exploring import lives as known_lives

    with mistakes_are_usage():
        known = known_lives.load(lives or known_lives.FILE)
        if list_lives:
            entries((each.name, each.about) for each in known.values())
            return
        for name in life or ():
            check_name("life", name, sorted(known))
        chosen = [known[name] for name in life or known] + list(known_lives.drawn(drawn, seed) if drawn else ())
        task = sharing.ExplorationTask(
            against=against,
            version=native_version,
            settings=_settings(setting or []),
            roles_by=roles_by,
            limit_s=limit,
            revision=revision,
            lives=tuple(chosen),
            seconds=seconds,
            preemptions=preemptions,
            seed=seed,
            enough=enough,
            jobs=jobs,
        )
        found = sharing.carried_out(task, out, on, lambda line: typer.echo(line, err=True))
    notebook = found.notebook
    if as_json:
        typer.echo((out / findings.FILE).read_text("utf-8"), nl=False)
    else:
        name = notebook.implementation
        for each, words in found.covered.items():
            typer.echo(f"{each}: {words}")
        for detail in found.lent.values():
            typer.echo(f"not by {name}, but by a job that the suite ran for it: {detail}")
        typer.echo("\n".join(showing.listed(notebook.findings, name)) or "nothing was found")
        observed = len(notebook.findings) - len(notebook.errors)
        typer.echo(
            f"{name} {notebook.version}, revision {notebook.revision}: {found.runs} runs, "
            f"{len(notebook.errors)} findings, {observed} observed, {found.unconfirmed} seen only once; {out}"
        )
    raise typer.Exit(1 if notebook.errors else 0)


def _settings(given: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    if wrong := next((name for name, sign, _ in pairs if not name or not sign), None):
        raise InvalidArgument(f"--setting must be NAME=VALUE, not {wrong!r}")
    return {name: value for name, _, value in pairs}


@findings_app.command("list")
def list_(
    folder: Annotated[Path, typer.Argument(help="Folder that the exploration wrote to.")] = Path("out/findings"),
) -> None:
    """List the findings, the most severe first: what happened, the versions and clauses, and what shows it."""
    from ..exploring import findings, showing

    with mistakes_are_usage():
        whole = findings.load(folder)
    typer.echo("\n".join(showing.listed(whole["findings"], whole["implementation"])) or "nothing was found")


@findings_app.command()
def show(
    number: Annotated[int, typer.Argument(help="Of the finding.")],
    folder: Annotated[Path, typer.Argument(help="Folder that the exploration wrote to.")] = Path("out/findings"),
) -> None:
    """Show one finding: what is wrong, which text says so, what was asked, the stored bytes, and the requests."""
    from ..exploring import findings, showing

    with mistakes_are_usage():
        whole = findings.load(folder)
        found = {each.number: each for each in whole["findings"]}
        if number not in found:
            raise InvalidArgument(f"there is no finding {number}; there are {', '.join(map(str, found)) or 'none'}")
    typer.echo(showing.shown(found[number], whole, folder))


@findings_app.command()
def reproduce(
    folder: Annotated[Path, typer.Argument(help="Folder that the exploration wrote to.")] = Path("out/findings"),
    number: Annotated[list[int] | None, typer.Option(help="Number of the finding; repeatable. Default: all.")] = None,
    version: Annotated[
        list[str] | None,
        typer.Option("--native-version", help="Version of the package; repeatable. Default: that of the exploration."),
    ] = None,
) -> None:
    """Run the files of findings in fresh environments that have the package and nothing of this project.

    For each version a virtual environment is made, and removed at the end. What the files show is kept in
    findings.json: `findings list` names the versions that show a finding. Exit code 0: each file shows its finding
    under some of the versions; 1: one does not. What is only observed is no finding.
    """
    from ..adapters.versions import NotInstalled
    from ..exploring import findings, reproducing

    with mistakes_are_usage():
        whole = findings.load(folder)
        chosen = _chosen(whole["findings"], number)
        if whole["implementation"] != reproducing.PACKAGE:
            raise InvalidArgument(f"only findings of {reproducing.PACKAGE} have files that run alone")
        shown: set[int] = set()
        for each in dict.fromkeys(version or [whole["version"]]):
            try:
                with reproducing.environment(each) as python:
                    for found in chosen:
                        said = reproducing.in_fresh_environment(found, folder, each, python)
                        shown |= {found.number} if said.startswith("shows") else set()
                        typer.echo(f"{each}  {found.number:3}  {said}")
            except NotInstalled as error:
                raise InvalidArgument(str(error)) from error
            findings.keep(whole, folder)
    raise typer.Exit(int(any(each.number not in shown and each.severity != findings.OBSERVED for each in chosen)))


def _chosen(found: list[ForeignFinding], numbers: list[int] | None) -> list[ForeignFinding]:
    """The findings of these numbers that have a file, or all that have one. Raises `InvalidArgument`."""
    with_file = {each.number: each for each in found if each.has_file}
    if strange := sorted(set(numbers or ()) - with_file.keys()):
        there = ", ".join(map(str, with_file)) or "none"
        raise InvalidArgument(f"finding {strange[0]} has no file that runs alone; choose one of {there}")
    return [with_file[number] for number in dict.fromkeys(numbers)] if numbers else list(with_file.values())
