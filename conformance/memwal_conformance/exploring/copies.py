"""Copies of a crash state, for one process that recovers and for the judge: a folder, or a store where it must be one.

In revision A a generation names the folder of its WAL entries by URL: there a copy is a store of its own behind a gate,
under the same names, and what the judge reads is a folder with the same objects.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from memwal_sim.store import Contents, dump

from ..gate import Gate
from ..protocol import Json
from ..running.testbed import FOLDER, storage_of
from .starting import LIMITS

BY_URL = "A"
"""The revision whose generations name files by URL."""
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108 - folders of random names
"""Where folders are in memory, if there is such a place: a crash state is written, judged, and gone."""


@dataclass(slots=True)
class StateCopy:
    """A copy of a state, which one process may change."""

    scratch: Path
    gate: Gate | None
    root: Path = field(init=False)
    """The table's folder as the judge reads it."""

    def __post_init__(self) -> None:
        self.root = self.scratch / FOLDER

    @property
    def table(self) -> str:
        """Where a process opens the table."""
        return str(self.root) if self.gate is None else f"s3://{self.gate.bucket}/{FOLDER}"

    @property
    def asked(self) -> Json:
        """What `configure` says of the store."""
        return {} if self.gate is None else {"storage": storage_of(self.gate, "recoverer")}

    @property
    def storage(self) -> Mapping[str, str]:
        """Options under which the judge reaches files that are named by URL."""
        return {} if self.gate is None else self.gate.storage_options("judge")

    def changed(self) -> None:
        """A process has written: from here on the judge reads what it left."""
        if self.gate is not None:
            later = self.scratch / "later"
            dump(self.gate.contents, later)
            self.root = later / FOLDER


@contextmanager
def copied(contents: Contents, revision: str) -> Iterator[StateCopy]:
    """A copy, which is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="memwal-crash-", dir=MEMORY, ignore_cleanup_errors=True) as scratch:
        dump(contents, Path(scratch))
        if revision != BY_URL:
            yield StateCopy(Path(scratch), None)
            return
        with Gate(contents, limits=LIMITS) as gate:
            yield StateCopy(Path(scratch), gate)
