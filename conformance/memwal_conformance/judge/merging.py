"""The next version of a table, with rows merged, a snapshot built or indexes caught up, as bytes: by the texts alone.

One commit carries the merged rows and the progress that speaks of them (MemWAL revision A, "MemTable Merging"); a
snapshot of the regions, and how far an index has come, go into the index details (sections "Region Snapshots" and
"Index Catchup"). Rows and indexes are written by pylance, into a copy of the table; this module makes one version of
what pylance has done there. Every field that it has no use for stays byte for byte. Field numbers: table documents,
``Manifest``, ``IndexMetadata`` and ``Transaction``.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from . import artifacts
from .table import DETAILS, FOOTER_BYTES, block, message_of, table_manifest
from .wire import DamagedBytes, WireMessage, blob_field, replaced, uint_field

_FRAGMENTS, _VERSION, _INDEXES, _TRANSACTION_FILE = 2, 3, 6, 12
_ELSEWHERE = (4, 21, 23)
"""Places of other parts of a manifest file: auxiliary data, and the transaction under the number of two releases."""
_DETAILS = 6
_TAKEN, _REGIONS, _INLINE, _MERGED, _CATCHUP = 1, 2, 3, 9, 10
_CREATE_INDEX, _UPDATE = 103, 108
_KEY = "lance-schema:unenforced-primary-key"

Operation = Callable[[Sequence[bytes], Sequence[bytes]], bytes]
"""The operation of a transaction, from the indexes before and after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStep:
    """How far a merge takes a region."""

    region_id: str
    generation: int
    behind: Mapping[str, int] = field(default_factory=dict)
    """Maintained index -> the generation of the region up to which it covers the base table as it was before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextVersion:
    """A table version to be committed, with the transaction file that it names."""

    version: int
    manifest: bytes
    transaction_name: str
    transaction: bytes


def key_of(manifest: bytes) -> tuple[str, ...]:
    """Names of the primary key columns in a table manifest file. Raises `DamagedBytes`."""
    marks = [(column, column.text_map(10)) for column in WireMessage.of(message_of(manifest)).messages(1)]
    return tuple(c.text(2) for c, m in marks if c.uint(12) or m.get(_KEY) == "true" or f"{_KEY}:position" in m)


def transaction_of(manifest: bytes) -> str:
    """Name of the transaction file that a table manifest file names; empty if it names none. Raises `DamagedBytes`."""
    return WireMessage.of(message_of(manifest)).text(_TRANSACTION_FILE)


def merged(before: bytes, after: bytes, progress: MergeStep) -> NextVersion:
    """The version after ``before`` that has the rows and the indexes of ``after``, and that progress.

    ``after`` is what pylance made of ``before``, in as many versions as it liked. Raises `DamagedBytes`.
    """
    old, new = _fragments(before), _fragments(after)
    update = [uint_field(1, number) for number in old if number not in new]
    update += [blob_field(2, new[number]) for number in new if number in old and old[number] != new[number]]
    update += [blob_field(3, new[number]) for number in new if number not in old]
    update.append(blob_field(5, _pair(progress.region_id, progress.generation)))
    transaction = blob_field(_UPDATE, b"".join(update))
    return _next(before, after, lambda details: _with_progress(details, progress), lambda _old, _new: transaction)


def caught_up(before: bytes, after: bytes, indexes: Collection[str]) -> NextVersion:
    """The version after ``before`` with the indexes of ``after``; those named cover what ``before`` says is merged.

    Raises `DamagedBytes`.
    """

    def change(details: bytes) -> bytes:
        known = WireMessage.of(details)
        kept = [blob for blob in known.blobs(_CATCHUP) if WireMessage.of(blob).text(1) not in indexes]
        pairs = b"".join(blob_field(2, pair) for pair in known.blobs(_MERGED))
        entries = [*kept, *(blob_field(1, name.encode()) + pairs for name in sorted(indexes))]
        return replaced(details, {_CATCHUP: [blob_field(_CATCHUP, entry) for entry in entries]})

    return _next(before, after, change, _indexes_changed)


def with_snapshot(before: bytes, file: bytes, regions: int, taken_ms: int) -> NextVersion:
    """The version after ``before`` whose index details have the snapshot ``file``, inline. Raises `DamagedBytes`."""
    changes = {
        _TAKEN: [uint_field(_TAKEN, taken_ms)],
        _REGIONS: [uint_field(_REGIONS, regions)],
        _INLINE: [blob_field(_INLINE, file)] if regions else [],
    }

    return _next(before, before, lambda details: replaced(details, changes), _indexes_changed)


def _indexes_changed(old: Sequence[bytes], new: Sequence[bytes]) -> bytes:
    """The operation of a transaction that replaces indexes."""
    came, went = ([one for one in some if one not in others] for some, others in ((new, old), (old, new)))
    return blob_field(
        _CREATE_INDEX, b"".join([*(blob_field(1, one) for one in came), *(blob_field(2, one) for one in went)])
    )


def _next(before: bytes, after: bytes, change: Callable[[bytes], bytes], operation: Operation) -> NextVersion:
    """``change`` is given the index details, ``operation`` all indexes as they were and as they are now."""
    version, message, indexes = table_manifest(before).version + 1, message_of(after), _indexes(after)
    place = next((place for place, index in enumerate(indexes) if _is_memwal(index)), None)
    if place is None:
        raise DamagedBytes("the table has no MemWAL index")
    told = WireMessage.of(indexes[place]).blob(_DETAILS) or b""
    details = change(WireMessage.of(told).blob(2) or b"")
    inside = replaced(told, {2: [blob_field(2, details)]})
    indexes[place] = replaced(indexes[place], {_DETAILS: [blob_field(_DETAILS, inside)]})
    section = _framed(b"".join(blob_field(1, index) for index in indexes))
    own = str(uuid.uuid4())
    name = f"{version - 1}-{own}.txn"
    changes: dict[int, Sequence[bytes]] = {
        _VERSION: [uint_field(_VERSION, version)],
        _INDEXES: [uint_field(_INDEXES, 0)],
        _TRANSACTION_FILE: [blob_field(_TRANSACTION_FILE, name.encode())],
        **dict.fromkeys(_ELSEWHERE, ()),
    }
    footer = struct.pack("<Q", len(section)) + after[8 - FOOTER_BYTES :]
    return NextVersion(
        version=version,
        manifest=section + _framed(replaced(message, changes)) + footer,
        transaction_name=name,
        transaction=uint_field(1, version - 1) + blob_field(2, own.encode()) + operation(_indexes(before), indexes),
    )


def _with_progress(details: bytes, progress: MergeStep) -> bytes:
    """AMB-71 (an index without an entry counts as caught up): each index that stays behind gets an entry."""
    known = WireMessage.of(details)
    pairs = [blob for blob in known.blobs(_MERGED) if _region(blob) != progress.region_id]
    pairs.append(_pair(progress.region_id, progress.generation))
    entries = known.blobs(_CATCHUP)
    named = {WireMessage.of(entry).text(1) for entry in entries}
    entries += [blob_field(1, name.encode()) for name in progress.behind if name not in named]
    return replaced(
        details,
        {
            _MERGED: [blob_field(_MERGED, pair) for pair in pairs],
            _CATCHUP: [blob_field(_CATCHUP, _caught_up(entry, progress)) for entry in entries],
        },
    )


def _caught_up(entry: bytes, progress: MergeStep) -> bytes:
    """An entry of ``index_catchup`` that names the region."""
    known = WireMessage.of(entry)
    if known.text(1) not in progress.behind or progress.region_id in map(_region, known.blobs(2)):
        return entry
    return entry + blob_field(2, _pair(progress.region_id, progress.behind[known.text(1)]))


def _pair(region_id: str, generation: int) -> bytes:
    return blob_field(1, blob_field(1, uuid.UUID(region_id).bytes)) + uint_field(2, generation)


def _region(pair: bytes) -> str:
    return artifacts.region_uuid(WireMessage.of(pair).message(1))


def _indexes(manifest: bytes) -> list[bytes]:
    """The indexes of a table version as stored."""
    at = WireMessage.of(message_of(manifest)).optional_uint(_INDEXES)
    return WireMessage.of(block(manifest, at)).blobs(1) if at is not None else []


def _is_memwal(index: bytes) -> bool:
    told = WireMessage.of(index).message(_DETAILS)
    return told is not None and told.text(1).endswith(DETAILS)


def _fragments(manifest: bytes) -> dict[int, bytes]:
    """Fragment id -> the fragment as stored."""
    return {WireMessage.of(blob).uint(1): blob for blob in WireMessage.of(message_of(manifest)).blobs(_FRAGMENTS)}


def _framed(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data
