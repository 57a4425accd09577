"""``memwal explore`` and ``memwal explore scenarios``.

Exit codes: 0 nothing wrong, 1 a violation was found (or a planted bug was not), 2 usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from memwal.cli.terminal import entries
from memwal.errors import InvalidArgument, check_name
from memwal.words import counted
from rich.table import Table

from .terminal import (
    FOUND,
    Json,
    exploring_shown,
    mistakes_are_usage,
    print_json,
    print_steps,
    print_violation,
    reading_of,
    stderr,
    stdout,
)

if TYPE_CHECKING:
    from ..outcomes import Fate
    from ..scenarios.scenario import Scenario
    from ..traces.study import StudyResult


def commands(app: typer.Typer) -> None:
    """Add the commands of this module to ``app``."""
    app.command()(explore)
    app.command("scenarios")(list_scenarios)


def explore(
    scenario: Annotated[str, typer.Argument(help="Name of a scenario; `memwal explore scenarios` lists them.")],
    faults: Annotated[int, typer.Option(min=0, help="Most requests in one history that may fail.")] = 0,
    fates: Annotated[
        list[str] | None,
        typer.Option("--fate", help="How they may fail: lost, applied, late or throttled; repeatable. Default: all."),
    ] = None,
    preemptions: Annotated[
        int | None,
        typer.Option(
            min=-1, help="Most interruptions of running processes; -1: no bound. Default: that of the scenario."
        ),
    ] = None,
    reduce: Annotated[
        bool,
        typer.Option("--reduce/--no-reduce", help="Skip orders that differ only in steps that commute."),
    ] = True,
    merge: Annotated[
        bool, typer.Option("--merge/--no-merge", help="Merge histories that leave a process in the same state.")
    ] = False,
    liveness: Annotated[
        bool, typer.Option("--liveness", help="Check in every state that all work can still be finished.")
    ] = False,
    refine: Annotated[
        bool, typer.Option("--refine", help="Check that every change of the store is a step of the abstract machine.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="Write one history of each class (same replies, same contents) to this new folder."),
    ] = None,
    export_max: Annotated[int, typer.Option(min=1, help="Write at most this many of them.")] = 100,
    revision: Annotated[str, typer.Option(help="A, B or R.")] = "B",
    profile: Annotated[str, typer.Option(help="strict, or literal (exactly what the texts say).")] = "strict",
    reading: Annotated[
        list[str] | None,
        typer.Option(help="One reading on top of the profile, such as claim_barrier=false. Repeatable."),
    ] = None,
    bug: Annotated[
        list[str] | None,
        typer.Option(help="A planted bug; `memwal conformance planted list --kind bug` lists them. Repeatable."),
    ] = None,
    oracle: Annotated[str | None, typer.Option(help="Count only violations that this oracle finds.")] = None,
    states_max: Annotated[int | None, typer.Option(min=1, help="Stop at this number of states.")] = None,
    memory_max: Annotated[int, typer.Option(min=64, help="Stop at this much memory, in MiB.")] = 8192,
    seconds_max: Annotated[float | None, typer.Option(min=0.1, help="Stop after this time.")] = None,
    check: Annotated[bool, typer.Option(help="Run engine code twice for each local history, and compare.")] = False,
    with_canary: Annotated[
        bool, typer.Option("--canary/--no-canary", help="First check that a planted bug is found.")
    ] = True,
    record: Annotated[Path | None, typer.Option(help="Write the shortest violating history to this file.")] = None,
    title: Annotated[str, typer.Option(help="Title of the recorded history.")] = "",
    description: Annotated[str, typer.Option(help="What the history shows, in plain words.")] = "",
    as_json: Json = False,
) -> None:
    """Explore every interleaving of SCENARIO and every fate of its requests within bounds, crashes included."""
    from .. import bugs as planting
    from ..exploring.exploration import Bounds
    from ..scenarios import scenario as scenarios
    from ..traces.study import Study, canary, carry_out
    from ..traces.trace import dumps

    with mistakes_are_usage():
        study = Study(
            scenario=scenarios.find(scenario),
            revision=revision,
            profile=profile,
            readings=dict(map(reading_of, reading or ())),
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
            refine=refine,
        )
        study.setting()
        bird = canary(study) if with_canary else None
        with exploring_shown(f"exploring {scenario}", quiet=as_json) as progress:
            finding = carry_out(study, check=check, progress=progress, title=title, description=description)
        if record is not None and finding.trace is not None:
            record.write_text(dumps(finding.trace), "utf-8")
        if export is not None:
            _export(finding, export)
    void = bird is not None and bird.run.violation is None
    if as_json:
        found = None if bird is None else {"found": not void, "states": bird.run.states}
        print_json({**finding.certificate(), "canary": found})
    else:
        _print_finding(finding, bird)
        if record is not None:
            stdout.print(f"recorded in {record}" if finding.trace is not None else "nothing to record")
    if void:
        stderr.print("[bold red]void:[/] the planted bug was not found, so this run proves nothing")
    if void or finding.run.violation is not None:
        raise typer.Exit(FOUND)


def _bound(scenario: Scenario, asked: int | None) -> int | None:
    """The bound on preemptions: as asked for, else the scenario's own."""
    if asked is None:
        return scenario.preemptions
    return None if asked < 0 else asked


def _export(finding: StudyResult, folder: Path) -> None:
    """One trace for each class of histories, by number."""
    from ..traces.study import classes
    from ..traces.trace import dumps

    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InvalidArgument(f"{folder} is not empty")
    for number, trace in enumerate(classes(finding), 1):
        (folder / f"{finding.study.scenario.name}-{number:04}.jsonl").write_text(dumps(trace), "utf-8")


def _kinds(names: list[str] | None) -> frozenset[Fate]:
    from ..outcomes import FATES, FAULTS

    if names is None:
        return FAULTS
    for name in names:
        check_name("fate", name, [fate.label for fate in sorted(FAULTS)])
    return frozenset(FATES[name] for name in names)


def _print_finding(finding: StudyResult, bird: StudyResult | None) -> None:
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
        rows.append(
            ("canary", f"found after {counted(bird.run.states, 'state')}" if bird.run.violation else "NOT FOUND")
        )
    for row in rows:
        table.add_row(*row)
    stdout.print(table)
    if run.violation is not None and finding.trace is not None:
        print_violation(run.violation)
        print_steps(finding.trace.steps)
    elif run.limit is not None:
        stdout.print(f"[bold yellow]stopped[/] at {run.limit}: no violation so far, and no proof: raise the limit")
    else:
        stdout.print("[bold green]complete[/]: no violation within the bounds")


def list_scenarios(as_json: Json = False) -> None:
    """List the scenarios that `memwal explore` knows."""
    from ..scenarios import scenario as scenarios

    known = [scenario for _, scenario in sorted(scenarios.known().items())]
    if as_json:
        fields = ("name", "title", "hazards", "preemptions")
        print_json([{field: getattr(each, field) for field in fields} for each in known])
        return
    entries((each.name + _about(each), each.title) for each in known)


def _about(scenario: Scenario) -> str:
    """What is explored of a scenario by default, and the notes that it is about."""
    bound = "" if scenario.preemptions is None else f"  at most {counted(scenario.preemptions, 'preemption')}"
    return f"{bound}  {' '.join(scenario.hazards)}".rstrip()
