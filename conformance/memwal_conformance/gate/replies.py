"""What the gate sends back: replies, and the ways in which a reply does not arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import Enum
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeAlias
from xml.sax.saxutils import escape

from memwal.errors import MemwalError

XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"

_NO_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP reply. ``size``: the Content-Length where it is not that of ``body``, as in replies to HEAD."""

    status: int
    headers: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    body: bytes = b""
    size: int | None = None


class Unanswered(Enum):
    """The connection ends, or stays as it is, without one byte of a reply."""

    RESET = "reset"
    """The connection is reset: the client learns that something is wrong, and nothing else."""
    NEVER = "never"
    """Nothing happens any more until the client or the gate gives up."""


@dataclass(frozen=True, slots=True)
class Half:
    """The first half of a reply; then the connection is closed."""

    reply: Reply


Answer: TypeAlias = Reply | Half | Unanswered
"""What a client gets to see of a request."""


STATUS_OF: Mapping[str, int] = MappingProxyType(
    {
        "AccessDenied": 403,
        "AuthorizationHeaderMalformed": 400,
        "BadDigest": 400,
        "ConditionalRequestConflict": 409,
        "EntityTooLarge": 400,
        "EntityTooSmall": 400,
        "IncompleteBody": 400,
        "InsufficientStorage": 507,
        "InternalError": 500,
        "InvalidAccessKeyId": 403,
        "InvalidArgument": 400,
        "InvalidPart": 400,
        "InvalidPartOrder": 400,
        "InvalidRange": 416,
        "InvalidRequest": 400,
        "InvalidToken": 400,
        "InvalidURI": 400,
        "KeyTooLongError": 400,
        "MalformedXML": 400,
        "MethodNotAllowed": 405,
        "MissingContentLength": 411,
        "NoSuchBucket": 404,
        "NoSuchKey": 404,
        "NoSuchUpload": 404,
        "NotImplemented": 501,
        "PreconditionFailed": 412,
        "RequestHeaderSectionTooLarge": 400,
        "RequestTimeTooSkewed": 403,
        "SignatureDoesNotMatch": 403,
        "SlowDown": 503,
        "XAmzContentSHA256Mismatch": 400,
    }
)
"""Code of an S3 error -> HTTP status."""

CODE_OF: Mapping[int, str] = MappingProxyType(
    {
        400: "InvalidRequest",
        403: "AccessDenied",
        404: "NoSuchKey",
        408: "RequestTimeout",
        409: "ConditionalRequestConflict",
        412: "PreconditionFailed",
        416: "InvalidRange",
        429: "TooManyRequests",
        500: "InternalError",
        501: "NotImplemented",
        503: "SlowDown",
        507: "InsufficientStorage",
    }
)
"""HTTP status -> the S3 error that a fault with this status shows."""


class Refusal(MemwalError):
    """The request is answered with an S3 error; ``code`` is a key of `STATUS_OF`."""

    def __init__(self, code: str, message: str, **headers: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def reply(self) -> Reply:
        """The reply that says so."""
        return error_reply(STATUS_OF[self.code], self.code, self.message, self.headers)


def error_reply(status: int, code: str, message: str, headers: Mapping[str, str] = _EMPTY) -> Reply:
    """An S3 error document."""
    body = f"{XML}<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    return Reply(status, {"Content-Type": "application/xml", **headers}, body.encode())


def xml_reply(root: str, inner: str, headers: Mapping[str, str] = _EMPTY) -> Reply:
    """A reply of status 200 whose document has the element ``root`` around ``inner``."""
    body = f'{XML}<{root} xmlns="{NAMESPACE}">{inner}</{root}>'
    return Reply(200, {"Content-Type": "application/xml", **headers}, body.encode())


@lru_cache(maxsize=4096)
def http_date(seconds: int) -> str:
    """A time in seconds since the Unix epoch, as HTTP headers write it."""
    return formatdate(seconds, usegmt=True)


@dataclass(slots=True)
class Framing:
    """Turns replies into bytes; numbers them."""

    sent: int = 0
    _lines: dict[int, str] = field(default_factory=dict)

    def head(self, reply: Reply, now_s: float, *, close: bool) -> bytes:
        """Status line and headers of ``reply``."""
        self.sent += 1
        status = reply.status
        line = self._lines.get(status)
        if line is None:
            line = self._lines[status] = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nServer: memwal\r\n"
        text = f"{line}Date: {http_date(int(now_s))}\r\nx-amz-request-id: {self.sent:016X}\r\n"
        for name, value in reply.headers.items():
            text += f"{name}: {value}\r\n"
        if status not in _NO_BODY:
            text += f"Content-Length: {len(reply.body) if reply.size is None else reply.size}\r\n"
        return (text + ("Connection: close\r\n\r\n" if close else "\r\n")).encode("latin-1")
