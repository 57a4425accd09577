"""A validation job: what is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memwal.errors import InvalidArgument, check_name
from memwal.region.sequences import LateRows
from memwal.revisions import REVISIONS

from .faults import KINDS, LIGHT
from .logs import AnyLog, Flights, OwnLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be validated."""

    out: Path
    revision: str = "B"
    regions: int = 8
    log: AnyLog = Flights()
    faults: tuple[str, ...] = LIGHT
    """Kinds of `memwal_spark.faults`."""
    seed: int = 0
    """Makes or draws the log."""
    fault_seed: int = 0
    """Draws what the faults strike."""
    cores: int = 2
    writer: str | None = None
    """An adapter that writes in place of the engine: `foreign.SHIPPED`, or a command."""
    late_rows: LateRows = "drop"
    """What tasks do with late rows; anything else is a plant, to see that this job notices."""

    def __post_init__(self) -> None:
        check_name("revision", self.revision, REVISIONS)
        for kind in self.faults:
            check_name("fault", kind, KINDS)
        if isinstance(self.log, OwnLog) and self.log.delete is not None and not REVISIONS[self.revision].tombstones:
            raise InvalidArgument(
                f"[MEMWAL_NO_DELETES] --delete needs a revision that has deletes, R, and this is {self.revision}"
            )
        if self.writer is not None and "stream-restart" in self.faults:
            raise InvalidArgument("[MEMWAL_OPTION] stream-restart: streams are the engine's own, so leave out --writer")
        if self.regions < 1:
            raise InvalidArgument(f"at least one region is needed, not {self.regions}")
