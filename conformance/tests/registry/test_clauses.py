"""The registry, the markers and the generated pages agree with each other."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from memwal.errors import InvalidArgument
from memwal_conformance import matrix
from memwal_conformance.cli import commands
from memwal_conformance.generated import clause_matrix, notes
from memwal_conformance.proving import coverage, evidence
from memwal_conformance.proving.coverage import ClauseCoverage, Way
from memwal_conformance.proving.end_to_end import end_to_end
from memwal_conformance.registry import clauses as registry
from memwal_conformance.registry import texts
from memwal_conformance.reporting import markdown
from memwal_sim.traces.sketch import sketch
from memwal_sim.traces.trace import load as load_trace
from typer.testing import CliRunner

CRITICAL = {
    7, 9, 13, 14, 19, 21, 24, 25, 26, 28, 29, 30, 31, 33, 41, 46, 52, 54, 55, 59, 60, 66, 69, 70, 71, 76, 81, 84, 86,
    87, 88, 91, 92, 94, 99, 100, 101, 109, 113, 140, 142,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the registry that a test may damage."""
    return Path(shutil.copytree(texts.CLAUSES, tmp_path / "clauses"))


def damage(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")


def marked(tmp_path: Path, source: str) -> dict[str, tuple[str, ...]]:
    """What `marked` finds in one test file with this source."""
    file = tmp_path / "tests" / "test_example.py"
    file.parent.mkdir()
    file.write_text(source, "utf-8")
    return registry.marked(tmp_path, ["tests"])


def test_the_registry_has_every_clause_once() -> None:
    ids = [clause.id for clause in registry.clauses()]
    assert len(ids) == len(set(ids)) == 531


def test_the_registry_has_every_note_once_and_41_are_critical() -> None:
    found = registry.ambiguities()
    assert [note.number for note in found] == list(range(1, 151))
    assert {note.number for note in found if note.severity == "critical"} == CRITICAL


def test_the_texts_are_pinned_by_length_and_digest() -> None:
    pinned = {text.name: (text.bytes, text.sha256[:8]) for text in texts.texts()}
    assert pinned == {
        "MemWAL revision A": (53708, "9a21d494"),
        "MemWAL revision B": (33534, "e8003dca"),
        "MemWAL revision 0": (4785, "2692fd7f"),
        "table documents 1": (24088, "2f9c0b85"),
        "table documents 2": (16393, "a58954ff"),
    }


def test_everything_that_code_claims_to_implement_is_in_the_registry() -> None:
    known = {clause.id for clause in registry.clauses()} | {note.id for note in registry.ambiguities()}
    assert set(registry.implemented()) - known == set()


def test_everything_that_a_test_claims_to_prove_is_in_the_registry() -> None:
    known = {clause.id for clause in registry.clauses()} | {note.id for note in registry.ambiguities()}
    assert set(registry.marked()) - known == set()


def test_every_note_that_code_names_is_in_the_registry() -> None:
    assert set(registry.cited()) - {note.id for note in registry.ambiguities()} == set()


def test_every_switch_belongs_to_a_note() -> None:
    source = (registry.ROOT / "reference/memwal/revisions.py").read_text("utf-8")
    body = next(n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == "Interpretation").body
    fields = [n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    assert sorted(registry.switches()) == sorted(fields)
    assert registry.switches()["claim_barrier"] == "AMB-24"


def test_notes_are_found_in_lists_ranges_and_through_their_switches(tmp_path: Path) -> None:
    package = tmp_path / "reference" / "memwal"
    (package / "region").mkdir(parents=True)
    revisions = 'class Interpretation:\n    calm: bool = True\n    """AMB-50: yes."""\n'
    (package / "revisions.py").write_text(revisions, "utf-8")
    (package / "errors.py").write_text('"""AMB-60."""', "utf-8")
    (package / "region" / "wal.py").write_text('"""AMB-07, 09, 13-15."""', "utf-8")
    (package / "region" / "__init__.py").write_text("# AMB-100, 3 rows; AMB-101, AMB-07 and AMB-1234", "utf-8")
    (package / "keys.py").write_text("if interpretation.calm: ...", "utf-8")
    assert registry.cited(tmp_path) == {
        "AMB-07": ("memwal.region", "memwal.region.wal"),
        "AMB-09": ("memwal.region.wal",),
        "AMB-100": ("memwal.region",),
        "AMB-101": ("memwal.region",),
        "AMB-13": ("memwal.region.wal",),
        "AMB-14": ("memwal.region.wal",),
        "AMB-15": ("memwal.region.wal",),
        "AMB-50": ("memwal.keys",),
    }


def test_no_clause_is_excluded_and_tested_at_once() -> None:
    tests = registry.marked()
    statuses = {registry.status_of(clause, tests) for clause in registry.clauses()}
    assert statuses <= {"tested", "open", "excluded", "ambiguous", "unheld"}


def test_what_is_shown_of_one_clause_and_listed_of_all_is_what_the_whole_says() -> None:
    whole = {each.clause.id: each for each in coverage.coverages()}
    for id_ in ("WAL-001", "fence-003", "GC-010", "INDEX-017"):  # the first by included steps, too
        assert coverage.coverage_of(id_) == whole[id_.upper()]
    recorded = coverage.recorded()
    for each in recorded:
        full = whole[each.clause.id]
        assert (each.status, each.ways, each.tests) == (full.status, full.ways, full.tests), each.clause.id
    for quick in coverage.recorded(tests_too=False):
        full = whole[quick.clause.id]
        assert (quick.status, quick.planted, quick.tests) == (full.status, full.planted, ()), quick.clause.id
    of_group = {each.clause.id: each for each in coverage.recorded("GC")}
    assert of_group == {each.clause.id: each for each in recorded if each.clause.group == "GC"}


def test_files_with_marked_tests_are_found_by_their_words(tmp_path: Path) -> None:
    texts = {
        "test_plain.py": '@pytest.mark.clause("WAL-001",\n    "WAL-002")\ndef test_a(): ...\n',
        "test_off.py": '@pytest.mark.clause("WAL-001")\ndef test_b(): ...\n\n'
        '@pytest.mark.skip\n@pytest.mark.clause("WAL-003")\ndef test_c(): ...\n',
        "test_without.py": '"WAL-004"\n',
        "kit.py": '@pytest.mark.clause("WAL-005")\ndef test_d(): ...\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = registry.marked_files(tmp_path, ["."])
    assert found == {"WAL-001": ("test_off.py", "test_plain.py"), "WAL-002": ("test_plain.py",)}
    assert found.keys() == registry.marked(tmp_path, ["."]).keys()
    assert registry.marked_files(tmp_path, ["."], about="WAL-002").keys() == {"WAL-001", "WAL-002"}
    assert registry.marked_files().keys() == registry.marked().keys()


def test_a_list_of_one_group_parses_no_tests_that_do_not_name_its_clauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed, parse = list[str](), ast.parse
    monkeypatch.setattr(ast, "parse", lambda source, *rest: parsed.append(source) or parse(source, *rest))
    coverage.recorded("SNAP")
    tests = [source for source in parsed if "def test_" in source]
    assert tests
    assert [source[:80] for source in tests if "SNAP-" not in source] == []


def test_the_page_of_clauses_is_up_to_date() -> None:
    assert clause_matrix.PAGE.read_text("utf-8") == clause_matrix.current(), f"run: {matrix.command('clauses')}"


def test_the_notes_are_up_to_date_and_decisions_have_code() -> None:
    assert notes.PAGE.read_text("utf-8") == notes.current(), f"run: {matrix.command('notes')}"


def test_a_note_cannot_be_called_decided_without_code_that_names_it() -> None:
    known = registry.ambiguities()
    decided = next(note for note in known if note.decided)
    code = {id_: modules for id_, modules in registry.cited().items() if id_ != decided.id}
    with pytest.raises(InvalidArgument, match=f"no module names them: {decided.id}$"):
        notes.check_decisions(known, code)


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("FENCE.toml", 'id = "FENCE-002"', 'id = "FENCE-001"', r"FENCE.toml, clause 2 \(FENCE-001\): .* used twice"),
        ("FENCE.toml", 'id = "FENCE-002"', 'id = "WAL-002"', r"FENCE.toml, clause 2 \(WAL-002\): .* another group"),
        (
            "FENCE.toml",
            'level = "SHOULD"',
            'level = "should"',
            r"\(FENCE-002\): there is no level 'should'; choose one of MUST",
        ),
        ("FENCE.toml", 'kind = "performance-intent"\n', "", r"\(FENCE-002\): kind is missing"),
        ("FENCE.toml", 'level = "SHOULD"', "level = 2", r"\(FENCE-002\): level is not text: 2"),
        ("FENCE.toml", 'level = "SHOULD"', 'level = "SHOULD"\nlever = 2', r"\(FENCE-002\): there is no field 'lever'"),
        ("FENCE.toml", '"AMB-27"', '"AMB-999"', r"\(FENCE-001\): unknown notes: AMB-999"),
        ("FENCE.toml", 'place = ["MemWAL revision A: Region"]', 'place = ["MemWAL: Region"]', "unknown texts: MemWAL"),
        ("FENCE.toml", 'revisions = ["A"]', 'revisions = ["A", "A"]', "revisions is not a list of different texts"),
        ("FENCE.toml", 'revisions = ["A"]', "revisions = []", "revisions is not a list of different texts"),
        ("FENCE.toml", 'kind = "performance-intent"', 'kind = ""', "kind is empty"),
        ("FENCE.toml", 'revisions = ["A"]', 'revisions = ["C"]', r"\(FENCE-002\): unknown revisions: C"),
        (
            "FENCE.toml",
            'level = "SHOULD"',
            'level = "SHOULD"\nstatus = "excluded"',
            r"\(FENCE-002\): every clause that is not open needs a reason",
        ),
        (
            "FENCE.toml",
            'level = "SHOULD"',
            'level = "SHOULD"\nreason = "late"',
            r"\(FENCE-002\): every clause that is not open needs a reason",
        ),
        (
            "FENCE.toml",
            'level = "SHOULD"',
            'level = "SHOULD"\nstatus = "tested"',
            "there is no status 'tested'; choose one of open",
        ),
        (
            "FENCE.toml",
            'level = "SHOULD"',
            'level = "SHOULD"\nstatus = "ambiguous"\nreason = "open"',
            r"\(FENCE-002\): every ambiguous clause needs a note",
        ),
        (
            "ambiguities.toml",
            "number = 8\n",
            "number = 9\n",
            r"ambiguities.toml, ambiguity 8 \(9\): the next number must be 8",
        ),
        ("ambiguities.toml", "decided = false", "decided = 0", r"ambiguities.toml, .*: decided is not true or false"),
        ("seeds.toml", 'sha256 = "9a21', 'sha256 = "9A21', r"seeds.toml, text 1 \(MemWAL revision A\): sha256"),
        ("seeds.toml", "[[text]]", "[[texts]]", "seeds.toml: there is no field 'texts'; choose one of text"),
        ("seeds.toml", '"WAL" = 94', '"WAL" = 0', "lines are numbers from 1, and a text has them if it has a source"),
        ("seeds.toml", '"WAL" = 94\n', "", "sections without a line in seeds.toml: WAL"),
        ("seeds.toml", "[[text]]", "[[text]", "seeds.toml is not TOML: .*line"),
    ],
)
def test_a_damaged_registry_is_refused_with_file_and_entry(
    folder: Path, file: str, old: str, new: str, complaint: str
) -> None:
    damage(folder / file, old, new)
    with pytest.raises(InvalidArgument, match=complaint):
        registry.clauses(folder)


def test_an_excluded_clause_keeps_its_reason_and_must_not_be_tested(folder: Path) -> None:
    damage(folder / "FENCE.toml", 'level = "SHOULD"', 'level = "SHOULD"\nstatus = "excluded"\nreason = "no effect"')
    clause = next(c for c in registry.clauses(folder) if c.id == "FENCE-002")
    assert (registry.status_of(clause, {}), clause.reason) == ("excluded", "no effect")
    with pytest.raises(
        InvalidArgument, match=r"FENCE.toml: FENCE-002: the clause is excluded, but t.py::test_a tests it"
    ):
        registry.status_of(clause, {"FENCE-002": ("t.py::test_a",)})


def test_an_open_clause_is_tested_as_soon_as_one_test_marks_it() -> None:
    clause = registry.clauses()[0]
    assert registry.status_of(clause, {}) == "open"
    assert registry.status_of(clause, {clause.id: ("t.py::test_a",)}) == "tested"


def test_markers_count_on_functions_classes_parameters_and_modules(tmp_path: Path) -> None:
    source = """
import pytest
pytestmark = [pytest.mark.slow, pytest.mark.clause("M-1")]
@pytest.mark.clause("F-1", "F-2")
def test_a(): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.clause("P-1")), 2])
async def test_b(x): ...
@pytest.mark.clause("C-1")
class TestC:
    @pytest.mark.clause("C-2")
    def test_d(self): ...
@pytest.mark.clause("S-1")
class TestStates(Machine.TestCase): ...
@pytest.mark.clause("F-1")
@pytest.mark.skip(reason="off")
def test_e(): ...
def helper(): ...
"""
    f = "tests/test_example.py::"
    assert marked(tmp_path, source) == {
        "C-1": (f + "TestC::test_d",),
        "C-2": (f + "TestC::test_d",),
        "F-1": (f + "test_a",),
        "F-2": (f + "test_a",),
        "M-1": (f + "TestC::test_d", f + "TestStates", f + "test_a", f + "test_b"),
        "P-1": (f + "test_b",),
        "S-1": (f + "TestStates",),
    }


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("@pytest.mark.clause(*IDS)\ndef test_a(): ...", r"test_example.py:1: the arguments of a clause marker"),
        ("@pytest.mark.clause()\ndef test_a(): ...", r"test_example.py:1: the arguments of a clause marker"),
        ("\n@pytest.mark.clause('A-1')\ndef helper(): ...", r"test_example.py:2: this clause marker is on no test"),
        ("x = pytest.mark.clause('A-1')", r"test_example.py:1: this clause marker is on no test"),
        ("@pytest.mark.clause('A-1')\nclass TestA: ...", r"test_example.py:2: .* on a class without tests"),
    ],
)
def test_a_marker_that_cannot_be_attributed_is_refused(tmp_path: Path, source: str, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        marked(tmp_path, source)


def bug(name: str, *, dead: bool) -> Way:
    return Way(name=name, kind="bug", what="Wrong.", where="oracle one/B: all is well", dead=dead)


def test_a_page_shows_everything_that_stands_behind_a_clause(registered: tuple[ClauseCoverage, ...]) -> None:
    page = clause_matrix.clauses_page(registered)
    row = next(line for line in page.splitlines() if line.startswith("| FENCE-002 |"))
    assert row.endswith(
        "| `region.claim.claim` | `reference/tests/test_writer.py::test_a_claim` | `scenarios/a.json`<br>"
        "`scenarios/b.json`<br>`scenarios/c.json`<br>`scenarios/d.json`<br>and 1 more "
        "| `keeps_epoch` | tested, end to end |"
    )
    assert "| FENCE | 22 | 2 of 21 | 1 of 1 | – | 2 of 22 | 1 | 1 | 19 | 0 | 0 | 0 |" in page.splitlines()
    assert "| SHOULD | 34 | 1 of 34 | 1 of 34 | 31 | 0 | 1 | 1 |" in page.splitlines()
    assert (
        "**3 of 531 clauses are tested, 2 of 478 MUST; 2 of 531 are mutation-checked, 1 MUST in one way only;" in page
    )
    assert "0 of 2 MUST that a user can see are tested end to end; 12 do not hold yet" in page


def test_a_tested_clause_without_a_dead_planted_bug_is_shown_as_unchecked(
    registered: tuple[ClauseCoverage, ...],
) -> None:
    page = clause_matrix.clauses_page(registered)
    row = next(line for line in page.splitlines() if line.startswith("| FENCE-003 |"))
    assert row.endswith("| `t.py::test_b` |  |  | tested, *unchecked*, inner |")


def test_a_must_that_was_broken_in_one_way_is_shown_so(registered: tuple[ClauseCoverage, ...]) -> None:
    rows = {line[2:11]: line for line in clause_matrix.clauses_page(registered).splitlines()}
    assert rows["FENCE-004"].endswith("| `one` | tested, one way, inner |")
    twice = (bug("one", dead=True), replace(bug("one", dead=True), where="case two.json::B"), bug("two", dead=True))
    both = tuple(replace(each, planted=twice) if each.clause.id == "FENCE-004" else each for each in registered)
    assert "| `one`<br>`two` | tested, inner |" in clause_matrix.clauses_page(both)


def test_what_does_not_hold_is_neither_tested_nor_mutation_checked_and_says_why(
    registered: tuple[ClauseCoverage, ...],
) -> None:
    broken = (bug("x", dead=True),)
    known = tuple(replace(each, planted=broken) if each.clause.id == "INDEX-017" else each for each in registered)
    row = next(line for line in clause_matrix.clauses_page(known).splitlines() if line.startswith("| INDEX-017 |"))
    assert " | **does not hold yet**: A MemTable keeps a filter over its keys" in row
    assert not next(each for each in known if each.clause.id == "INDEX-017").mutation_checked
    clause = next(each for each in registry.clauses() if each.id == "INDEX-017")
    assert registry.status_of(clause, {"INDEX-017": ("t.py::test_a",)}) == "unheld"


@pytest.fixture
def registered(folder: Path) -> tuple[ClauseCoverage, ...]:
    """The registry with nothing tested but three clauses, of which two are mutation-checked, one of them twice."""
    cases = tuple(f"scenarios/{letter}.json" for letter in "abcde")
    known = {
        "FENCE-002": {
            "status": "tested",
            "code": ("memwal.region.claim.claim",),
            "tests": ("reference/tests/test_writer.py::test_a_claim",),
            "cases": cases,
            "end_to_end": cases,
            "planted": (bug("keeps_epoch", dead=True), bug("sleeps", dead=False)),
        },
        "FENCE-003": {"status": "tested", "tests": ("t.py::test_b",), "planted": (bug("lives", dead=False),)},
        "FENCE-004": {"status": "tested", "tests": ("t.py::test_c",), "planted": (bug("one", dead=True),)},
    }
    plain = [ClauseCoverage(clause=c, status=c.status) for c in registry.clauses(folder)]
    return tuple(replace(each, **known.get(each.clause.id, {})) for each in plain)


# The evidence for a clause --------------------------------------------------------------------------------------


def test_a_test_is_end_to_end_if_it_uses_the_public_interface_and_nothing_else_of_the_engine(tmp_path: Path) -> None:
    tests = tmp_path / "reference/tests"
    tests.mkdir(parents=True)
    (tests / "__init__.py").touch()
    (tests / "scenes.py").write_text(
        "import memwal\nfrom memwal.drive import drive\n"
        "def table(path): return memwal.create(path)\ndef inner(): return drive\n"
    )
    (tests / "test_a.py").write_text(
        "import memwal\nimport subprocess\nfrom memwal.errors import Fenced\nfrom memwal.region import flush\n"
        "from .scenes import inner, table\n"
        "def test_public(tmp_path): table(tmp_path).scan(); memwal.verify(tmp_path); Fenced\n"
        "def test_command(): subprocess.run(['memwal', 'verify'])\n"
        "def test_function(): flush.write_generation()\n"
        "def test_helper(tmp_path): table(tmp_path); inner()\n"
        "def test_errors_only(): Fenced\n"
    )
    names = [f"reference/tests/test_a.py::test_{name}" for name in ("public", "command", "function", "helper")]
    names.append("reference/tests/test_a.py::test_errors_only")
    assert end_to_end(names, ("scenarios/a.json", "vectors/b"), tmp_path) == (*names[:2], "scenarios/a.json")


def test_the_cases_of_the_suite_are_read_once_for_all_that_asks_which_clauses_they_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    monkeypatch.setattr(evidence, "cited", lambda: read.append("suite") or {"FENCE-001": ("one.json",)})
    monkeypatch.setattr(coverage, "marked", dict)
    monkeypatch.setattr(coverage, "named", functools.cache(coverage.named.__wrapped__))
    fence = next(each for each in coverage.coverages.__wrapped__() if each.clause.id == "FENCE-001")
    coverage.named()
    assert (read, fence.cases) == (["suite"], ("one.json",))


def test_a_must_that_is_open_is_a_fault_and_a_should_is_none(registered: tuple[ClauseCoverage, ...]) -> None:
    found = coverage.faults(registered, {})
    assert "FENCE-001: a MUST that is neither tested, nor excluded, nor ambiguous" in found
    assert not [line for line in found if line.startswith("FENCE-002")]
    musts = sum(each.clause.level == "MUST" and each.status == "open" for each in registered)
    assert found[musts:] == [
        "FENCE-003: a tested MUST, and nothing that breaks it is known to be noticed",
        "FENCE-004: a tested MUST that is broken in one way only: one",
    ]


def broken_by(registered: tuple[ClauseCoverage, ...], *names: str) -> tuple[ClauseCoverage, ...]:
    planted = tuple(bug(name, dead=True) for name in names)
    return tuple(replace(each, status="tested", planted=planted) for each in registered)


def test_a_must_that_is_broken_in_one_way_only_is_a_fault(registered: tuple[ClauseCoverage, ...]) -> None:
    one = next(each for each in broken_by(registered, "x", "x") if each.clause.id == "FENCE-001")
    assert coverage.faults([one], {}) == ["FENCE-001: a tested MUST that is broken in one way only: x"]
    should = next(each for each in broken_by(registered, "x") if each.clause.id == "FENCE-002")
    assert coverage.faults([should], {}) == []
    assert coverage.faults(broken_by(registered, "x", "y"), {}) == []


def test_a_name_that_the_registry_does_not_have_is_a_fault(registered: tuple[ClauseCoverage, ...]) -> None:
    settled = broken_by(registered, "x", "y")
    names = {"a test": ["WAL-001", "WAL-999", "AMB-24"], "a planted bug": ["FENCE-1"]}
    assert coverage.faults(settled, names) == [
        "WAL-999: a test names it, the registry does not have it",
        "FENCE-1: a planted bug names it, the registry does not have it",
    ]


def test_the_texts_are_found_by_their_digests_whatever_their_names(tmp_path: Path) -> None:
    data = {"one": b"first text", "two": b"second text"}
    pinned = [
        texts.Text(name=name, title=name, content="c", bytes=len(d), sha256=hashlib.sha256(d).hexdigest())
        for name, d in data.items()
    ]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "renamed.md").write_bytes(data["one"])
    (tmp_path / "two.md").write_bytes(data["two"] + b"!")
    (wrong,) = coverage.differing(tmp_path, pinned)
    assert wrong.startswith("two: no file in ")
    with pytest.raises(InvalidArgument, match="is not a folder"):
        coverage.differing(tmp_path / "nowhere", pinned)


