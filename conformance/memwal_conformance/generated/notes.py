"""SPEC_NOTES.md: the evidence under each critical note, and the table of all other notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from memwal.errors import InvalidArgument
from memwal.words import counted
from memwal_sim import places
from memwal_sim.bugs import load as load_bugs
from memwal_sim.evidence import recorded
from memwal_sim.traces.sketch import sketch
from memwal_sim.traces.trace import load as load_trace

from ..registry.clauses import ROOT, Ambiguity, ambiguities, cited, marked, sections, switches
from ..registry.texts import link
from ..reporting import markdown

PAGE = ROOT / "SPEC_NOTES.md"

Evidence = Mapping[str, tuple[str, ...]]
"""Note id -> names of code or tests, sorted."""


def current() -> str:
    """The page as it should be now. Raises `InvalidArgument` for a note that is called decided without code."""
    notes, code = ambiguities(), cited()
    check_decisions(notes, code)
    return notes_page(PAGE.read_text("utf-8"), notes, code, marked(), hazards())


def notes_page(
    page: str, notes: Sequence[Ambiguity], code: Evidence, tests: Evidence, shown: Evidence | None = None
) -> str:
    """SPEC_NOTES.md with its generated parts renewed; ``page`` is its present text.

    ``shown``: what shows the hazard of a note: planted bugs in words.

    Raises `InvalidArgument` if the page lacks a section for a critical note, has one for another note, or titles one
    differently from the registry.
    """
    wanted = {note.id: note.title for note in notes if note.severity == "critical"}
    found = dict(re.findall(r"^### (AMB-[0-9]+)\. (.+)$", page, re.MULTILINE))
    if found != wanted:
        differing = sorted(set(found.items()) ^ set(wanted.items()))
        raise InvalidArgument(f"SPEC_NOTES.md: sections differ from ambiguities.toml: {differing}")
    for note in notes:
        if note.severity == "critical":
            page = _between(page, note.id, _evidence(note, code, tests, (shown or {}).get(note.id, ())))
    counts = Counter(note.severity for note in notes)
    decided = sum(note.decided for note in notes if note.severity == "critical")
    rows = [
        (
            note.id,
            markdown.cell(note.title),
            note.severity,
            note.kind,
            markdown.cell(note.resolution),
            "yes" if note.decided else "no",
        )
        for note in notes
        if note.severity != "critical" or not note.decided
    ]
    summary = (
        f"{len(notes)} notes: {counts['critical']} critical ({decided} decided in code), {counts['major']} major, "
        f"{counts['minor']} minor. The table has the {len(rows)} that are not critical, or not decided yet."
    )
    head = ("Note", "Title", "Severity", "Kind", "Resolution", "Decided in code")
    return _between(page, "table", [summary, "", *markdown.table(head, rows)])


def _evidence(note: Ambiguity, code: Evidence, tests: Evidence, shown: Sequence[str]) -> list[str]:
    """The generated lines of one section."""
    where = "no."
    if note.decided:
        names = [f"`Interpretation.{field}`" for field, of in switches().items() if of == note.id]
        where = (
            f"yes{', switch ' + ', '.join(names) if names else ''}; in {markdown.code(code.get(note.id, ()), ', ')}."
        )
    proofs = tests.get(note.id, ())
    about = [f"[{place}]({found})" if (found := link(place)) else place for place in sections(note)]
    lines = [f"- **Kind:** {note.kind}; about {_listed(about)}.", f"- **Proposed wording:** {note.wording}"]
    lines += [f"- **Decided in code:** {where}", f"- **Tests:** {markdown.code(proofs, ', ') or 'none yet'}."]
    lines.append(f"- **Hazard shown by:** {'; '.join(shown) or 'nothing yet'}.")
    return [*lines, *_picture(shown)]


def _picture(shown: Sequence[str]) -> list[str]:
    """The shortest history among those that show a hazard, as a picture."""
    files = [places.faults().parent / file for words in shown for file in re.findall(r"\]\((\S+\.jsonl)\)", words)]
    traces = [load_trace(file) for file in files]
    if not traces:
        return []
    return ["", "```mermaid", *sketch(min(traces, key=lambda trace: len(trace.steps))), "```"]


def worded(page: str) -> str:
    """``page`` with the title of each note in brackets that hold nothing but ids of notes."""
    titles = {note.id: markdown.cell(note.title.rstrip(".")) for note in ambiguities()}
    alone = re.compile(r"\((AMB-[0-9]+(?:, AMB-[0-9]+)*)\)")
    return alone.sub(lambda found: f"({'; '.join(f'{id_}, {titles[id_]}' for id_ in found[1].split(', '))})", page)


def _listed(places_: Sequence[str]) -> str:
    return "; ".join(places_) or "no clause of the registry"


def hazards(about: str = "AMB-") -> Evidence:
    """Note -> the planted bugs that read it the dangerous way, each with the scenario in which it is found.

    ``about``: with what the ids of the notes begin.
    """
    folder = places.faults()
    histories = recorded.wanted(folder, about)
    found: dict[str, list[str]] = {}
    for name, bug in sorted(load_bugs(folder / "bugs", about).items()):
        if bug.clause.startswith(about) and name in histories:
            if not histories[name].exists():
                raise InvalidArgument(f"the planted bug {name} has no recorded history yet: run `memwal docs gallery`")
            history = histories[name].relative_to(folder.parent).as_posix()
            steps = len(load_trace(histories[name]).steps)
            both = f" (two readings: {markdown.code(bug.readings, ' and ')})" if len(bug.readings) > 1 else ""
            words = f"planted bug `{name}`{both} in scenario `{bug.scenario}`, [{counted(steps, 'step')}]({history})"
            found.setdefault(bug.clause, []).append(words)
    return {note: tuple(words) for note, words in found.items()}


def _between(page: str, name: str, lines: Sequence[str]) -> str:
    """``page`` with ``lines`` between the markers of the generated part ``name``."""
    begin, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise InvalidArgument(f"SPEC_NOTES.md: no markers for the generated part {name!r}")
    return head + begin + "".join(f"{line}\n" for line in lines) + end + tail


def check_decisions(notes: Sequence[Ambiguity], code: Evidence) -> None:
    """Raise `InvalidArgument` for a note that is called decided although no code acts on it."""
    unfounded = [note.id for note in notes if note.decided and note.id not in code]
    if unfounded:
        raise InvalidArgument(f"ambiguities.toml: decided, but no module names them: {', '.join(unfounded)}")


def undecided(notes: Sequence[Ambiguity], code: Evidence) -> list[str]:
    """Notes that code names although ``decided`` is false, with the modules: candidates for a look."""
    return [f"{n.id} ({n.severity}): {', '.join(code[n.id])}" for n in notes if n.id in code and not n.decided]
