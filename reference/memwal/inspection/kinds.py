"""What kind of file some bytes are: by what they say themselves, and where that says nothing by their name.

A file may have been copied from its table, so that its name may say nothing; and it may be damaged, so that its bytes
may say nothing.
"""

from __future__ import annotations

import re
import struct

from google.protobuf.message import DecodeError, Message

from ..codec import json_text, protobuf, split_block
from ..codec.bloom import MAGIC as BLOOM_MAGIC
from ..codec.data_file import MAGIC
from ..codec.pb.lance import file_pb2, transaction_pb2
from ..codec.pb.memwal_0 import mem_wal_pb2 as zero_pb2
from ..codec.pb.memwal_r import mem_wal_pb2
from ..table.legacy.structure import FOOTER, VERSIONS

TABLE_VERSION = "table_version"
DATA_FILE = "data_file"
LEGACY_DATA_FILE = "legacy_data_file"
DELETION_FILE = "deletion_file"
TRANSACTION = "transaction"
REGION_MANIFEST = "region_manifest"
VERSION_HINT = "version_hint"
TABLE_VERSION_HINT = "table_version_hint"
WAL_ENTRY = "wal_entry"
ENTRY_0 = "entry_of_revision_0"
BLOOM_FILTER = "bloom_filter"
INDEX_DETAILS = "mem_wal_index"
TAG = "tag"
BRANCH = "branch"

BY_NAME: tuple[tuple[str, str], ...] = (
    (r"(.*/)?manifest/version_hint\.json|version_hint\.json", VERSION_HINT),
    (r"(.*/)?latest_version_hint\.json", TABLE_VERSION_HINT),
    (r"(.*/)?_refs/tags/[^/]+\.json", TAG),
    (r"(.*/)?_refs/branches/[^/]+\.json", BRANCH),
    (r".*\.manifest(-[0-9a-fA-F-]{36})?", TABLE_VERSION),
    (r".*\.txn", TRANSACTION),
    (r"(.*/)?manifest/[01]{64}\.binpb|.*\.binpb", REGION_MANIFEST),
    (r"(.*/)?wal/[01]{64}\.arrow|[01]{64}\.arrow", WAL_ENTRY),
    (r"(.*/)?_deletions/[^/]+|[0-9]+-[0-9]+-[0-9]+\.(arrow|bin)", DELETION_FILE),
    (r"(.*/)?bloom_filter\.bin", BLOOM_FILTER),
    (r".*\.lance", DATA_FILE),
    (r"(.*/)?_mem_wal_0/.*\.arrow|(.*/)?memtable\.arrow", ENTRY_0),
)
"""Pattern of a name -> kind, the first that fits; Lance files of all purposes are `DATA_FILE` here."""

_STREAM = (b"\xff\xff\xff\xff",)
_FILE = b"ARROW1"
_ROARING = (12346, 12347)


def by_name(name: str) -> str | None:
    """The kind that the name of an object says; None if it says nothing."""
    return next((kind for pattern, kind in BY_NAME if re.fullmatch(pattern, name)), None)


def by_end(end: bytes) -> str | None:
    """The kind of a file with a footer, by its last bytes; None for any other.

    Table manifests and data files before version 2 have the same footer, and are told apart by `is_manifest`.
    """
    if len(end) < FOOTER.size or not end.endswith(MAGIC):
        return None
    _, major, minor, _ = FOOTER.unpack(end[-FOOTER.size :])
    return LEGACY_DATA_FILE if (major, minor) in VERSIONS else DATA_FILE


def is_manifest(block: bytes) -> bool:
    """Whether the message that such a footer names is a table manifest, and not the metadata of a data file.

    Of the metadata the fields 1 to 3 and 5 are in use, and field 1 is a number; a manifest has a list there, and
    always a version of its writer.
    """
    message = file_pb2.Metadata()
    try:
        message.ParseFromString(block)
    except DecodeError:
        return True
    return bool(protobuf.wire_types_unknown(message))


def by_content(name: str, data: bytes) -> str | None:
    """The kind of a file without a footer, by all of its bytes; None if they say nothing."""
    said = by_name(name)
    if data.startswith(BLOOM_MAGIC):
        return BLOOM_FILTER
    if data.startswith(_STREAM):
        return WAL_ENTRY if b"writer_epoch" in data[: 1 << 16] or said == WAL_ENTRY else ENTRY_0
    if data.startswith(_FILE):
        return ENTRY_0 if said in (ENTRY_0, WAL_ENTRY) or b"row_id" not in data[: 1 << 12] else DELETION_FILE
    if data[:1] == b"{":
        return said or _json_kind(data)
    if said is not None:
        return said
    if len(data) == split_block.FILTER_BYTES:
        return BLOOM_FILTER
    if len(data) >= 4 and struct.unpack_from("<H", data)[0] in _ROARING:
        return DELETION_FILE
    return _message_kind(data)


def _json_kind(data: bytes) -> str | None:
    try:
        found = json_text.parse(data)
    except (ValueError, RecursionError):
        return None
    keys = set(found) if isinstance(found, dict) else set()
    if keys == {"version"}:
        return VERSION_HINT
    if {"parentBranch", "parentVersion"} & keys:
        return BRANCH
    return TAG if {"version", "manifestSize"} <= keys else None


def _message_kind(data: bytes) -> str | None:
    manifest, transaction = mem_wal_pb2.ShardManifest(), transaction_pb2.Transaction()
    details, records = mem_wal_pb2.MemWalIndexDetails(), zero_pb2.MemWalIndexDetails()
    if _parses(manifest, data) and len(manifest.shard_id.uuid) == 16 and manifest.version:
        return REGION_MANIFEST
    if _parses(transaction, data) and len(transaction.uuid) == 36:
        return TRANSACTION
    known = (_parses(details, data) and details.snapshot_ts_millis) or (_parses(records, data) and records.mem_wal_list)
    return INDEX_DETAILS if known else None


def _parses(message: Message, data: bytes) -> bool:
    try:
        message.ParseFromString(data)
    except DecodeError:
        return False
    return True
