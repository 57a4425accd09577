"""What has to be certain before the protocol continues: that a create succeeded, that an object is damaged or lost.

Conditional creates are only for objects whose bytes no other process can write: those with a fresh random part in name
or content, and WAL entries, which carry the epoch of a confirmed claim. Then finding the own bytes after an unanswered
attempt proves that the attempt succeeded. A claim has no such part (AMB-28) and must not come here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from .clauses import implements
from .effects import Commits, Copy, Io
from .errors import AlreadyExists, ArtifactError, NotFound, OutcomeUnknown, StorageError, Throttled
from .ids import Milliseconds

T = TypeVar("T")

ATTEMPTS = 12
"""Attempts before the outcome is reported as unknown; with doubling pauses about 20 seconds on a real store."""
_PAUSE_MS = 10


@implements("AMB-06", "AMB-14", "AMB-143")
async def damage(look: Callable[[], Awaitable[T]]) -> T:
    """What ``look`` finds; damage is believed when two looks, one after the other, find it.

    One look is several requests, and no listing is of one moment: where the first thing is missing and the second is
    there, both may have come in between. A second look finds the first thing, or it was lost.
    """
    try:
        return await look()
    except ArtifactError:
        return await look()


async def _until_known(io: Io, name: str, attempt: Callable[[bool], Awaitable[None]]) -> None:
    """Make ``attempt`` to change ``name`` again until its outcome is known.

    It is told whether an earlier one may have been applied.

    Raises what ``attempt`` raises, but `Throttled` and `StorageError` only where every attempt was answered: one that
    was not may have been applied, whatever became of the later ones, and then it is `OutcomeUnknown`.
    """
    unsure = False
    for number in range(ATTEMPTS):
        try:
            await attempt(unsure)
        except OutcomeUnknown:
            unsure = True
            if number == ATTEMPTS - 1:
                raise
        except (Throttled, StorageError) as refused:
            last = number == ATTEMPTS - 1 or isinstance(refused, StorageError)
            if last and unsure:
                raise OutcomeUnknown(io.path(name), f"no answer, and then {refused}") from refused
            if last:
                raise
        else:
            return
        await io.sleep(Milliseconds(_PAUSE_MS * 2**number))


@implements("AMB-14")
async def create(io: Io, name: str, data: bytes) -> None:
    """Create ``name`` with ``data``, repeating the same bytes until the outcome is known.

    Raises `AlreadyExists` if the name is another's, and as `_until_known` does.
    """

    async def attempt(unsure: bool) -> None:
        try:
            await io.put_if_absent(name, data)
        except AlreadyExists:
            if not unsure or not await is_ours(io, name, data):
                raise
            await io.note("recognised", path=io.path(name))

    await _until_known(io, name, attempt)


async def create_fresh(io: Io, name: str, data: bytes) -> None:
    """Create ``name``, which has a random part that no other process can have chosen, until it is known to be there.

    Conditionally where the store can do that, so that a mistake about the name is noticed. Raises as `create` does.
    """
    if io.commits is Commits.PUT:
        await create(io, name, data)
    else:
        await create_unconditionally(io, name, data)


async def create_unconditionally(io: Io, name: str, data: bytes) -> None:
    """Put ``name``, whose name no other process can have chosen; repeated until it is known to be there."""

    async def attempt(_: bool) -> None:
        await io.put(name, data)

    await _until_known(io, name, attempt)


async def copy(source: Io, target: Io, name: str) -> None:
    """Copy ``name`` from one folder to another, where no other process writes it; until it is known to be there.

    Raises `NotFound`.
    """

    async def attempt(_: bool) -> None:
        await Copy(source.path(name), target.path(name))

    await _until_known(target, name, attempt)


async def delete(io: Io, name: str) -> None:
    """Delete ``name``, and again while the outcome is unknown: deleting what is not there succeeds.

    Only for names under which nothing is created again: a request may be applied late.
    """

    async def attempt(_: bool) -> None:
        await io.delete(name)

    await _until_known(io, name, attempt)


async def rename(io: Io, source: str, target: str, data: bytes) -> None:
    """Move ``source``, which holds ``data`` and is no other process's, to ``target``, until the outcome is known.

    Raises `AlreadyExists` if the target is another's, and as `_until_known` does.
    """

    async def attempt(unsure: bool) -> None:
        try:
            await io.rename_if_absent(source, target)
        except (AlreadyExists, NotFound):
            if not unsure or not await is_ours(io, target, data):
                raise

    await _until_known(io, target, attempt)


async def is_ours(io: Io, name: str, data: bytes) -> bool:
    """Whether ``name`` is there and holds ``data``, bytes that no other process can have written."""
    try:
        return await io.get(name) == data
    except NotFound:
        return False
