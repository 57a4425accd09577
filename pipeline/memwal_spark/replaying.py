"""A validation as data, so that it can be run again: what was asked for, and what the seeds made of it then."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwal.errors import InvalidArgument
from pyspark.sql import functions as sf

from .job import Job
from .logs import AnyLog, Flights, Made, OwnLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .faults import Fault

FORMAT = 1
LOGS: Mapping[str, Callable[..., AnyLog]] = {"flights": Flights, "preset": Made, "own": OwnLog}
TYPES: Mapping[str, tuple[type, ...]] = {
    "revision": (str,),
    "regions": (int,),
    "faults": (list,),
    "seed": (int,),
    "fault_seed": (int,),
    "cores": (int,),
    "writer": (str, type(None)),
    "late_rows": (str,),
}
"""What a report has of a job beside its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJob:
    """What a job is held to that is run again."""

    report: Path
    log_hash: str
    """Of all rows of the change log."""
    faults: tuple[Mapping[str, Any], ...]
    """What the seed had drawn."""

    def check_log(self, log_hash: str) -> None:
        """Raises InvalidArgument if the change log has other rows than then."""
        if log_hash != self.log_hash:
            raise InvalidArgument(
                f"[MEMWAL_REPLAY] the change log has other rows now ({log_hash}) than those of {self.report}, whose "
                f"hash is {self.log_hash}"
            )

    def check_faults(self, plan: tuple[Fault, ...]) -> None:
        """Raises InvalidArgument if the seed draws other faults now."""
        for was, now in zip(self.faults, plan, strict=False):
            if was != now.drawn:
                raise InvalidArgument(
                    f"[MEMWAL_REPLAY] {self.report} has the fault {was}; the seed draws {now.drawn} now"
                )
        if len(self.faults) != len(plan):
            raise InvalidArgument(
                f"[MEMWAL_REPLAY] {self.report} has {len(self.faults)} faults, and the seed draws {len(plan)} now"
            )


def recipe(job: Job, log_hash: str) -> dict[str, Any]:
    """What `load` needs, as plain data."""
    kind = {Flights: "flights", Made: "preset", OwnLog: "own"}[type(job.log)]
    log = asdict(job.log)
    if isinstance(job.log, OwnLog) and Path(job.log.path).exists():
        log["path"] = str(Path(job.log.path).resolve())
    asked = {name: getattr(job, name) for name in TYPES}
    return {"format": FORMAT, "log": {"kind": kind, **log}, "log_hash": log_hash, **asked, "faults": list(job.faults)}


def load(report: Path, out: Path) -> tuple[Job, ReplayedJob]:
    """The job of a ``report`` (its JSON), to be run again in ``out``; and what it is held to.

    Raises InvalidArgument for a file that is no report, or one of a job that cannot be run again.
    """
    told = _report(report)
    asked = told.get("job")
    if not isinstance(asked, dict):
        raise InvalidArgument(f"[MEMWAL_REPORT] {report}: it has no object `job`: name the report of a whole job")
    if asked.get("format") != FORMAT:
        raise InvalidArgument(f"[MEMWAL_REPORT] {report}: job.format is {asked.get('format')!r}, and {FORMAT} is known")
    try:
        given = {name: asked[name] for name in TYPES}
        for name, kinds in TYPES.items():
            if type(given[name]) not in kinds:
                raise TypeError(f"{name} is {given[name]!r}")
        log = {name: tuple(v) if isinstance(v, list) else v for name, v in asked["log"].items() if name != "kind"}
        made = LOGS[asked["log"]["kind"]](**log)
        job = Job(out=out, log=made, **{**given, "faults": tuple(given["faults"])})
        # Where the evidence lies is no part of what was drawn.
        drawn = tuple(
            {name: value for name, value in proof["fault"].items() if name != "evidence"} for proof in told["faults"]
        )
        return job, ReplayedJob(report=report, log_hash=str(asked["log_hash"]), faults=drawn)
    except (KeyError, TypeError, AttributeError, ValueError) as wrong:
        raise InvalidArgument(f"[MEMWAL_REPORT] {report}: job: {type(wrong).__name__} {wrong}") from wrong


def _report(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(file.read_text("utf-8"))
    except OSError as wrong:
        raise InvalidArgument(f"[MEMWAL_REPORT] {file}: {wrong.strerror}") from wrong
    except UnicodeDecodeError as wrong:
        raise InvalidArgument(f"[MEMWAL_REPORT] {file}: byte {wrong.start} is not UTF-8") from wrong
    except json.JSONDecodeError as wrong:
        raise InvalidArgument(f"[MEMWAL_REPORT] {file}: not JSON at offset {wrong.pos}: {wrong.msg}") from wrong
    except RecursionError as wrong:
        raise InvalidArgument(f"[MEMWAL_REPORT] {file}: nested too deep") from wrong
    if not isinstance(told, dict):
        raise InvalidArgument(f"[MEMWAL_REPORT] {file}: a report is an object, not a {type(told).__name__}")
    return told


def hash_of(log: DataFrame) -> str:
    """A number of all rows of a change log, whatever their order."""
    columns = [sf.col(f"`{name}`") for name in log.columns]
    row = sf.xxhash64(*columns, *(column.isNull() for column in columns))
    found = log.agg(sf.count(sf.lit(1)), sf.bit_xor(row), sf.sum(row.cast("decimal(38,0)"))).first()
    assert found is not None, "an aggregation without groups has one row"
    return "-".join(f"{value or 0:x}" if isinstance(value, int) else f"{int(value or 0):x}" for value in found)