def test_a_section_that_is_not_in_its_line_of_the_text_is_a_fault(tmp_path: Path) -> None:
    data = b"# A\n\n## Appendix 1: More\n"
    (tmp_path / "a.md").write_bytes(data)
    lines = {"A": 1, "Appendix 1": 3, "B": 2, "C": 9}
    digest = hashlib.sha256(data).hexdigest()
    pinned = texts.Text(name="a", title="a", content="c", bytes=len(data), sha256=digest, source="x", lines=lines)
    assert coverage.differing(tmp_path, [pinned]) == ["a: line 2 is no heading 'B'", "a: line 9 is no heading 'C'"]


def test_a_clause_links_to_its_section_in_the_public_text_at_one_commit() -> None:
    (link,) = texts.links(("MemWAL revision A: WAL", "MemWAL revision B: WAL Durability"))
    assert re.fullmatch(r"https://github\.com/lancedb/lance/blob/[0-9a-f]{40}/.*/mem_wal\.md\?plain=1#L100", link)


# The command ------------------------------------------------------------------------------------------------------


def run(*words: str) -> tuple[int, str]:
    app = typer.Typer()
    commands(app)
    done = CliRunner().invoke(app, ["clauses", *words], env={"COLUMNS": "200", "TERM": "dumb"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, done.output


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, registered: tuple[ClauseCoverage, ...]) -> None:
    """The command sees the registry of the test."""
    monkeypatch.setattr(
        coverage,
        "recorded",
        lambda group, **_: tuple(each for each in registered if group in ("", each.clause.group)),
    )
    monkeypatch.setattr(coverage, "_covered", lambda clause, _: {each.clause: each for each in registered}[clause])
    monkeypatch.setattr(coverage, "named", lambda: coverage.Named(code={}, tests={}, cases={}, planted={}))
    monkeypatch.setattr(coverage, "coverages", lambda: registered)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (("--group", "fence", "--status", "tested"), ["FENCE-002", "FENCE-003", "FENCE-004"]),
        (("--status", "mutation-checked"), ["FENCE-002", "FENCE-004"]),
        (("--status", "tested", "--ways", "0"), ["FENCE-003"]),
        (("--ways", "1", "--level", "MUST"), ["FENCE-004"]),
        (("--status", "unheld", "--group", "INDEX"), ["INDEX-017"]),
        (("--group", "FENCE", "--level", "should"), ["FENCE-002"]),
        (("--group", "LEGACY", "--status", "mutation-checked"), []),
        (("--status", "tested", "--revision", "A", "--kind", "performance-intent"), ["FENCE-002"]),
        (("--status", "tested", "--revision", "B"), ["FENCE-004"]),
    ],
)
def test_list_chooses_by_all_filters_at_once(words: tuple[str, ...], ids: list[str]) -> None:
    status, text = run("list", *words, "--json")
    assert (status, [each["id"] for each in json.loads(text)]) == (0, ids)


