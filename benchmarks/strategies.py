"""How soon each strategy finds each planted bug: exploration, uniform runs, PCT, swarm, Hypothesis.

    python benchmarks/strategies.py [--quick] [--seeds 5] [--runs 20000] [--seconds 20] [--bug NAME ...] [--json]

Every planted bug there is, in its own scenario with its own faults and oracle; each random strategy from several
seeds, each hunt at most so many runs and seconds. Medians over the seeds, where a hunt that found nothing counts as
longer than all others: a median of such is printed as a dash. Each bug runs in a process of its own, two at a time.
Writes docs/strategies.md, and what it was made from as out/strategies.json and, if matplotlib can be imported, as
out/strategies.svg; with `--quick` or `--bug` it only prints, unless `--write` is given.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from memwal.errors import MemwalError
from memwal_sim.bugs import Bug, choose, load
from memwal_sim.strategies.hunting import DEPTH, NAMES, hunt
from memwal_sim.traces.recording import engine_digest
from memwal_sim.traces.study import Study, carry_out, killing

DOCS = Path(__file__).parent.parent / "docs"
OUT = DOCS.parent / "out"
PROCESSES = 2
SEED_STEP = 10**9
"""Between the first seeds of hunts, so that no two of them share a run."""
EXPLORE = "explore"
MEMORY_MIB = 3000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long to look."""

    seeds: int
    runs: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One bug and one strategy."""

    bug: str
    scenario: str
    faults: int
    strategy: str
    tries: int
    found: int
    """Tries that found the bug."""
    runs: float | None
    """Median runs to the first violation; for explore: states. None: most tries found nothing."""
    seconds: float | None
    """Median seconds to it."""
    steps: float | None
    """Median length of what was found; explore and hypothesis shorten it."""
    promised: float | None
    """Median probability that PCT promises for one run."""


def measure(name: str, limits: Limits) -> list[Row]:
    """The rows of one bug; raises what the engine raises if it cannot be planted."""
    (bug,) = choose([name])
    exact = killing(bug)
    study = replace(exact, bounds=replace(exact.bounds, preemptions=None, memory_mib_max=MEMORY_MIB))
    hunt(study, NAMES[0], runs_max=3)  # so that no strategy pays for what the engine keeps from call to call
    return [explored(bug, exact, limits), *(hunted(bug, study, strategy, limits) for strategy in NAMES)]


def explored(bug: Bug, study: Study, limits: Limits) -> Row:
    """The row of the exploration, which needs no seed; it gets the seconds of all hunts of a strategy."""
    bounds = replace(study.bounds, memory_mib_max=MEMORY_MIB, seconds_max=limits.seconds * limits.seeds)
    run = carry_out(replace(study, bounds=bounds)).run
    found = run.violation is not None
    return Row(
        bug=bug.name,
        scenario=bug.scenario,
        faults=bug.faults,
        strategy=EXPLORE,
        tries=1,
        found=int(found),
        runs=run.states if found else None,
        seconds=run.seconds if found else None,
        steps=len(run.trace) if found else None,
        promised=None,
    )


def hunted(bug: Bug, study: Study, strategy: str, limits: Limits) -> Row:
    """The row of a random strategy."""
    hunts = [
        hunt(study, strategy, seed=number * SEED_STEP, runs_max=limits.runs, seconds_max=limits.seconds)
        for number in range(limits.seeds)
    ]
    hits = [each for each in hunts if each.violation is not None]
    promised = [each.guarantee.probability for each in hunts if each.guarantee is not None]
    return Row(
        bug=bug.name,
        scenario=bug.scenario,
        faults=bug.faults,
        strategy=strategy,
        tries=len(hunts),
        found=len(hits),
        runs=median([each.runs for each in hits], len(hunts)),
        seconds=median([each.seconds for each in hits], len(hunts)),
        steps=statistics.median(len(each.moves) for each in hits) if hits else None,
        promised=statistics.median(promised) if promised else None,
    )


def median(found: Sequence[float], tries: int) -> float | None:
    """Median of ``tries`` values, of which only ``found`` are known the others being larger; None for one of those."""
    ordered = [*sorted(found), *[None] * (tries - len(found))]
    low, high = ordered[(tries - 1) // 2], ordered[tries // 2]
    return None if low is None or high is None else (low + high) / 2


def measure_all(names: Sequence[str], limits: Limits) -> tuple[list[Row], dict[str, str]]:
    """Rows of all bugs in order, and why some have none."""
    rows: dict[str, list[Row]] = {}
    failed: dict[str, str] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context, max_tasks_per_child=1) as pool:
        waiting = {pool.submit(measure, name, limits): name for name in names}
        for done in as_completed(waiting):
            name = waiting[done]
            try:
                rows[name] = done.result()
            except MemwalError as error:
                failed[name] = str(error)
            print(f"{len(rows) + len(failed)}/{len(names)} {name}", flush=True)
    return [row for name in names for row in rows.get(name, [])], failed


def markdown(rows: Sequence[Row], failed: dict[str, str], limits: Limits) -> str:
    """The page."""
    columns = (EXPLORE, *NAMES)
    lines = [
        "<!-- Written by `python benchmarks/strategies.py`; do not edit. -->",
        "",
        "# How soon each strategy finds each planted bug",
        "",
        "This page says which strategy finds which planted bug, and how soon.",
        "",
        f"Each bug is searched in its own scenario, with its own faults and the oracle that should find it (engine "
        f"{engine_digest()}). Figures are medians of {limits.seeds} seeds. A hunt ends after {limits.runs:,} runs or "
        f"{limits.seconds:g} s; a dash is a median beyond that, and (1/2) means that one of two hunts found the "
        f"bug. `explore` needs no seed, has {limits.seconds * limits.seeds:g} s, and counts states; the others "
        "count runs, without those that only shrink what Hypothesis has found. PCT looks for bugs of depth "
        f"{DEPTH}; what it promises is the smallest probability that one run finds such a bug. `memwal explore hunt` "
        "does the same for one scenario.",
        "",
    ]
    lines += summary(rows, columns)
    lines += ["## Runs to find", "", *grid(rows, columns, "runs"), ""]
    lines += ["## Seconds to find", "", *grid(rows, columns, "seconds"), ""]
    lines += ["## Steps of what was found", "", *grid(rows, columns, "steps"), ""]
    if failed:
        lines += ["## Not measured", "", *(f"- `{name}`: {reason}" for name, reason in failed.items()), ""]
    return "\n".join(lines)


def summary(rows: Sequence[Row], columns: Iterable[str]) -> list[str]:
    """Bugs that each strategy found in most of its tries, and in which number it was the quickest."""
    bugs = list(dict.fromkeys(row.bug for row in rows))
    best = {
        bug: min((row for row in rows if row.bug == bug and row.seconds is not None), key=_seconds, default=None)
        for bug in bugs
    }
    lines = ["| strategy | bugs found, by the median | quickest of all |", "|---|---|---|"]
    for strategy in columns:
        own = [row for row in rows if row.strategy == strategy]
        found = sum(row.seconds is not None for row in own)
        quickest = sum(row is not None and row.strategy == strategy for row in best.values())
        lines.append(f"| {strategy} | {found} of {len(own)} | {quickest} |")
    return [*lines, ""]


def _seconds(row: Row) -> float:
    assert row.seconds is not None
    return row.seconds


def grid(rows: Sequence[Row], columns: Sequence[str], value: str) -> list[str]:
    """One table: bugs by strategies. PCT's promise stands beside its runs."""
    promises = value == "runs"
    lines = [f"| bug | faults | {' | '.join(columns)} |{' PCT promises |' if promises else ''}"]
    lines.append("|---|---|" + "---|" * (len(columns) + promises))
    by_place = {(row.bug, row.strategy): row for row in rows}
    for bug in dict.fromkeys(row.bug for row in rows):
        own = [by_place[bug, strategy] for strategy in columns]
        cells = [_cell(getattr(row, value), row) for row in own]
        promised = next((row.promised for row in own if row.promised is not None), None)
        more = f" {promised:.1e} |" if promises and promised is not None else ""
        lines.append(f"| `{bug}` | {own[0].faults} | {' | '.join(cells)} |{more}")
    return lines


