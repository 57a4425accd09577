"""The driver: gives orders to processes, disturbs them, and judges what they say and what the table holds.

Every acknowledged write is in the history when the reply is read from the writer's pipe; so whatever a judge reads
after that has to show it, or a later write of its keys. What a killed or fenced writer had under way may be there or
not.
"""

from __future__ import annotations

import math
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
from memwal import errors

from ..history import SoakHistory
from .crew import Crew, Member
from .disk import Disk, small_disk

SCHEMA = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string(), nullable=False)])
KEYS = 40
"""Keys of each region."""
VALUE_BYTES = 600
PAUSE_MS = 250
"""Between two orders of a process that is no writer."""
HANGS_MS = 120_000
"""A process that is not stopped and takes longer for one order hangs."""
STOPPED_MS = (500, 4_000)
"""How long a process is stopped, at least and at most; jobs for less than the collector's grace time."""
FULL_MS = (500, 4_000)
"""How long the disk is full."""
_GAPS_S = {"kill": 4.0, "stop": 5.0, "full": 20.0}
"""Mean time between disturbances of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a run is made of."""

    seconds: float
    seed: int
    revision: str = "B"
    regions: int = 2
    disk_mib: int = 96
    """Size of the table's file system; 0, or where mounting is not permitted: no full disks."""


