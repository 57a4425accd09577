"""The heads of HTTP/1.1 requests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .limits import GateLimits
from .replies import Refusal

END = b"\r\n\r\n"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ONCE = frozenset({"authorization", "content-length", "host", "x-amz-content-sha256", "x-amz-date", "expect"})
_METHODS_WITH_BODY = frozenset({"PUT", "POST"})


@dataclass(slots=True)
class RequestHead:
    """One request without its body."""

    method: str
    path: str
    """As sent, with percent signs."""
    query: str
    """As sent, without the question mark."""
    headers: dict[str, str]
    """By lower-case name; values of repeated headers are joined by commas."""
    body_bytes: int
    close: bool
    """The client wants the connection closed after the reply."""
    expects_continue: bool


def parse(raw: bytes, limits: GateLimits) -> RequestHead:
    """The head whose bytes are ``raw``, without the empty line at its end.

    Raises `Refusal` for what is no HTTP/1.1, for more than the limits allow, and for a body without a declared length.
    The connection is of no use afterwards: where the next request begins is not known.
    """
    text = raw.decode("latin-1")
    lines = text.split("\r\n")
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
        raise Refusal("InvalidRequest", "a line of the head has a control character in it")
    if len(lines) - 1 > limits.headers:
        raise Refusal("RequestHeaderSectionTooLarge", f"more than {limits.headers} headers")
    words = lines[0].split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not words[1].startswith("/"):
        raise Refusal("InvalidRequest", "the request line is not METHOD /path HTTP/1.1")
    method, target, version = words
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise Refusal("InvalidRequest", "a header is not Name: value")
        name = _name(name)
        value = value.strip(" \t")
        if name in headers:
            if name in _ONCE:
                raise Refusal("InvalidRequest", f"header {name} twice")
            value = f"{headers[name]},{value}"
        headers[name] = value
    if "transfer-encoding" in headers:
        raise Refusal("NotImplemented", "Transfer-Encoding is not served: declare a Content-Length")
    path, _, query = target.partition("?")
    connection = headers.get("connection", "").lower()
    return RequestHead(
        method,
        path,
        query,
        headers,
        _body_bytes(method, headers, limits),
        close="close" in connection or (version == "HTTP/1.0" and "keep-alive" not in connection),
        expects_continue=headers.get("expect", "").lower() == "100-continue",
    )


@lru_cache(maxsize=1024)
def _name(text: str) -> str:
    if _TOKEN.fullmatch(text) is None:
        raise Refusal("InvalidRequest", "a header is not Name: value")
    return text.lower()


def _body_bytes(method: str, headers: dict[str, str], limits: GateLimits) -> int:
    declared = headers.get("content-length")
    if declared is None:
        if method in _METHODS_WITH_BODY and "x-amz-copy-source" not in headers:
            raise Refusal("MissingContentLength", "declare a Content-Length")
        return 0
    if not declared.isascii() or not declared.isdigit() or len(declared) > 15:
        raise Refusal("InvalidRequest", "Content-Length is not a number")
    if int(declared) > limits.object_bytes + limits.head_bytes:
        raise Refusal("EntityTooLarge", f"this gate takes objects of {limits.object_bytes} bytes at most")
    return int(declared)
