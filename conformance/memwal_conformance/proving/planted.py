"""The register of planted things: all that is wrong on purpose, so that something has to notice.

There are five kinds (`KINDS`), and three that notice: an *oracle* of the simulator, when a scenario is explored with
the thing in the engine; a *test*, in a child process with the changed source; a *case* of the suite, through the
messages of an adapter that has it. What has noticed is a killer: ``test FILE::NAME``, ``case FILE::WHAT``, or
``oracle SCENARIO/REVISION: NAME``. `deaths` keeps which of them were seen.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from memwal.errors import InvalidArgument, check_name
from memwal.revisions import Interpretation
from memwal_sim import bugs, places
from memwal_sim.evidence import turned
from memwal_sim.outcomes import ENGINE_CLAUSE

from ..places import SUITE, vector_files
from ..registry.clauses import ROOT, switches
from ..vectors import case as vectors
from .footing import footing
from .mutants import Mutant, definitions, mutants

KINDS = {
    "reading": "an open question of the texts, answered the dangerous way",
    "bug": "an error of the engine",
    "adapter": "an adapter that answers wrongly",
    "vector": "bytes or a table that must be refused",
    "mutant": "a change of the source",
}
"""Kind of a planted thing -> what it is."""
ENGINE = ROOT / "reference" / "memwal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One thing that is wrong on purpose."""

    name: str
    """Unique among all kinds."""
    kind: str
    clauses: tuple[str, ...]
    """Clauses and notes that it breaks."""
    what: str
    """What is wrong, in one sentence."""
    file: str
    """Where it is defined, below the root of the checkout."""
    killers: tuple[str, ...]
    """What has to notice it; one that ends in ``: `` stands for any oracle there, or that none objects."""
    thing: Mutant | bugs.Bug | vectors.Vector | None = None
    """What is planted; None for a reading, which is a field of `Interpretation`, and for an adapter."""
    unseen: str = ""
    """Of a bug: why no case of the suite shows it."""

    def parts(self, root: Path = ROOT) -> Sequence[str]:
        """Texts of what is planted, and of what it changes. Raises `InvalidArgument` if that is not there any more."""
        match self.thing:
            case Mutant() as mutant:
                return mutant.parts(root)
            case bugs.Bug() as bug:
                return [*_of_bug(bug, root / self.file), *_originals(bug.replaced), *_looking_at(bug.readings)]
            case vectors.Vector() as vector:
                files = sorted(each for each in vector.folder.rglob("*") if each.is_file())
                return [hashlib.sha256(each.read_bytes()).hexdigest() for each in files]
            case None if self.kind == "adapter":
                from .defects import DEFECTS

                defect = DEFECTS[self.name]
                own = [each for each in (defect.plant, *defect.replaced.values()) if inspect.isfunction(each)]
                return [*map(inspect.getsource, own), *_originals(defect.replaced)]
            case None:
                return [self.name, *_looking_at([self.name])]

    def asks(self, killer: str) -> bool:
        """Whether ``killer`` may notice it: an oracle where it is looked for, and of a bug any case of the suite."""
        places = tuple(place_in(each) for each in self.killers)
        return killer.startswith(places) or (self.kind == "bug" and killer.startswith("case "))


def place_in(killer: str) -> str:
    """A killer without the name of the oracle."""
    place, colon, _ = killer.partition(": ")
    return f"{place}{colon}" if killer.startswith("oracle ") else killer


def stands_on(killer: str, root: Path = ROOT) -> Sequence[str]:
    """Texts of what notices: test and helpers, scenario, or case. Raises `InvalidArgument` if it is gone."""
    by, _, name = killer.partition(" ")
    if by == "test":
        return footing(root, name).sources
    if by == "oracle":
        from memwal_sim.scenarios import scenario as told

        return [told.text(name.partition("/")[0])]
    file = SUITE / name.partition("::")[0]
    if not file.is_file():
        raise InvalidArgument(f"there is no case {name}")
    return [_described(file)]


