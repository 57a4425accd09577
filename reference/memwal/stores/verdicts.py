"""What an exception of obstore says about the request: the error map of the object stores.

obstore tells apart few classes of errors. For the rest (``GenericError``) the HTTP status is only in the text. Reading
it there is safe because the map leans to one side: whatever is not recognised leaves the fate of a change open.
"""

from __future__ import annotations

import re
from enum import Enum

from obstore import exceptions

RAISED = (exceptions.BaseError, OSError, ValueError, NotImplementedError)
"""Everything that a method of an obstore store raises."""


class StoreVerdict(Enum):
    """What became of the request."""

    ABSENT = "the object, or the bucket, is not there"
    TAKEN = "the object is there already, or another request on it is under way"
    REFUSED = "refused for good, not applied"
    LATER = "refused for now, not applied"
    OPEN = "may have been applied, now or later, or not at all"
    SILENT = "the same, and no answer came"


_BY_CLASS: dict[type[BaseException], StoreVerdict] = {
    FileNotFoundError: StoreVerdict.ABSENT,
    exceptions.AlreadyExistsError: StoreVerdict.TAKEN,
    exceptions.PreconditionError: StoreVerdict.REFUSED,
    exceptions.NotModifiedError: StoreVerdict.REFUSED,
    exceptions.PermissionDeniedError: StoreVerdict.REFUSED,
    exceptions.UnauthenticatedError: StoreVerdict.REFUSED,
    exceptions.NotSupportedError: StoreVerdict.REFUSED,
    exceptions.InvalidPathError: StoreVerdict.REFUSED,
    exceptions.UnknownConfigurationKeyError: StoreVerdict.REFUSED,
    NotImplementedError: StoreVerdict.REFUSED,
    ValueError: StoreVerdict.REFUSED,
    exceptions.JoinError: StoreVerdict.OPEN,
    TimeoutError: StoreVerdict.SILENT,
    ConnectionError: StoreVerdict.SILENT,
}
_BY_STATUS = {408: StoreVerdict.OPEN, 409: StoreVerdict.LATER, 429: StoreVerdict.LATER, 501: StoreVerdict.REFUSED}
_BY_HUNDRED = {3: StoreVerdict.REFUSED, 4: StoreVerdict.REFUSED, 5: StoreVerdict.OPEN}
_STATUS = re.compile(r"Server returned non-2xx status code: (\d{3})")
_NOT_APPLIED = (
    "HTTP error: builder error",  # not even sent, for instance as plain HTTP that the options do not allow
    "Received redirect without LOCATION",  # what S3 says to a request in the wrong region
)
_TRANSPORT = "HTTP error"
_QUERY = re.compile(r"\?\S+")


def verdict(error: BaseException, *, changes: bool) -> StoreVerdict:
    """Judge ``error``, raised by a request that ``changes`` the store or by one that only reads (never `OPEN`)."""
    known = (_BY_CLASS[kind] for kind in type(error).__mro__ if kind in _BY_CLASS)
    found = next(known, None) or _by_text(error, changes)
    return StoreVerdict.LATER if found is StoreVerdict.OPEN and not changes else found


def status(error: BaseException) -> int | None:
    """The HTTP status that ``error`` reports, if it does."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def reason(error: BaseException) -> str:
    """What ``error`` says, on one line, without debugging details and without the query of a URL (it may be signed)."""
    text = str(error).partition("\n\nDebug source")[0]
    return _QUERY.sub("", " ".join(text.split()))


def _by_text(error: BaseException, changes: bool) -> StoreVerdict:
    text, number = str(error), status(error)
    if number is not None:
        return _BY_STATUS.get(number) or _BY_HUNDRED.get(number // 100, StoreVerdict.OPEN)
    if any(words in text for words in _NOT_APPLIED):
        return StoreVerdict.REFUSED
    if _TRANSPORT in text:
        return StoreVerdict.SILENT
    return StoreVerdict.OPEN if changes else StoreVerdict.REFUSED
