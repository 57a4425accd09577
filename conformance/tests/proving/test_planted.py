"""The register of planted things, the record of their deaths, and `memwal conformance planted`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import typer
from memwal.errors import InvalidArgument
from memwal_conformance.cli import commands
from memwal_conformance.generated import planted_page
from memwal_conformance.proving import broken_survey, coverage, deaths, killing, planted
from memwal_conformance.proving.deaths import Death
from memwal_conformance.proving.killing import Attempt
from memwal_conformance.proving.mutants import Mutant
from memwal_conformance.proving.planted import Planted, of_mutant, register
from memwal_conformance.proving.trials import Trial
from memwal_conformance.registry import clauses as registry
from memwal_conformance.verdicts import Verdict
from memwal_sim.bugs import Bug
from memwal_sim.evidence.kills import Noticed
from memwal_sim.parallel import ALONE, Workers
from memwal_sim.world import REFINEMENT
from typer.testing import CliRunner

KNOWN = register()


def one(name: str, clause: str = "WAL-007", kind: str = "mutant", **more: object) -> Planted:
    mutant = Mutant(
        name=name,
        group="WAL",
        clauses=(clause,),
        what="Wrong.",
        file="f.py",
        old="a",
        new="b",
        test=f"t.py::test_{name}",
    )
    return replace(of_mutant(mutant), kind=kind, **more)  # type: ignore[arg-type]


def death(of: Planted, killer: str = "", clauses: tuple[str, ...] | None = None, said: str = "…") -> Death:
    return Death(planted=of.name, killer=killer or of.killers[0], digest="0" * 64, said=said, clauses=clauses)


# What is planted ----------------------------------------------------------------------------------------------------


def test_everything_that_is_planted_was_seen_to_be_noticed_as_it_is_now() -> None:
    assert deaths.faults(KNOWN, registry.marked()) == []


def test_all_five_kinds_are_in_one_register() -> None:
    counts = Counter(each.kind for each in KNOWN.values())
    assert set(counts) == {"reading", "bug", "adapter", "vector", "mutant"}
    assert {KNOWN[name].kind for name in ("claim_barrier",)} == {"reading"}
    assert {KNOWN[name].kind for name in ("no_barrier", "torn_entry")} == {"bug"}
    assert (KNOWN["drops_puts"].kind, KNOWN["B/wal_empty"].kind) == ("adapter", "vector")
    for each in KNOWN.values():
        assert (registry.ROOT / each.file).is_file(), each.name
        assert each.what.endswith("."), each.name
        assert each.killers, each.name


def test_two_planted_things_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "mutants", lambda _root, about: (one("torn_entry").thing,))
    with pytest.raises(InvalidArgument, match=r"WAL.toml: there is a bug called 'torn_entry', too"):
        register()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("torn_entry", "one_writer"),  # a bug of code: where it is looked for
        ("torn_entry", "replaced"),  # and what it replaces
        ("claim_barrier", "interpretation.claim_barrier"),  # a reading: who asks for it
        ("drops_puts", "range(1_000_000)"),  # a defect: its code
        ("keeps_epoch", "def claimed"),  # and what it replaces in the engine
    ],
)
def test_a_death_stands_on_what_is_planted_and_on_what_it_changes(name: str, part: str) -> None:
    parts = KNOWN[name].parts()
    if part == "replaced":
        assert {"memwal.region.writer:RegionWriter._store"} & set(parts) or any("def " in text for text in parts)
    else:
        assert any(part in text for text in parts), parts


def test_words_about_a_bug_are_no_part_of_it() -> None:
    bug = KNOWN["torn_entry"]
    assert not any(bug.what in text for text in bug.parts())


def test_a_death_stands_on_the_scenario_and_on_the_case_with_what_it_includes() -> None:
    assert '"name": "two_putters"' in planted.stands_on("oracle two_putters/B: no process breaks")[0]
    assert "def " in planted.stands_on("oracle two_commits_put/B: each commit is applied once")[0]
    (case,) = planted.stands_on("case scenarios/second_writer_fences_first.json::B")
    assert "include" not in {key for step in json.loads(case)["steps"] for key in step}
    with pytest.raises(InvalidArgument, match=r"there is no case scenarios/gone\.json::B"):
        planted.stands_on("case scenarios/gone.json::B")


# What is kept -------------------------------------------------------------------------------------------------------


def test_what_is_kept_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "conformance").mkdir()
    a, b = one("a"), one("b", kind="bug", killers=("oracle s/B: x",))
    kept = [death(a), death(b, "oracle s/B: x", ()), death(b, "case c.json::B", ("WAL-001",), "ü\u2028failed")]
    deaths.record({"a": a, "b": b}, {each.key: each for each in kept}, tmp_path)
    assert set(deaths.deaths(tmp_path).values()) == set(kept)


def test_what_nobody_asks_any_more_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "conformance").mkdir()
    a, b = one("a"), one("b", kind="bug", killers=("oracle s/B: x",))
    moved, elsewhere = death(a, "test old.py::test_a"), death(b, "oracle t/B: x")
    kept = [death(a), death(b, "oracle s/B: y", ()), death(b, "case c.json::B", ())]
    deaths.record({"a": a, "b": b}, {each.key: each for each in (moved, elsewhere, *kept)}, tmp_path)
    assert set(deaths.deaths(tmp_path).values()) == set(kept)


def test_a_bug_has_to_be_seen_by_the_suite_or_to_say_why_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths, "wanting", lambda *_: {})
    monkeypatch.setattr(deaths, "deaths", lambda _root: {each.key: each for each in kept})
    kept: list[Death] = []
    bug, complaint = KNOWN["torn_entry"], "why none shows it: memwal conformance planted kill torn_entry --survey"
    for unseen, seen, right in (("", False, False), ("", True, True), ("why", False, True), ("why", True, False)):
        kept[:] = [death(bug, "case x.json::B")] * seen
        found = deaths.faults({bug.name: replace(bug, unseen=unseen)}, {})
        assert (complaint not in "\n".join(found)) is right, (unseen, seen)


def test_a_thing_counts_for_its_own_clauses_and_of_these_for_those_that_its_killer_names() -> None:
    bug = one("bug", kind="bug", clauses=("WAL-001", "AMB-24"))
    known = {"bug": bug, "old": one("old"), "vector": one("vector", kind="vector")}
    kept = {
        "bug": [
            death(bug, "oracle s/B: own"),
            death(bug, "oracle s/B: another", ()),
            death(bug, "case c.json::B", ("WAL-001", "WAL-002")),
            death(bug, "oracle s/A: none"),
        ],
        "old": [death(known["old"], said="stale")],
        "vector": [death(known["vector"])],
    }
    found = coverage.ways(known, kept, lambda _, kept: [each for each in kept if each.said != "stale"])
    assert {id_: [(each.name, each.where, each.dead) for each in ways] for id_, ways in found.items()} == {
        "AMB-24": [("bug", "oracle s/B: own", True)],
        "WAL-001": [("bug", "case c.json::B", True), ("bug", "oracle s/B: own", True)],
        "WAL-007": [("old", "test t.py::test_old", False)],
    }


# Who is asked -------------------------------------------------------------------------------------------------------


def test_who_is_asked_is_who_is_wanted_and_again_all_that_ever_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = one("bug", kind="bug", killers=("oracle s/B: own",))
    kept = [death(bug, "oracle s/B: own"), death(bug, "oracle s/B: another", ()), death(bug, "case c.json::B", ("X",))]
    monkeypatch.setattr(deaths, "deaths", lambda: {each.key: each for each in kept})
    monkeypatch.setattr(deaths, "digest", lambda _planted, killer, _root: "1" if "c.json" in killer else "0" * 64)
    assert killing.asked([bug], again=False) == [(bug, ("case c.json::B",))]
    assert killing.asked([bug], again=True) == [(bug, ("oracle s/B: own", "case c.json::B"))]
    assert killing.asked([bug], again=False, survey=["case "]) == [(bug, ("case c.json::B", "case "))]


def test_a_bug_that_names_another_oracle_is_asked_again() -> None:
    bug = KNOWN["torn_entry"]
    own = replace(bug, thing=replace(cast("Bug", bug.thing), oracle="another"))
    kept = [each for each in deaths.deaths().values() if each.planted == bug.name]
    oracles = {each.killer for each in kept if each.killer.startswith("oracle ")}
    assert deaths.wanting(bug, kept) == {}
    assert deaths.wanting(replace(own, killers=()), kept) == {
        each.killer: "the bug has named another oracle since"
        for each in kept
        if each.killer in oracles and each.clauses is None
    }


def test_what_was_asked_and_did_not_notice_again_is_forgotten() -> None:
    bug = one("bug", kind="bug", killers=("oracle s/B: own",))
    before = [
        ("bug", "oracle s/B: own"),
        ("bug", "oracle s/B: gone"),
        ("bug", "case c.json::B"),
        ("b", "case c.json::B"),
    ]
    new = death(bug, "oracle s/B: own")
    attempt = Attempt(planted="bug", asked=("oracle s/B: own",), deaths=(new,), verdict="killed", message="", seconds=0)
    assert attempt.seen(before) == {before[0]: new, before[1]: None}


def test_a_reading_that_lives_is_kept_and_counts_as_no_death(monkeypatch: pytest.MonkeyPatch) -> None:
    def lives(turned: object) -> Noticed:
        return Noticed(scenario="one_writer", revision="B", oracles={}, explored="all 18 states")

    monkeypatch.setattr(killing.kills, "of_reading", lives)
    found = killing.attempt_of(("claim_barrier", ("oracle one_writer/B: ",)))
    assert [(each.killer, each.said, each.lives) for each in found.deaths] == [
        ("oracle one_writer/B: none", "all 18 states", True)
    ]
    assert found.verdict == "killed"


def test_an_oracle_that_does_not_notice_its_bug_leaves_it_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(bug: object) -> Noticed:
        return Noticed(scenario="one_writer", revision="B", oracles={"no process breaks": "9 steps"}, explored="…")

    monkeypatch.setattr(killing.kills, "of_bug", other)
    wanted = KNOWN["torn_entry"].killers
    found = killing.attempt_of(("torn_entry", wanted))
    assert (found.verdict, found.message) == ("survived", f"not by {wanted[0]}")
    assert [each.clauses for each in found.deaths] == [()]


@pytest.mark.parametrize(
    ("name", "case", "clauses"),
    [
        ("plain_names", "vectors/B/name/wal_entries/case.json::eval", ("WAL-013",)),
        ("B/wal_empty", "vectors/B/invalid/wal_empty/case.json::decode", ()),
        ("skipped_version", "scenarios/close_makes_durable.json::B", ("MANIFEST-020",)),
    ],
)
def test_a_case_of_the_suite_notices_through_the_messages_of_an_adapter(
    name: str, case: str, clauses: tuple[str, ...]
) -> None:
    found = broken_survey.survey(KNOWN[name], [case])
    assert found.keys() == {case}
    assert set(clauses) <= set(found[case])
    assert broken_survey.survey(KNOWN["no_barrier"], [case]) == {}


# The page and the command -------------------------------------------------------------------------------------------


def test_the_page_has_a_row_for_each_planted_thing() -> None:
    page = planted_page.current().splitlines()
    for each in KNOWN.values():
        assert any(row.startswith(f"| `{each.name}` |") for row in page), each.name


def test_the_page_says_what_nobody_has_seen_and_which_hazards_are_of_two_readings() -> None:
    names = ("claim_barrier", "no_barrier", "B/wal_empty")
    page = planted_page.planted_page({name: KNOWN[name] for name in names}, {}).splitlines()
    (barrier,) = [row for row in page if row.startswith("| `claim_barrier` |") and "two_writers_two_keys" in row]
    assert barrier.endswith("| `two_writers_two_keys` (`no_barrier`) | **not run** | **not run** | **not run** |")
    (bug,) = [row for row in page if row.startswith("| `no_barrier` |")]
    assert "acknowledged writes survive: **not seen**" in bug
    (vector,) = [row for row in page if row.startswith("| `B/wal_empty` |")]
    assert vector.endswith("| **no killer** |")


def test_the_page_counts_bugs_by_what_shows_them_as_the_deaths_are_now() -> None:
    bugs = [one(name, kind="bug") for name in "abcd"]
    kept = {
        "a": [death(bugs[0], "case scenarios/gate/c.json::B"), death(bugs[0], "case scenarios/c.json::B")],
        "b": [death(bugs[1], "case scenarios/gate/c.json::B"), death(bugs[1], "oracle s/B: x")],
        "c": [death(bugs[2], "oracle s/B: x")],
    }
    assert planted_page.shown(bugs, kept) == (
        "Cases find 2 of 4 bugs: 1 without the gate, and 1 only at the gate. No case finds the other 2."
    )


def test_what_only_one_oracle_notices_is_told() -> None:
    a, b = one("a", kind="bug"), one("b", kind="bug")
    kept = {
        "a": [death(a, "oracle s/B: x")],
        "b": [death(b, "oracle s/B: x"), death(b, "oracle s/B: y"), death(b, "case c::B")],
    }
    assert planted_page.alone([a, b], kept) == {"x": ["a"], "y": []}


def test_an_oracle_is_redundant_if_the_machine_notices_all_that_it_does_at_the_same_places() -> None:
    a, b = one("a", kind="bug"), one("b", kind="reading")
    machine = [death(a, f"oracle s/B: {REFINEMENT}"), death(b, f"oracle t/A: {REFINEMENT}")]
    kept = {
        "a": [machine[0], death(a, "oracle s/B: x"), death(a, "oracle s/B: y"), death(a, "case c::B")],
        "b": [machine[1], death(b, "oracle t/A: x"), death(b, "oracle t/B: y")],
    }
    assert planted_page.replaceable(kept) == {"x"}


def run(*words: str) -> tuple[int, str]:
    app = typer.Typer()
    commands(app)
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "TERM": "dumb"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, done.output


def test_planted_things_are_listed_by_kind_group_and_clause() -> None:
    found = json.loads(run("planted", "list", "--clause", "amb-24", "--kind", "bug", "--kind", "reading", "--json")[1])
    assert {"no_barrier", "claim_barrier"} <= {each["name"] for each in found}
    assert {each["kind"] for each in found} == {"bug", "reading"}
    adapters = json.loads(run("planted", "list", "--kind", "adapter", "--group", "GC", "--json")[1])
    assert [(each["name"], each["clauses"]) for each in adapters] == [("collects_early", ["GC-001"])]
    assert adapters[0]["deaths"][0]["killer"] == "case scenarios/collector_keeps_unmerged.json::B"
    assert adapters[0]["deaths"][0]["stale"] is False


def test_one_planted_thing_is_shown_with_who_noticed_it() -> None:
    status, text = run("planted", "show", "torn_entry")
    assert status == 0
    assert text.startswith("torn_entry  bug, an error of the engine  AMB-16, WAL-001\n")
    assert "\nby oracle one_writer/B: acknowledged writes survive: 9 steps, 0 switches, 10 states\n" in text
    assert "\ndefined in faults/bugs/wal/torn_entry.py\n" in text
    assert "\nnot by the suite: no message of the protocol" in run("planted", "show", "columns_changed_unfenced")[1]


CLAUSES = ("WAL-007", "WAL-007", "WAL-001")


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> dict[deaths.Key, Death | None]:
    """Three mutants: `first` was seen to die, `second` will be, `third` survives; and what is kept of them."""
    known = {
        name: one(name, clause) for name, clause in (("first", "WAL-007"), ("second", "WAL-007"), ("third", "WAL-001"))
    }
    kept: dict[deaths.Key, Death | None] = {}

    def trials(chosen: list[Mutant], workers: Workers) -> Iterator[Trial]:
        assert workers == ALONE
        for each in chosen:
            verdict = "survived" if each.name == "third" else "killed"
            yield Trial(mutant=each, verdict=verdict, message="assert 1 == 2", seconds=0.5, digest=f"d {each.name}")

    seen = {each.key: each for each in (death(known["first"]), death(known["third"]))}
    monkeypatch.setattr(planted, "register", lambda: known)
    monkeypatch.setattr(killing, "trials", trials)
    monkeypatch.setattr(deaths, "deaths", lambda: seen)
    monkeypatch.setattr(deaths, "digest", lambda each, _killer, _root: "0" * 64 if each.name == "first" else "new")
    monkeypatch.setattr(deaths, "record", lambda known, seen: kept.update(seen))
    return kept


@pytest.mark.parametrize("words", [("planted", "kill"), ("clauses", "break"), ("clauses", "prove")])
def test_what_is_known_to_be_killed_is_not_tried_again_and_a_survivor_ends_with_status_1(
    words: tuple[str, ...], tried: dict[deaths.Key, Death | None]
) -> None:
    status, text = run(*words)
    assert (status, text.splitlines()) == (
        1,
        [
            "killed    second  0.5 s  assert 1 == 2",
            "survived  third  0.5 s  assert 1 == 2",
            "1 of 2 killed; 1 were known to be",
        ],
    )
    second = Death(planted="second", killer="test t.py::test_second", digest="d second", said="assert 1 == 2")
    assert tried == {second.key: second, ("third", "test t.py::test_third"): None}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--again"], ["first", "second", "third"]),
        (["--clause", "wal-007"], ["second"]),
        (["--clause", "WAL-007", "--clause", "WAL-001"], ["second", "third"]),
        (["third"], ["third"]),
        (["--group", "wal", "--group", "FENCE", "second"], ["second"]),
        (["--kind", "mutant", "second"], ["second"]),
    ],
)
@pytest.mark.usefixtures("tried")
def test_planted_things_are_chosen_by_name_kind_group_and_clause(options: list[str], expected: list[str]) -> None:
    status, text = run("planted", "kill", "--json", *options)
    assert [each["name"] for each in json.loads(text)] == expected
    assert status == int("third" in expected)


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["fourth"], "there is no planted thing 'fourth'; choose one of first, second, third"),
        (["--kind", "mutants"], "there is no kind of planted thing 'mutants'; "),
        (["--kind", "bug", "first"], "no bug 'first'"),
        (["--group", "WALL"], "there is no group 'WALL'; choose one of REGION, WAL"),
        (["--clause", "WAL-002"], "nothing is planted for that"),
    ],
)
def test_what_is_not_planted_is_a_usage_error(options: list[str], complaint: str) -> None:
    status, text = run("planted", "kill", *options)
    assert status == 2
    assert complaint in " ".join(text.split())


@pytest.mark.usefixtures("tried")
def test_check_says_what_is_stale_and_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "marked", lambda: {"WAL-007": ("t.py::test_first", "t.py::test_second")})
    monkeypatch.setattr(deaths, "deaths", lambda _root=None: {})
    status, text = run("planted", "check")
    assert status == 1
    where = "conformance/mutants/WAL.toml: second: test t.py::test_second"
    assert f"{where}: it was not seen to notice: memwal conformance planted kill" in text.splitlines()


def test_an_engine_without_a_bug_passes_a_case_of_base_writes(tmp_path: Path) -> None:
    """The reference does not claim them, and a case that cannot be run here would seem to notice every bug."""
    found = broken_survey.judge("scenarios/base_rows_change_beside_merged_ones.json::B", tmp_path)
    assert found.verdict is Verdict.PASS


def test_a_bug_that_no_case_of_its_revision_shows_is_tried_with_the_cases_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = "scenarios/a_text_search_ranks_rows_of_all_sources_alike.json::A"
    of_b = "scenarios/a_text_search_finds_newest_rows.json::B"
    asked: list[str] = []

    def offered(revision: str) -> list[str]:
        asked.append(revision)
        return {"A": [ranks], "B": [of_b]}[revision]

    monkeypatch.setattr(broken_survey, "cases", offered)
    bug = KNOWN["statistics_of_each_source"]
    assert isinstance(bug.thing, Bug)
    assert bug.thing.revision == "B"
    assert broken_survey.survey(bug).keys() == {ranks}
    assert asked == ["B", "A"]
