"""What a request asks for: one of the operations of S3 that the gate serves, with its arguments."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import unquote
from xml.etree import ElementTree

from memwal.errors import InvalidArgument
from memwal.stores.base import check_name

from .http import RequestHead
from .limits import GateLimits
from .replies import Refusal

KEY_BYTES_MAX = 1024
DELETIONS_MAX = 1000
PAGE_MAX = 1000
PARTS_MAX = 10_000


class S3Operation(StrEnum):
    """What is asked for."""

    GET = "GET"
    HEAD = "HEAD"
    LIST = "LIST"
    PUT = "PUT"
    CREATE = "CREATE"
    """A put if the name is free."""
    COPY = "COPY"
    UPLOAD = "UPLOAD"
    """Begin a multipart upload."""
    PART = "PART"
    COMPLETE = "COMPLETE"
    """Make an object of the parts: the one step of a multipart upload that changes the store."""
    ABORT = "ABORT"
    PARTS = "PARTS"
    """List the parts of an upload."""
    DELETE = "DELETE"
    DELETE_MANY = "DELETE_MANY"
    BUCKET = "BUCKET"
    """Is the bucket there, and in which region?"""


GROUP_OF: Mapping[S3Operation, str] = MappingProxyType(
    {
        S3Operation.GET: "GET",
        S3Operation.HEAD: "HEAD",
        S3Operation.LIST: "LIST",
        S3Operation.PUT: "PUT",
        S3Operation.CREATE: "PUT",
        S3Operation.COPY: "PUT",
        S3Operation.UPLOAD: "PUT",
        S3Operation.PART: "PUT",
        S3Operation.COMPLETE: "PUT",
        S3Operation.ABORT: "DELETE",
        S3Operation.PARTS: "LIST",
        S3Operation.DELETE: "DELETE",
        S3Operation.DELETE_MANY: "DELETE",
        S3Operation.BUCKET: "HEAD",
    }
)
"""The five verbs by which faults are addressed."""


@dataclass(frozen=True, slots=True)
class ListingPage:
    """Which part of a listing."""

    prefix: str
    delimiter: str
    after: str
    """Only names behind this one."""
    token: str
    """As the client sent it; empty if it did not."""
    start_after: str
    keys_max: int
    encode: bool
    """Names are percent-encoded in the reply."""


@dataclass(slots=True)
class S3Call:
    """An operation and its arguments. Names are object names in the bucket, without a leading slash."""

    operation: S3Operation
    key: str = ""
    """The object; of LIST the prefix; empty where there are several, or none."""
    keys: tuple[str, ...] = ()
    """Of DELETE_MANY."""
    data: bytes = b""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Conditional headers that were sent, by lower-case name."""
    source: str = ""
    """Of COPY."""
    range_: str = ""
    page: ListingPage | None = None
    upload: str = ""
    part: int = 0
    parts: tuple[tuple[int, str], ...] = ()
    """Of COMPLETE: number and ETag of each part."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Headers that an object keeps and gives back."""
    sums: Mapping[str, str] = field(default_factory=dict)
    """Of COMPLETE: checksums of the whole object."""
    quiet: bool = False
    """Of DELETE_MANY: only failures are reported."""
    renewed: bool = False
    """Of COPY: the copy gets the headers of the request instead of the source's."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every object that the call may change, or the one that it reads, or the folder that it lists."""
        return self.keys or (self.key,)


_CONDITIONS = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since")
_OF_SOURCE = tuple(f"x-amz-copy-source-{name}" for name in _CONDITIONS)
_KEPT = frozenset({"content-type", "content-encoding", "content-disposition", "content-language", "cache-control"})
_ANYWHERE = frozenset({"x-id"})
"""Parameters that some clients add to tell operations apart in logs."""
_DIRECTIVES = ("COPY", "REPLACE")


def read(head: RequestHead, body: bytes, bucket: str, limits: GateLimits) -> S3Call:
    """The call that a request means. Raises `Refusal` for another bucket and for everything that is not served."""
    named, slash, rest = head.path[1:].partition("/")
    if _decoded(named) != bucket:
        if not named:
            raise Refusal("NotImplemented", "buckets are not listed: this gate has one")
        raise Refusal("NoSuchBucket", f"this gate has the bucket {bucket}")
    query = _parameters(head.query)
    if not slash or not rest:
        return _of_bucket(head, body, query)
    key = _key(rest)
    found = _OF_OBJECT.get((head.method, tuple(sorted(query.keys() - _ANYWHERE))))
    if found is None:
        if not query:
            raise Refusal("MethodNotAllowed", f"{head.method} of an object")
        raise Refusal("NotImplemented", f"{head.method} of an object with {', '.join(sorted(query))} is not served")
    return found(head, body, query, key, limits)


def sums_are_of_body(head: RequestHead) -> bool:
    """Whether checksums in the headers are those of the body, and not those of an object that comes to be."""
    return not (head.method == "POST" and "uploadId" in head.query)


