"""What a collection keeps, as options of a command: of `memwal table gc`, and of Spark's job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, TypedDict, get_args

import typer

if TYPE_CHECKING:
    from memwal.jobs.collector import TimeTravel

GRACE = "10m"
"""Grace time where the caller says nothing: longer than a commit of a large merge should take."""
ORPHAN_AGE = "0"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h|d)")

RetainVersions = Annotated[
    int | None, typer.Option(min=1, help="Keep only this many of the newest table versions. Default: all.")
]
RetainAge = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Also keep table versions younger than this, such as 7d.")
]
Grace = Annotated[str, typer.Option(metavar="DURATION", help="The longest time that a read, merge or commit may take.")]
RetainManifests = Annotated[int, typer.Option(min=2, help="Keep this many of each region's newest manifest versions.")]
OrphanAge = Annotated[
    str, typer.Option(metavar="DURATION", help="Keep left-over generations that are younger than this.")
]
TimeTravelRule = Annotated[
    str,
    typer.Option(
        help="What to keep for retained versions: all that restoring them needs (progress), or only what "
        "their own snapshot lists (snapshot), after which they cannot be restored."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be deleted, and why, without deleting it.")]


class Kept(TypedDict):
    """The same as arguments of `memwal.Table.gc`."""

    retain_versions: int | None
    retain_age_ms: int | None
    grace_ms: int
    retain_manifests: int
    orphan_age_ms: int
    time_travel: TimeTravel


def kept(
    retain_versions: int | None,
    retain_age: str | None,
    grace: str,
    retain_manifests: int,
    orphan_age: str,
    time_travel: str,
) -> Kept:
    """What the words of the options mean; raises `typer.BadParameter`."""
    from memwal.jobs.collector import TimeTravel

    if time_travel not in get_args(TimeTravel):
        raise typer.BadParameter(f"{time_travel!r}: choose progress or snapshot", param_hint="--time-travel")
    return Kept(
        retain_versions=retain_versions,
        retain_age_ms=duration_ms(retain_age) if retain_age is not None else None,
        grace_ms=duration_ms(grace),
        retain_manifests=retain_manifests,
        orphan_age_ms=duration_ms(orphan_age),
        time_travel="snapshot" if time_travel == "snapshot" else "progress",
    )


def duration_ms(text: str) -> int:
    """A duration such as ``90s``, ``10m``, ``12h`` or ``7d`` in milliseconds; raises `typer.BadParameter`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None and text.strip() != "0":
        raise typer.BadParameter(f"{text!r} is not a duration: a whole number with ms, s, m, h or d, such as 10m or 7d")
    return int(found[1]) * _UNITS_MS[found[2]] if found is not None else 0
