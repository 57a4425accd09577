"""Every command refuses an unknown name, before it does anything, and says which one is nearest."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main
from memwal.cli.main import app
from memwal.errors import InvalidArgument, check_name
from memwal_sim.bugs import load
from memwal_sim.scenarios import scenario as scenarios
from memwal_sim.traces.study import Study, kill
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[3]
SHRUNK = ROOT / "faults/recorded/wal/torn_entry.jsonl"
SUMMARY = next((ROOT / "conformance/observed").glob("*/summary.json"))
ROWS = ROOT / "pyproject.toml"
REFUSED = {
    "capacity": [
        ("--set revizion=B", "revizion", "revision"),
        ("--price writ=1", "writ", "write"),
    ],
    "explore": [
        ("one_writr", "one_writr", "one_writer"),
        ("one_writer --oracle recovery", "recovery", "recovery succeeds"),
        ("one_writer --oracle listed_generation_open", "listed_generation_open", "listed_generations_open"),
        ("one_writer --bug torn_entri", "torn_entri", "torn_entry"),
        ("one_writer --fate lots", "lots", "lost"),
        ("one_writer --revision C", "C", None),
        ("one_writer --profile strikt", "strikt", "strict"),
        ("one_writer --reading claim_barier=false", "claim_barier", "claim_barrier"),
    ],
    "hunt": [
        ("one_writr", "one_writr", "one_writer"),
        ("one_writer --strategy uniforme", "uniforme", "uniform"),
        ("one_writer --oracle recovery", "recovery", "recovery succeeds"),
        ("one_writer --bug torn_entri", "torn_entri", "torn_entry"),
        ("one_writer --revision C", "C", None),
        ("one_writer --profile strikt", "strikt", "strict"),
        ("one_writer --reading claim_barier=false", "claim_barier", "claim_barrier"),
    ],
    "judge": [(f"{ROOT} --key id --revision C", "C", None)],
    "model": [
        ("from_put_to_bse", "from_put_to_bse", "from_put_to_base"),
        ("--run from_put_to_bse", "from_put_to_bse", "from_put_to_base"),
        ("--run --without claim_barier", "claim_barier", "claim_barrier"),
    ],
    "prove": [
        ("--step merg", "merg", "merge"),
        ("--without claim_barier", "claim_barier", "claim_barrier"),
    ],
    "promote": [(f"{SHRUNK} --area wall --name abc --title t --description d", "wall", "wal")],
    "replay": [(f"{SHRUNK} --profile strikt", "strikt", "strict")],
    "soak": [
        ("--preset strom", "strom", "storm"),
        ("--revision C", "C", None),
        ("--bug torn_entri", "torn_entri", "torn_entry"),
    ],
    "soak-processes": [("--revision C", "C", None)],
    "clauses list": [
        ("--group FLUSHH", "FLUSHH", "FLUSH"),
        ("--level MUSST", "MUSST", "MUST"),
        ("--status testet", "testet", "tested"),
        ("--revision C", "C", None),
        ("--kind behavior", "behavior", "behaviour"),
    ],
    "notes list": [("--kind silense", "silense", "silence"), ("--severity mayor", "mayor", "major")],
    "notes show": [("AMB-1000", "AMB-1000", "AMB-100")],
    "clauses show": [("FENCE-0003", "FENCE-0003", "FENCE-003")],
    "clauses matrix": [("--format mdd", "mdd", "md")],
    "planted list": [("--kind mutnat", "mutnat", "mutant"), ("--clause FENCE-0003", "FENCE-0003", "FENCE-003")],
    "planted show": [("torn_entri", "torn_entri", "torn_entry")],
    "planted kill": [
        ("torn_entri", "torn_entri", "torn_entry"),
        ("--group FLUSHH", "FLUSHH", "FLUSH"),
        ("--clause FENCE-0003", "FENCE-0003", "FENCE-003"),
    ],
    "matrix": [(f"{SUMMARY} --format mdd", "mdd", "md")],
    "migrate": [("nowhere --revision C", "C", None)],
    "create": [(f"nowhere {ROWS} --key id --format csw", "csw", "csv")],
    "upsert": [(f"nowhere {ROWS} --late-rows dorp", "dorp", "drop")],
    "scan": [("nowhere --format jsn", "jsn", "json")],
    "validate": [("--revision C", "C", None), ("--preset skewd", "skewd", "skewed")],
    "write": [
        ("nowhere rows.csv --sequence-by s --late-rows dorp", "dorp", "drop"),
        ("nowhere rows --sequence-by s --format parqet", "parqet", "parquet"),
    ],
}
"""Command -> arguments with one wrong name, the name, and the nearest that there is."""
NO_NAMES = {
    "count", "history", "watch", "readings", "findings list", "findings show",
    "info", "snapshot", "merge", "catch-up", "gc", "gc-rules", "verify", "repair", "specs", "drain", "inspect",
    "scenarios", "certify", "coverage", "gallery", "check-history", "shrink", "gate", "clauses check", "clauses mutate",
    "planted draw", "explain", "why", "native watch", "findings reproduce",
    "planted check", "vectors check", "vectors fill", "vectors matrix", "vectors copy", "doctor",
}  # fmt: skip
"""Commands that take files, tables and what is in them, numbers, names that they give, or nothing."""
CASES = [(command, *each) for command, wrong in REFUSED.items() for each in wrong]


def commands(group: Any, before: str = "") -> Iterator[str]:
    """Every command of the command line, those of groups with the group's name before."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        elif not command.hidden:
            yield f"{before}{name}"


