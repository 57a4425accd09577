"""The evidence for each clause, kept in ``out/`` until a file of the checkout changes: `coverages` takes ten seconds.

For commands that show it. What checks it works it out anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

from memwal.errors import check_name

from ..registry.clauses import ROOT
from .coverage import ClauseCoverage, coverages

FOLDERS = ("reference", "simulator", "conformance", "pipeline", "faults", "protos")
"""Where everything is that `coverages` reads."""
KEPT = Path("out") / "clauses.pickle"


def coverages_kept(root: Path = ROOT) -> tuple[ClauseCoverage, ...]:
    """`coverages`, from the file of an earlier call if nothing has changed since. Raises what that does."""
    if not in_checkout(root):
        return coverages()
    file, state = root / KEPT, _state(root)
    with contextlib.suppress(OSError, ValueError, pickle.UnpicklingError, AttributeError, EOFError):
        kept, found = pickle.loads(file.read_bytes())  # noqa: S301 - a process that writes here can write the sources too
        if kept == state:
            return tuple(found)
    made = coverages()
    with contextlib.suppress(OSError):  # a folder that cannot be written to costs the next call its ten seconds
        file.parent.mkdir(exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_bytes(pickle.dumps((state, made)))
        partial.replace(file)
    return made


def in_checkout(root: Path = ROOT) -> bool:
    """Whether the project's sources are around the package: tests and mutants are there, and nowhere else."""
    return (root / "reference" / "tests").is_dir()


def coverage_kept(id_: str) -> ClauseCoverage:
    """The clause called ``id_``. Raises `InvalidArgument` if there is none."""
    known = {each.clause.id: each for each in coverages_kept()}
    check_name("clause", id_.upper(), known)
    return known[id_.upper()]


def _state(root: Path) -> str:
    """Changes with every change of a file that could matter."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in FOLDERS:
        for line in sorted(_stats(str(root / folder))):
            digest.update(line.encode())
    return digest.hexdigest()


def _stats(folder: str) -> Iterator[str]:
    if not Path(folder).is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _stats(entry.path)
            else:
                about = entry.stat()
                yield f"{entry.path} {about.st_size} {about.st_mtime_ns}\n"