@pytest.mark.usefixtures("small")
def test_show_names_everything_and_says_what_was_not_noticed() -> None:
    status, text = run("show", "fence-002")
    assert status == 0
    assert text.startswith("FENCE-002  SHOULD  performance-intent  tested, mutation-checked\n")
    for line in (
        "  MemWAL revision A: Region",
        "  memwal.region.claim.claim",
        "  scenarios/e.json",
        "  noticed: bug keeps_epoch by oracle one/B: all is well: Wrong.",
        "  NOT NOTICED: bug sleeps by oracle one/B: all is well: Wrong.",
    ):
        assert line in text.splitlines()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("show", "FENCE-999"), "no clause 'FENCE-999'; there are 531 others. Did you mean 'FENCE-0"),
        (
            ("list", "--status", "dead"),
            "no status 'dead'; choose one of ambiguous, excluded, mutation-checked, open, tested, unchecked, unheld",
        ),
        (("matrix", "--format", "pdf"), "there is no format 'pdf'; choose one of md, html, json"),
        (("check", "--seeds", "nowhere"), "nowhere is not a folder"),
    ],
)
def test_what_does_not_exist_is_a_mistake_of_usage(
    words: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "out_of_date", list)
    status, text = run(*words)
    assert (status, complaint in " ".join(text.split())) == (2, True), text