@functools.cache
def _described(file: Path) -> str:
    if file.name == "case.json":
        return file.read_text("utf-8")
    from ..running import scenarios

    return json.dumps(scenarios.load(file).described, sort_keys=True)


def register(root: Path = ROOT, about: str = "", *, vectors_too: bool = True) -> dict[str, Planted]:
    """Everything that is planted in the checkout at ``root``, by name; of other checkouts the mutants only.

    ``about``: only what breaks this clause or note, or the clauses of a group (``FENCE-``), so that other files are not
    read. Raises `InvalidArgument` for what cannot be read, and for two things of one name.
    """
    found: dict[str, Planted] = {}
    everything = [_readings, _bugs, _adapters, *([_vectors] if vectors_too else [])] if root == ROOT else []
    for each in (*(one for kind in everything for one in kind(about)), *map(of_mutant, mutants(root, about=about))):
        named = any(id_.startswith(about) for id_ in each.clauses) if about.endswith("-") else about in each.clauses
        if about and not named:
            continue
        if each.name in found:
            raise InvalidArgument(f"{each.file}: there is a {found[each.name].kind} called {each.name!r}, too")
        found[each.name] = each
    return found


def choose(names: Sequence[str], known: dict[str, Planted], kinds: Sequence[str] = ()) -> list[Planted]:
    """Those called ``names``, of these ``kinds``; none named: all. Raises `InvalidArgument` for an unknown name."""
    for kind in kinds:
        check_name("kind of planted thing", kind, KINDS)
    offered = {name: each for name, each in known.items() if not kinds or each.kind in kinds}
    for name in names:
        check_name(" or ".join(kinds) or "planted thing", name, offered, listed_by="memwal conformance planted list")
    return [each for name, each in offered.items() if not names or name in names]


def of_mutant(mutant: Mutant) -> Planted:
    """A mutant of the source as a planted thing."""
    return Planted(
        name=mutant.name,
        kind="mutant",
        clauses=mutant.clauses,
        what=mutant.what,
        file=f"conformance/mutants/{mutant.group}.toml",
        killers=(f"test {mutant.test}",),
        thing=mutant,
    )


def _readings(about: str) -> Iterator[Planted]:
    notes = switches()
    named = {field.name: tuple(filter(None, [notes.get(field.name)])) for field in fields(Interpretation)}
    wanted = {name for name, clauses in named.items() if not about or about in clauses}
    places_of: dict[str, list[str]] = {}
    known = _all_bugs() if wanted else {}
    for alone in turned.alone(known):
        places_of.setdefault(alone.reading, []).append(place_of(known[alone.bug].scenario, alone.revision))
    for name in named:
        if name in wanted and name in places_of:
            yield Planted(
                name=name,
                kind="reading",
                clauses=named[name],
                what=f"`{name}` is false, and nothing else is wrong.",
                file="reference/memwal/revisions.py",
                killers=tuple(f"oracle {place}: " for place in places_of[name]),
            )


@functools.cache
def _all_bugs() -> dict[str, bugs.Bug]:
    return bugs.load(places.faults() / "bugs")


def place_of(scenario: str, revision: str) -> str:
    """Where oracles look: a scenario under a revision."""
    return f"{scenario}/{revision}"


def _bugs(about: str) -> Iterator[Planted]:
    for name, bug in (bugs.load(places.faults() / "bugs", about) if about else _all_bugs()).items():
        own = places.faults() / "bugs" / bug.group / f"{name}.py"
        file = own if own.is_file() else own.with_name("readings.toml")
        yield Planted(
            name=name,
            kind="bug",
            clauses=tuple(dict.fromkeys(each for each in (bug.clause, bug.violated) if each != ENGINE_CLAUSE)),
            what=bug.what,
            file=file.relative_to(places.faults().parent).as_posix(),
            killers=(f"oracle {place_of(bug.scenario, bug.revision)}: {bug.oracle}",),
            thing=bug,
            unseen=bug.unseen,
        )


