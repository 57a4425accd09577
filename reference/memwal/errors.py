"""Three roots of errors, and no others leave this package.

`Outcome`: expected and typed, part of the protocol. `ArtifactError`: bytes on the store break a clause.
`EngineBug`: an assertion of ours, never caught. `InvalidArgument` is the caller's mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import ClassVar

from .ids import Epoch, Generation, RegionId, TableVersion


class MemwalError(Exception):
    """Root of everything that this package raises on purpose.

    Copies, and errors that come from another process, have the type, the text and the fields of the original.
    """

    table: str = ""
    """Where the table is: of an `Outcome` or `ArtifactError`, once it leaves a call that knows the table."""

    def __reduce__(self) -> tuple[Callable[..., BaseException], tuple[object, ...], dict[str, object]]:
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[BaseException], args: tuple[object, ...]) -> BaseException:
    """An error with ``args`` and no fields yet: constructors take other arguments than the text that they make."""
    return kind.__new__(kind, *args)


class InvalidArgument(MemwalError, ValueError):
    """The caller asked for something that the texts or the table forbid; nothing was written.

    ``clause`` names the requirement or ambiguity (``WRITER-015``, ``AMB-136``) where there is one.
    """

    def __init__(self, message: str, *, clause: str = "") -> None:
        super().__init__(f"{message} [{clause}]" if clause else message)
        self.clause = clause


class LateRow(InvalidArgument):
    """A row's sequence is not higher than the one that stands for its key, and the writer was told to refuse that."""

    def __init__(self, message: str) -> None:
        super().__init__(message, clause="AMB-148")


def check_name(kind: str, name: str, known: Iterable[str], *, clause: str = "", listed_by: str = "") -> None:
    """Raise `InvalidArgument` unless ``name`` is among ``known``: with those that there are, and the nearest.

    ``listed_by``: the command that prints them, where they are too many for a message.

    What takes a name calls this, so that a slip never becomes a search for nothing.
    """
    names = tuple(dict.fromkeys(known))
    if name not in names:
        near = get_close_matches(name.lower(), {each.lower(): each for each in names}, 1)
        meant = "".join(f". Did you mean {each!r}?" for each in names if near and each.lower() == near[0])
        few = f"choose one of {', '.join(names)}" if names else "there are none"
        listed = len(names) <= _LISTED_MOST
        choice = few if listed else f"there are {len(names)} others"
        where = "" if listed or not listed_by else f"{' ' if meant else '. '}`{listed_by}` lists them"
        raise InvalidArgument(f"there is no {kind} {name!r}; {choice}{meant}{where}", clause=clause)


_LISTED_MOST = 24
"""Names that a message has at most."""


def in_table(table: str, text: str) -> str:
    """``text``, with the table named in front unless it is in there."""
    return f"{table}: {text}" if table not in text else text


class Outcome(MemwalError):
    """An expected result of a protocol step. Carries fields; each kind has one sentence, which they complete."""

    SENTENCE: ClassVar[str] = ""

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        super().__init__(self.SENTENCE.format_map(fields))

    def __str__(self) -> str:
        return in_table(self.table, super().__str__())


class NotFound(Outcome):
    """There is no object of that name. ``said``: the sentence for a person who named a table, where that is known."""

    SENTENCE = "{path} was not found"

    def __init__(self, path: str, said: str = "") -> None:
        super().__init__(path=path)
        self.path, self.said = path, said

    def __str__(self) -> str:
        return self.said or super().__str__()


class AlreadyExists(Outcome):
    """A conditional create found the name taken; nothing was written.

    ``said``: as of `NotFound`.
    """

    SENTENCE = "{path} is there already"

    def __init__(self, path: str, said: str = "") -> None:
        super().__init__(path=path)
        self.path, self.said = path, said

    def __str__(self) -> str:
        return self.said or super().__str__()


class OutcomeUnknown(Outcome):
    """The store did not answer: the request may have been applied, now or later, or not at all."""

    SENTENCE = "it is not known whether {path} was changed: {reason}"

    def __init__(self, path: str, reason: str = "no answer") -> None:
        super().__init__(path=path, reason=reason)
        self.path = path


class Unreachable(OutcomeUnknown):
    """No answer came, to a read or a change: the store cannot be reached, or did not answer in time.

    ``lasting``: nothing was answered for as long as the caller allows, so that no retry is due.
    """

    SENTENCE = "the store cannot be reached for {path}: {reason}"

    def __init__(self, path: str, reason: str = "no answer", *, lasting: bool = False) -> None:
        super().__init__(path, reason)
        self.lasting = lasting


