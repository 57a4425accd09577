"""Multipart uploads under way: parts that are not an object yet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from .limits import GateLimits
from .payload import compare
from .replies import Refusal


@dataclass(slots=True)
class Upload:
    """One upload."""

    key: str
    kept: Mapping[str, str]
    parts: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    """Number -> ETag and bytes."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The object that an upload makes."""

    data: bytes
    etag: str
    kept: Mapping[str, str]


class Uploads:
    """All uploads of a gate. They are no part of the store's contents, and no crash state has them."""

    def __init__(self, limits: GateLimits) -> None:
        self._limits = limits
        self._begun = 0
        self._open: dict[str, Upload] = {}

    def begin(self, key: str, kept: Mapping[str, str]) -> str:
        """A new upload; returns its id."""
        if len(self._open) >= self._limits.uploads:
            raise Refusal("InsufficientStorage", f"this gate has {self._limits.uploads} uploads under way at most")
        self._begun += 1
        identity = f"upload-{self._begun}"
        self._open[identity] = Upload(key, kept)
        return identity

    def put(self, key: str, identity: str, number: int, data: bytes) -> str:
        """Add or replace a part; returns its ETag."""
        upload = self._find(key, identity)
        others = sum(len(part) for other, (_, part) in upload.parts.items() if other != number)
        if others + len(data) > self._limits.object_bytes or len(upload.parts) >= self._limits.parts:
            raise Refusal("EntityTooLarge", f"{self._limits.object_bytes} bytes and {self._limits.parts} parts at most")
        etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        upload.parts[number] = etag, data
        return etag

    def parts(self, key: str, identity: str) -> list[tuple[int, str, int]]:
        """Number, ETag and size of each part."""
        return [(number, etag, len(data)) for number, (etag, data) in sorted(self._find(key, identity).parts.items())]

    def joined(self, key: str, identity: str, parts: tuple[tuple[int, str], ...], sums: Mapping[str, str]) -> Joined:
        """What the named parts make. Raises `Refusal` if one is missing, other, too small, or out of order."""
        upload = self._find(key, identity)
        numbers = [number for number, _ in parts]
        if numbers != sorted(set(numbers)):
            raise Refusal("InvalidPartOrder", "part numbers do not ascend")
        for number, etag in parts:
            known = upload.parts.get(number)
            if known is None or known[0].strip('"') != etag.strip('"'):
                raise Refusal("InvalidPart", f"part {number} was not uploaded, or with another ETag")
        if any(len(upload.parts[number][1]) < self._limits.part_bytes_min for number in numbers[:-1]):
            raise Refusal("EntityTooSmall", f"a part but the last has {self._limits.part_bytes_min} bytes at least")
        chosen = [upload.parts[number] for number in numbers]
        data = b"".join(part for _, part in chosen)
        # A composite checksum covers the parts' checksums, and ends in their number; only whole ones can be compared.
        whole = {name: value for name, value in sums.items() if "-" not in value}
        compare(whole, data)
        tags = b"".join(bytes.fromhex(etag.strip('"')) for etag, _ in chosen)
        etag = f'"{hashlib.md5(tags, usedforsecurity=False).hexdigest()}-{len(chosen)}"'
        return Joined(data, etag, upload.kept)

    def end(self, key: str, identity: str) -> None:
        """Forget an upload."""
        self._find(key, identity)
        del self._open[identity]

    def _find(self, key: str, identity: str) -> Upload:
        upload = self._open.get(identity)
        if upload is None or upload.key != key:
            raise Refusal("NoSuchUpload", "there is no such upload: it was completed, aborted, or never begun")
        return upload
