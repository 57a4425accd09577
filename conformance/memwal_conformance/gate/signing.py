"""AWS Signature Version 4 in headers: made by the probe, verified by the gate."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote, unquote, unquote_to_bytes

from .replies import Refusal

UNSIGNED = "UNSIGNED-PAYLOAD"
UNSIGNED_CHUNKS = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SKEW_MAX_S = 900

_ALGORITHM = "AWS4-HMAC-SHA256"
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.~/-]*")
_HEX = re.compile(r"[0-9a-f]{64}")
_OF_SOME_GATE = re.compile(r"GATE[0-9A-F]{16}")


class OfAnotherGate(Refusal):
    """Another gate made the access key. Its holder is late: the port was that gate's, and has been given again."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The key of one actor."""

    actor: str
    access_key: str
    secret_key: str = field(repr=False)
    region: str = "us-east-1"

    @classmethod
    def made(cls, actor: str, region: str) -> Credentials:
        """A key that no gate has made before."""
        return cls(actor, f"GATE{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30), region)


@dataclass(frozen=True, slots=True)
class Claim:
    """The parts of an Authorization header but the signature."""

    access_key: str
    date: str
    region: str
    signed: tuple[str, ...]


def verify(
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    keys: Mapping[str, Credentials],
    now_s: float,
) -> tuple[Credentials, str]:
    """Who signed the request, and what the signature says about the payload: a digest, or one of the constants above.

    ``headers`` by lower-case name. The payload is left to the caller. Raises `Refusal`.
    """
    claim, made = _claim(headers, query)
    known = keys.get(claim.access_key)
    if known is None:
        if _OF_SOME_GATE.fullmatch(claim.access_key):
            raise OfAnotherGate("InvalidAccessKeyId", "this access key is from another gate")
        raise Refusal("InvalidAccessKeyId", "no actor of this gate has this access key")
    if claim.region != known.region:
        raise Refusal("AuthorizationHeaderMalformed", f"the region is {known.region}, not {claim.region}")
    payload, stamp = headers.get("x-amz-content-sha256", ""), headers.get("x-amz-date", "")
    if payload not in (UNSIGNED, UNSIGNED_CHUNKS) and _HEX.fullmatch(payload) is None:
        if payload.startswith("STREAMING-"):
            raise Refusal("NotImplemented", "chunks with signatures of their own are not served: sign the payload")
        raise Refusal("InvalidRequest", "x-amz-content-sha256 is missing or neither a digest nor UNSIGNED-PAYLOAD")
    if not stamp.startswith(claim.date) or abs(_seconds(stamp) - now_s) > SKEW_MAX_S:
        raise Refusal("RequestTimeTooSkewed", "x-amz-date is more than 15 minutes away from the gate's time")
    missing = [name for name in headers if name.startswith("x-amz-") and name not in claim.signed]
    if "host" not in claim.signed or missing or any(name not in headers for name in claim.signed):
        raise Refusal("AccessDenied", f"host and every x-amz- header must be signed: {', '.join(missing) or 'host'}")
    expected = signature(known, method, path, query, headers, claim.signed, payload, stamp)
    if not hmac.compare_digest(expected.encode(), made.encode()):
        raise Refusal("SignatureDoesNotMatch", "the signature is not the one of this request and key")
    return known, payload


def sign(
    credentials: Credentials, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, now_s: float
) -> dict[str, str]:
    """``headers`` (lower-case, host among them) and the headers that sign them and ``body``."""
    stamp = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%SZ")
    payload = hashlib.sha256(body).hexdigest()
    whole = {**headers, "x-amz-date": stamp, "x-amz-content-sha256": payload}
    names = tuple(sorted(whole))
    made = signature(credentials, method, path, query, whole, names, payload, stamp)
    scope = f"{credentials.access_key}/{stamp[:8]}/{credentials.region}/s3/aws4_request"
    whole["authorization"] = f"{_ALGORITHM} Credential={scope}, SignedHeaders={';'.join(names)}, Signature={made}"
    return whole


def signature(
    credentials: Credentials,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    signed: tuple[str, ...],
    payload: str,
    stamp: str,
) -> str:
    """64 hexadecimal digits. ``path`` and ``query`` as sent; ``stamp``: the value of x-amz-date."""
    lines = "".join([f"{name}:{_trimmed(headers[name])}\n" for name in signed])
    canonical = f"{method}\n{_path(path)}\n{_query(query)}\n{lines}\n{';'.join(signed)}\n{payload}"
    digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
    date = stamp[:8]
    words = f"{_ALGORITHM}\n{stamp}\n{date}/{credentials.region}/s3/aws4_request\n{digest}"
    return hmac.digest(_key(credentials.secret_key, date, credentials.region), words.encode(), "sha256").hex()


@lru_cache(maxsize=1024)
def _key(secret: str, date: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _claim(headers: Mapping[str, str], query: str) -> tuple[Claim, str]:
    text = headers.get("authorization")
    if "x-amz-security-token" in headers:
        raise Refusal("InvalidToken", "keys of this gate have no session token")
    if text is None:
        what = "signatures in the query are not served" if "X-Amz-Signature" in query else "the request is not signed"
        raise Refusal("AccessDenied", what)
    begin, _, made = text.rpartition("Signature=")
    return _scope(begin), made.strip()


@lru_cache(maxsize=4096)
def _scope(text: str) -> Claim:
    algorithm, _, rest = text.partition(" ")
    fields = dict(part.strip().partition("=")[::2] for part in rest.rstrip(", ").split(","))
    if algorithm != _ALGORITHM or fields.keys() != {"Credential", "SignedHeaders"}:
        raise Refusal(
            "AuthorizationHeaderMalformed",
            f"Authorization is not {_ALGORITHM} with Credential, SignedHeaders and, at the end, Signature",
        )
    parts = fields["Credential"].split("/")
    signed = tuple(fields["SignedHeaders"].split(";"))
    if len(parts) != 5 or parts[3:] != ["s3", "aws4_request"]:
        raise Refusal("AuthorizationHeaderMalformed", "Credential is not KEY/DATE/REGION/s3/aws4_request")
    if signed != tuple(sorted({name.lower() for name in signed})):
        raise Refusal("AuthorizationHeaderMalformed", "SignedHeaders are not lower-case, sorted and distinct")
    return Claim(parts[0], parts[1], parts[2], signed)


@lru_cache(maxsize=64)
def _seconds(stamp: str) -> float:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise Refusal("AccessDenied", "x-amz-date is not YYYYMMDDTHHMMSSZ") from None


def _trimmed(value: str) -> str:
    return " ".join(value.split()) if "  " in value else value


def _path(path: str) -> str:
    return path if _PLAIN_PATH.fullmatch(path) else quote(unquote_to_bytes(path), safe="/~")


@lru_cache(maxsize=4096)
def _query(query: str) -> str:
    pairs = (part.partition("=")[::2] for part in query.split("&") if part)
    return "&".join(f"{name}={value}" for name, value in sorted((_encoded(n), _encoded(v)) for n, v in pairs))


def _encoded(text: str) -> str:
    return quote(unquote(text, errors="surrogateescape"), safe="~", errors="surrogateescape")
