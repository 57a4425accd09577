"""The clause registry: what the texts demand, which code carries it, and which tests are about it.

The registry is data (``conformance/clauses``): one file per group of clauses, ``ambiguities.toml`` for the notes of
SPEC_NOTES.md, ``seeds.toml`` for the texts that all of it was made from. Code and tests are never listed by hand:
code is what `memwal.clauses.implements` recorded, tests are what carries ``@pytest.mark.clause``. Marked tests are
found in the source (`marked`), so that a broken or missing optional dependency hides none of them.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from memwal import revisions
from memwal.errors import InvalidArgument, check_name
from memwal_sim.data import DataTable

from .texts import CLAUSES, entries, texts

ROOT = Path(__file__).resolve().parents[3]
"""The project's root folder."""
TESTS = ("reference/tests", "simulator/tests", "conformance/tests", "pipeline/tests")
"""Where tests live, below `ROOT`."""

GROUPS = {
    "REGION": "Regions, specs, expressions and transforms",
    "WAL": "Write-ahead log entries",
    "MANIFEST": "Region manifests and their versions",
    "FENCE": "Epochs, claims and fencing",
    "GEN": "Flushed MemTables (generations) and their layout",
    "FLUSH": "The MemTable flush",
    "WRITER": "Writer configuration and operations",
    "INDEX": "The MemWAL index and its details",
    "SNAP": "Region snapshots and their builder",
    "MERGE": "Merging generations into the base table",
    "CATCHUP": "Catch-up of base table indexes",
    "GC": "Garbage collection",
    "READ": "Merged reads and consistency",
    "PLAN": "Query planning and execution nodes",
    "TXN": "Commits and conflicts of the base table",
    "EXT": "The external manifest store",
    "FORMAT": "Table and file format facts",
    "LEGACY": "Revision 0",
}
"""Group of clauses -> what it is about, in the order of reading."""

_VALUES = {
    "level": ("MUST", "SHOULD", "MAY"),
    "kind": ("storage-layout", "algorithm", "invariant", "behaviour", "performance-intent"),
    "observable": ("artifact", "behaviour", "simulation", "inner"),
    "status": ("open", "excluded", "ambiguous", "unheld"),
    "severity": ("critical", "major", "minor"),
    "flaw": ("silence", "contradiction", "error"),
}
_REVISIONS = ("A", "B", "0", "T")
_NOTES = re.compile(r"AMB-([0-9]{2,3}(?:(?:, |-)[0-9]{2,3})*)(?![0-9])")
"""``AMB-07``, or several with the prefix once: ``AMB-07, 09, 13-15``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One statement of the texts that can be tested."""

    id: str
    """Group and number: ``FENCE-003``."""
    level: str
    """MUST, SHOULD or MAY (AMB-02)."""
    revisions: tuple[str, ...]
    """A, B, 0, or T for the table documents."""
    place: tuple[str, ...]
    """Where the texts say it: ``<name of the text>: <section>``."""
    kind: str
    observable: str
    """What can check it: bytes (artifact), an implementation's API (behaviour), chosen schedules (simulation), or only
    a look inside of an implementation (inner); why it cannot be seen outside is a comment of the entry."""
    statement: str
    """The statement in the project's own words."""
    ambiguities: tuple[str, ...]
    """Notes that limit or change the statement."""
    status: str
    """``open``, ``excluded``, ``ambiguous``, or ``unheld``: it does not hold yet. `status_of` adds ``tested``."""
    reason: str
    """Why it is excluded or ambiguous, or what does not hold; empty when open."""
    note: str
    """The note that an ambiguous clause waits for; empty otherwise."""

    @property
    def group(self) -> str:
        return self.id.rpartition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguity:
    """One note: a place where the texts are silent, unclear or contradict each other, and what the engine does."""

    number: int
    title: str
    kind: str
    """silence: the texts do not say it; contradiction: they say two things; error: what they say does not work."""
    severity: str
    """critical: acknowledged data lost or wrong results; major: no interoperation; minor: wording or scope."""
    resolution: str
    """What the engine does, in one sentence."""
    decided: bool
    """Whether code has taken the decision. `cited` must find evidence where this is true."""
    wording: str = ""
    """A sentence that the specification could have in this place; critical notes have one."""

    @property
    def id(self) -> str:
        return f"AMB-{self.number:02d}"


