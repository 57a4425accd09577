"""The simulator's commands of ``memwal``: explore, replay, scenarios, bugs, gallery; `cli_hunt` has one more.

Exit codes: 0 nothing wrong, 1 a violation or a divergence was found (or a planted bug was not), 2 usage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from memwal.errors import InvalidArgument, MemwalError
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from . import bugs as planting
from . import certificates, cli_histories, cli_soak, gallery, kills, parallel, places, recorded
from . import coverage as covering
from . import replay as replaying
from . import scenario as scenarios
from .exploration import Bounds, Progress
from .outcomes import FATES, FAULTS, Fate
from .scenario import Scenario
from .study import Finding, Study, as_dict, canary, carry_out, classes, recorded_in
from .trace import Step, dumps, load
from .viewer import viewing
from .viewer.film import Camera, Film
from .world import Violation

FOUND = 1
USAGE = 2

_out = Console()
_err = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def commands(app: typer.Typer) -> None:
    """Add the simulator's commands to ``app``."""
    for command in (explore, replay, list_scenarios, bugs, certify, coverage, write_gallery):
        app.command(_NAMES.get(command, command.__name__))(command)
    cli_histories.commands(app)
    cli_soak.commands(app)
    from . import cli_hunt, cli_traces  # they print with the means of this module

    cli_hunt.commands(app)
    cli_traces.commands(app)


@contextmanager
def _mistakes_are_usage() -> Iterator[None]:
    """Errors of what the user named end the command with `USAGE` and one sentence."""
    try:
        yield
    except (MemwalError, OSError) as error:
        _err.print(f"[bold red]error:[/] {escape(str(error))}")
        raise typer.Exit(USAGE) from error