@lru_cache(maxsize=4096)
def _parameters(query: str) -> Mapping[str, str]:
    pairs = [part.partition("=")[::2] for part in query.split("&") if part]
    found = {_decoded(name): _decoded(value) for name, value in pairs}
    if len(found) != len(pairs):
        raise Refusal("InvalidArgument", "a parameter of the query twice")
    return MappingProxyType(found)


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict") if "%" in text else text
    except UnicodeDecodeError:
        raise Refusal("InvalidURI", "a name is not UTF-8") from None


@lru_cache(maxsize=1 << 16)
def _key(text: str) -> str:
    return checked(_decoded(text))


def checked(key: str) -> str:
    """``key``, if the simulated store takes it as an object name; raises `Refusal`."""
    if len(key.encode(errors="surrogatepass")) > KEY_BYTES_MAX:
        raise Refusal("KeyTooLongError", f"a key has {KEY_BYTES_MAX} bytes at most")
    try:
        check_name(key)
    except InvalidArgument as mistake:
        raise Refusal("InvalidArgument", str(mistake)) from None
    return key


def _of_bucket(head: RequestHead, body: bytes, query: Mapping[str, str]) -> S3Call:
    match head.method:
        case "GET" if query.get("list-type") == "2":
            return _listing(query)
        case "HEAD" if not query.keys() - _ANYWHERE:
            return S3Call(S3Operation.BUCKET)
        case "POST" if query.keys() - _ANYWHERE == {"delete"}:
            return _delete_many(body)
    words = ", ".join(sorted(query)) or "no parameter"
    raise Refusal("NotImplemented", f"{head.method} of the bucket with {words} is not served")


_LISTING = frozenset(
    {
        "list-type",
        "prefix",
        "delimiter",
        "continuation-token",
        "start-after",
        "max-keys",
        "encoding-type",
        "fetch-owner",
    }
)


