"""A recorded history in a few lines of Mermaid: what changed the store, what failed, and what processes reported.

For pages with many histories. It is made of the trace alone, and runs nothing; `memwal_sim.viewer` draws every request.
"""

from __future__ import annotations

from .trace import Trace

CHANGES = frozenset({"put", "put_if_absent", "delete", "copy", "rename_if_absent"})
"""Operations that may change the store."""
TOLD = ("claimed", "recovered", "write_acknowledged", "flushed", "merged", "read_answered")
"""Events that are worth a line; others are left out."""
MOST = 24
"""Requests of one picture: the last ones, since a history ends with what it is about."""
_ESCAPES = str.maketrans({"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;", "%": "#37;", '"': "#quot;", "\n": " "})


def sketch(trace: Trace) -> list[str]:
    """Lines of a Mermaid sequence diagram."""
    chosen = [step for step in trace.steps if step.operation in CHANGES or step.outcome != "normal"]
    left_out = max(len(chosen) - MOST, 0)
    chosen = chosen[left_out:]
    actors = list(dict.fromkeys(step.actor for step in chosen))
    lines = ["sequenceDiagram", *(f"    participant {_id(actors, each)} as {_text(each)}" for each in actors)]
    lines.append("    participant S as store")
    if left_out and actors:
        lines.append(f"    Note over {_id(actors, actors[0])},S: {left_out} earlier changes")
    for step in chosen:
        actor = _id(actors, step.actor)
        fate = "" if step.outcome == "normal" else f" ({step.outcome})"
        lines.append(f"    {actor}->>S: {_text(f'{step.index} {step.operation} {step.path}{fate}')}")
        if step.outcome == "normal":
            lines.append(f"    S-->>{actor}: {_text(step.answer)}")
        lines += [f"    Note over {actor}: {_text(_short(note))}" for note in step.notes if note.startswith(TOLD)]
    if trace.header.violation is not None and actors:
        lines.append(f"    Note over {_id(actors, actors[0])},S: violated: {_text(trace.header.violation.oracle)}")
    return lines


def _short(note: str) -> str:
    """An event without the id of its region, of which a picture mostly has one."""
    return " ".join(word for word in note.split() if not word.startswith("region="))


def _id(actors: list[str], name: str) -> str:
    return f"P{actors.index(name)}"


def _text(words: str) -> str:
    return words.translate(_ESCAPES)
