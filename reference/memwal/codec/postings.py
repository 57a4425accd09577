"""Lists of documents of full-text indexes, as pylance packs them: which documents have a term, how often, and where.

A list is cut into blocks of 128 documents, or of 256 where the index was made so. A full block has its numbers packed
with as many bits as the largest of it needs (in the larger blocks: as most of them need), in interleaved lanes; the
last one, if it is not full, has them one after another.
All that is decoded here are arrays; nothing is an object for each document.
Source: the index files that pylance 0.33 to 14.0 write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import ArtifactError
from .canonical import Mask

Numbers = npt.NDArray[np.uint32]
_Bytes = npt.NDArray[np.uint8]
_Places = npt.NDArray[np.int64]

VARINTS = "varint_delta_v1"
FIXED = "fixed32_v1"
PACKED_POSITIONS = "packed_delta_v1"
POSITION_VARINTS = "varint_doc_delta_v2"
_LANE = 32
"""Numbers in one lane of those that are packed together."""
_PACKED = 128, 256
"""How many numbers are packed together."""
_CLAUSE = "PLAN-023"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostingLayout:
    """How the lists of one index file are stored."""

    tail: str
    """How a block that is not full has its numbers: `VARINTS` or `FIXED`."""
    packed: int
    """How many documents a full block has, whose numbers are packed together."""
    positions: str | None
    """How positions are stored: `PACKED_POSITIONS` or `POSITION_VARINTS`; None: in a way that is not read, or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """The documents that have one term."""

    documents: _Places
    """Numbers of documents, ascending. Shape (documents,)."""
    counts: _Places
    """How often each has the term. Shape (documents,)."""
    positions: _Places | None = None
    """Where, document by document, each ascending. Shape (sum of the counts,). None: they were not asked for."""
    best: dict[float, _Places] = field(default_factory=dict, compare=False, repr=False)
    """Places of the best documents, by the mean length of all (`memwal.maintained.bm25.Corpus.best`)."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(each.nbytes for each in (self.documents, self.counts, self.positions) if each is not None)

    def of(self, live: Mask) -> Postings:
        """The same without the documents that do not count. ``live``: of all documents those that do."""
        kept = live[self.documents]
        if kept.all():
            return self
        positions = None if self.positions is None else self.positions[np.repeat(kept, self.counts)]
        return Postings(documents=self.documents[kept], counts=self.counts[kept], positions=positions)

    @classmethod
    def joined(cls, lists: Sequence[tuple[int, Postings]]) -> Postings:
        """All ``lists``, which are not none, as one. Each has before it the number that its document 0 gets."""
        positions = [each.positions for _, each in lists if each.positions is not None]
        return cls(
            documents=np.concatenate([each.documents + first for first, each in lists]),
            counts=np.concatenate([each.counts for _, each in lists]),
            positions=np.concatenate(positions) if len(positions) == len(lists) else None,
        )


def layout(metadata: Mapping[bytes, bytes], path: str) -> PostingLayout:
    """What the metadata of an index file say. Raises `ArtifactError` for a layout that is not known."""
    tail = metadata.get(b"posting_tail_codec", FIXED.encode()).decode()
    block = metadata.get(b"posting_block_size", b"128")
    if tail not in {VARINTS, FIXED} or block not in {b"%d" % packed for packed in _PACKED}:
        raise ArtifactError(_CLAUSE, path, f"lists of documents in blocks of {block!r} with ends {tail!r} are not read")
    codec = metadata.get(b"positions_codec", b"").decode()
    return PostingLayout(
        tail=tail, packed=int(block), positions=codec if codec in {PACKED_POSITIONS, POSITION_VARINTS} else None
    )


def decode(row: Mapping[str, pa.Scalar], how: PostingLayout, documents: int, path: str, *, positions: bool) -> Postings:
    """One list. ``row``: its columns by name; ``documents``: how many the index has.

    Raises `ArtifactError` for bytes that are no such list, and for documents that are not there or out of order.
    """
    try:
        length = int(row["_length"].as_py())
        found, counts = _documents(row["_posting"].values, length, how)
        if length and (found[0] < 0 or int(found[-1]) >= documents or bool((np.diff(found) <= 0).any())):
            raise ValueError("its documents are out of order, or not there")
        where = _positions(row, counts, how) if positions and how.positions is not None else None
    except (ValueError, LookupError, TypeError) as error:
        raise ArtifactError(_CLAUSE, path, f"a list of documents is damaged: {error}") from error
    return Postings(documents=found, counts=counts, positions=where)


def _documents(blocks: pa.LargeBinaryArray, length: int, how: PostingLayout) -> tuple[_Places, _Places]:
    if len(blocks) != -(-length // how.packed):
        raise ValueError(f"{len(blocks)} blocks for {length} documents")
    if not length:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    offsets = np.frombuffer(blocks.buffers()[1], np.int64)[blocks.offset : blocks.offset + len(blocks) + 1]
    data = np.frombuffer(blocks.buffers()[2], np.uint8)
    full, rest = divmod(length, how.packed)
    starts, ends = offsets[:full], offsets[1 : full + 1]
    # A block: its best score, which is not used, where blocks are small; its first document, the packed distances, the
    # packed counts.
    scored = 4 if how.packed == _PACKED[0] else 0
    first = _packed_words(data, starts + scored, 1)[:, 0].astype(np.int64)
    distances, after = _unpacked(data, starts + scored + 4, how.packed)
    counts, after = _unpacked(data, after, how.packed) if scored else _patched(data, after, how.packed)
    if not np.array_equal(after, ends):
        raise ValueError("a block does not end where the next one begins")
    documents = [(first[:, None] + np.cumsum(distances, axis=1)).reshape(-1), np.empty(0, np.int64)]
    times = [counts.reshape(-1), np.empty(0, np.int64)]
    if rest:
        both = _ended(data[offsets[full] + scored : offsets[full + 1]], 2 * rest, how.tail)
        documents[1] = np.cumsum(both[:rest]) if how.tail == VARINTS else both[:rest]
        times[1] = both[rest:]
    return np.concatenate(documents), np.concatenate(times)


def _ended(data: _Bytes, count: int, tail: str) -> _Places:
    if tail == VARINTS:
        return _varints(data, count)
    if len(data) != 4 * count:
        raise ValueError(f"{len(data)} bytes for {count} numbers")
    return np.ascontiguousarray(data).view("<u4").astype(np.int64)


def _varints(data: _Bytes, count: int) -> _Places:
    """The ``count`` numbers that ``data`` holds, seven bits a byte, the lowest first."""
    ends = np.flatnonzero(data < 0x80)
    if len(ends) != count or (count and ends[-1] != len(data) - 1):
        raise ValueError(f"{len(ends)} numbers instead of {count}")
    if not count:
        return np.empty(0, np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    within = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    if within.max() > 4:
        raise ValueError("a number of more than 32 bits")
    found: _Places = np.add.reduceat((data & 0x7F).astype(np.int64) << (7 * within), starts)
    return found


def _packed_words(data: _Bytes, starts: _Places, count: int) -> npt.NDArray[Any]:
    """``count`` 32-bit words from each of ``starts`` on. Shape (starts, count)."""
    places = starts[:, None] + np.arange(4 * count)
    return np.ascontiguousarray(data[places]).view("<u4").reshape(len(starts), count)


def _unpacked(data: _Bytes, starts: _Places, packed: int) -> tuple[_Places, _Places]:
    """The ``packed`` numbers at each of ``starts``, each behind a byte that says of how many bits; and their ends."""
    return _numbers(data, data[starts].astype(np.int64), starts + 1, packed)


def _numbers(data: _Bytes, widths: _Places, starts: _Places, packed: int) -> tuple[_Places, _Places]:
    """The ``packed`` numbers at each of ``starts``, each of its ``widths`` bits; and where they end.

    Numbers go to the lanes one after another; each lane is filled from the lowest bit on, and the words of the lanes
    alternate.
    """
    each = packed // _LANE
    found = np.zeros((len(starts), packed), np.int64)
    for width in np.unique(widths).tolist():
        if width > 32:
            raise ValueError(f"numbers of {width} bits")
        if not width:
            continue
        chosen = np.flatnonzero(widths == width)
        words = _packed_words(data, starts[chosen], each * width).astype(np.uint64)
        lanes = np.zeros((len(chosen), width + 1, each), np.uint64)  # one word more, since the last may have no next
        lanes[:, :width] = words.reshape(len(chosen), width, each)
        bits = np.arange(_LANE) * width
        at, shift = bits // 32, (bits % 32).astype(np.uint64)[None, :, None]
        pairs = lanes[:, at] | (lanes[:, at + 1] << np.uint64(32))
        found[chosen] = ((pairs >> shift) & np.uint64(2**width - 1)).astype(np.int64).reshape(len(chosen), packed)
    return found, starts + packed // 8 * widths


def _patched(data: _Bytes, starts: _Places, packed: int) -> tuple[_Places, _Places]:
    """As `_unpacked`, where a second byte says how many numbers need more bits: they follow, with what is above."""
    widths, more = data[starts].astype(np.int64), data[starts + 1].astype(np.int64)
    found, ends = _numbers(data, widths, starts + 2, packed)
    for block in np.flatnonzero(more).tolist():
        end = int(ends[block])
        for _ in range(int(more[block])):
            stop = end + 2 + int(np.argmax(data[end + 1 : end + 6] < 0x80))
            (above,) = _varints(data[end + 1 : stop], 1)
            found[block, data[end]] |= above << widths[block]
            end = stop
        ends[block] = end
    return found, ends


def _positions(row: Mapping[str, pa.Scalar], counts: _Places, how: PostingLayout) -> _Places:
    """Positions are stored block by block as distances; those of a document start anew."""
    data = np.frombuffer(row["_compressed_position"].as_buffer(), np.uint8)
    begins = row["_position_block_offset"].values.to_numpy().astype(np.int64)
    if len(begins) != -(-len(counts) // how.packed):
        raise ValueError(f"{len(begins)} blocks of positions for {len(counts)} documents")
    stops = np.append(begins[1:], len(data))
    totals = np.add.reduceat(counts, np.arange(0, len(counts), how.packed)) if len(counts) else counts
    distances = np.empty(int(counts.sum()), np.int64)
    groups: list[int] = []
    places: list[int] = []
    done, group = 0, _PACKED[0]
    for begin, stop, total in zip(begins.tolist(), stops.tolist(), totals.tolist(), strict=True):
        left = total
        while how.positions == PACKED_POSITIONS and left >= group:
            groups.append(begin)
            places.append(done)
            begin += 1 + group // 8 * int(data[begin])
            done, left = done + group, left - group
        distances[done : done + left] = _varints(data[begin:stop], left)
        done += left
    if groups:
        unpacked, _ = _unpacked(data, np.array(groups, np.int64), group)
        distances[np.array(places)[:, None] + np.arange(group)] = unpacked
    sums: _Places = np.cumsum(distances)
    starts = np.cumsum(counts) - counts
    before = np.where(starts > 0, sums[np.maximum(starts - 1, 0)], 0)
    found: _Places = sums - np.repeat(before, counts)
    return found
