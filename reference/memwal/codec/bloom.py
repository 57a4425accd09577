"""``bloom_filter.bin``: which keys a generation may hold.

Revisions A and B name the file and not its format, so their files here describe themselves: a magic, a JSON header with
every parameter, and a plain bit array, that of `pybloom_live.BloomFilter`. A reader uses a filter only if it knows all
of the parameters; any other file answers "perhaps" for every key (AMB-47). Revision R has the split-block filter.

Layout (all numbers little-endian)::

    8 bytes   magic "MEMWALBF"
    u32       length of the header
    header    JSON, see `_Header`
    u32       CRC-32 of the header and the bit array
    bits      ceil(m / 8) bytes, bit i of the array is bit i % 8 of byte i // 8

Key bytes: for each key column, in the order of the key, a u32 length and the value's canonical bytes; the length
0xFFFFFFFF without bytes is NULL. The hash functions take text, so each byte is one character of Latin-1.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from struct import Struct, pack
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pybloom_live import BloomFilter

from ..clauses import implements
from ..errors import ArtifactError
from ..revisions import Revision
from . import json_text, split_block
from .asked_keys import AskedKeys
from .canonical import Mask, canonical_bytes, from_matrix
from .digests import digests, latin_text

FALSE_POSITIVES = 0.01
"""Target rate of false positives of the self-describing filter."""
MAGIC = b"MEMWALBF"
KEY_ENCODING = "memwal-key-1"

_FORMAT = 1
_LENGTH = Struct("<I")
_NULL_LENGTH = 0xFFFFFFFF
_BATCH_ROWS = 65_536


class DecodedFilter(Protocol):
    """A decoded filter."""

    def might_contain(self, keys: pa.Table | AskedKeys) -> Mask:
        """Shape (rows,): False only where the key is certainly absent.

        ``keys`` has the key columns only, in the order of the key and in the types of the table's schema.
        """


@dataclass(frozen=True, slots=True)
class AlwaysPositive:
    """Stands for a filter that this reader does not know."""

    def might_contain(self, keys: pa.Table | AskedKeys) -> Mask:
        """Shape (rows,), all True."""
        return np.ones(len(AskedKeys.of(keys)), np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """The JSON header; an unknown field, or a field of another type, makes a filter unknown."""

    format: int
    hash: str
    """Hash function and width of the words that its digest is cut into."""
    key_encoding: str
    m: int
    """Number of bits: ``k`` slices of equal size."""
    k: int
    """Number of hash functions; the i-th has the i-th slice to itself."""
    seed: int
    """Number of the first salt; salt i is the hash of the hash of i as a u32."""
    capacity: int
    error_rate: float
    count: int
    """Number of keys."""


@implements("GEN-010", "AMB-47")
def encode(keys: pa.Table, revision: Revision) -> bytes:
    """The file for ``keys``: the key columns, in the order of the key, one row per row of the generation.

    Raises `InvalidArgument` for a key column of a nested or interval type.
    """
    if revision.bloom == "split-block":
        return split_block.encode(keys)
    filled = Growing.empty(max(1, keys.num_rows))
    filled.add(keys)
    header = json.dumps(asdict(filled.layout.header) | {"count": keys.num_rows}, sort_keys=True).encode()
    packed = np.packbits(filled.bits, bitorder="little").tobytes()
    check = _LENGTH.pack(zlib.crc32(packed, zlib.crc32(header)))
    return b"".join([MAGIC, _LENGTH.pack(len(header)), header, check, packed])


@implements("GEN-010", "PLAN-003", "AMB-47")
def decode(data: bytes, revision: Revision, path: str) -> DecodedFilter:
    """The filter in ``data``; one that always answers "perhaps" if its format or a parameter is not known.

    Raises `ArtifactError` for a file with our magic that is cut or damaged, and in revision R for a length that no
    split-block filter has.
    """
    if revision.bloom == "split-block":
        if len(data) == split_block.FILTER_BYTES:
            return split_block.decode(data)
        if not data or len(data) % split_block.BLOCK_BYTES:
            reason = f"{len(data)} bytes are not whole blocks of {split_block.BLOCK_BYTES} bytes"
            raise ArtifactError("AMB-47", path, reason, len(data))
        return AlwaysPositive()
    if not data.startswith(MAGIC):
        return AlwaysPositive()
    start = len(MAGIC) + _LENGTH.size
    if len(data) < start:
        raise ArtifactError("AMB-47", path, "the filter ends before the length of its header", len(data))
    end = start + _LENGTH.unpack_from(data, len(MAGIC))[0]
    if len(data) < end + _LENGTH.size:
        raise ArtifactError("AMB-47", path, "the filter ends inside its header", len(data))
    packed = data[end + _LENGTH.size :]
    if zlib.crc32(packed, zlib.crc32(data[start:end])) != _LENGTH.unpack_from(data, end)[0]:
        raise ArtifactError("AMB-47", path, "the filter does not have its checksum: cut or damaged", end)
    layout = _Layout.read(data[start:end], 8 * len(packed))
    if layout is None:
        return AlwaysPositive()
    if len(packed) != (layout.header.m + 7) // 8:
        reason = f"{len(packed)} bytes of bits where {layout.header.m} bits are announced"
        raise ArtifactError("AMB-47", path, reason, end + _LENGTH.size)
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=layout.header.m, bitorder="little")
    return SlicedFilter(layout, bits.astype(np.bool_))


@dataclass(frozen=True, slots=True)
class SlicedFilter:
    """A decoded self-describing filter."""

    layout: _Layout
    bits: Mask
    """Shape (m,)."""

    def might_contain(self, keys: pa.Table | AskedKeys) -> Mask:
        """Shape (rows,): False only where the key was not written."""
        asked = AskedKeys.of(keys)
        places = asked.hashed(self.layout.places, self.layout.positions)
        if asked.rows is not None:
            places = [np.concatenate([np.empty((0, self.layout.header.k), np.int64), *places])[asked.rows]]
        return np.concatenate([np.empty(0, np.bool_), *(self.bits[positions].all(axis=1) for positions in places)])


def size_bytes(known: DecodedFilter) -> int:
    """What a decoded filter takes in memory."""
    return int(known.bits.nbytes) if isinstance(known, SlicedFilter | split_block.SplitBlockFilter) else 0


@dataclass(slots=True)
class Growing:
    """A self-describing filter while keys are being added to it."""

    layout: _Layout
    bits: Mask
    """Shape (m,)."""
    room: int
    """Keys that it still takes at its rate of false positives."""

    @classmethod
    def empty(cls, capacity: int) -> Growing:
        """A filter without keys that takes ``capacity`` of them."""
        layout = _Layout.of(capacity)
        return cls(layout, np.zeros(layout.header.m, np.bool_), capacity)

    def add(self, keys: pa.Table) -> None:
        """Add ``keys``, the key columns in the order of the key."""
        for positions in self.layout.positions(keys):
            self.bits[positions] = True
        self.room = max(0, self.room - keys.num_rows)

    def might_contain(self, keys: pa.Table) -> Mask:
        """Shape (rows,): False only where the key was not added."""
        return SlicedFilter(self.layout, self.bits).might_contain(keys)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the bits of a key are: the arithmetic of `pybloom_live.BloomFilter`, for many keys at once."""

    header: _Header
    function: Callable[[bytes], Any]
    word: np.dtype[Any]

    @classmethod
    def of(cls, capacity: int, error_rate: float = FALSE_POSITIVES) -> _Layout:
        """The layout that pybloom chooses for ``capacity`` keys."""
        chosen = BloomFilter(capacity, error_rate)
        # Same thresholds as pybloom: the narrowest word that has every position of a slice.
        width = 8 if chosen.bits_per_slice >= 1 << 31 else 4 if chosen.bits_per_slice >= 1 << 15 else 2
        name = str(chosen.hashfn().name).lower()
        header = _Header(
            format=_FORMAT,
            hash=f"{name}/u{8 * width}",
            key_encoding=KEY_ENCODING,
            m=chosen.num_bits,
            k=chosen.num_slices,
            seed=0,
            capacity=capacity,
            error_rate=error_rate,
            count=0,
        )
        return cls(header, chosen.hashfn, np.dtype(f"<u{width}"))

    @classmethod
    def read(cls, text: bytes, room: int) -> _Layout | None:
        """The layout of a stored header; None unless this reader would choose the very same one.

        ``room``: number of bits that the file has, which bounds what a header can make us allocate.
        """
        try:
            stored = _Header(**json_text.parse(text))
            if stored.capacity > room:
                return None
            layout = cls.of(stored.capacity, stored.error_rate)
        except (ValueError, TypeError, OverflowError, MemoryError):
            return None
        same = asdict(stored) | {"count": 0} == asdict(layout.header)
        return layout if same else None

    @property
    def places(self) -> tuple[str, int, int, int]:
        """What the positions of a key's bits depend on."""
        return self.header.hash, self.header.m, self.header.k, self.header.seed

    def positions(self, keys: pa.Table) -> list[npt.NDArray[np.int64]]:
        """Bit positions of the keys, in batches; together of shape (rows, k)."""
        rows = key_rows(keys)
        starts = range(0, len(rows), _BATCH_ROWS)
        return [self._positions(rows.slice(at, _BATCH_ROWS)) for at in starts]

    def _positions(self, keys: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
        k, function = self.header.k, self.function
        slice_bits = self.header.m // k
        texts = latin_text(keys)
        found, needed = [], k
        salt = self.header.seed
        while needed > 0:
            seed = function(pack("<I", salt)).digest()
            words = np.frombuffer(digests(function, seed, texts), self.word).reshape(len(texts), -1)
            found.append(words[:, :needed])
            needed -= words.shape[1]
            salt += 1
        hashes = np.hstack(found).astype(np.uint64)
        return (hashes % np.uint64(slice_bits)).astype(np.int64) + np.arange(k) * slice_bits


def key_rows(keys: pa.Table) -> pa.LargeBinaryArray:
    """The bytes of each key, as the self-describing filter hashes them. Shape (rows,)."""
    parts = []
    for name, column in zip(keys.schema.names, keys.columns, strict=True):
        values = canonical_bytes(column, name)
        lengths = pc.binary_length(values).fill_null(_NULL_LENGTH).to_numpy(zero_copy_only=False).astype("<u4")
        parts += [from_matrix(lengths.view(np.uint8).reshape(len(values), _LENGTH.size)), values]
    nothing = pa.scalar(b"", pa.large_binary())
    return pc.binary_join_element_wise(*parts, nothing, null_handling="replace", null_replacement="")