@pytest.mark.usefixtures("small")
def test_the_matrix_is_written_in_three_formats(tmp_path: Path) -> None:
    for format_ in ("md", "html", "json"):
        assert run("matrix", "--format", format_, "--out", str(tmp_path / format_)) == (0, "")
    assert (tmp_path / "md").read_text("utf-8").startswith("# Clauses\n")
    assert len(json.loads((tmp_path / "json").read_text("utf-8"))) == 531
    page = (tmp_path / "html").read_text("utf-8")
    assert page.count('<tr id="') == 531
    assert ("1 tests" in page, "1 cases" in page, "1 test, " in page) == (False, False, True)
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")


@pytest.mark.usefixtures("small")
def test_check_names_what_does_not_hold_and_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "out_of_date", lambda: ["native"])
    for words in (("check",), ("--check",)):
        status, text = run(*words)
        assert status == 1
        assert "FENCE-001: a MUST that is neither tested" in text
        assert "native_matrix.md is out of date: python -m memwal_conformance.matrix native --write" in text


def test_check_ends_with_status_0_when_all_holds(
    monkeypatch: pytest.MonkeyPatch, registered: tuple[ClauseCoverage, ...], tmp_path: Path
) -> None:
    settled = broken_by(registered, "x", "y")
    monkeypatch.setattr(coverage, "coverages", lambda: settled)
    monkeypatch.setattr(coverage, "named", lambda: coverage.Named(code={}, tests={}, cases={}, planted={}))
    monkeypatch.setattr(coverage, "differing", lambda seeds: [])
    monkeypatch.setattr(matrix, "out_of_date", list)
    status, text = run("check", "--seeds", str(tmp_path))
    assert (status, text.startswith("531 of 531 clauses are tested")) == (0, True), text


