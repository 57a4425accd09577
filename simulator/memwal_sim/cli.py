"""The simulator's commands of ``memwal``: explore, replay, scenarios, bugs, gallery.

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
from . import gallery, places
from . import replay as replaying
from . import scenario as scenarios
from .exploration import Bounds, Progress
from .outcomes import FATES, FAULTS, Fate
from .study import Finding, Study, as_dict, canary, carry_out, kill, killed, recorded_in
from .trace import Step, dumps, parse
from .world import Violation

FOUND = 1
USAGE = 2

_out = Console()
_err = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def commands(app: typer.Typer) -> None:
    """Add the simulator's commands to ``app``."""
    for command in (explore, replay, list_scenarios, bugs, write_gallery):
        app.command(_NAMES.get(command, command.__name__))(command)


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
        int | None, typer.Option(min=0, help="Times that a process is left while it could go on. Default: no bound.")
    ] = None,
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
                preemptions=preemptions,
                states_max=states_max,
                memory_mib_max=memory_max,
                seconds_max=seconds_max,
            ),
            only=oracle,
        )
        study.setting()
        bird = canary(study) if with_canary else None
        with _shown(f"exploring {scenario}", quiet=as_json) as progress:
            finding = carry_out(study, check=check, progress=progress, title=title, description=description)
        if record is not None and finding.trace is not None:
            record.write_text(dumps(finding.trace), "utf-8")
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
    as_json: Json = False,
) -> None:
    """Play a recorded history against the engine as it is now."""
    with _mistakes_are_usage():
        played = replaying.replay(file, until, dump)
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
            }
        )
    else:
        _print_replayed(played)
    lost = not played.reproduced and not played.stopped_early
    if lost or played.divergence is not None or played.violation is not None:
        raise typer.Exit(FOUND)


def _print_replayed(played: replaying.Replayed) -> None:
    _out.print(f"[bold]{escape(played.header.title)}[/]")
    if played.header.description:
        _out.print(escape(played.header.description))
    _print_steps(played.steps)
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


def list_scenarios(as_json: Json = False) -> None:
    """List the scenarios that `memwal explore` knows."""
    known = [scenario for _, scenario in sorted(scenarios.known().items())]
    if as_json:
        _print_json([{"name": s.name, "title": s.title, "hazards": s.hazards} for s in known])
        return
    table = Table("scenario", "what", "hazards", box=None, padding=(0, 2, 0, 0))
    for each in known:
        table.add_row(each.name, each.title, " ".join(each.hazards))
    _out.print(table)


def bugs(
    names: Annotated[list[str] | None, typer.Argument(help="Planted bugs; default: all.")] = None,
    kill_them: Annotated[bool, typer.Option("--kill", help="Explore until each is found.")] = False,
    as_json: Json = False,
) -> None:
    """List the planted bugs, or prove that each is found by the oracle that should find it."""
    with _mistakes_are_usage():
        known = planting.load()
        chosen = planting.choose(names or sorted(known), known)
        rows: list[dict[str, Any]] = []
        for bug in chosen:
            row: dict[str, Any] = {"name": bug.name, "clause": bug.clause, "scenario": bug.scenario, "what": bug.what}
            if kill_them:
                with _shown(f"looking for {bug.name}", quiet=as_json):
                    run = kill(bug).run
                row |= {"killed": killed(bug, run), "states": run.states, "steps": len(run.trace)}
            rows.append(row)
    if as_json:
        _print_json(rows)
    else:
        _out.print(_bug_table(rows))
    if any(not row.get("killed", True) for row in rows):
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


def write_gallery(
    check: Annotated[bool, typer.Option(help="Write nothing; fail if the file is not up to date.")] = False,
    renew: Annotated[bool, typer.Option(help="First record all faults again, as the engine is now.")] = False,
) -> None:
    """Write faults/INDEX.md from the recorded faults and planted bugs."""
    with _mistakes_are_usage():
        folder = places.faults()
        for path in sorted(folder.rglob("*.jsonl")) if renew else ():
            _record_again(path)
        text = gallery.render(folder)
        target = folder / gallery.INDEX
        if not check:
            target.write_text(text, "utf-8")
            return
        current = target.read_text("utf-8") if target.exists() else ""
    if current != text:
        _err.print(f"[bold red]error:[/] {target.name} is not up to date: run `memwal gallery`")
        raise typer.Exit(FOUND)


def _record_again(path: Path) -> None:
    header = parse(path.read_text("utf-8"), path.name).header
    study = recorded_in(header)
    with _shown(f"recording {path.name}", quiet=False) as progress:
        found = carry_out(study, progress=progress, title=header.title, description=header.description)
    if found.trace is None:
        raise InvalidArgument(f"{path.name}: the exploration finds no violation any more")
    path.write_text(dumps(found.trace), "utf-8")


_NAMES: dict[Callable[..., None], str] = {list_scenarios: "scenarios", write_gallery: "gallery"}
