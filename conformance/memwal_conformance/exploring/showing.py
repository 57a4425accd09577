"""Findings for people: a list of them, one whole, and its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from memwal.words import counted

from ..gate import LogEntry
from ..gate.log import text_of
from ..registry.clauses import clauses
from ..registry.levels import words
from ..registry.texts import links
from .findings import NO_FILE, ForeignFinding, matters

CUT = "a smaller life may show it, too: the time to look for one was over"
SENTENCE = 300
"""Characters of a sentence in a list."""


def log_of(found: ForeignFinding) -> str:
    """The log of a finding as text, with what each client got and who it says it is."""
    entries = [LogEntry.from_json(each) for each in found.log]
    lines = text_of(entries).splitlines()
    agents = [entry.agent.split(" ")[0] for entry in entries]
    return "".join(f"{line}  {agent}\n" if agent else f"{line}\n" for line, agent in zip(lines, agents, strict=True))


def write_logs(findings: Iterable[ForeignFinding], folder: Path) -> None:
    """A file beside ``findings.json`` for the log of each finding."""
    for each in findings:
        (folder / f"{each.number:02}.log").write_text(log_of(each), encoding="utf-8")


def listed(findings: Iterable[ForeignFinding], implementation: str) -> list[str]:
    """Two lines for each finding, the most severe first, and further in those that are one matter with it."""
    lines = []
    for matter in matters(findings):
        for each in matter:
            further = "" if each is matter[0] else "  "
            lines.append(f"{each.number:3}  {each.severity:<8}  {further}{_cut(each.sentence)}")
            lines.append(f"{'':15}{further}{'; '.join(_about(each, implementation))}")
    return lines


def _about(found: ForeignFinding, implementation: str) -> Iterator[str]:
    yield f"{implementation} {', '.join(found.versions)}"
    yield ", ".join(found.clauses) or "no clause"
    yield found.hit
    yield f"found {found.came}, seen in {counted(found.seen, 'run')}"
    if found.cut:
        yield CUT
    if found.note:
        yield f"the texts leave it open: {found.note}"
    if found.has_file:
        yield f"{found.number:02}.py {found.alone}"


def _cut(text: str) -> str:
    return text if len(text) <= SENTENCE else f"{text[:SENTENCE]} …"


def shown(found: ForeignFinding, whole: dict[str, Any], folder: Path) -> str:
    """One finding: what is wrong and which text says so, what shows it, what was asked, the bytes, the requests."""
    about = f"{whole['implementation']} {', '.join(found.versions)}, revision {whole['revision']}"
    life = found.life
    adapters = any(entry["actor"].endswith(" looking") for entry in found.log)
    lines = [
        f"{found.number}. {found.sentence}",
        "",
        f"{found.severity}, by {found.oracle}; {about}",
        f"life {life['name']}: {life['steps']}",
        f"plan: {found.plan['words']}",
        f"found {found.came}, seen in {counted(found.seen, 'run')}" + (f"; {CUT}" if found.cut else ""),
        *(f"  also: {each}" for each in found.also),
        *(f"  it also shows: {each}" for each in found.consequences),
        "",
        *_cited(found),
        "",
        "What was asked:",
        *(f"  {line.splitlines()[0][:160]}" for line in found.told),
        *_part("The bytes that were stored then:", found.decoded),
        "",
        "The requests around it" + (" (those of an actor that is looking are the adapter's own):" if adapters else ":"),
        *(f"  {line}" for line in log_of(found).splitlines()),
        *_part("Without our code:", list(_alone(found, folder))),
    ]
    return "\n".join(lines)


def _part(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _cited(found: ForeignFinding) -> Iterator[str]:
    known = {clause.id: clause for clause in clauses()}
    yield "What it breaks:" if found.clauses else "No clause is about it."
    for each in found.clauses:
        clause = known.get(each)
        yield f"  {each} ({clause.level}): {clause.statement}" if clause else f"  {each}"
        if clause is not None:
            public = links(clause.place)
            yield from (f"    {link}" for link in public)
            if not public:
                yield f"    {'; '.join(clause.place)}, of which no public file is known"
    if found.note:
        yield f"  The texts leave it open: {words(found.note)}"


def _alone(found: ForeignFinding, folder: Path) -> Iterator[str]:
    if found.alone == NO_FILE:
        yield "not to be had, since it needs an order of requests"
    elif found.has_file:
        yield f"{folder / f'{found.number:02}.py'} {found.alone}"
    for version, said in found.fresh.items():
        yield f"in a fresh environment with {version} and nothing else, the file {said}"