@cache
def ambiguities(folder: Path = CLAUSES) -> tuple[Ambiguity, ...]:
    """All notes, by number from 1 without a gap. Raises `InvalidArgument` naming file and entry."""
    found: list[Ambiguity] = []
    for entry in entries(folder / "ambiguities.toml", "ambiguity", "number"):
        note = Ambiguity(
            number=entry.need("number", int),
            title=entry.text("title"),
            kind=_word(entry, "flaw"),
            severity=_word(entry, "severity"),
            resolution=entry.text("resolution"),
            decided=entry.need("decided", bool),
            wording=entry.text("wording", ""),
        )
        if note.number != len(found) + 1:
            raise entry.wrong(f"the next number must be {len(found) + 1}")
        if note.severity == "critical" and not note.wording:
            raise entry.wrong("a critical note must propose a wording")
        entry.close()
        found.append(note)
    return tuple(found)


@cache
def clauses(folder: Path = CLAUSES) -> tuple[Clause, ...]:
    """All clauses, in the order of `GROUPS` and of their files; read once.

    Raises `InvalidArgument` naming file and entry.
    """
    known_notes = {note.id for note in ambiguities(folder)}
    known_texts = {text.name: text for text in texts(folder)}
    found: dict[str, Clause] = {}
    for group in GROUPS:
        for entry in entries(folder / f"{group}.toml", "clause", "id"):
            clause = _clause(entry)
            if not re.fullmatch(group + "-[0-9]{3}", clause.id) or clause.id in found:
                raise entry.wrong("the id is malformed, belongs to another group, or is used twice")
            if strange := set(clause.revisions) - set(_REVISIONS):
                raise entry.wrong(f"unknown revisions: {', '.join(sorted(strange))}")
            places = [place.partition(": ")[::2] for place in clause.place]
            if strange := {text for text, _ in places} - known_texts.keys():
                raise entry.wrong(f"unknown texts: {', '.join(sorted(strange))}")
            if strange := {at for text, at in places if known_texts[text].source and at not in known_texts[text].lines}:
                raise entry.wrong(f"sections without a line in seeds.toml: {', '.join(sorted(strange))}")
            if strange := {*clause.ambiguities, *filter(None, [clause.note])} - known_notes:
                raise entry.wrong(f"unknown notes: {', '.join(sorted(strange))}")
            if (clause.status == "open") == bool(clause.reason):
                raise entry.wrong("every clause that is not open needs a reason, and no other clause may have one")
            if (clause.status == "ambiguous") != bool(clause.note):
                raise entry.wrong("every ambiguous clause needs a note, and no other clause may have one")
            found[clause.id] = clause
    return tuple(found.values())


def sections(note: Ambiguity) -> tuple[str, ...]:
    """The sections that the clauses which name the note are from, as ``MemWAL revision B: WAL Entry``, sorted."""
    return tuple(sorted(_places().get(note.id, ())))


@cache
def _places() -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for clause in clauses():
        for note in clause.ambiguities:
            found.setdefault(note, set()).update(clause.place)
    return found


def _word(entry: DataTable, key: str, default: str | None = None) -> str:
    """The text ``key``, which is one of its `_VALUES`."""
    with entry.placed():
        check_name(key, word := entry.text(key, default), _VALUES[key])
    return word


def _clause(entry: DataTable) -> Clause:
    clause = Clause(
        id=entry.text("id"),
        level=_word(entry, "level"),
        revisions=entry.names("revisions"),
        place=entry.names("place"),
        kind=_word(entry, "kind"),
        observable=_word(entry, "observable"),
        statement=entry.text("statement"),
        ambiguities=entry.texts("ambiguities"),
        status=_word(entry, "status", "open"),
        reason=entry.text("reason", ""),
        note=entry.text("note", ""),
    )
    entry.close()
    return clause


