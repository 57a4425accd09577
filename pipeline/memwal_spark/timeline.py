"""What happened when: attempts of tasks, claims, flushes, merges; rows that wait for a merge; bytes that were written.

Attempts are told by Spark's event log. Claims and flushes are the versions of the region manifests, with the times of
their files, whichever process wrote them; merges are told by the merger. All clocks are one, the machine's.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import memwal
import pyarrow.dataset as pads
from memwal import paths
from memwal.codec import region_manifest
from memwal.codec.region_manifest import RegionManifest

from .change_log import ChangeLog
from .proofs import TaskAttempt

LAG_POINTS = 400
"""Points of the curve at most; it keeps its highest ones."""
_SUFFIX = ".binpb"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpan:
    """One attempt of a task that wrote a region. Times are seconds since the first attempt began."""

    region: str
    job: int
    task: int
    attempt: int
    begun: float
    ended: float
    failed: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionEvent:
    """A claim, a flush or a merge."""

    kind: str
    """``claim``, ``flush`` or ``merge``."""
    region: str
    at: float
    number: int
    """The epoch that is claimed, or the generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagPoint:
    """Rows that are acknowledged and not merged."""

    at: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplification:
    """Bytes of the files that were ever written, those too that were replaced or collected."""

    rows: int
    """Bytes of the log's rows in memory, as Arrow counts them: what the others are measured by."""
    wal: int
    generations: int
    base: int
    """Data and deletion files of the base table."""
    beside: int
    """Manifests, indexes and transactions."""

    def times(self, name: str) -> float:
        """How many times the bytes of the rows."""
        return float(getattr(self, name)) / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One run."""

    seconds: float
    """From the first attempt to the end of the last one, or of what was merged behind it while Spark wrote."""
    attempts: tuple[AttemptSpan, ...]
    events: tuple[RegionEvent, ...]
    lag: tuple[LagPoint, ...]
    bytes: Amplification


@dataclass(slots=True)
class FileRecorder:
    """Remembers each file that was ever seen under a table, and what was merged when."""

    root: Path
    files: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Name below the table -> bytes, and when it was last written."""
    merges: list[tuple[float, str, int]] = field(default_factory=list)
    """When, which region, which generation."""

    def step(self) -> None:
        """Look once. Files that are not read stay for the grace time of the collector, which is longer than a step."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                file = Path(folder, name)
                with suppress(FileNotFoundError):  # collected meanwhile, or a temporary name
                    found = file.stat()
                    self.files[file.relative_to(self.root).as_posix()] = (found.st_size, found.st_mtime)

    def merged(self, generations: Sequence[tuple[str, int]]) -> None:
        """Note what a merge has just committed."""
        self.merges += [(time.time(), str(region), int(generation)) for region, generation in generations]


Runs = Sequence[tuple[str, int, int, TaskAttempt]]
"""Region (empty if unknown), job, task and attempt, of each attempt of a task that wrote."""


def drawn(recorder: FileRecorder, log: ChangeLog, rows: Path, runs: Runs) -> Timeline:
    """Put together what is known. ``rows``: the stored log."""
    begun = min((run.begun_ms for *_, run in runs), default=0) / 1000
    spans = tuple(
        AttemptSpan(
            region=region, job=job, task=task, attempt=run.number,
            begun=run.begun_ms / 1000 - begun, ended=run.begun_ms / 1000 - begun + run.seconds,
            failed=run.failed, reason=run.reason,
        )
        for region, job, task, run in runs
    )  # fmt: skip
    last = max((span.ended for span in spans), default=0.0)
    changes = list(_changes(recorder))
    events = [
        *(RegionEvent(kind=kind, region=m.region_id, at=at - begun, number=number) for kind, at, number, m in changes),
        *(RegionEvent(kind="merge", region=region, at=at - begun, number=n) for at, region, n in recorder.merges),
    ]
    covered = {
        (str(m.region_id), number): int(m.position_replay_after) for kind, _, number, m in changes if kind == "flush"
    }
    return Timeline(
        seconds=last,
        attempts=spans,
        events=tuple(sorted((each for each in events if 0 <= each.at <= last), key=lambda each: each.at)),
        lag=_lag(recorder, begun, last, covered),
        bytes=_bytes(recorder, log, rows),
    )


def _changes(recorder: FileRecorder) -> Iterator[tuple[str, float, int, RegionManifest]]:
    """Claims and flushes: which, when, epoch or generation, and the manifest version that says so."""
    versions: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in recorder.files:
        match name.split("/"):
            case ["_mem_wal", region, "manifest", file] if file.endswith(_SUFFIX):
                version = paths.manifest_version(file)
                if version is not None:
                    versions[region].append((int(version), name))
    revision = memwal.open(recorder.root).revision
    for named in versions.values():
        before: RegionManifest | None = None
        for _, name in sorted(named):
            now = region_manifest.decode((recorder.root / name).read_bytes(), revision, name)
            at = recorder.files[name][1]
            if before is None or now.epoch > before.epoch:
                yield "claim", at, int(now.epoch), now
            if before is not None and now.generation_current > before.generation_current:
                yield "flush", at, int(before.generation_current), now
            before = now


def _lag(
    recorder: FileRecorder, begun: float, last: float, covered: Mapping[tuple[str, int], int]
) -> tuple[LagPoint, ...]:
    table = memwal.open(recorder.root)
    starts, ends = table.log_starts(), table.log_ends()
    written: dict[tuple[str, int], float] = {}
    for name, (_, at) in recorder.files.items():
        match name.split("/"):
            case ["_mem_wal", region, "wal", file]:
                position = paths.wal_position(file, file.rpartition(".")[2])
                if position is not None:
                    written[region, int(position)] = at
    steps: list[tuple[float, int]] = []
    waiting: dict[str, list[tuple[int, int]]] = {}
    for region in ends:
        entries = [(int(e.position), e.rows.num_rows) for e in table.log_entries(region, starts[region], ends[region])]
        waiting[str(region)] = entries
        steps += [(written[str(region), at], rows) for at, rows in entries if (str(region), at) in written]
    reached: dict[str, int] = defaultdict(lambda: -1)
    for at, region, generation in recorder.merges:
        until = covered.get((region, generation), -1)
        steps.append((at, -sum(rows for p, rows in waiting.get(region, ()) if reached[region] < p <= until)))
        reached[region] = max(reached[region], until)
    rows, points = 0, [LagPoint(at=0.0, rows=0)]
    for at, change in sorted(steps):
        rows += change
        if 0 <= at - begun <= last:
            points.append(LagPoint(at=at - begun, rows=rows))
    return _thinned([*points, LagPoint(at=last, rows=points[-1].rows)])


def _thinned(points: list[LagPoint]) -> tuple[LagPoint, ...]:
    size = -(-len(points) // LAG_POINTS)
    parts = [points[at : at + size] for at in range(0, len(points), size)]
    kept = [max(part, key=lambda point: point.rows) for part in parts]
    return tuple(kept if kept[-1] == points[-1] else [*kept, points[-1]])


def _bytes(recorder: FileRecorder, log: ChangeLog, rows: Path) -> Amplification:
    sums = dict.fromkeys(("wal", "generations", "base", "beside"), 0)
    for name, (size, _) in recorder.files.items():
        sums[_kind(name)] += size
    scanner = pads.dataset(rows).scanner(columns=log.schema.names)
    return Amplification(rows=sum(batch.nbytes for batch in scanner.to_batches()), **sums)


def _kind(name: str) -> str:
    parts = name.split("/")
    if parts[0] in ("data", "_deletions"):
        return "base"
    if parts[0] == "_mem_wal" and len(parts) > 3:
        return {"wal": "wal", "manifest": "beside"}.get(parts[2], "generations")
    return "beside"


def claimants(runs: Runs, root: Path) -> dict[tuple[str, int], str]:
    """Region and epoch -> the attempt within which the epoch was claimed, in words; those of failed ones too."""
    recorder = FileRecorder(root)
    recorder.step()
    claims = [(at, epoch, now.region_id) for kind, at, epoch, now in _changes(recorder) if kind == "claim"]
    found: dict[tuple[str, int], str] = {}
    for region, job, task, run in runs:
        for at, epoch, claimed in claims:
            if claimed == region and 0 <= at - run.begun_ms / 1000 <= run.seconds:
                ended = ", which failed" if run.failed else ""
                found[region, epoch] = f"job {job}, task {task}, attempt {run.number}{ended}"
    return found
