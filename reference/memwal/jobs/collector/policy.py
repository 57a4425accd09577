"""What the operator of a collector chooses.

Source: MemWAL revisions A and B, "Garbage Collector".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ...errors import InvalidArgument
from ...ids import Milliseconds
from ...region.manifest import RETAINED_LEAST
from ..defaults import RETAIN_MANIFESTS

TimeTravel = Literal["progress", "snapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How much is kept. The default keeps every table version, and so nearly everything."""

    retain_versions: int | None = None
    """Newest table versions that stay, at least 1. None: all, or with ``retain_age_ms`` only those that it keeps."""
    retain_age_ms: Milliseconds | None = None
    """Table versions that are younger than this stay too."""
    grace_ms: Milliseconds = Milliseconds(0)
    """How long readers, mergers and commits may be under way (AMB-92).

    A table version stays while it was the newest less than this ago, and a generation while it was needed then. Files
    of attempts that committed nothing go only where there is a grace time, since nothing else says that they ended.
    """
    retain_manifests: int = RETAIN_MANIFESTS
    """Newest manifest versions of each region that stay, at least 2 (AMB-96)."""
    orphan_age_ms: Milliseconds = Milliseconds(0)
    """A left-over folder stays while the table in it is younger than this (AMB-94): a delay, not what makes it safe."""
    time_travel: TimeTravel = "progress"
    """What retained table versions keep (AMB-91).

    ``progress``: each generation above its merge progress, so that a Restore of it finds all that it needs.
    ``snapshot``: of these only what its own region snapshot lists, which is what its readers read. The point up to
    which the others were collected is recorded in the table config, and nothing below may be restored.
    """

    def __post_init__(self) -> None:
        if self.retain_versions is not None and self.retain_versions < 1:
            reason = f"at least one table version is retained, not {self.retain_versions}"
            raise InvalidArgument(reason, clause="GC-003")
        if self.retain_manifests < RETAINED_LEAST:
            reason = f"at least {RETAINED_LEAST} manifest versions are retained, not {self.retain_manifests}"
            raise InvalidArgument(reason, clause="AMB-96")
        if min(self.retain_age_ms or 0, self.grace_ms, self.orphan_age_ms) < 0:
            raise InvalidArgument("ages and grace times must not be negative", clause="AMB-92")
        if self.time_travel not in get_args(TimeTravel):
            known = ", ".join(get_args(TimeTravel))
            raise InvalidArgument(
                f"there is no time travel rule {self.time_travel!r}; choose one of {known}", clause="AMB-91"
            )

    @property
    def needs_clock(self) -> bool:
        """Whether any choice is about time."""
        return bool(self.retain_age_ms is not None or self.grace_ms or self.orphan_age_ms)


KEEP_ALL = Policy()
