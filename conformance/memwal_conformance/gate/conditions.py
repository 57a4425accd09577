"""Conditional headers, and what they are held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from .replies import Refusal


@dataclass(frozen=True, slots=True)
class Stamp:
    """What S3 says about an object besides its bytes."""

    etag: str
    """With its quotation marks."""
    modified_s: int
    """Seconds since the Unix epoch."""
    kept: Mapping[str, str]
    """Headers that came with the object and go with it."""

    @property
    def iso(self) -> str:
        """The time of the last change, as documents write it."""
        return datetime.fromtimestamp(self.modified_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def of_reading(conditions: Mapping[str, str], stamp: Stamp) -> bool:
    """Whether to send the object; False: the client's copy is good. Raises `Refusal` if a precondition fails."""
    if not conditions:
        return True
    wanted, unwanted = conditions.get("if-match"), conditions.get("if-none-match")
    if wanted is not None:
        if not _matches(wanted, stamp):
            raise _failed("if-match")
    elif _after(stamp, conditions.get("if-unmodified-since")):
        raise _failed("if-unmodified-since")
    if unwanted is not None:
        return not _matches(unwanted, stamp)
    since = conditions.get("if-modified-since")
    return since is None or _after(stamp, since) is not False


def of_writing(conditions: Mapping[str, str], stamp: Stamp | None) -> None:
    """Raises `Refusal` unless the object may be written, or deleted; ``stamp`` is None if it is not there."""
    wanted = conditions.get("if-match")
    if "if-none-match" in conditions and stamp is not None:
        raise _failed("if-none-match")
    if wanted is not None:
        if stamp is None:
            raise Refusal("NoSuchKey", "there is no object of this name that could match")
        if not _matches(wanted, stamp):
            raise _failed("if-match")


def of_source(conditions: Mapping[str, str], stamp: Stamp) -> None:
    """Raises `Refusal` unless an object with ``stamp`` may be copied."""
    prefix = "x-amz-copy-source-"
    own = {name.removeprefix(prefix): value for name, value in conditions.items() if name.startswith(prefix)}
    if not of_reading(own, stamp):
        raise _failed("x-amz-copy-source")


def _failed(name: str) -> Refusal:
    return Refusal("PreconditionFailed", f"the condition {name} does not hold")


def _matches(tags: str, stamp: Stamp) -> bool:
    listed = [tag.strip() for tag in tags.split(",")]
    return "*" in listed or stamp.etag in listed or stamp.etag.strip('"') in listed


def _after(stamp: Stamp, date: str | None) -> bool | None:
    """Whether the object was changed after ``date``; None if that is no date, which is then ignored."""
    if date is None:
        return None
    try:
        return stamp.modified_s > parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
