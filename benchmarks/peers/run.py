"""Schedules per second and time to find bugs: memwal's simulator beside simloom and detangle, in one run.

    python benchmarks/peers/run.py [--quick] [--seconds 10] [--seeds 5] [--wheels FOLDER] [--json]

The peers are Python libraries that explore the interleavings of asyncio programs. All sides explore the same small
protocol (protocol.py) with the same three planted bugs, one after another, each on one core; seconds are those of the
processor, so that load from elsewhere meets all alike. The peers run in a virtual environment in a temporary
folder, with the newest Python from 3.12 on that is found; without one, or without the packages, it says so and measures
the sides that are left. Writes docs/peers.md and docs/peers.json; with `--quick` it only prints.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DOCS = HERE.parent.parent / "docs"
PEERS = {"detangle": "0.1.0", "simloom": "0.5.0"}
PYTHONS = ("3.14", "3.13", "3.12")
"""Newest first; simloom needs 3.12."""
GOAL = 100
"""Times the peers' distinct schedules per second."""

Result = dict[str, Any]


def interpreters() -> Iterator[Path]:
    """Pythons that the peers can run with, newest first."""
    managed = sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python3"))
    for version in PYTHONS:
        named = shutil.which(f"python{version}")
        yield from [Path(named)] if named else []
        yield from (path for path in managed if path.parent.parent.name.startswith(f"{version}."))
    if sys.version_info >= (3, 12):
        yield Path(sys.executable)