def test_every_command_is_walked() -> None:
    walked = {name.partition(" ")[2] for name in commands(typer.main.get_command(app))}  # of two groups: merge, gc, …
    assert walked == {*REFUSED, *NO_NAMES}


@pytest.mark.parametrize(("command", "arguments", "wrong", "nearest"), CASES, ids=lambda each: str(each))
def test_an_unknown_name_is_refused_with_the_nearest_one(
    command: str, arguments: str, wrong: str, nearest: str | None
) -> None:
    found = CliRunner().invoke(app, [*command.split(), *shlex.split(arguments)])
    told = " ".join((found.output if found.exit_code == 2 else str(found.exception)).split())
    assert found.exit_code in (1, 2), found.output
    assert isinstance(found.exception, SystemExit | InvalidArgument)
    assert "there is no " in told
    assert f"{wrong!r}; " in told
    if nearest is not None:
        assert told.count("Did you mean") == told.count(f"Did you mean {nearest!r}?") == 1


def test_the_nearest_name_is_told_whatever_its_letters_and_none_where_none_is_near() -> None:
    with pytest.raises(
        InvalidArgument,
        match=r"^there is no bug 'Torn_Entri'; choose one of late, torn_entry\. Did you mean 'torn_entry'\?$",
    ):
        check_name("bug", "Torn_Entri", ["late", "torn_entry"])
    with pytest.raises(InvalidArgument, match=r"^there is no bug 'x'; choose one of late \[AMB-01\]$"):
        check_name("bug", "x", ["late"], clause="AMB-01")
    with pytest.raises(
        InvalidArgument, match=r"^there is no bug 'n5000'; there are 200 others\. Did you mean 'n50'\?$"
    ):
        check_name("bug", "n5000", [f"n{number}" for number in range(200)])
    for name, said in [
        ("?", r"; there are 200 others\. `memwal bugs` lists them$"),
        ("n5000", r"\. Did you mean 'n50'\? `memwal bugs` lists them$"),
    ]:
        with pytest.raises(InvalidArgument, match=said):
            check_name("bug", name, [f"n{number}" for number in range(200)], listed_by="memwal bugs")
    check_name("bug", "late", ["late"])


def test_a_planted_bug_that_names_an_oracle_that_is_not_there_is_no_survivor() -> None:
    bug = replace(load()["torn_entry"], oracle="acknowledged write survives")
    with pytest.raises(InvalidArgument, match="Did you mean 'acknowledged writes survive'"):
        kill(bug)


@pytest.mark.parametrize("name", sorted(scenarios.known()))
def test_every_oracle_of_a_scenario_says_under_which_names_it_may_object(name: str) -> None:
    names = Study(scenario=scenarios.find(name), refine=True).world().names()
    assert names is not None
    assert "no process breaks" in names
    assert {bug.oracle for bug in load().values() if bug.scenario == name} <= names
