"""From the bytes of a request's body to the bytes that are meant, with everything that the client says about them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Mapping

from .replies import Refusal
from .signing import UNSIGNED, UNSIGNED_CHUNKS

_SUMS: Mapping[str, Callable[[bytes], bytes]] = {
    "x-amz-checksum-crc32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "x-amz-checksum-sha1": lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
    "x-amz-checksum-sha256": lambda data: hashlib.sha256(data).digest(),
    "content-md5": lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
}
_SAYS_NO_SUM = frozenset({"x-amz-checksum-mode", "x-amz-checksum-algorithm", "x-amz-checksum-type"})
_PREFIX = "x-amz-checksum-"


def decode(headers: Mapping[str, str], body: bytes, signed: str, *, sums: bool = True) -> bytes:
    """The payload; ``signed``: the value of x-amz-content-sha256, which `signing.verify` has accepted.

    ``sums``: the checksums in the headers are those of the payload; they are compared. Raises `Refusal` for a body that
    is not what was signed, for chunks that are none, and as `compare` does.
    """
    if signed == UNSIGNED_CHUNKS:
        body, trailer = _unchunked(body)
        announced = headers.get("x-amz-trailer", "").lower()
        if set(trailer) != set(filter(None, announced.split(","))):
            raise Refusal("InvalidRequest", f"the trailer is not what x-amz-trailer announces: {announced}")
        if headers.get("x-amz-decoded-content-length") != str(len(body)):
            raise Refusal("IncompleteBody", "x-amz-decoded-content-length is not the length of the chunks")
        headers = {**headers, **trailer}
    elif signed != UNSIGNED and hashlib.sha256(body).hexdigest() != signed:
        raise Refusal("XAmzContentSHA256Mismatch", "the body is not the one that was signed")
    if sums:
        compare(headers, body)
    return body


def compare(headers: Mapping[str, str], data: bytes) -> None:
    """Compare every checksum in ``headers`` with ``data``.

    Raises `Refusal` if one differs, and for those that this gate cannot compute (crc32c and crc64nvme).
    """
    for name, value in headers.items():
        if name in _SUMS:
            _compare(name, value, _SUMS[name](data))
        elif name.startswith(_PREFIX) and name not in _SAYS_NO_SUM:
            raise Refusal("NotImplemented", f"{name} is not served: use crc32, sha1 or sha256")


def _compare(name: str, value: str, found: bytes) -> None:
    try:
        expected = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal("InvalidRequest", f"{name} is not base64") from None
    if expected != found:
        raise Refusal("BadDigest", f"{name} is not the one of the body")


def _unchunked(body: bytes) -> tuple[bytes, dict[str, str]]:
    """Payload and trailer of the aws-chunked encoding."""
    chunks: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at)
        digits = body[at:end].partition(b";")[0]
        if end < 0 or not 1 <= len(digits) <= 8 or not digits.isalnum():
            raise Refusal("IncompleteBody", "a chunk has no size")
        try:
            size = int(digits, 16)
        except ValueError:
            raise Refusal("IncompleteBody", "a chunk has no size") from None
        at = end + 2
        if size == 0:
            return b"".join(chunks), _trailer(body[at:])
        chunks.append(body[at : at + size])
        at += size
        if body[at : at + 2] != b"\r\n":
            raise Refusal("IncompleteBody", "a chunk is shorter than its size")
        at += 2


def _trailer(text: bytes) -> dict[str, str]:
    lines = text.decode("latin-1").split("\r\n")
    if lines[-2:] != ["", ""] and lines != [""]:
        raise Refusal("IncompleteBody", "the trailer has no end")
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}