@dataclass(slots=True)
class RunResult:
    """What a run counted, and what it found."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    """Failed orders by role and class of error: expected ones."""
    broken: list[str] = field(default_factory=list)
    """Promises that did not hold; empty after a good run."""
    disk: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "counts": dict(sorted(self.counts.items())),
            "failures": dict(sorted(self.failures.items())),
            "disk": self.disk,
            "broken": self.broken,
        }


Follow = Callable[[float, RunResult], None]
"""Called now and then with the seconds that have passed."""


def run(settings: RunSettings, follow: Follow | None = None) -> RunResult:
    """Let processes work on a new table for some time, disturb them, and judge; see `RunResult`."""
    with tempfile.TemporaryDirectory(prefix="memwal-soak-") as folder:
        texts, table = Path(folder) / "stderr", Path(folder) / "disk"
        texts.mkdir()
        table.mkdir()
        with small_disk(table, settings.disk_mib) as disk, Crew(str(table / "t"), texts) as crew:
            return _ProcessRun(settings, disk, crew).to_the_end(follow)


class _ProcessRun:
    def __init__(self, settings: RunSettings, disk: Disk, crew: Crew) -> None:
        self.settings, self.disk, self.crew = settings, disk, crew
        self.random = random.Random(settings.seed)
        self.history = SoakHistory(VALUE_BYTES)
        self.outcome = RunResult(disk="filled up" if disk.mounted else "not filled: no file system could be mounted")
        self.location = str(disk.folder / "t")
        made = memwal.create(self.location, SCHEMA, primary_key=["key"], revision=settings.revision)
        several = settings.regions > 1
        self.regions: list[str] = [
            made.register_region() if several else made.writer().region_id for _ in range(settings.regions)
        ]
        self.begun_s = time.monotonic()
        self.due = {kind: self._after(gap) for kind, gap in _GAPS_S.items()}
        self.free_ms: float | None = None
        self.last: dict[int, int] = {}

    @property
    def now_ms(self) -> float:
        return (time.monotonic() - self.begun_s) * 1000

    def _after(self, gap_s: float) -> float:
        return (time.monotonic() - self.begun_s) * 1000 + self.random.expovariate(1 / gap_s) * 1000

    def to_the_end(self, follow: Follow | None) -> RunResult:
        shown = 0.0
        while self.now_ms < self.settings.seconds * 1000 and not self.outcome.broken:
            self._staff()
            self._disturb()
            self._give_orders()
            self._hear(0.02)
            if follow is not None and self.now_ms - shown > 1000:
                shown = self.now_ms
                follow(shown / 1000, self.outcome)
        self._wind_down()
        return self.outcome

    # Orders.

    def _staff(self) -> None:
        """Start what is not there."""
        wanted = [("writer", region) for region in self.regions]
        for role, region in [*wanted, ("merger", None), ("collector", None), ("reader", None)]:
            if not self.crew.of(role, region):
                self.crew.start(role, region, self.now_ms, full=self.disk.full)

    def _give_orders(self) -> None:
        for member in self.crew.members:
            if member.idle(self.now_ms):
                member.order(self._next_order(member), self.now_ms, full=self.disk.full)
            elif member.stopped_until_ms is None and self.now_ms - member.since_ms > HANGS_MS:
                self.outcome.broken.append(f"{member.name} hangs: {member.under_way}")

    def _next_order(self, member: Member) -> dict[str, Any]:
        match member.role:
            case "writer":
                if self.random.random() < 0.02:
                    return {"do": "flush"}
                at = self.regions.index(member.region or "")
                keys = self.random.sample(range(KEYS), self.random.randint(1, 4))
                names = tuple(f"{at}-{key}" for key in keys)
                number, value = self.history.begin(member.name, names, self.now_ms)
                return {"do": "put", "keys": names, "value": value, "number": number, "zombie": member.succeeded}
            case "merger":
                return {"do": "compact" if self.random.random() < 0.05 else "merge"}
            case "collector":
                return {"do": "collect"}
            case _:
                return {"do": "scan", "read": self.history.start_read(self.now_ms)}

    def _hear(self, timeout_s: float) -> None:
        for member in self.crew.heard(timeout_s):
            replies, ended = member.replies()
            for reply in replies:
                order, member.under_way = member.under_way or {"do": "?"}, None
                member.rests_until_ms = self.now_ms + (0 if member.role == "writer" else PAUSE_MS)
                if "failed" in reply:
                    self._failed(member, order, reply)
                else:
                    self._done(member, order, reply["done"])
            if ended:
                self._ended(member)

    def _done(self, member: Member, order: Mapping[str, Any], result: Any) -> None:
        self.outcome.counts[_PLURAL[order["do"]]] += 1
        match order["do"]:
            case "open" if member.role == "writer":
                member.epoch = result
                self._succeed(member)
            case "put":
                self.history.acknowledge(order["number"], self.now_ms)
                if order["zombie"]:
                    self.outcome.broken.append(f"{member.name} was succeeded, and its put was acknowledged afterwards")
            case "collect":
                self.outcome.counts["collected"] += result
                if member.full and self.disk.full:
                    self.outcome.counts["collections on a full disk"] += 1
            case "scan":
                self._judge(result, order["read"], member.name)

    def _succeed(self, member: Member) -> None:
        """Of two writers of a region, the one with the lower epoch is fenced."""
        open_ones = [m for m in self.crew.of("writer", member.region) if m.epoch is not None]
        for one in open_ones:
            one.succeeded = any((other.epoch or 0) > (one.epoch or 0) for other in open_ones)

    def _failed(self, member: Member, order: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
        kind, words = reply["failed"], f"{member.name}, {order['do']}: {reply['failed']}: {reply['why']}"
        if order["do"] == "scan":
            self.history.drop_read(order["read"])
        if member.role == "writer":
            member.rests_until_ms = math.inf  # it ends
        fenced = kind in ("Fenced", "WriterStopped") and (member.succeeded or self._rivals(member))
        no_room = kind in ("StorageError", "WriterStopped", "CloseFailed") and member.full
        raced = kind in ("Conflict", "AlreadyMerged", "ReadRaced", "Fenced")
        if not (fenced or no_room or raced) or not reply["outcome"]:
            self.outcome.broken.append(words)
        self.outcome.failures[f"{member.role}: {kind}{' (disk full)' if no_room else ''}"] += 1

    def _rivals(self, member: Member) -> bool:
        return any(m is not member and m.role == "writer" and m.region == member.region for m in self.crew.members)

    def _ended(self, member: Member) -> None:
        """A process has ended by itself, after it said why: a writer that failed, or one that could not open."""
        member.process.join()
        status = member.process.exitcode
        if status != 1 or member.under_way is not None:
            text = member.errors.read_text(errors="replace")[-1500:]
            self.outcome.broken.append(f"{member.name} ended with {status} in {member.under_way}: {text}")
        self.crew.drop(member)

    # Disturbances.

    def _disturb(self) -> None:
        now = self.now_ms
        for member in self.crew.members:
            if member.stopped_until_ms is not None and now > member.stopped_until_ms:
                member.stopped_until_ms, member.since_ms = None, now
                member.signal(signal.SIGCONT)
        if self.free_ms is not None and now > self.free_ms:
            self.free_ms = None
            self.disk.free()
        for kind, act in (("kill", self._kill), ("stop", self._stop), ("full", self._fill)):
            if now > self.due[kind]:
                self.due[kind] = self._after(_GAPS_S[kind])
                act()

    def _kill(self) -> None:
        victim = self.random.choice(self.crew.members)
        self.outcome.counts["kills"] += 1
        self.outcome.counts[f"kills of {_PLURAL[victim.role]}"] += 1
        self._release(victim)
        self.crew.drop(victim)
        self._look(strict=False)

    def _stop(self) -> None:
        awake = [member for member in self.crew.members if member.stopped_until_ms is None]
        if not awake:
            return
        victim = self.random.choice(awake)
        victim.signal(signal.SIGSTOP)
        victim.stopped_until_ms = self.now_ms + self.random.uniform(*STOPPED_MS)
        self.outcome.counts["stops"] += 1
        if victim.role == "writer" and not victim.succeeded and self.random.random() < 0.6:
            self.crew.start("writer", victim.region, self.now_ms, full=self.disk.full)
            self.outcome.counts["successors of stopped writers"] += 1

    def _fill(self) -> None:
        if not self.disk.mounted or self.disk.full:
            return
        self.disk.fill()
        self.outcome.counts["full disks"] += 1
        self.free_ms = self.now_ms + self.random.uniform(*FULL_MS)
        for member in self.crew.members:
            member.full = True

    def _release(self, member: Member) -> None:
        order = member.under_way or {}
        if order.get("do") == "scan":
            self.history.drop_read(order["read"])

    # Judging.

    def _judge(self, rows: Mapping[str, list[str]], read: int, who: str) -> None:
        twice = [key for key, times in Counter(rows["key"]).items() if times > 1]
        if twice:
            self.outcome.broken.append(f"{who}: the keys {twice[:5]} are there more than once")
        found = dict(zip(rows["key"], rows["value"], strict=True))
        violation = self.history.end_read(read, found, self.now_ms)
        if violation is not None:
            self.outcome.broken.append(f"{who}: {violation.reason} [{violation.clause}] {violation.shown}")

    def _look(self, *, strict: bool) -> None:
        """Judge the rows, and `memwal.verify`, which while others work may have seen two moments."""
        self._hear(0)
        read = self.history.start_read(self.now_ms)
        try:
            opened = memwal.open(self.location)
            rows = opened.scan().to_pydict()
            report = opened.verify()
        except errors.MemwalError as failure:
            self.history.drop_read(read)
            raced = isinstance(failure, errors.Outcome) and not isinstance(failure, errors.StorageError)
            if strict or not raced:
                self.outcome.broken.append(f"judge: {type(failure).__name__}: {failure}")
            self.outcome.failures[f"judge: {type(failure).__name__}"] += 1
            return
        self._judge(rows, read, "judge")
        self.outcome.counts["scans judged after kills"] += not strict
        self.outcome.counts["verifications"] += 1
        if not report.clean and (strict or not report.moved):
            self.outcome.broken.append(f"verify: {[f'{v.path}: {v.reason}' for v in report.findings][:5]}")

    def _wind_down(self) -> None:
        """Kill every process, then recover, flush and merge every region, and judge before and after."""
        self.disk.free()
        self._hear(0)
        for member in list(self.crew.members):
            self._release(member)
            self.crew.drop(member)
        self._look(strict=True)
        table = memwal.open(self.location)
        for region in self.regions:
            table.drain(region)
        table.gc(retain_versions=1)
        self._look(strict=True)
        self.outcome.counts["acknowledged puts"] = self.history.acknowledged
        self.outcome.counts["begun puts"] = self.history.begun


_PLURAL = {
    "open": "openings", "put": "puts", "flush": "flushes", "merge": "merges", "compact": "compactions",
    "collect": "collections", "scan": "scans", "writer": "writers", "merger": "mergers", "collector": "collectors",
    "reader": "readers",
}  # fmt: skip
