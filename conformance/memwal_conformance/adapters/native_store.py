"""What the native package does not tell through Python: which generations a shard has, and what has been compacted.

Its readers want the list of SSTables from their caller, and no function of the package gives it. So this module reads
shard manifests and the compaction progress field by field, with code of its own: the judge must share none with an
adapter.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow.fs as pafs

_SHARD = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MANIFEST = re.compile(r"([01]{64})\.binpb")
_VERSION = re.compile(r"([0-9]{20})\.manifest")
_TABLE_TAIL_BYTES = 16
_UINT64_MAX = 2**64 - 1
_OPTIONS = ("aws_endpoint", "aws_region", "aws_access_key_id", "aws_secret_access_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The newest manifest of a shard."""

    shard_id: str
    epoch: int
    current_generation: int
    generations: tuple[tuple[int, str], ...]
    """Number and folder, as the manifest lists them."""


class TableStore:
    """The folder of a table, on a disk or on an object store."""

    def __init__(self, table: str, storage: Mapping[str, str]) -> None:
        """``table``: an absolute path or an ``s3://`` URL; ``storage``: the package's options, see `_s3`."""
        self.files: pafs.FileSystem
        if table.startswith("s3://"):
            self.files, self.root = _s3(storage), table.removeprefix("s3://")
        else:
            self.files, self.root = pafs.LocalFileSystem(), table

    def names(self, folder: str) -> list[str]:
        """Names in a folder; none if there is no such folder."""
        selector = pafs.FileSelector(f"{self.root}/{folder}", allow_not_found=True)
        return sorted(info.base_name for info in self.files.get_file_info(selector))

    def read(self, name: str) -> bytes:
        """An object. Raises FileNotFoundError."""
        with self.files.open_input_stream(f"{self.root}/{name}", compression=None) as stream:
            data: bytes = stream.read()
        return data

    def shards(self) -> list[Shard]:
        """Every shard that has a manifest."""
        found = (self.shard(name) for name in self.names("_mem_wal") if _SHARD.fullmatch(name))
        return [shard for shard in found if shard is not None]

    def shard(self, shard_id: str) -> Shard | None:
        """One shard; None if it has no manifest."""
        folder = f"_mem_wal/{shard_id}/manifest"
        versions = {int(m[1][::-1], 2): name for name in self.names(folder) if (m := _MANIFEST.fullmatch(name))}
        if not versions:
            return None
        fields = list(_fields(self.read(f"{folder}/{versions[max(versions)]}")))
        numbers = {number: value for number, value in fields if isinstance(value, int)}
        generations = []
        for number, value in fields:
            if number == 8 and isinstance(value, bytes):
                entry = dict(_fields(value))
                generation, path = entry[1], entry[2]
                assert isinstance(generation, int)
                assert isinstance(path, bytes)
                generations.append((generation, path.decode()))
        return Shard(
            shard_id=shard_id,
            epoch=numbers.get(2, 0),
            current_generation=numbers.get(6, 0),
            generations=tuple(generations),
        )

    def compacted(self) -> dict[str, int]:
        """Last compacted generation of each shard, as the newest version of the base table says."""
        versions = {
            _UINT64_MAX - int(m[1]): name for name in self.names("_versions") if (m := _VERSION.fullmatch(name))
        }
        data = self.read(f"_versions/{versions[max(versions)]}")
        manifest = dict(_fields(_block(data, int.from_bytes(data[-_TABLE_TAIL_BYTES:][:8], "little"))))
        section = manifest.get(6)
        found: dict[str, int] = {}
        if isinstance(section, int):
            for number, index in _fields(_block(data, section)):
                if number == 1 and isinstance(index, bytes):
                    found |= _progress(index)
        return found


def _progress(index: bytes) -> dict[str, int]:
    """Compaction progress in the metadata of one index; empty if it is another index than the MemWAL one."""
    described = dict(_fields(index)).get(6)
    details = dict(_fields(described)) if isinstance(described, bytes) else {}
    kind, message = details.get(1, b""), details.get(2, b"")
    assert isinstance(kind, bytes)
    assert isinstance(message, bytes)
    found: dict[str, int] = {}
    if kind.endswith(b"MemWalIndexDetails"):
        for number, value in _fields(message):
            if number == 9 and isinstance(value, bytes):
                merged = dict(_fields(value))
                shard, generation = merged[1], merged.get(2, 0)
                assert isinstance(shard, bytes)
                assert isinstance(generation, int)
                (raw,) = [v for n, v in _fields(shard) if n == 1 and isinstance(v, bytes)]
                found[str(uuid.UUID(bytes=raw))] = generation
    return found


def _s3(storage: Mapping[str, str]) -> pafs.FileSystem:
    """Where storage options lead, or, without any, the AWS variables of the environment."""
    options = {name: storage.get(name) or os.environ[name.upper()] for name in _OPTIONS}
    return pafs.S3FileSystem(
        endpoint_override=options["aws_endpoint"].removeprefix("http://"),
        scheme="http",
        region=options["aws_region"],
        access_key=options["aws_access_key_id"],
        secret_key=options["aws_secret_access_key"],
    )


def _block(data: bytes, at: int) -> bytes:
    return data[at + 4 : at + 4 + int.from_bytes(data[at : at + 4], "little")]


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each protobuf field."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            number, at = _varint(data, at)
            yield key >> 3, number
            continue
        size = {1: 8, 5: 4}.get(key & 7)
        if size is None:
            size, at = _varint(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at
