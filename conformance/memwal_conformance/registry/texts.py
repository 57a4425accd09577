"""The texts that the registry was made from: what pins each of them, and where it is public."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from memwal_sim.data import DataTable, load

from .. import places as suite

CLAUSES = suite.SUITE / "clauses"
"""The folder of the registry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One of the texts that the registry was made from."""

    name: str
    """How the project cites it."""
    title: str
    """The text's own title."""
    content: str
    """What it covers, in one sentence."""
    bytes: int
    """Length in bytes."""
    sha256: str
    """Digest of the bytes, 64 hexadecimal digits."""
    source: str = ""
    """Address of a public file that equals the text, at one commit; empty where none is known."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Section that a clause names -> its line in that file."""

    def link(self, section: str) -> str:
        """The address of a section; empty if the text has none."""
        return f"{self.source}?plain=1#L{self.lines[section]}" if self.source else ""


def entries(path: Path, array: str, name: str) -> tuple[DataTable, ...]:
    """The tables of ``array``, each named by its value of ``name``; nothing else may be in the file."""
    document = load(path)
    document.need(array, list)
    document.close()
    return document.tables(array, name)


@cache
def texts(folder: Path = CLAUSES) -> tuple[Text, ...]:
    """The pinned texts. Raises `InvalidArgument` naming file and entry."""
    found = []
    for entry in entries(folder / "seeds.toml", "text", "name"):
        text = Text(
            name=entry.text("name"),
            title=entry.text("title"),
            content=entry.text("content"),
            bytes=entry.need("bytes", int),
            sha256=entry.text("sha256"),
            source=entry.text("source", ""),
            lines=dict((lines := entry.table("lines")).fields),
        )
        if not re.fullmatch(r"[0-9a-f]{64}", text.sha256) or text.bytes <= 0:
            raise entry.wrong("sha256 or bytes is malformed")
        if bool(text.source) != bool(text.lines) or not all(type(n) is int and n > 0 for n in text.lines.values()):
            raise lines.wrong("lines are numbers from 1, and a text has them if it has a source")
        entry.close()
        found.append(text)
    return tuple(found)


def links(places: Iterable[str]) -> tuple[str, ...]:
    """Addresses of the sections that a clause names, each at one commit; none where no public file is known."""
    return tuple(found for place in places if (found := link(place)))


def link(place: str) -> str:
    """The address of one section, named as "MemWAL revision B: WAL Replay"; empty where no public file is known."""
    name, _, section = place.partition(": ")
    return next(text for text in texts() if text.name == name).link(section)
