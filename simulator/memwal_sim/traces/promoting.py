"""Promoting a trace: from a find to a recorded fault in ``faults/recorded``, with a title and a description."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from memwal.errors import InvalidArgument, check_name

from ..exploring.exploration import Bounds
from ..exploring.exploration import ExplorationProgress as Exploring
from . import gallery
from .minimising import Minimised, minimise
from .references import recorded
from .replay import replay
from .shrinking import ShrinkProgress
from .trace import Trace, dumps

AREAS = ("fencing", "wal", "manifest", "flush", "merge", "index", "collect", "read", "region", "table")
"""Folders of ``faults/recorded``."""
DESCRIPTION_MIN = 200
"""Characters of a description; fewer do not say who does what, and why it is wrong."""
TITLE_MAX = 100
"""Characters of a title, which is one line of a list."""
_NAME = re.compile(r"[a-z][a-z0-9_]{2,63}")


@dataclass(frozen=True, slots=True)
class Promoted:
    """A recorded fault that is new."""

    path: Path
    minimised: Minimised


def promote(
    file: Path,
    *,
    area: str,
    name: str,
    title: str,
    description: str,
    folder: Path,
    force: bool = False,
    progress: Callable[[ShrinkProgress], None] | None = None,
    exhaustive: Bounds | None = None,
    exploring: Callable[[Exploring], None] | None = None,
) -> Promoted:
    """Make the trace in ``file`` small, store it below ``folder`` as ``recorded/area/name.jsonl``, renew the gallery.

    ``force``: replace the one of that name. ``exhaustive``: see `minimise`.
    Nothing is written before all is known to be well: `InvalidArgument` for a name, title or description that does not
    do, a name that is taken, or a trace that does not end in its violation, each time it is replayed; `ArtifactError`
    for what is no trace.
    """
    _check(area, name, title, description)
    target = folder / "recorded" / area / f"{name}.jsonl"
    taken = [path for path in sorted((folder / "recorded").rglob(f"{name}.jsonl")) if path != target or not force]
    if taken:
        where = taken[0].relative_to(folder).as_posix()
        raise InvalidArgument(f"there is {where} already" + ("; --force replaces it" if taken == [target] else ""))
    _check_replay(file)
    found = recorded(file)
    small = minimise(found, progress=progress, exhaustive=exhaustive, exploring=exploring)
    trace = Trace(replace(small.trace.header, title=title, description=description), small.trace.steps)
    _store(trace, target)
    (folder / gallery.INDEX).write_text(gallery.render(folder), "utf-8")
    return Promoted(target, replace(small, trace=trace))


def _check(area: str, name: str, title: str, description: str) -> None:
    check_name("area", area, AREAS)
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"the name {name!r} must be 3 to 64 characters of a-z, 0-9 and _, and begin with a letter"
        )
    if not title.strip() or len(title) > TITLE_MAX or not title.isprintable():
        raise InvalidArgument(f"a title must be one line of 1 to {TITLE_MAX} characters")
    if len(description.strip()) < DESCRIPTION_MIN:
        raise InvalidArgument(
            f"the description has {len(description.strip())} characters and needs at least {DESCRIPTION_MIN}: say which"
            " process does what, and why it is wrong"
        )
    if not description.isprintable():
        raise InvalidArgument("a description must be one line without control characters")


def _check_replay(file: Path) -> None:
    """Raises `InvalidArgument` if the trace does not end in its violation both times that it is replayed."""
    replayed = replay(file, twice=True)
    if replayed.header.violation is None:
        raise InvalidArgument(f"{file.name} records no violation")
    if replayed.unstable_at is not None:
        raise InvalidArgument(f"{file.name}: a second replay differs at step {replayed.unstable_at}")
    if not replayed.reproduced:
        found = replayed.divergence
        why = "" if found is None else f": step {found.index}, {found.what} was {found.recorded} and is {found.found}"
        raise InvalidArgument(f"{file.name} is not reproduced{why}")


def _store(trace: Trace, target: Path) -> None:
    """Write ``trace`` beside ``target``, see it reproduced without a divergence, and move it there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f"{target.name}.new")
    beside.write_text(dumps(trace), "utf-8")
    try:
        replayed = replay(beside, twice=True)
        exact = replayed.reproduced and replayed.divergence is None and replayed.unstable_at is None
        if not exact or replayed.violation_at != len(trace.steps):
            raise InvalidArgument(f"{target.name} would not be reproduced as it is written")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