def test_every_must_is_tested_and_proven_or_settled() -> None:
    assert coverage.faults(coverage.coverages(), coverage.named().by_whom()) == []


def test_a_table_cell_shows_its_text_unchanged() -> None:
    assert markdown.cell("a|b <= `_c*|<` *_gen_* d_e") == r"a\|b \<= `_c*\|<` \*\_gen_\* d_e"


def test_every_critical_note_has_a_section_with_all_of_its_parts() -> None:
    page = notes.PAGE.read_text("utf-8")
    sections = re.split(r"^### ", page.partition("\n## Choices")[0], flags=re.MULTILINE)[1:]
    assert {int(section[4:].partition(".")[0]) for section in sections} == CRITICAL
    for section in sections:
        parts = re.findall(r"^- \*\*(.+?)\.\*\*|^- \*\*(.+?):\*\*", section, re.MULTILINE)
        names = [first or second for first, second in parts]
        generated = ["Kind", "Proposed wording", "Decided in code", "Tests"]
        assert names[:8] == ["Texts", "Readings", "Choice", "Effect", *generated], section


def test_a_section_for_a_note_of_another_title_is_refused() -> None:
    page = notes.PAGE.read_text("utf-8")
    renamed = page.replace("### AMB-24. A zombie", "### AMB-24. The zombie")
    assert renamed != page
    with pytest.raises(InvalidArgument, match=r"sections differ from ambiguities.toml: .*The zombie"):
        notes.notes_page(renamed, registry.ambiguities(), {}, {})