def environment(folder: Path, wheels: Path | None) -> tuple[Path | None, dict[str, str]]:
    """A Python that has the peers, and why a peer is missing."""
    python = next((path for path in interpreters() if works(path)), None)
    if python is None:
        reason = f"no Python {PYTHONS[-1]} or newer was found"
        return None, dict.fromkeys(PEERS, reason)
    subprocess.run([str(python), "-m", "venv", str(folder / "venv")], check=True)  # noqa: S603 - of this machine
    own = folder / "venv" / "bin" / "python"
    missing = {}
    for peer, version in PEERS.items():
        where = ["--no-index", "--find-links", str(wheels)] if wheels is not None else []
        install = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *where]
        done = subprocess.run([*install, f"{peer}=={version}"], capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            missing[peer] = (
                f"{peer} {version} could not be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
            )
    return own, missing


def works(python: Path) -> bool:
    """It starts, and can make virtual environments."""
    done = subprocess.run([str(python), "-c", "import venv, ensurepip"], capture_output=True, check=False)  # noqa: S603
    return done.returncode == 0


def side(python: Path | str, script: str, *words: str) -> Result:
    """The JSON object that ``script`` prints."""
    command = [str(python), str(HERE / script), *words]
    print(f"measuring: {script} {' '.join(words)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - a file beside this one
    result: Result = json.loads(done.stdout)
    return result


def per_second(rate: Result) -> float:
    """Distinct schedules per second."""
    return rate["distinct"] / rate["seconds"] if rate["seconds"] else 0.0


def best(result: Result, kind: str) -> Result:
    """The quickest strategy of a peer: ``random`` ones, or the ``systematic`` one."""
    systematic = ("dfs", "systematic")
    rates = [rate for rate in result["rates"] if rate["strategy"].startswith(systematic) == (kind == "systematic")]
    return max(rates, key=per_second)


def markdown(ours: list[Result], peers: list[Result], missing: dict[str, str], seconds: float, seeds: int) -> str:
    """The page."""
    lines = [
        "<!-- Written by `python benchmarks/peers/run.py`; do not edit. -->",
        "",
        "# Schedules per second, beside other simulators in Python",
        "",
        "This page compares the explorer with other simulators in Python, in schedules per second.",
        "",
        "The protocol is that of `benchmarks/peers/protocol.py`: two writers (claim, two puts, flush), a merger and a "
        "collector on a store with put-if-absent, a coarse model of MemWAL. The same lines run on all sides, and "
        "every request to the store is one scheduling point. *Engine* is not this model: it is the engine's own code "
        "with real bytes in the same scenario. It makes more requests, encodes and decodes Lance files, and is judged "
        "by all oracles.",
        "",
        "A *distinct schedule* is a complete run, from the start to the end of all processes, whose order of steps no "
        "other run had. detangle counts them itself (`distinct_schedules`). For simloom the tapes of runs are "
        "compared (for PCT, whose tapes have no picks, the order of its log), and for memwal the moves. The peers are "
        "used in their quickest documented way: no shrinking, no database, no tracing, no world, and one verdict at "
        "the end of a run. memwal judges every intermediate state, as if all processes had crashed there. Each rate "
        f"was measured for {seconds:g} s of CPU time on one core.",
        "",
        "*Random* runs are made one by one on all sides. In memwal, a step that was made before is a look-up, and a "
        "run costs most where it reaches new states, of which the engine has many. *Depth first*, like the peers' "
        "`dfs` and `systematic`, continues from each schedule to the one that differs in the last step that can "
        "differ. For each of them the peers run the program from the start, while memwal returns to the state before "
        "that step, which is a value. Such neighbouring schedules are similar on all sides: many schedules a second "
        "are not many different behaviours. The explorer covers all of them.",
        "",
    ]
    if missing:
        lines += [f"Not measured: {reason}." for reason in missing.values()] + [""]
    lines += ["## Rates", "", *rates(ours, peers), "", *coverage(ours), *verdict(ours, peers)]
    lines += [
        "## Time to find three planted bugs",
        "",
        f"Median of {seeds} seeds; the bugs are in the model, switched on by the same argument on all sides. Cells are "
        "seconds and, in brackets, runs (for explore: states). *The engine* is the engine's own code with the planted "
        "bug of the same name.",
        "",
        *found([*ours[:1], *peers]),
        "",
    ]
    return "\n".join(lines)


def rates(ours: list[Result], peers: list[Result]) -> list[str]:
    """The table of rates."""
    lines = ["| side | Python | strategy | runs/s | distinct/s | steps/run |", "|---|---|---|---|---|---|"]
    for result in [*ours, *peers]:
        for rate in result["rates"]:
            runs = rate["runs"] / rate["seconds"] if rate["seconds"] else 0.0
            shared = rate["strategy"] == "depth first"
            steps = f"{rate['steps'] / rate['runs']:.0f}" if rate["steps"] and rate["runs"] and not shared else "–"
            cells = (result["side"], result["python"], rate["strategy"], f"{runs:,.0f}", f"{per_second(rate):,.0f}")
            lines.append(f"| {' | '.join(cells)} | {steps} |")
    return lines


def coverage(ours: list[Result]) -> list[str]:
    """What the explorer covers."""
    lines = [
        "## What the explorer covers",
        "",
        "The explorer does not run schedules one by one: it visits each state once, and covers with it every schedule "
        "that leads there. Their number is counted apart, as the number of paths through the graph of states, exactly.",
        "",
        "| side | states | seconds | with commuting steps reduced | schedules covered | schedules/s |",
        "|---|---|---|---|---|---|",
    ]
    for result in ours:
        run, reduced, counted = result["explored"], result["reduced"], result["counted"]
        schedules = int(counted["schedules"])
        covered = (
            f"{schedules:.2e}" if counted["complete"] else f"{schedules:.2e} beginnings of {counted['depth']} steps"
        )
        rate = f"{schedules / run['seconds']:.1e}" if counted["complete"] and run["complete"] else "–"
        states = f"{run['states']:,}{'' if run['complete'] else ' so far'}"
        less = f"{reduced['states']:,}{'' if reduced['complete'] else ' so far'} in {reduced['seconds']:.1f} s"
        lines.append(f"| {result['side']} | {states} | {run['seconds']:.1f} | {less} | {covered} | {rate} |")
    return [*lines, ""]


def verdict(ours: list[Result], peers: list[Result]) -> list[str]:
    """Ratios of distinct schedules per second, the model's to each peer's best."""
    if not peers:
        return []
    random, systematic = ours[0]["rates"]
    run, counted = ours[0]["explored"], ours[0]["counted"]
    engine_random, engine_systematic = ours[1]["rates"]
    lines = [
        f"## Ratios (the goal is {GOAL} times the peers)",
        "",
        "Distinct schedules per second here, divided by those of the peer's quickest strategy of that kind.",
        "",
        "| here | kind at the peer | " + " | ".join(peer["side"] for peer in peers) + " |",
        "|---|---|" + "---|" * len(peers),
    ]
    pairs = [
        ("model, random runs one by one", "random", per_second(random)),
        ("model, depth first", "systematic", per_second(systematic)),
        ("engine, random runs one by one", "random", per_second(engine_random)),
        ("engine, depth first", "systematic", per_second(engine_systematic)),
    ]
    if counted["complete"] and run["complete"]:
        pairs.append(("model, explorer", "systematic", int(counted["schedules"]) / run["seconds"]))
    for name, kind, rate in pairs:
        ratios = [rate / per_second(best(peer, kind)) for peer in peers]
        cells = (f"{ratio:.1e}" if ratio > 10**6 else f"{ratio:,.1f}" for ratio in ratios)
        lines.append(f"| {name} | {kind} | {' | '.join(cells)} |")
    return [*lines, ""]


def found(results: list[Result]) -> list[str]:
    """The table of bugs."""
    bugs = list(dict.fromkeys(find["bug"] for result in results for find in result["finds"]))
    lines = [f"| side | strategy | {' | '.join(bugs)} |", "|---|---|" + "---|" * len(bugs)]
    for result in results:
        for strategy in dict.fromkeys(find["strategy"] for find in result["finds"]):
            own = {find["bug"]: find for find in result["finds"] if find["strategy"] == strategy}
            lines.append(f"| {result['side']} | {strategy} | {' | '.join(cell(own[bug]) for bug in bugs)} |")
    return lines


def cell(find: Result) -> str:
    """Seconds and runs, or how many tries found it."""
    if find["found"] * 2 <= find["tries"]:
        return f"in {find['found']} of {find['tries']} tries, {find['seconds']:.1f} s each"
    return f"{find['seconds']:.4f} ({find['runs']:,.0f})"


def main() -> None:
    """Measure all sides one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 seconds and 3 seeds; writes nothing")
    parser.add_argument("--seconds", type=float, default=10, help="for each rate")
    parser.add_argument("--seeds", type=int, default=5, help="for each bug")
    parser.add_argument("--wheels", type=Path, help="folder to install the peers from, in place of the package index")
    parser.add_argument("--write", action="store_true", help="write the files in docs in any case")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    chosen = parser.parse_args()
    seconds, seeds = (2.0, 3) if chosen.quick else (chosen.seconds, chosen.seeds)
    words = (str(seconds), str(seeds))
    with tempfile.TemporaryDirectory() as name:
        python, missing = environment(Path(name), chosen.wheels)
        peers = [side(python, f"with_{peer}.py", *words) for peer in PEERS if python and peer not in missing]
    for reason in missing.values():
        print(f"not measured: {reason}", file=sys.stderr)
    ours = [side(sys.executable, "ours.py", *words, what) for what in ("model", "engine")]
    page = markdown(ours, peers, missing, seconds, seeds)
    data = json.dumps({"seconds": seconds, "seeds": seeds, "ours": ours, "peers": peers, "missing": missing}, indent=1)
    if chosen.write or not chosen.quick:
        (DOCS / "peers.md").write_text(page)
        (DOCS / "peers.json").write_text(data + "\n")
    print(data if chosen.json else page)


if __name__ == "__main__":
    main()