def status_of(clause: Clause, tests: Mapping[str, tuple[str, ...]]) -> str:
    """``tested`` where ``tests`` (of `marked`) has one for the clause, else what the registry says.

    What does not hold is not called tested, whatever its tests look at.
    Raises `InvalidArgument` for a clause that is excluded and tested at once: one of the two is out of date.
    """
    if clause.id not in tests or clause.status == "unheld":
        return clause.status
    if clause.status == "excluded":
        raise InvalidArgument(
            f"{clause.group}.toml: {clause.id}: the clause is excluded, but {tests[clause.id][0]} tests it"
        )
    return "tested"


def implemented(about: str = "") -> dict[str, tuple[str, ...]]:
    """Clause or note id -> qualified names of the engine's code that carries it, sorted.

    Imports every module of the engine, or those that name ``about``; an import that fails is an error, never a gap in
    the result. Modules are left out whose packages come with an extra that is not installed.
    """
    import memwal
    from memwal.clauses import IMPLEMENTED
    from memwal.cli.endings import EXTRAS

    for path in sorted(file for folder in memwal.__path__ for file in Path(folder).rglob("*.py")):
        if path.stem != "__main__" and about.encode() in path.read_bytes():
            parts = path.relative_to(memwal.__path__[0]).with_suffix("").parts
            try:
                importlib.import_module(".".join(["memwal", *parts]).removesuffix(".__init__"))
            except ModuleNotFoundError as error:
                if error.name not in EXTRAS:
                    raise
    ours = {id_: tuple(sorted(n for n in names if n.startswith("memwal."))) for id_, names in IMPLEMENTED.items()}
    return {id_: names for id_, names in sorted(ours.items()) if names}


def in_checkout(root: Path = ROOT) -> bool:
    """Whether the project's sources are around the package: tests and mutants are there, and nowhere else."""
    return (root / "reference" / "tests").is_dir()


def marked(root: Path = ROOT, folders: Iterable[str] = TESTS, about: str = "") -> dict[str, tuple[str, ...]]:
    """Clause or note id -> ``<file>::<test>`` of every test that carries ``@pytest.mark.clause(<id>, …)``, sorted.

    Counts markers on test functions, on test classes, in ``pytestmark``, and in the parameters of ``parametrize``.
    ``about``: only files that name this one are read. A test that is skipped or expected to fail proves nothing and is
    left out. Raises `InvalidArgument` with file and
    line for a marker that is on no test or whose arguments are not literal texts.
    """
    found: dict[str, set[str]] = {}
    for name, source in _with_markers(root, folders, about):
        for id_, test in _markers(name, source):
            found.setdefault(id_, set()).add(f"{name}::{test}")
    return {id_: tuple(sorted(tests)) for id_, tests in sorted(found.items())}


def marked_files(root: Path = ROOT, folders: Iterable[str] = TESTS, about: str = "") -> dict[str, tuple[str, ...]]:
    """Clause or note id -> files with a test that `marked` finds: read by their words, in a twentieth of its time.

    A file with tests that are skipped or expected to fail is read as `marked` does it. A marker that is on no test
    counts here, and so does one in a text; ``clauses check`` refuses the first.
    """
    found: dict[str, list[str]] = {}
    for name, source in _with_markers(root, folders, about):
        if _LEFT_OUT.search(source):
            ids = {id_ for id_, _ in _markers(name, source)}
        else:
            ids = {id_ for marker in _MARKER.findall(source) for id_ in _QUOTED.findall(marker)}
        for id_ in ids:
            found.setdefault(id_, []).append(name)
    return {id_: tuple(files) for id_, files in sorted(found.items())}


_MARKER = re.compile(r"mark\.clause\(([^)]*)\)")
_QUOTED = re.compile(r"""["']([^"']+)["']""")
_LEFT_OUT = re.compile(r"mark\.(skip|xfail)\b")


