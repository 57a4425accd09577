"""Faults that Spark has in life, planned for the jobs of a validation: which there are, and what a seed draws of them.

A fault lets an attempt of one task, or a query, get well into its work, so that some puts and at least one flush of a
MemTable are durable, and then breaks it. `memwal_spark.striking` does that, and `memwal_spark.proofs` looks up in
Spark's event log whether it happened.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memwal.errors import InvalidArgument, check_name
from memwal.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """What can be asked for."""

    text: str
    """What happens."""
    local: bool = False
    """It needs no cluster, and shares its job with others of this sort."""


KINDS: Mapping[str, FaultKind] = {
    "task-error": FaultKind(text="an exception in a task", local=True),
    "worker-kill": FaultKind(text="SIGKILL for the Python process of a task, which closes nothing", local=True),
    "executor-kill": FaultKind(text="SIGKILL for an executor, with all of its tasks"),
    "stage-retry": FaultKind(text="what the tasks hand to each other is lost, so that Spark runs the stage again"),
    "copy-wins": FaultKind(text="a task stands still; its speculative copy claims the region and finishes first"),
    "original-wins": FaultKind(text="a task is slow to return; its speculative copy claims and is killed"),
    "driver-kill": FaultKind(text="SIGKILL for the driver; another one runs the job again"),
    "orphan": FaultKind(text="the process of a task lives on after its executor died, and puts after its successor"),
    "stream-restart": FaultKind(text="a streaming query starts from a checkpoint that was cut at random"),
}
"""Kinds of faults by name."""

LIGHT = tuple(name for name, kind in KINDS.items() if kind.local)
GROUPS: Mapping[str, tuple[str, ...]] = {"none": (), "light": LIGHT, "all": tuple(KINDS)}
"""Names for several of them."""
PUTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One planned fault."""

    kind: str
    job: int
    """Number of the job that it strikes."""
    partition: int
    """The task it strikes: number of the partition that is written; of a stream the first batch that comes again."""
    rows: int
    """Rows that the attempt writes before it is struck; of a stream the number of batches."""
    puts: int
    """Number of batches that these rows are cut into; each is durable before the next is asked for."""
    evidence: str
    """Local file that receives the state of all regions just before the fault."""

    @property
    def drawn(self) -> dict[str, Any]:
        """What the seed has drawn."""
        return {name: value for name, value in asdict(self).items() if name != "evidence"}

    @property
    def text(self) -> str:
        """In words."""
        if self.kind == "stream-restart":
            return f"planned fault ({self.kind}, job {self.job}, from batch {self.partition} of {self.rows})"
        return f"planned fault ({self.kind}, job {self.job}, task {self.partition}, after {counted(self.rows, 'row')})"


def chosen(text: str) -> tuple[str, ...]:
    """The kinds that ``none``, ``light``, ``all`` or a comma-separated list names; raises InvalidArgument."""
    if text in GROUPS:
        return GROUPS[text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        check_name("fault", name, KINDS)
    if not names:
        raise InvalidArgument(
            f"[MEMWAL_OPTION] --faults names no fault: give {', '.join(GROUPS)}, or some of {[*KINDS]}"
        )
    return tuple(name for name in KINDS if name in names)


def needs_cluster(kinds: Sequence[str]) -> bool:
    """Whether one of the ``kinds`` cannot happen in a session with a local master."""
    return any(not KINDS[kind].local for kind in kinds)


def jobs_needed(kinds: Sequence[str]) -> int:
    """How many jobs they need: each its own, but those that need no cluster, which share one."""
    return len(_groups(kinds))


def planned(
    kinds: Sequence[str], seed: int, jobs: Sequence[Mapping[int, int]], flush: int, evidence: Path
) -> tuple[Fault, ...]:
    """Draw for each of ``kinds`` job, task and moment.

    ``jobs``: of each job the rows of each task; the largest are struck. ``flush``: rows after which a task flushes; it
    is struck anywhere between its first flush and its last rows, so that what its second attempt gives again is older
    than what readers saw. If no task has rows enough the largest is planned for in vain. ``evidence``: a folder.
    """
    chance = random.Random(seed)
    groups = _groups(kinds)
    largest = sorted(range(len(jobs)), key=lambda job: max(jobs[job].values(), default=0), reverse=True)
    struck = sorted(largest[: len(groups)])
    if len(struck) < len(groups):
        raise InvalidArgument(f"[MEMWAL_FAULTS] these faults need {len(groups)} jobs, and there are {len(jobs)}")
    chance.shuffle(groups)
    return tuple(
        fault
        for job, group in zip(struck, groups, strict=True)
        for fault in _of_job(group, chance, job, jobs[job], flush, evidence)
    )


def _groups(kinds: Sequence[str]) -> list[tuple[str, ...]]:
    together = tuple(kind for kind in kinds if KINDS[kind].local)
    return [*([together] if together else []), *((kind,) for kind in kinds if not KINDS[kind].local)]


def _of_job(
    kinds: Sequence[str], chance: random.Random, job: int, rows: Mapping[int, int], flush: int, folder: Path
) -> Iterator[Fault]:
    least = flush + flush // 2
    enough = sorted(task for task, count in rows.items() if count > least)
    largest = max(rows, key=lambda task: rows[task], default=0)
    drawn = chance.sample(enough, min(len(kinds), len(enough)))
    for number, kind in enumerate(kinds):
        task = drawn[number] if number < len(drawn) else largest
        puts, moment = PUTS, chance.randrange(least, max(least + 1, rows.get(task, 0)))
        if number >= len(drawn):
            moment = max(least, rows.get(task, 0) + 1)
        if kind == "stream-restart":
            moment = chance.randrange(3, 6)
            task = chance.randrange(moment)
        elif kind == "original-wins":
            # What the copy gives: rows of which the region has newer ones, if they were put.
            moment = max(puts, chance.randrange(rows.get(task, 0) // 4, max(rows.get(task, 0) // 2, 1) + 1))
        yield Fault(
            kind=kind, job=job, partition=task, rows=moment, puts=puts, evidence=str(folder / f"{kind}-{job}.json")
        )
