"""Marks of finished tasks: (application, batch, partition), text <-> values (AMB-149).

A writer stores the mark of a task behind the last rows of it, in an entry without rows. Other readers of the WAL see an
entry without rows (AMB-20), whose metadata has a key that they do not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ..clauses import implements
from ..errors import ArtifactError, InvalidArgument

DONE = "memwal.done"
"""Key of the metadata of a WAL entry and of a generation's config; with a dot and a region id, of the base's config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Tasks of one batch that are finished in a region."""

    application: str
    batch: int
    """From 0 on; of one application a higher number is a later batch."""
    partitions: tuple[int, ...]
    """Of the finished tasks, ascending."""

    def __post_init__(self) -> None:
        if not self.application or self.batch < 0:
            reason = f"application {self.application!r}, batch {self.batch}: it takes a name and a number from 0 on"
            raise InvalidArgument(reason, clause="AMB-149")


@implements("AMB-149")
def joined(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Of each application the newest batch with all its finished tasks, by name: what has to be kept of ``marks``."""
    newest: dict[str, Mark] = {}
    for mark in marks:
        known = newest.get(mark.application)
        if known is not None and known.batch == mark.batch:
            partitions = tuple(sorted({*known.partitions, *mark.partitions}))
            newest[mark.application] = Mark(application=mark.application, batch=mark.batch, partitions=partitions)
        elif known is None or known.batch < mark.batch:
            newest[mark.application] = mark
    return tuple(newest[name] for name in sorted(newest))


@implements("AMB-149")
def is_done(marks: Iterable[Mark], wanted: Mark) -> bool:
    """Whether the tasks of ``wanted`` are finished, or a later batch of their application has finished tasks."""
    for mark in marks:
        if mark.application == wanted.application:
            finished = mark.batch == wanted.batch and set(wanted.partitions) <= set(mark.partitions)
            if finished or mark.batch > wanted.batch:
                return True
    return False


def encode(marks: Iterable[Mark]) -> str:
    """``marks`` as text."""
    return json.dumps({mark.application: [mark.batch, list(mark.partitions)] for mark in joined(marks)})


@implements("AMB-149")
def decode(text: str | bytes | None, path: str) -> tuple[Mark, ...]:
    """The marks of ``text``, none for None. Raises `ArtifactError` for another text; ``path``: where it is."""
    if text is None:
        return ()
    try:
        found = json.loads(text)
        marks = [Mark(application=a, batch=int(b), partitions=tuple(map(int, p))) for a, (b, p) in found.items()]
    except (ValueError, TypeError, AttributeError) as error:
        raise ArtifactError("AMB-149", path, f"these are not the marks of finished tasks: {text!r}") from error
    return tuple(marks)