def _with_markers(root: Path, folders: Iterable[str], about: str) -> Iterator[tuple[str, str]]:
    """Name and text of each file of tests that has a clause marker and names ``about``."""
    for path in sorted({path for folder in folders for path in (root / folder).rglob("test_*.py")}):
        source = path.read_text("utf-8")
        if "mark.clause" in source and about in source:
            yield path.relative_to(root).as_posix(), source


def _markers(file: str, source: str) -> Iterator[tuple[str, str]]:
    """Pairs of clause id and test; a test of a class is ``Class::test``."""
    module, seen = ast.parse(source, file), set[ast.Call]()

    def ids(nodes: Iterable[ast.AST]) -> list[str]:
        marks = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Call) and _is_mark(n.func, "clause")]
        seen.update(marks)
        for mark in marks:
            if not mark.args or mark.keywords or not all(_literal(a) for a in mark.args):
                raise InvalidArgument(f"{file}:{mark.lineno}: the arguments of a clause marker must be literal ids")
        return [str(_literal(a)) for mark in marks for a in mark.args]

    def walk(body: list[ast.stmt], prefix: str, inherited: list[str]) -> Iterator[tuple[str, str]]:
        own = inherited + ids(s.value for s in body if isinstance(s, ast.Assign) and _names(s, "pytestmark"))
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                marked = own + ids(node.decorator_list)
                if not any(_is_mark(d, "skip", "xfail") for d in node.decorator_list):
                    yield from ((id_, prefix + node.name) for id_ in marked)
            elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                mine = ids(node.decorator_list)
                inside = list(walk(node.body, f"{prefix}{node.name}::", own + mine))
                if mine and not inside and not node.bases:
                    raise InvalidArgument(f"{file}:{node.lineno}: the clause marker is on a class without tests")
                yield from inside or ((id_, prefix + node.name) for id_ in own + mine if node.bases)

    yield from walk(module.body, "", [])
    if source.count("mark.clause") == len(seen):
        return  # each one is on a test, and the rest of the file need not be looked through
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _is_mark(node.func, "clause") and node not in seen:
            raise InvalidArgument(f"{file}:{node.lineno}: this clause marker is on no test")


def _is_mark(node: ast.expr, *names: str) -> bool:
    """Whether ``node`` is ``pytest.mark.<name>``, called or not."""
    func = node.func if isinstance(node, ast.Call) else node
    marker = func.value if isinstance(func, ast.Attribute) and func.attr in names else None
    return isinstance(marker, ast.Attribute) and marker.attr == "mark"


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _names(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


def cited(root: Path = ROOT) -> dict[str, tuple[str, ...]]:
    """Note id -> modules of the engine that act on it, sorted: they name the note, or read its switch.

    `memwal.revisions` and `memwal.errors` only declare, so they count for nothing here.
    """
    package = root / "reference" / "memwal"
    readers = [(note, re.compile(rf"\.{field}\b")) for field, note in switches(root).items()]
    found: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        if path.parent == package and path.name in ("revisions.py", "errors.py"):
            continue
        module = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        source = path.read_text("utf-8")
        for note in {*_notes(source), *(note for note, reader in readers if reader.search(source))}:
            found.setdefault(note, set()).add(module)
    return {note: tuple(sorted(modules)) for note, modules in sorted(found.items())}


def _notes(source: str) -> Iterator[str]:
    """Ids of the notes that a text names."""
    for listed in _NOTES.findall(source):
        for part in listed.split(", "):
            first, _, last = part.partition("-")
            yield from (f"AMB-{number:02d}" for number in range(int(first), int(last or first) + 1))


def switches(root: Path = ROOT) -> dict[str, str]:
    """Field of `memwal.revisions.Interpretation` -> id of the note that its docstring names."""
    sources = root / "reference" / "memwal" / "revisions.py"
    if not sources.is_file():  # an installed package has no checkout around it
        sources = Path(revisions.__file__)
    source = sources.read_text("utf-8")
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == "Interpretation":
            for field, doc in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    text = _literal(doc.value) if isinstance(doc, ast.Expr) else None
                    if notes := list(_notes(text or "")):
                        found[field.target.id] = notes[0]
    return found
