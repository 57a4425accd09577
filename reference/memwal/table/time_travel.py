"""Which version of a table a moment or a tag means.

A version is of the moment that its committer's clock said, in milliseconds; a text without a time zone is in UTC.
Source: MemWAL table documents, "Transaction Overview"; how a version is named is no part of the texts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..clauses import implements
from ..effects import Io
from ..errors import InvalidArgument, NotFound, check_name
from ..ids import Milliseconds, TableVersion
from . import tags
from .state import TableState, latest, load, timestamp_ms, versions

_EPOCH = datetime.fromtimestamp(0, UTC)
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
"""The last moment that Python can name; a version may say that it is of a later one."""


@implements("TXN-003")
async def chosen(io: Io, version: int | None, timestamp: str | datetime | None, tag: str | None) -> TableState:
    """The version of that number, the newest one at or before that moment, or the tagged one; the newest for none.

    Raises `NotFound` for a version that is not there, and `InvalidArgument` for two of the three, for a moment that is
    none or before all versions, and for a tag that is not there.
    """
    if sum(given is not None for given in (version, timestamp, tag)) > 1:
        raise InvalidArgument("give only one of version, timestamp and tag")
    if timestamp is not None:
        return await _at(io, moment_ms(timestamp))
    if tag is not None:
        known = await tags.versions(io)
        check_name("tag", tag, known)
        return await load(io, known[tag])
    return await (latest(io) if version is None else load(io, TableVersion(version)))


def moment_ms(timestamp: str | datetime) -> Milliseconds:
    """Milliseconds since 1970 of a moment in ISO 8601; in UTC if it has no time zone. Raises `InvalidArgument`."""
    try:
        moment = timestamp if isinstance(timestamp, datetime) else datetime.fromisoformat(timestamp.strip())
    except ValueError:
        forms = "'2026-11-23', '2026-11-23 14:05:06.789' (both UTC) or '2026-11-23T14:05:06+01:00'"
        raise InvalidArgument(f"timestamp {timestamp!r} is not a moment; write it like {forms}") from None
    zoned = moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)
    return Milliseconds((zoned - _EPOCH) // timedelta(milliseconds=1))


async def _at(io: Io, wanted_ms: Milliseconds) -> TableState:
    """The last version that is not later than ``wanted_ms``, by bisection: clocks of committers are assumed to advance.

    Versions that do not say when they were made, and those that a collector takes meanwhile, are left out.
    """
    held, low, found = list(await versions(io)), 0, None
    after_ms: Milliseconds | None = None
    high = len(held)
    while low < high:
        middle = (low + high) // 2
        try:
            state = await load(io, held[middle])
            made_ms = timestamp_ms(state)
        except NotFound:
            made_ms = None
        if made_ms is None:
            del held[middle]
            high -= 1
        elif made_ms <= wanted_ms:
            found, low = state, middle + 1
        else:
            after_ms, high = made_ms, middle
    if found is not None:
        return found
    if after_ms is None:
        raise NotFound(io.root)
    asked, first = (_EPOCH + timedelta(milliseconds=min(ms, _LAST_MS)) for ms in (wanted_ms, after_ms))
    raise InvalidArgument(
        f"there is no version of {asked.isoformat()} or before: the oldest one kept is of {first.isoformat()}"
    )
