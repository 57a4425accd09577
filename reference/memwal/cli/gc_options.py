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

RetainVersions = Annotated[int | None, typer.Option(min=1, help="Keep this many newest table versions; all if absent.")]
RetainAge = Annotated[str | None, typer.Option(metavar="DURATION", help="Keep younger table versions too, such as 7d.")]
Grace = Annotated[str, typer.Option(metavar="DURATION", help="How long a read, merge or commit may be under way.")]
RetainManifests = Annotated[int, typer.Option(min=2, help="Keep this many newest manifest versions of each region.")]
OrphanAge = Annotated[str, typer.Option(metavar="DURATION", help="Keep left-over generations that are younger.")]
TimeTravelRule = Annotated[
    str,
    typer.Option(
        help="Of retained versions, keep what a Restore of them needs (progress), or only what their own "
        "snapshot lists (snapshot): then they cannot be restored any more."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and why; change nothing.")]


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
        raise typer.BadParameter(f"{text!r} is no duration: a whole number with ms, s, m, h or d, such as 10m or 7d")
    return int(found[1]) * _UNITS_MS[found[2]] if found is not None else 0