def _cell(value: float | None, row: Row) -> str:
    shown = "–" if value is None else f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.2f}"
    return shown if row.found == row.tries or row.strategy == EXPLORE else f"{shown} ({row.found}/{row.tries})"


def plot(rows: Sequence[Row], limits: Limits, target: Path) -> bool:
    """Draw runs and seconds on logarithmic axes; whether it could."""
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "memwal"
    from matplotlib import pyplot

    bugs = list(dict.fromkeys(row.bug for row in rows))
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 1.5 + 0.28 * len(bugs)), sharey=True, layout="constrained")
    marks = dict(zip((EXPLORE, *NAMES), "Dos^v", strict=True))
    for axis, value, beyond in zip(axes, ("runs", "seconds"), (limits.runs, limits.seconds), strict=True):
        for strategy, mark in marks.items():
            own = [row for row in rows if row.strategy == strategy and getattr(row, value) is not None]
            label = f"{strategy} (states)" if (strategy, value) == (EXPLORE, "runs") else strategy
            places = [bugs.index(row.bug) for row in own]
            axis.scatter([getattr(row, value) for row in own], places, marker=mark, s=28, alpha=0.75, label=label)
        axis.axvline(beyond, color="grey", linewidth=0.8, linestyle=":")
        axis.set_xscale("log")
        axis.set_xlabel(f"{value} to find, median")
        axis.grid(axis="y", linewidth=0.3)
        axis.legend(fontsize=7, loc="lower right")
    axes[0].set_yticks(range(len(bugs)), bugs, fontsize=7)
    axes[0].invert_yaxis()
    figure.savefig(target, metadata={"Date": None})
    pyplot.close(figure)
    return True


def main() -> None:
    """Measure, then print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 seeds, 500 runs, 3 seconds each; writes nothing")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20_000, help="of one hunt, at most")
    parser.add_argument("--seconds", type=float, default=20, help="of one hunt, at most")
    parser.add_argument("--bug", action="append", help="only this one; repeatable; writes nothing")
    parser.add_argument("--write", action="store_true", help="write the files in any case")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    chosen = parser.parse_args()
    limits = Limits(seeds=chosen.seeds, runs=chosen.runs, seconds=chosen.seconds)
    if chosen.quick:
        limits = Limits(seeds=2, runs=500, seconds=3)
    known = load()
    names = [bug.name for bug in choose(chosen.bug or sorted(known), known)]
    rows, failed = measure_all(names, limits)
    data = json.dumps(
        {"engine": engine_digest(), "limits": asdict(limits), "rows": [asdict(row) for row in rows], "failed": failed},
        indent=1,
    )
    if chosen.write or not (chosen.quick or chosen.bug):
        (DOCS / "strategies.md").write_text(markdown(rows, failed, limits))
        OUT.mkdir(exist_ok=True)
        (OUT / "strategies.json").write_text(data + "\n")
        drawn = plot(rows, limits, OUT / "strategies.svg")
        print(f"written to {DOCS} and {OUT}{'' if drawn else ', without a plot: matplotlib is not installed'}")
    print(data if chosen.json else markdown(rows, failed, limits))


if __name__ == "__main__":
    main()