def test_check_reports_a_difference_with_status_1_and_write_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = matrix.GeneratedPage(tmp_path / "clauses.md", lambda: "# Clauses\n")
    monkeypatch.setattr(matrix, "pages", lambda: {"clauses": page})
    assert matrix.main(["clauses", "--check"]) == 1
    assert "+# Clauses" in capsys.readouterr().out
    assert matrix.out_of_date() == ["clauses"]
    assert matrix.main(["clauses", "--write"]) == 0
    assert matrix.main(["clauses", "--check"]) == 0
    assert matrix.out_of_date() == []
    assert capsys.readouterr().out == ""


def test_notes_are_listed_by_kind_and_section_and_shown_with_a_wording() -> None:
    def shown(*words: str) -> str:
        app = typer.Typer()
        commands(app)
        done = CliRunner().invoke(app, list(words), env={"COLUMNS": "100"})
        assert done.exit_code == 0, done.output
        return done.stdout

    known = json.loads(shown("notes", "list", "--json"))
    assert len(known) == len(registry.ambiguities())
    assert {note["kind"] for note in known} == {"silence", "contradiction", "error"}
    assert [note["id"] for note in known if note["severity"] == "critical" and not note["wording"]] == []
    in_section = json.loads(shown("notes", "list", "--section", "revision b: wal replay", "--json"))
    assert in_section
    assert all("MemWAL revision B: WAL Replay" in note["sections"] for note in in_section)
    by_section = shown("notes", "list", "--by-section", "--section", "Initialization")
    assert by_section.index("MemWAL revision A: Init") < by_section.index("AMB-09") < by_section.index("AMB-24")
    one = shown("notes", "show", "24")
    assert "docs/src/format/table/mem_wal.md?plain=1#L" in one
    assert "AMB-24  critical error" in one
    assert "A claim is complete only when its writer has put an entry without rows" in one
    assert "claim_barrier" in one
    told = {each["reading"]: each for each in json.loads(shown("readings", "--json"))}
    assert (told["claim_barrier"]["strict"], told["claim_barrier"]["literal"]) == (True, False)


def test_a_sketch_has_what_changes_the_store_and_ends_with_the_violation() -> None:
    file = registry.ROOT / "faults/recorded/fencing/zombie_append.jsonl"
    lines = sketch(load_trace(file))
    assert lines[:4] == [
        "sequenceDiagram",
        "    participant P0 as writer-1",
        "    participant P1 as writer-2",
        "    participant S as store",
    ]
    assert "    P0->>S: 14 put_if_absent wal/@0" in lines
    assert not [line for line in lines if " get " in line]
    assert lines[-1].startswith("    Note over P0,S: violated: ")