def _listing(query: Mapping[str, str]) -> S3Call:
    unknown = query.keys() - _LISTING - _ANYWHERE
    if unknown:
        raise Refusal("NotImplemented", f"a listing with {', '.join(sorted(unknown))} is not served")
    size, encoding = query.get("max-keys", str(PAGE_MAX)), query.get("encoding-type", "")
    if not size.isascii() or not size.isdigit() or encoding not in ("", "url"):
        raise Refusal("InvalidArgument", "max-keys is a number, encoding-type is url")
    token, start = query.get("continuation-token", ""), query.get("start-after", "")
    if token:
        try:
            after = base64.b64decode(token.encode(), b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            raise Refusal("InvalidArgument", "the continuation token is not from this gate") from None
    elif "continuation-token" in query:
        raise Refusal("InvalidArgument", "the continuation token is empty")
    else:
        after = start
    page = ListingPage(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        after=after,
        token=token,
        start_after=start,
        keys_max=min(int(size[:9] or "0"), PAGE_MAX),
        encode=encoding == "url",
    )
    return S3Call(S3Operation.LIST, key=page.prefix, page=page)


def _delete_many(body: bytes) -> S3Call:
    root = _xml(body, "Delete")
    keys: list[str] = []
    for item in root.iterfind("{*}Object"):
        extra = [child.tag.rpartition("}")[2] for child in item if child.tag.rpartition("}")[2] != "Key"]
        if extra:
            raise Refusal("NotImplemented", f"a deletion with {', '.join(extra)} is not served")
        keys.append(checked(item.findtext("{*}Key") or ""))
    if not 1 <= len(keys) <= DELETIONS_MAX:
        raise Refusal("MalformedXML", f"1 to {DELETIONS_MAX} objects at once")
    quiet = (root.findtext("{*}Quiet") or "").strip() == "true"
    return S3Call(S3Operation.DELETE_MANY, keys=tuple(keys), quiet=quiet)


def _xml(body: bytes, root: str) -> ElementTree.Element:
    if b"<!" in body:
        raise Refusal("MalformedXML", "a document with declarations")
    try:
        found = ElementTree.fromstring(body)  # noqa: S314 - without declarations there are no entities
    except (ElementTree.ParseError, ValueError):
        raise Refusal("MalformedXML", "the body is not XML") from None
    if found.tag.rpartition("}")[2] != root:
        raise Refusal("MalformedXML", f"the document is no {root}")
    return found


def _conditions(head: RequestHead, names: tuple[str, ...] = _CONDITIONS) -> Mapping[str, str]:
    return {name: head.headers[name] for name in names if name in head.headers}


def _kept(head: RequestHead) -> Mapping[str, str]:
    found = {name: head.headers[name] for name in head.headers if name in _KEPT or name.startswith("x-amz-meta-")}
    if "aws-chunked" in found.get("content-encoding", ""):
        rest = [part for part in found.pop("content-encoding").split(",") if part.strip() != "aws-chunked"]
        if rest:
            found["content-encoding"] = ",".join(rest)
    return found


Reader = Callable[[RequestHead, bytes, Mapping[str, str], str, GateLimits], S3Call]


def _get(head: RequestHead, _body: bytes, _query: Mapping[str, str], key: str, _limits: GateLimits) -> S3Call:
    operation = S3Operation.GET if head.method == "GET" else S3Operation.HEAD
    return S3Call(operation, key, range_=head.headers.get("range", ""), conditions=_conditions(head))


def _put(head: RequestHead, body: bytes, _query: Mapping[str, str], key: str, limits: GateLimits) -> S3Call:
    conditions = _conditions(head)
    if conditions.get("if-none-match", "*") != "*" or len(conditions) > 1 or conditions.keys() & set(_CONDITIONS[2:]):
        raise Refusal("NotImplemented", "a put takes If-None-Match: * or If-Match, one of them")
    if "x-amz-copy-source" in head.headers:
        return _copy(head, key, conditions)
    if len(body) > limits.object_bytes:
        raise Refusal("EntityTooLarge", f"this gate takes objects of {limits.object_bytes} bytes at most")
    operation = S3Operation.CREATE if "if-none-match" in conditions else S3Operation.PUT
    return S3Call(operation, key, data=body, conditions=conditions, kept=_kept(head))


def _copy(head: RequestHead, key: str, conditions: Mapping[str, str]) -> S3Call:
    named, _, version = head.headers["x-amz-copy-source"].partition("?")
    bucket, slash, source = _decoded(named).removeprefix("/").partition("/")
    directive = head.headers.get("x-amz-metadata-directive", "COPY")
    if version or directive not in _DIRECTIVES:
        raise Refusal("NotImplemented", "copies of versions, and directives but COPY and REPLACE, are not served")
    own = _decoded(head.path[1:].partition("/")[0])
    if bucket != own:
        raise Refusal("NoSuchBucket", f"this gate has the bucket {own}")
    if not slash or (source == key and directive == "COPY"):
        raise Refusal("InvalidRequest", "a copy names a source, and another one than its target")
    return S3Call(
        S3Operation.COPY,
        key,
        source=checked(source),
        conditions={**conditions, **_conditions(head, _OF_SOURCE)},
        kept=_kept(head),
        renewed=directive == "REPLACE",
    )


def _delete(head: RequestHead, _body: bytes, _query: Mapping[str, str], key: str, _limits: GateLimits) -> S3Call:
    conditions = _conditions(head)
    if conditions.keys() - {"if-match"}:
        raise Refusal("NotImplemented", "a deletion takes If-Match and no other condition")
    return S3Call(S3Operation.DELETE, key, conditions=conditions)


def _upload(head: RequestHead, _body: bytes, _query: Mapping[str, str], key: str, _limits: GateLimits) -> S3Call:
    return S3Call(S3Operation.UPLOAD, key, kept=_kept(head))


def _part(head: RequestHead, body: bytes, query: Mapping[str, str], key: str, _limits: GateLimits) -> S3Call:
    if "x-amz-copy-source" in head.headers:
        raise Refusal("NotImplemented", "parts that are copies are not served: copy in one request")
    return S3Call(S3Operation.PART, key, data=body, upload=query["uploadId"], part=_part_number(query["partNumber"]))


def _part_number(text: str) -> int:
    if re.fullmatch("[0-9]{1,5}", text) is None or not 1 <= int(text) <= PARTS_MAX:
        raise Refusal("InvalidArgument", f"a part number is 1 to {PARTS_MAX}")
    return int(text)


def _complete(head: RequestHead, body: bytes, query: Mapping[str, str], key: str, _limits: GateLimits) -> S3Call:
    conditions = _conditions(head)
    if conditions.get("if-none-match", "*") != "*" or len(conditions) > 1 or conditions.keys() & set(_CONDITIONS[2:]):
        raise Refusal("NotImplemented", "completion takes If-None-Match: * or If-Match, one of them")
    parts = tuple(
        (_part_number((item.findtext("{*}PartNumber") or "").strip()), (item.findtext("{*}ETag") or "").strip())
        for item in _xml(body, "CompleteMultipartUpload").iterfind("{*}Part")
    )
    if not parts:
        raise Refusal("MalformedXML", "no parts")
    sums = {name: value for name, value in head.headers.items() if name.startswith("x-amz-checksum-")}
    return S3Call(S3Operation.COMPLETE, key, conditions=conditions, upload=query["uploadId"], parts=parts, sums=sums)


def _abort(_head: RequestHead, _body: bytes, query: Mapping[str, str], key: str, _limits: GateLimits) -> S3Call:
    return S3Call(S3Operation.ABORT, key, upload=query["uploadId"])


def _parts(_head: RequestHead, _body: bytes, query: Mapping[str, str], key: str, _limits: GateLimits) -> S3Call:
    return S3Call(S3Operation.PARTS, key, upload=query["uploadId"])


_OF_OBJECT: Mapping[tuple[str, tuple[str, ...]], Reader] = MappingProxyType(
    {
        ("GET", ()): _get,
        ("HEAD", ()): _get,
        ("PUT", ()): _put,
        ("DELETE", ()): _delete,
        ("POST", ("uploads",)): _upload,
        ("PUT", ("partNumber", "uploadId")): _part,
        ("POST", ("uploadId",)): _complete,
        ("DELETE", ("uploadId",)): _abort,
        ("GET", ("uploadId",)): _parts,
    }
)
"""Method and parameters of a request for an object -> its reader."""
