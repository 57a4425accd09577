"""How planted things died: ``conformance/deaths.jsonl``, a line for each that noticed one.

A death is good for what it stood on: the planted thing with the code that it changes, and what noticed it, which is a
test with its helpers, a scenario of the explorer, or a case of the suite. It is stale when one of them has changed;
comments and docstrings do not count. Of a reading it is kept, too, that no oracle objects in a scenario: it lives
there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memwal.errors import InvalidArgument

from ..registry.clauses import ROOT
from .anchors import without_prose
from .planted import Planted, stands_on

FILE = Path("conformance/deaths.jsonl")
"""Below the root: planted thing, killer, clauses or null, digest, and what the killer said."""
NONE = "none"
"""In place of an oracle, where none of a scenario objects to a reading."""
AGAIN = "memwal conformance planted kill"
Key = tuple[str, str]
"""Name of the planted thing, and its killer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How a planted thing was seen to be noticed."""

    planted: str
    killer: str
    digest: str
    said: str
    """What the killer said: the first line of a failure, the steps of a history."""
    clauses: tuple[str, ...] | None = None
    """The clauses that the killer named; None: it has no words for them, and the thing counts for all of its own."""

    @property
    def key(self) -> Key:
        """By what it is found in the record."""
        return self.planted, self.killer

    @property
    def lives(self) -> bool:
        """Nothing objected there."""
        return self.killer.endswith(f": {NONE}")


def digest(planted: Planted, killer: str, root: Path = ROOT) -> str:
    """Of all that a death stands on: 64 hexadecimal digits. Raises `InvalidArgument` if a part of it is not there."""
    try:
        parts = (*planted.parts(root), *stands_on(killer, root))
    except InvalidArgument as error:
        raise InvalidArgument(f"{planted.file}: {planted.name}: {error}") from error
    return hashlib.sha256("\0".join(map(without_prose, parts)).encode()).hexdigest()


def deaths(root: Path = ROOT) -> dict[Key, Death]:
    """All that are kept, also those that are stale by now."""
    path = root / FILE
    lines = path.read_text("utf-8").split("\n")[:-1] if path.is_file() else []
    found = [
        Death(
            planted=planted,
            killer=killer,
            clauses=None if clauses is None else tuple(clauses),
            digest=digest,
            said=said,
        )
        for planted, killer, clauses, digest, said in map(json.loads, lines)
    ]
    return {each.key: each for each in found}


def record(known: Mapping[str, Planted], seen: Mapping[Key, Death | None], root: Path = ROOT) -> None:
    """Keep what was ``seen`` (None: it was not noticed), and forget what is no longer asked about the ``known``."""
    kept: dict[Key, Death | None] = {**deaths(root), **seen}
    asked = {key for key in kept if key[0] in known and known[key[0]].asks(key[1])}
    found = [death for key, death in sorted(kept.items()) if death is not None and key in asked]
    lines = [json.dumps([d.planted, d.killer, d.clauses, d.digest, d.said], ensure_ascii=False) for d in found]
    (root / FILE).write_text("".join(f"{line}\n" for line in lines), "utf-8")


def by_name(kept: Mapping[Key, Death]) -> dict[str, list[Death]]:
    """Planted thing -> what is kept of it."""
    found: dict[str, list[Death]] = {}
    for death in kept.values():
        found.setdefault(death.planted, []).append(death)
    return found


def wanting(planted: Planted, kept: Iterable[Death], root: Path = ROOT) -> dict[str, str]:
    """Killer that is to be asked (again) -> why, given what is ``kept`` of the planted thing. Empty: all is known.

    Raises `InvalidArgument` for what is planted and does not fit any more.
    """
    seen = {death.killer: death for death in kept}
    found = {}
    for killer in planted.killers:
        if not any(each.startswith(killer) if killer.endswith(": ") else each == killer for each in seen):
            found[killer] = "it was not seen to notice"
    own = getattr(planted.thing, "oracle", None)
    for killer, death in seen.items():
        if death.digest != digest(planted, killer, root):
            found[killer] = "it has changed since, or what it looks at"
        elif own and killer.startswith("oracle ") and (death.clauses is None) is not killer.endswith(f": {own}"):
            found[killer] = "the bug has named another oracle since"
    return found


def fresh(planted: Planted, kept: Iterable[Death], root: Path = ROOT) -> list[Death]:
    """Those of the deaths that are ``kept`` of ``planted`` which are not stale."""
    try:
        return [death for death in kept if death.digest == digest(planted, death.killer, root)]
    except InvalidArgument:
        return []


def faults(known: Mapping[str, Planted], marked: Mapping[str, tuple[str, ...]], root: Path = ROOT) -> list[str]:
    """What is wrong with what is planted and what is kept, given clause -> tests that carry its marker."""
    found, kept = [], by_name(deaths(root))
    for planted in known.values():
        where, mine = f"{planted.file}: {planted.name}", kept.pop(planted.name, [])
        try:
            wanted = wanting(planted, mine, root)
        except InvalidArgument as error:
            found.append(str(error))
            continue
        for test in (killer.removeprefix("test ") for killer in planted.killers if planted.kind == "mutant"):
            unmarked = [clause for clause in planted.clauses if test not in marked.get(clause, ())]
            found += [f"{where}: {test} does not carry the marker of {clause}" for clause in unmarked]
        found += [f"{where}: {killer.rstrip(': ')}: {why}: {AGAIN}" for killer, why in wanted.items()]
        if planted.kind == "bug" and bool(planted.unseen) is any(each.killer.startswith("case ") for each in mine):
            ask = f"{AGAIN} {planted.name} --survey (and --gate)"
            found.append(f"{where}: a bug is seen by a case of the suite, or says in `unseen` why none shows it: {ask}")
    found += [f"{FILE}: {name} is not planted any more: {AGAIN}" for name in kept]
    return found