class Throttled(Outcome):
    """The store refused the request for now; it was not applied."""

    SENTENCE = "the store was too busy for {path} and changed nothing: try again later"

    def __init__(self, path: str) -> None:
        super().__init__(path=path)
        self.path = path


class StorageError(Outcome):
    """The store refused the request for good: permission, full disk, unsupported operation; it was not applied."""

    SENTENCE = "{path}: {reason}"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path=path, reason=reason)
        self.path = path


class NoRoom(StorageError):
    """The machine lacks the memory, disk or open files to work on an object, which says nothing about the object."""


_REOPEN = "open a new writer to continue"


class Fenced(Outcome):
    """A higher epoch owns the region; the writer must stop."""

    SENTENCE = (
        "region {region} was claimed by another writer: its epoch is {epoch_stored}, and this one has {epoch_local}; "
        + _REOPEN
    )

    def __init__(self, region: RegionId, local: Epoch, stored: Epoch) -> None:
        super().__init__(region=region, epoch_local=local, epoch_stored=stored)
        self.region, self.local, self.stored = region, local, stored


class WriterStopped(Outcome):
    """The writer stopped after an earlier failure; reopen the region to continue (AMB-21)."""

    SENTENCE = "the writer of region {region} has stopped: {cause}{remedy}"

    def __init__(self, region: RegionId, cause: str) -> None:
        super().__init__(region=region, cause=cause, remedy="" if cause.endswith(_REOPEN) else f"; {_REOPEN}")
        self.region = region


class CloseFailed(Outcome):
    """Several things failed until a writer was closed. One alone is raised as it is.

    ``failures``: all of them, the first one first.
    """

    SENTENCE = "several things failed until the writer of region {region} was closed: {failures}"

    def __init__(self, region: RegionId, failures: Sequence[BaseException]) -> None:
        named = "; ".join(f"{type(failure).__name__}: {failure}" for failure in failures)
        super().__init__(region=region, failures=named)
        self.region, self.failures = region, tuple(failures)


class Conflict(Outcome):
    """A table commit lost against another one. ``retryable``: re-execute the operation on the newest version."""

    SENTENCE = "this {ours} was not committed, since version {version} came first: {reason}; {remedy}"

    def __init__(self, version: TableVersion, ours: str, theirs: str, *, retryable: bool, reason: str = "") -> None:
        super().__init__(
            version=version,
            ours=ours,
            theirs=theirs,
            retryable=retryable,
            reason=reason or f"{theirs or 'it'} and {ours} exclude each other",
            remedy="try again on the newest version" if retryable else "trying again does not help",
        )
        self.version, self.ours, self.theirs, self.retryable = version, ours, theirs, retryable


class AlreadyMerged(Outcome):
    """Merge progress of the newest table version is at or above the generation (MERGE-011)."""

    SENTENCE = "generation {generation} of region {region} is merged already: its merge progress is {progress}"

    def __init__(self, region: RegionId, generation: Generation, progress: Generation) -> None:
        super().__init__(region=region, generation=generation, progress=progress)
        self.region, self.generation, self.progress = region, generation, progress


class Unmergeable(Outcome):
    """A generation does not fit the base table as that is now; nothing was committed.

    Merging can be tried again when the table was changed so that it fits. ``path``: the generation; ``clause``: the
    requirement or ambiguity that forbids it.
    """

    SENTENCE = "generation {path} does not fit the table, and nothing was merged: {reason}"

    def __init__(self, path: str, reason: str, clause: str) -> None:
        super().__init__(path=path, reason=f"{reason} [{clause}]")
        self.path, self.clause = path, clause


class ArtifactError(MemwalError):
    """Bytes on the store break a clause of the specification.

    ``clause``: requirement or ambiguity id; ``path``: object name; ``offset``: byte offset where known, else None.
    """

    def __init__(self, clause: str, path: str, reason: str, offset: int | None = None) -> None:
        where = path if offset is None else f"{path} at byte {offset}"
        super().__init__(f"{where}: {reason} [{clause}]")
        self.clause, self.path, self.offset, self.reason = clause, path, offset, reason

    def __str__(self) -> str:
        return in_table(self.table, super().__str__())


class EngineBug(AssertionError):
    """One of our own assertions failed. Never caught: please report it."""
