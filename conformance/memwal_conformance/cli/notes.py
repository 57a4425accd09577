"""``memwal conformance notes`` and ``readings``: where the texts are silent, contradictory or wrong, and what is done.

Exit codes: 0 shown, 2 usage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from memwal.cli.terminal import entries, say
from memwal.errors import check_name
from memwal.words import counted
from memwal_sim.cli.terminal import Json, print_json

if TYPE_CHECKING:
    from ..registry.clauses import Ambiguity

app = typer.Typer(help="Show where the texts are silent, contradictory or wrong, and what the engine does there.")
KINDS = ("silence", "contradiction", "error")
SEVERITIES = ("critical", "major", "minor")


def commands(parent: typer.Typer) -> None:
    """Add ``notes`` and ``readings`` to ``parent``."""
    parent.add_typer(app, name="notes")
    parent.command()(readings)


@app.command("list")
def list_(
    kind: Annotated[str, typer.Option(help="silence, contradiction or error.")] = "",
    severity: Annotated[str, typer.Option(help="critical, major or minor.")] = "",
    section: Annotated[str, typer.Option(help="Words of a text or section, as in 'revision B' or 'WAL Entry'.")] = "",
    by_section: Annotated[
        bool, typer.Option("--by-section", help="List by section, in the order of the texts.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the notes: number, kind, severity, title."""
    from ..registry.clauses import ambiguities, sections

    for what, word, known in (("kind", kind, KINDS), ("severity", severity, SEVERITIES)):
        if word:
            check_name(what, word, known)
    chosen = [
        note
        for note in ambiguities()
        if kind in ("", note.kind)
        and severity in ("", note.severity)
        and (not section or any(section.lower() in each.lower() for each in sections(note)))
    ]
    if as_json:
        print_json([as_dict(note) for note in chosen])
        return
    if by_section:
        named = sorted({each for note in chosen for each in sections(note) if section.lower() in each.lower()})
        entries((each, "\n".join(_line(note) for note in chosen if each in sections(note))) for each in named)
    else:
        entries((f"{note.id}  {note.severity} {note.kind}", note.title) for note in chosen)
    say(counted(len(chosen), "note"))


@app.command()
def show(
    note: Annotated[str, typer.Argument(metavar="NOTE", help="Its number, such as AMB-24 or 24.")],
    as_json: Json = False,
) -> None:
    """Show one note: which sections it is about, what the engine does, and a wording for the texts."""
    from ..generated.notes import PAGE, hazards
    from ..registry.clauses import ambiguities, clauses, sections, switches
    from ..registry.texts import links

    known = {each.id: each for each in ambiguities()}
    wanted = f"AMB-{int(note):02d}" if note.isdecimal() else note.upper()
    check_name("note", wanted, known, listed_by="memwal conformance notes list")
    found = known[wanted]
    if as_json:
        print_json(as_dict(found))
        return
    say(f"{found.id}  {found.severity} {found.kind}", "bold")
    say(found.title)
    named = [each.id for each in clauses() if found.id in each.ambiguities]
    told = {
        "sections": sections(found),
        "public text": links(sections(found)),
        "clauses": named,
        "what the engine does": (found.resolution,),
        "proposed wording": (found.wording,) if found.wording else (),
        "readings": [field for field, of in switches().items() if of == found.id],
        "hazard shown by": hazards(found.id).get(found.id, ()),
        "more": (f"{PAGE.name}, section {found.id}",) if found.severity == "critical" else (),
    }
    for what, lines in told.items():
        if lines:
            say(what, "bold")
            for line in lines:
                say(f"  {line}")


def readings(as_json: Json = False) -> None:
    """List the readings that change behaviour: what `strict` does, what `literal` does, and the note that says why."""
    from memwal.revisions import PROFILES

    from ..registry.clauses import ambiguities, switches

    titles = {note.id: note.title for note in ambiguities()}
    told: list[dict[str, Any]] = [
        {
            "reading": field,
            "note": note,
            "title": titles[note],
            **{name: getattr(profile, field) for name, profile in PROFILES.items()},
        }
        for field, note in switches().items()
    ]
    if as_json:
        print_json(told)
        return
    entries(
        (
            f"{each['reading']}  {each['note']}, "
            + ", ".join(f"{name}: {str(each[name]).lower()}" for name in PROFILES),
            each["title"],
        )
        for each in told
    )
    say(f"{counted(len(told), 'reading')}; `memwal explore SCENARIO --reading NAME=false` changes one")


def as_dict(note: Ambiguity) -> dict[str, Any]:
    """A note as JSON."""
    from ..registry.clauses import clauses, sections

    return {
        "id": note.id,
        "title": note.title,
        "kind": note.kind,
        "severity": note.severity,
        "sections": list(sections(note)),
        "clauses": [each.id for each in clauses() if note.id in each.ambiguities],
        "resolution": note.resolution,
        "wording": note.wording or None,
        "decided": note.decided,
    }


def _line(note: Ambiguity) -> str:
    return f"{note.id} {note.title} ({note.severity} {note.kind})"