@contextmanager
def _shown(doing: str, *, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A status line on the error stream that follows an exploration."""
    if quiet or not _err.is_terminal:
        yield None
        return
    with Status(doing, console=_err) as status:

        def update(now: Progress) -> None:
            status.update(
                f"{doing}: depth {now.depth}, {now.states:,} states, {now.rate:,.0f}/s, "
                f"{now.frontier:,} waiting, {now.stores:,} stores"
                + "".join(f", {count:,} {fault}" for fault, count in sorted(now.met.items()))
            )

        yield update


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def explore(
    scenario: Annotated[str, typer.Argument(help="Name of a scenario; `memwal scenarios` lists them.")],
    faults: Annotated[int, typer.Option(min=0, help="Requests in one history that may fail.")] = 0,
    fates: Annotated[
        list[str] | None,
        typer.Option("--fate", help="How they may fail: lost, applied, late, throttled. Repeatable; default: all."),
    ] = None,
    preemptions: Annotated[
        int | None,
        typer.Option(min=-1, help="Times that a process is left that could go on; -1: no bound. Default: as listed."),
    ] = None,
    reduce: Annotated[
        bool,
        typer.Option("--reduce/--no-reduce", help="Leave out orders of steps that commute and that no oracle sees."),
    ] = True,
    merge: Annotated[
        bool, typer.Option("--merge/--no-merge", help="Take histories for one after which a process is in one state.")
    ] = False,
    liveness: Annotated[
        bool, typer.Option("--liveness", help="See in every state that all work can still be finished.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(help="Write a history of each class to this new folder: same replies, same contents.")
    ] = None,
    export_max: Annotated[int, typer.Option(min=1, help="Write at most so many of them.")] = 100,
    revision: Annotated[str, typer.Option(help="A, B or R.")] = "B",
    profile: Annotated[str, typer.Option(help="strict, or literal: what the texts say.")] = "strict",
    reading: Annotated[
        list[str] | None,
        typer.Option(help="One reading on top of the profile, such as claim_barrier=false. Repeatable."),
    ] = None,
    bug: Annotated[list[str] | None, typer.Option(help="A planted bug; `memwal bugs` lists them. Repeatable.")] = None,
    oracle: Annotated[str | None, typer.Option(help="Name of the one oracle whose violations count.")] = None,
    states_max: Annotated[int | None, typer.Option(min=1, help="Stop at this number of states.")] = None,
    memory_max: Annotated[int, typer.Option(min=64, help="Stop at this much memory, in MiB.")] = 8192,
    seconds_max: Annotated[float | None, typer.Option(min=0.1, help="Stop after this time.")] = None,
    check: Annotated[bool, typer.Option(help="Run engine code twice for each local history and compare.")] = False,
    with_canary: Annotated[
        bool, typer.Option("--canary/--no-canary", help="First see that a planted bug is found.")
    ] = True,
    record: Annotated[Path | None, typer.Option(help="Write the shortest violating history to this file.")] = None,
    title: Annotated[str, typer.Option(help="Title of the recorded history.")] = "",
    description: Annotated[str, typer.Option(help="What it shows, in plain words.")] = "",
    as_json: Json = False,
) -> None:
    """Explore every interleaving of SCENARIO and every fate of its requests within bounds, crashes included."""
    with _mistakes_are_usage():
        study = Study(
            scenario=scenarios.find(scenario),
            revision=revision,
            profile=profile,
            readings=dict(map(_reading, reading or ())),
            bugs=planting.choose(bug or ()),
            bounds=Bounds(
                faults=faults,
                kinds=_kinds(fates),
                preemptions=_bound(scenarios.find(scenario), preemptions),
                reduce=reduce,
                merge=merge,
                classes_max=0 if export is None else export_max,
                states_max=states_max,
                memory_mib_max=memory_max,
                seconds_max=seconds_max,
            ),
            only=oracle,
            liveness=liveness,
        )
        study.setting()
        bird = canary(study) if with_canary else None
        with _shown(f"exploring {scenario}", quiet=as_json) as progress:
            finding = carry_out(study, check=check, progress=progress, title=title, description=description)
        if record is not None and finding.trace is not None:
            record.write_text(dumps(finding.trace), "utf-8")
        if export is not None:
            _export(finding, export)
    void = bird is not None and bird.run.violation is None
    if as_json:
        found = None if bird is None else {"found": not void, "states": bird.run.states}
        _print_json({**finding.certificate(), "canary": found})
    else:
        _print_finding(finding, bird)
        if record is not None:
            _out.print(f"recorded in {record}" if finding.trace is not None else "nothing to record")
    if void:
        _err.print("[bold red]void:[/] the canary was not found, so that this run proves nothing")
    if void or finding.run.violation is not None:
        raise typer.Exit(FOUND)


def _bound(scenario: Scenario, asked: int | None) -> int | None:
    """The bound on preemptions: as asked for, else the scenario's own."""
    if asked is None:
        return scenario.preemptions
    return None if asked < 0 else asked


def _export(finding: Finding, folder: Path) -> None:
    """One trace for each class of histories, by number."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InvalidArgument(f"{folder} is not empty")
    for number, trace in enumerate(classes(finding), 1):
        (folder / f"{finding.study.scenario.name}-{number:04}.jsonl").write_text(dumps(trace), "utf-8")


def _reading(text: str) -> tuple[str, bool | int | str]:
    name, equals, value = text.partition("=")
    known = {"true": True, "false": False}
    if not equals or value not in known:
        raise typer.BadParameter(f"{text!r} is not NAME=true or NAME=false")
    return name, known[value]


def _kinds(names: list[str] | None) -> frozenset[Fate]:
    if names is None:
        return FAULTS
    unknown = [name for name in names if FATES.get(name) not in FAULTS]
    if unknown:
        labels = ", ".join(fate.label for fate in sorted(FAULTS))
        raise typer.BadParameter(f"no fate {', '.join(unknown)}; there are {labels}")
    return frozenset(FATES[name] for name in names)


def _print_finding(finding: Finding, bird: Finding | None) -> None:
    run = finding.run
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = [
        ("states", f"{run.states:,} in {run.seconds:.1f} s ({run.rate:,.0f}/s), depth {run.depth}"),
        ("steps tried", f"{run.transitions:,}"),
        ("stores", f"{run.stores:,}, of which {len(run.terminal_stores):,} at the end of all processes"),
        ("local histories", ", ".join(f"{name} {count:,}" for name, count in run.histories.items())),
        ("that ended", ", ".join(f"{how} {count:,}" for how, count in run.ends.items()) or "none"),
    ]
    if run.interleavings is not None:
        rows.append(("interleavings", f"{run.interleavings:,}"))
    if finding.unseen and run.complete:
        rows.append(("never seen", ", ".join(finding.unseen)))
    if bird is not None:
        rows.append(("canary", f"found after {bird.run.states:,} states" if bird.run.violation else "NOT FOUND"))
    for row in rows:
        table.add_row(*row)
    _out.print(table)
    if run.violation is not None and finding.trace is not None:
        _print_violation(run.violation)
        _print_steps(finding.trace.steps)
    elif run.limit is not None:
        _out.print(f"[bold yellow]stopped[/] at {run.limit}: no violation so far, and no certificate")
    else:
        _out.print("[bold green]complete[/]: no violation within the bounds")


def _print_violation(violation: Violation) -> None:
    _out.print(f"[bold red]violation[/] of {violation.clause} ({violation.oracle}):", soft_wrap=True)
    _out.print(violation.reason, markup=False, soft_wrap=True)
    for name, value in violation.counterexample:
        _out.print(f"  {name}: {value}", markup=False, soft_wrap=True)


def _print_steps(steps: Sequence[Step]) -> None:
    """One line per step, and what the process reported below it; lines are cut at no width."""
    rows = [(str(s.index), s.actor, s.operation, s.path, s.outcome, s.answer, s.site) for s in steps]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for step, row in zip(steps, rows, strict=True):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        _out.print(line, style="red" if step.outcome != "normal" else None, markup=False, soft_wrap=True)
        for note in step.notes:
            _out.print(f"{'':{widths[0]}}    {note}", style="dim", markup=False, soft_wrap=True)


def replay(
    file: Annotated[Path, typer.Argument(help="A trace, as `memwal explore --record` writes it.")],
    until: Annotated[int | None, typer.Option(min=0, help="Stop after this step.")] = None,
    dump: Annotated[Path | None, typer.Option(help="Write the store as it is then to this new folder.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to step through the history to this file.")] = None,
    mermaid: Annotated[Path | None, typer.Option(help="Write a Mermaid sequence diagram to this file.")] = None,
    lanes: Annotated[bool, typer.Option("--lanes", help="Print a lane for each process.")] = False,
    profile: Annotated[
        str | None, typer.Option(help="Play the same steps under this profile: strict, or literal.")
    ] = None,
    without_bugs: Annotated[
        bool, typer.Option("--without-bugs", help="Play the same steps without the planted bugs.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Play it one time; default: two times, and compare.")] = False,
    as_json: Json = False,
) -> None:
    """Play a recorded history against the engine as it is now.

    Under another --profile, or --without-bugs, the history goes another way; the question is then whether anything
    breaks.
    """
    if lanes and as_json:
        raise typer.BadParameter("--lanes and --json exclude each other")
    with _mistakes_are_usage():
        camera = Camera() if html is not None or mermaid is not None or lanes else None
        played = replaying.replay(file, until, dump, camera, twice=not once, profile=profile, without_bugs=without_bugs)
        film = None if camera is None else camera.film(file.name, played)
        if film is not None:
            viewing.write(film, html=html, mermaid=mermaid)
    if as_json:
        _print_json(
            {
                "file": file.name,
                "steps": len(played.steps),
                "stopped_early": played.stopped_early,
                "engine_changed": played.engine_changed,
                "divergence": None if played.divergence is None else asdict(played.divergence),
                "violation": None if played.violation is None else as_dict(played.violation),
                "violation_at": played.violation_at,
                "reproduced": played.reproduced,
                "profile": profile or played.header.profile,
                "without_bugs": without_bugs,
                "unstable_at": played.unstable_at,
            }
        )
    else:
        _print_replayed(played, film if lanes else None, profile)
    if played.unstable_at is not None:
        _err.print(f"[bold red]not deterministic:[/] a second replay differs at step {played.unstable_at}")
        raise typer.Exit(FOUND)
    lost = not played.reproduced and not played.stopped_early
    other = not played.elsewhere and (lost or played.divergence is not None)
    if other or played.violation is not None:
        raise typer.Exit(FOUND)


def _print_replayed(played: replaying.Replayed, film: Film | None, profile: str | None) -> None:
    """``film``: to print in lanes; ``profile``: the one that was asked for."""
    _out.print(f"[bold]{escape(played.header.title)}[/]")
    if played.header.description:
        _out.print(escape(played.header.description))
    if film is None:
        _print_steps(played.steps)
    else:
        viewing.print_lanes(film, _out)
    if played.elsewhere:
        _print_elsewhere(played, profile)
        return
    if played.divergence is not None:
        found = played.divergence
        _out.print(f"[bold yellow]diverged[/] at step {found.index}: {found.what} was {escape(found.recorded)}")
        _out.print(f"  and is {escape(found.found)}")
        if played.engine_changed:
            _out.print("  (the engine is not the one under which this was recorded)")
    if played.violation is not None:
        _print_violation(played.violation)
    if played.stopped_early:
        _out.print("stopped before the end")
    elif played.reproduced:
        _out.print("[bold]reproduced[/]")
    else:
        _out.print("[bold yellow]not reproduced[/]: the engine no longer does this")


def _print_elsewhere(played: replaying.Replayed, profile: str | None) -> None:
    """Where the same steps went another way, and whether anything is broken there."""
    where = "without the planted bugs" if profile is None else f"under profile {profile}"
    found, recorded = played.divergence, played.header.violation
    if found is None:
        _out.print(f"{where}, every step goes as recorded")
    else:
        text = f"{where}, step {found.index} goes another way: {found.what} was {found.recorded}, and is {found.found}"
        _out.print(text, markup=False, soft_wrap=True)
    if played.violation is not None:
        _print_violation(played.violation)
    elif played.stopped_early:
        _out.print("stopped before the end; nothing is broken so far")
    else:
        _out.print(f"[bold green]nothing is broken[/] after any of {len(played.steps)} steps", end="")
        _out.print("" if recorded is None else f"; as recorded, {recorded.clause} is ({recorded.oracle})", markup=False)


def list_scenarios(as_json: Json = False) -> None:
    """List the scenarios that `memwal explore` knows."""
    known = [scenario for _, scenario in sorted(scenarios.known().items())]
    if as_json:
        fields = ("name", "title", "hazards", "preemptions")
        _print_json([{field: getattr(each, field) for field in fields} for each in known])
        return
    table = Table("scenario", "what", "preemptions", "hazards", box=None, padding=(0, 2, 0, 0))
    for each in known:
        bound = "all" if each.preemptions is None else str(each.preemptions)
        table.add_row(each.name, each.title, bound, " ".join(each.hazards))
    _out.print(table)


def bugs(
    names: Annotated[list[str] | None, typer.Argument(help="Planted bugs; default: all.")] = None,
    kill_them: Annotated[bool, typer.Option("--kill", help="Explore until each is found.")] = False,
    matrix: Annotated[
        Path | None, typer.Option(help="Kill them, and write which oracle notices which bug to this file.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Bugs that are looked for at the same time.")] = 1,
    as_json: Json = False,
) -> None:
    """List the planted bugs, or prove that each is found by the oracle that should find it."""
    with _mistakes_are_usage():
        known = planting.load()
        chosen = planting.choose(names or sorted(known), known)
        rows: dict[str, dict[str, Any]] = {
            bug.name: {"name": bug.name, "clause": bug.clause, "scenario": bug.scenario, "what": bug.what}
            for bug in chosen
        }
        found: list[kills.Kill] = []
        if kill_them or matrix is not None:
            with _counting("looking for planted bugs", len(rows), quiet=as_json) as done:
                for name, killed in parallel.each(kills.row, sorted(rows), jobs):
                    found.append(killed)
                    rows[name] |= asdict(killed)
                    done(name)
        if matrix is not None:
            matrix.write_text(kills.render(found, known), "utf-8")
    if as_json:
        _print_json(list(rows.values()))
    else:
        _out.print(_bug_table(list(rows.values())))
    if any(not row.get("killed", True) for row in rows.values()):
        raise typer.Exit(FOUND)


def _bug_table(rows: list[dict[str, Any]]) -> Table:
    proved = bool(rows) and "killed" in rows[0]
    columns = ["name", "clause", "scenario", *(("killed", "states", "steps") if proved else ("what",))]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column != "what")
    for row in rows:
        table.add_row(*(escape(str(row[column])) for column in columns))
    return table


@contextmanager
def _counting(doing: str, total: int, *, quiet: bool) -> Iterator[Callable[[object], None]]:
    """A status line on the error stream that counts what is done."""
    count = 0
    status = None if quiet or not _err.is_terminal else Status(doing, console=_err)

    def done(thing: object) -> None:
        nonlocal count
        count += 1
        if status is not None:
            status.update(f"{doing}: {count} of {total}, last {thing}")

    if status is None:
        yield done
        return
    with status:
        yield done


def certify(
    check: Annotated[bool, typer.Option(help="Write nothing; fail if a certificate differs from the file.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Scenarios that are explored at the same time.")] = 1,
) -> None:
    """Explore every scenario under every revision, and write faults/certificates.json."""
    with _mistakes_are_usage():
        folder = places.faults()
        with _counting("exploring", len(certificates.keys()), quiet=False) as done:
            found = list(certificates.renewed(jobs, done))
        before = certificates.load(folder)
        changed = [each for each in found if before.get((each["scenario"], each["revision"])) != each]
        if not check:
            (folder / certificates.FILE).write_text(certificates.dumps(iter(found)), "utf-8")
    for each in changed if check else ():
        _err.print(f"{each['scenario']} under {each['revision']} is not what the file says")
    _out.print(f"{len(found)} certificates, {len(changed)} of them changed")
    wrong = [each for each in found if not each["complete"]]
    for each in wrong:
        _err.print(f"[bold red]incomplete:[/] {each['scenario']} under {each['revision']}: {each['violation']}")
    if wrong or (check and changed):
        raise typer.Exit(FOUND)


def coverage(
    out: Annotated[Path, typer.Option(help="Where to write the matrix, as Markdown.")] = Path("coverage.md"),
    jobs: Annotated[int, typer.Option(min=1, help="Scenarios that are explored at the same time.")] = 1,
) -> None:
    """Explore every scenario with one fault, and write which outcomes requests have had at which places."""
    with _mistakes_are_usage():
        with _counting("exploring", len(scenarios.known()), quiet=False) as done:
            found = covering.matrix(jobs, done)
        out.write_text(covering.render(found), "utf-8")
    for site, fate in found.dark():
        _out.print(f"dark: {site.function} {site.operation} {fate.label}", markup=False)


def write_gallery(
    check: Annotated[bool, typer.Option(help="Write nothing; fail if the file is not up to date.")] = False,
    renew: Annotated[bool, typer.Option(help="First record all faults again, as the engine is now.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Faults that are recorded at the same time.")] = 1,
) -> None:
    """Write faults/INDEX.md from the recorded faults and planted bugs."""
    with _mistakes_are_usage():
        folder = places.faults()
        if renew:
            _record_all_again(folder, jobs)
        text = gallery.render(folder)
        target = folder / gallery.INDEX
        if not check:
            target.write_text(text, "utf-8")
            return
        current = target.read_text("utf-8") if target.exists() else ""
    if current != text:
        _err.print(f"[bold red]error:[/] {target.name} is not up to date: run `memwal gallery`")
        raise typer.Exit(FOUND)


def _record_all_again(folder: Path, jobs: int) -> None:
    """Record a shortest history of every planted bug, and whatever else is recorded."""
    of_bugs = recorded.wanted(folder)
    with _counting("recording", len(of_bugs), quiet=False) as done:
        for name, _ in parallel.each(recorded.record_named, sorted(of_bugs), jobs):
            done(name)
    for path in sorted(set((folder / "recorded").rglob("*.jsonl")) - set(of_bugs.values())):
        _record_again(path)


def _record_again(path: Path) -> None:
    header = load(path).header
    study = recorded_in(header)
    with _shown(f"recording {path.name}", quiet=False) as progress:
        found = carry_out(study, progress=progress, title=header.title, description=header.description)
    if found.trace is None:
        raise InvalidArgument(f"{path.name}: the exploration finds no violation any more")
    path.write_text(dumps(found.trace), "utf-8")


_NAMES: dict[Callable[..., None], str] = {list_scenarios: "scenarios", write_gallery: "gallery"}