def _adapters(about: str) -> Iterator[Planted]:
    """What defects are said to be; the engine that they are planted in is not loaded for that."""
    source = Path(__file__).with_name("defects.py").read_text("utf-8")
    if about not in source:
        return
    for name, said in _said_of_defects(source):
        yield Planted(
            name=name,
            kind="adapter",
            clauses=(said["clause"],),
            what=said["sentence"],
            file="conformance/memwal_conformance/proving/defects.py",
            killers=(f"case {said['case']}",),
        )


def _said_of_defects(source: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The literals of `defects.DEFECTS`, by name."""
    assigned = [each for each in ast.parse(source).body if isinstance(each, ast.AnnAssign)]
    (table,) = (each.value for each in assigned if ast.unparse(each.target) == "DEFECTS")
    assert isinstance(table, ast.Dict)
    for name, call in zip(table.keys, table.values, strict=True):
        assert isinstance(call, ast.Call)
        literals = [each for each in call.keywords if isinstance(each.value, ast.Constant)]
        yield ast.literal_eval(name or ""), {str(each.arg): ast.literal_eval(each.value) for each in literals}


def _vectors(about: str) -> Iterator[Planted]:
    for file in vector_files():
        if file.parent.parent.name == "invalid" and about in file.read_text("utf-8"):
            vector, name = vectors.load(file), file.relative_to(SUITE).as_posix()
            yield Planted(
                name="/".join(file.parts[-4:-1]).replace("/invalid/", "/"),
                kind="vector",
                clauses=vector.clauses,
                what=vector.title,
                file=f"conformance/{name}",
                killers=tuple(f"case {name}::{direction}" for direction in vector.directions),
                thing=vector,
            )


def _of_bug(bug: bugs.Bug, file: Path) -> list[str]:
    """What it does and where it is looked for; what is said about it does not count."""
    where = [bug.scenario, bug.revision, str(bug.faults), *sorted(kind.label for kind in bug.kinds or ())]
    code = []
    if file.suffix == ".py":
        text = file.read_text("utf-8")
        spoken = (ast.Import, ast.ImportFrom, ast.Expr)
        nodes = [node for node in ast.parse(text).body if not isinstance(node, spoken)]
        code = [ast.get_source_segment(text, node) or "" for node in nodes[:-1]]
    return [*where, json.dumps(dict(bug.readings), sort_keys=True), *sorted(bug.replaced), *code]


@functools.cache
def _source(target: str) -> str:
    """The text of a definition of the engine, which is loaded only for one that is imported or inherited there."""
    module, _, dotted = target.partition(":")
    file = ENGINE.parent / f"{module.replace('.', '/')}.py"
    defined = definitions(file.read_text("utf-8")) if file.is_file() else {}
    texts = [text for (_, _, name), text in defined.items() if name == dotted.replace(".", "::")]
    return texts[-1] if texts else _source_of_loaded(target)


def _source_of_loaded(target: str) -> str:
    owner, name = bugs.owner(target)
    found: Any = inspect.getattr_static(owner, name)
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    try:
        return inspect.getsource(inspect.unwrap(found))
    except TypeError:
        return repr(found)


def _originals(replaced: Iterable[str]) -> list[str]:
    """What stands in the engine where something is replaced."""
    return [_source(target) for target in sorted(replaced)]


def _looking_at(readings: Iterable[str]) -> list[str]:
    """The definitions of the engine that ask for one of these readings."""
    return [text for name in sorted(readings) for text in _asking(name)]


@functools.cache
def _asking(reading: str) -> tuple[str, ...]:
    wanted = f".{reading}"
    return tuple(
        text
        for path, source in _engine().items()
        if wanted in source
        for (_, _, name), text in definitions(source).items()
        if wanted in text and name
    )


@functools.cache
def _engine() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in sorted(ENGINE.rglob("*.py"))}
