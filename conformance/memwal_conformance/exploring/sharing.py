"""An exploration as it was asked for: carried out here, or with its lives dealt to several places of a cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memwal_sim import parallel
from memwal_sim.parallel import HERE, Workers

from ..adapters import harness as adapters
from ..adapters.harness import Harness
from .adapters import LIMIT_S, explored
from .explorer import ForeignExploration
from .findings import Notebook
from .lives import ForeignLife
from .reproducing import Reproductions

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationTask:
    """What is to be explored, how, and for how long."""

    against: str
    """Command of the adapter; ``native`` and ``reference`` are known."""
    version: str | None = None
    """Of the native package, in an environment of its own."""
    settings: Mapping[str, str] = field(default_factory=dict)
    roles_by: str = "suite"
    limit_s: float = LIMIT_S
    revision: str | None = None
    """None: the newest that the adapter has."""
    lives: tuple[ForeignLife, ...]
    seconds: float
    preemptions: int = 2
    seed: int = 0
    enough: int | None = None
    jobs: int = 1
    """Runs at a time; of a cluster, the places that the lives are dealt to."""

    def harness(self) -> Harness:
        """The adapter. Close it. Raises `InvalidArgument`."""
        command = adapters.command_of(self.against, self.version)
        return explored(command, self.settings, adapters.players(self.roles_by), limit_s=self.limit_s)


@dataclass(slots=True, kw_only=True)
class Explored:
    """What came of an exploration."""

    notebook: Notebook
    covered: dict[str, Any]
    """Life -> what was covered of it, in words."""
    lent: dict[str, str]
    """What players of lent roles did wrong: in words, and as it was seen first."""
    runs: int
    unconfirmed: int

    def join(self, other: Explored) -> None:
        """Take over what came of other lives."""
        self.notebook.join(other.notebook)
        self.covered |= other.covered
        self.lent |= other.lent
        self.runs += other.runs
        self.unconfirmed += other.unconfirmed


def carried_out(task: ExplorationTask, out: Path, on: str = HERE, say: Say = lambda line: None) -> Explored:
    """Explore, and keep in ``out`` what is found. Raises `InvalidArgument`, and what a broken adapter raises."""
    if on == HERE:
        return _here(task, out, say)
    places = min(task.jobs, len(task.lives))
    shares = [replace(task, lives=task.lives[at::places], jobs=1) for at in range(places)]
    whole: Explored | None = None
    for share, found in parallel.each(_elsewhere, shares, Workers(on=on)):
        named = ", ".join(life.name for life in share.lives)
        say(f"{named}: {found.runs} runs, {len(found.notebook.findings)} findings")
        if whole is None:
            whole = found
        else:
            whole.join(found)
    assert whole is not None
    whole.covered = {life.name: whole.covered[life.name] for life in task.lives}
    Reproductions(whole.notebook, out, task.harness().settings, task.version).keep(whole.covered)
    return whole


def _elsewhere(share: ExplorationTask) -> Explored:
    with tempfile.TemporaryDirectory(prefix="memwal-exploring-", ignore_cleanup_errors=True) as folder:
        return _here(share, Path(folder), lambda line: None)


def _here(task: ExplorationTask, out: Path, say: Say) -> Explored:
    harnesses = [task.harness() for _ in range(task.jobs)]
    try:
        hello = harnesses[0].hello()
        made = ForeignExploration(
            harnesses=harnesses,
            revision=task.revision or hello.revisions[-1],
            lives=task.lives,
            seconds=task.seconds,
            preemptions=task.preemptions,
            seed=task.seed,
            enough=task.enough,
            say=say,
        )
        files = Reproductions(made.notebook, out, harnesses[0].settings, task.version)
        made.found = files.shown
        made.run()
    finally:
        for harness in harnesses:
            harness.close()
    files.keep(made.covered)
    return Explored(
        notebook=made.notebook, covered=made.covered, lent=made.lent, runs=made.runs, unconfirmed=made.unconfirmed
    )
