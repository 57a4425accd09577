"""The simulated store behind S3: carries out calls, each in one step, and knows what `Contents` does not.

That is ETag, time and headers of each object, and uploads whose parts are not an object yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from xml.sax.saxutils import escape

from memwal.effects import Copy, Delete, Get, Head, Put, PutIfAbsent, StoreRequest
from memwal.errors import AlreadyExists
from memwal.stores.memory import Raised, Returned
from memwal_sim.store import Contents, perform

from .calls import S3Call, S3Operation
from .conditions import Stamp, of_reading, of_source, of_writing
from .limits import GateLimits
from .listing import listing
from .ranges import part_of
from .replies import Refusal, Reply, http_date, xml_reply
from .uploads import Uploads

Mutation = tuple[str, bytes | None]
"""An object that was written, or (None) deleted."""


class Shelf:
    """Objects of one bucket, as S3 shows them. Not safe for threads: one call at a time, which is the point."""

    def __init__(self, contents: Contents, limits: GateLimits, clock: Callable[[], float], region: str) -> None:
        self.contents = contents
        self.mutations: list[Mutation] = []
        """Changes of the store since this list was last emptied."""
        self._limits, self._clock, self._region = limits, clock, region
        self._stamps: dict[str, Stamp] = {}
        self._loaded_s = int(clock())
        self._kept_bytes = sum(map(len, contents.objects.values()))
        self._uploads = Uploads(limits)

    def carry_out(self, call: S3Call) -> Reply:
        """The honest reply to ``call``; afterwards it is done, or refused and nothing has changed."""
        try:
            return _CARRY_OUT[call.operation](self, call)
        except Refusal as refusal:
            return refusal.reply()

    def _bucket(self, _call: S3Call) -> Reply:
        return Reply(200, {"x-amz-bucket-region": self._region})

    def _get(self, call: S3Call) -> Reply:
        data = self._read(call.key)
        stamp = self._stamp(call.key, data)
        headers = self._described(stamp)
        if not of_reading(call.conditions, stamp):
            return Reply(304, headers)
        whole = part_of(call.range_, len(data))
        if whole is None:
            return Reply(200, headers, data)
        first, end = whole
        return Reply(206, {**headers, "Content-Range": f"bytes {first}-{end - 1}/{len(data)}"}, data[first:end])

    def _head(self, call: S3Call) -> Reply:
        reply = self._get(call)
        return Reply(reply.status, reply.headers, b"", None if reply.status == 304 else len(reply.body))

    def _list(self, call: S3Call) -> Reply:
        assert call.page is not None
        return listing(call.page, self.contents, self._stamp)

    def _put(self, call: S3Call) -> Reply:
        of_writing(call.conditions, self._stamp_if_there(call.key))
        return Reply(200, {"ETag": self._write(call, call.key, call.data, call.kept)})

    def _copy(self, call: S3Call) -> Reply:
        data = self._read(call.source)
        stamp = self._stamp(call.source, data)
        of_source(call.conditions, stamp)
        of_writing(call.conditions, self._stamp_if_there(call.key))
        self._room(call.key, len(data))
        self._step(Copy(call.source, call.key))
        self._changed(call.key, data)
        new = self._stamped(call.key, data, call.kept if call.renewed else stamp.kept)
        inner = f"<ETag>{escape(new.etag)}</ETag><LastModified>{new.iso}</LastModified>"
        return xml_reply("CopyObjectResult", inner)

    def _delete(self, call: S3Call) -> Reply:
        if call.conditions:
            of_writing(call.conditions, self._stamp_if_there(call.key))
        self._remove(call.key)
        return Reply(204)

    def _delete_many(self, call: S3Call) -> Reply:
        for key in call.keys:
            self._remove(key)
        told = () if call.quiet else call.keys
        inner = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in told)
        return xml_reply("DeleteResult", inner)

    def _upload(self, call: S3Call) -> Reply:
        identity = self._uploads.begin(call.key, call.kept)
        return xml_reply("InitiateMultipartUploadResult", _named(call.key) + f"<UploadId>{identity}</UploadId>")

    def _part(self, call: S3Call) -> Reply:
        self._count(len(call.data))
        return Reply(200, {"ETag": self._uploads.put(call.key, call.upload, call.part, call.data)})

    def _complete(self, call: S3Call) -> Reply:
        joined = self._uploads.joined(call.key, call.upload, call.parts, call.sums)
        of_writing(call.conditions, self._stamp_if_there(call.key))
        self._write(call, call.key, joined.data, joined.kept, joined.etag)
        self._uploads.end(call.key, call.upload)
        return xml_reply("CompleteMultipartUploadResult", _named(call.key) + f"<ETag>{escape(joined.etag)}</ETag>")

    def _abort(self, call: S3Call) -> Reply:
        self._uploads.end(call.key, call.upload)
        return Reply(204)

    def _parts(self, call: S3Call) -> Reply:
        parts = self._uploads.parts(call.key, call.upload)
        inner = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag><Size>{size}</Size></Part>"
            for number, etag, size in parts
        )
        uploaded = f"<UploadId>{call.upload}</UploadId><IsTruncated>false</IsTruncated>"
        return xml_reply("ListPartsResult", _named(call.key) + uploaded + inner)

    def _read(self, key: str) -> bytes:
        _, reply = perform(self.contents, Get(key))
        if isinstance(reply, Raised):
            raise Refusal("NoSuchKey", "there is no object of this name")
        assert isinstance(reply.value, bytes)
        return reply.value

    def _write(self, call: S3Call, key: str, data: bytes, kept: Mapping[str, str], etag: str = "") -> str:
        """Write an object; its ETag."""
        self._room(key, len(data))
        absent_only = "if-none-match" in call.conditions
        self._step(PutIfAbsent(key, data) if absent_only else Put(key, data))
        self._changed(key, data)
        return self._stamped(key, data, kept, etag).etag

    def _remove(self, key: str) -> None:
        if not isinstance(perform(self.contents, Head(key))[1], Returned):
            return
        self._step(Delete(key))
        self._changed(key, None)
        self._stamps.pop(key, None)

    def _step(self, request: StoreRequest[Any]) -> None:
        self.contents, reply = perform(self.contents, request)
        if isinstance(reply, Raised):
            assert reply.kind is AlreadyExists, reply
            raise Refusal("PreconditionFailed", "there is an object of this name")

    def _changed(self, key: str, data: bytes | None) -> None:
        self.mutations.append((key, data))

    def _room(self, key: str, size: int) -> None:
        """Raise `Refusal` if one more object, of ``size`` bytes, is more than the gate keeps; else count it."""
        if len(self.contents) >= self._limits.objects and key not in self.contents:
            raise Refusal("InsufficientStorage", f"this gate keeps {self._limits.objects} objects")
        self._count(size)

    def _count(self, size: int) -> None:
        if self._kept_bytes + size > self._limits.kept_bytes:
            raise Refusal(
                "InsufficientStorage", f"this gate keeps {self._limits.kept_bytes} bytes, old states included"
            )
        self._kept_bytes += size

    def _stamp_if_there(self, key: str) -> Stamp | None:
        data = self.contents.objects.get(key)
        return None if data is None else self._stamp(key, data)

    def _stamp(self, key: str, data: bytes) -> Stamp:
        known = self._stamps.get(key)
        if known is None:
            known = self._stamps[key] = Stamp(etag_of(data), self._loaded_s, {})
        return known

    def _stamped(self, key: str, data: bytes, kept: Mapping[str, str], etag: str = "") -> Stamp:
        new = self._stamps[key] = Stamp(etag or etag_of(data), int(self._clock()), kept)
        return new

    def _described(self, stamp: Stamp) -> dict[str, str]:
        described = {"ETag": stamp.etag, "Last-Modified": http_date(stamp.modified_s), "Accept-Ranges": "bytes"}
        if "content-type" not in stamp.kept:
            described["Content-Type"] = "binary/octet-stream"
        return described if not stamp.kept else {**described, **stamp.kept}


def etag_of(data: bytes) -> str:
    """ETag of an object that was written in one piece, with its quotation marks."""
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _named(key: str) -> str:
    return f"<Key>{escape(key)}</Key>"


_CARRY_OUT: dict[S3Operation, Callable[[Shelf, S3Call], Reply]] = {
    S3Operation.GET: Shelf._get,
    S3Operation.HEAD: Shelf._head,
    S3Operation.LIST: Shelf._list,
    S3Operation.PUT: Shelf._put,
    S3Operation.CREATE: Shelf._put,
    S3Operation.COPY: Shelf._copy,
    S3Operation.DELETE: Shelf._delete,
    S3Operation.DELETE_MANY: Shelf._delete_many,
    S3Operation.UPLOAD: Shelf._upload,
    S3Operation.PART: Shelf._part,
    S3Operation.COMPLETE: Shelf._complete,
    S3Operation.ABORT: Shelf._abort,
    S3Operation.PARTS: Shelf._parts,
    S3Operation.BUCKET: Shelf._bucket,
}
