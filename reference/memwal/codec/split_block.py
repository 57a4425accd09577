"""The split-block bloom filter of revision R: the bare blocks, without a header.

Blocks of eight 32-bit words; a key sets one bit in each word of one block (as in Parquet). The hash of a key runs over
its columns in schema order: a zero byte for "not null", then the value's bytes. The native implementation gives bytes
to 32- and 64-bit signed integers, text and binary; values of the other key types that it accepts contribute the zero
byte only, so a filter over such a key alone answers "perhaps" for every key, and this module does the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .asked_keys import AskedKeys
from .canonical import Mask, flat, from_matrix, stored_numbers, valid
from .siphash import Hashes, siphash13, siphash13_values

BLOCK_BYTES = 32
FILTER_BYTES = 32_768
"""The one size that the native implementation writes: 1,024 blocks."""

_BLOCKS = FILTER_BYTES // BLOCK_BYTES
SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
"""From the Parquet format, "Bloom Filter"."""

_WORDS = np.arange(8)[:, None] * 32
"""Where each word of a block begins, in bits."""
_TEXT_END = b"\xff"
_BATCH_ROWS = 1 << 14
"""Keys that are hashed together: so few that their arrays stay in the processor's cache."""


def encode(keys: pa.Table) -> bytes:
    """The `FILTER_BYTES` bytes of the filter of ``keys``, one row per key.

    A NULL in a key, which the native implementation never writes, makes the filter answer "perhaps" for every key.
    """
    bits = np.zeros(FILTER_BYTES * 8, np.bool_)
    for at in range(0, keys.num_rows, _BATCH_ROWS):
        hashes, known = _hashes(keys.slice(at, _BATCH_ROWS))
        if not known.all():
            return b"\xff" * FILTER_BYTES
        bits[_bit_positions(hashes)] = True
        if bits.all():  # as some 400,000 keys make it: no other key or NULL changes it any more
            break
    return np.packbits(bits, bitorder="little").tobytes()


@dataclass(frozen=True, slots=True)
class SplitBlockFilter:
    """A decoded filter of exactly `FILTER_BYTES` bytes."""

    bits: Mask
    """Shape (8 * FILTER_BYTES,)."""

    def might_contain(self, keys: pa.Table | AskedKeys) -> Mask:
        """Shape (rows,): False only where the key was not written."""
        asked = AskedKeys.of(keys)
        positions, unknown = asked.hashed(SplitBlockFilter, _places)
        if asked.rows is not None:
            positions, unknown = positions[asked.rows], unknown[asked.rows]
        found: Mask = self.bits[positions].all(axis=1) | unknown
        return found


def decode(data: bytes) -> SplitBlockFilter:
    """``data`` has `FILTER_BYTES` bytes."""
    return SplitBlockFilter(np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.bool_))


def _places(keys: pa.Table) -> tuple[npt.NDArray[np.int64], Mask]:
    """Positions of each key's bits, shape (rows, 8), and the keys with a NULL, for which they mean nothing."""
    hashes, known = _hashes(keys)
    return _bit_positions(hashes), ~known


def _bit_positions(hashes: Hashes) -> npt.NDArray[np.int64]:
    """Positions in the filter of the eight bits of each hash. Shape (rows, 8)."""
    block = ((hashes >> np.uint64(32)) * np.uint64(_BLOCKS)) >> np.uint64(32)
    first, low = block.astype(np.int64) * (BLOCK_BYTES * 8), hashes.astype(np.uint32)
    # Shape (8, rows): numpy adds a few long rows faster than many short ones.
    bits = first + _WORDS + (low * SALTS[:, None] >> np.uint32(27))
    return bits.T


def _hashes(keys: pa.Table) -> tuple[Hashes, Mask]:
    """Hash of each key, and where the key has no NULL (elsewhere the hash means nothing)."""
    known = np.ones(keys.num_rows, np.bool_)
    for column in keys.columns:
        if column.null_count:
            known &= valid(flat(column))
    if keys.num_columns == 1 and keys.column(0).type in (pa.int32(), pa.int64()):
        return siphash13(_tagged_numbers(flat(keys.column(0)))), known
    parts = [_native_bytes(column) for column in keys.columns]
    return siphash13_values(parts[0] if len(parts) == 1 else _joined(*parts)), known


def _native_bytes(column: pa.ChunkedArray) -> pa.LargeBinaryArray:
    """What each value of a key column adds to the bytes of its key. Shape (rows,), without NULLs."""
    kind, array = column.type, flat(column)
    if kind in (pa.int32(), pa.int64()):
        return from_matrix(_tagged_numbers(array))
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return _joined(_tagged_nothing(len(array)), array.cast(pa.large_binary()), _TEXT_END)
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        lengths = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype("<u8")
        return _joined(from_matrix(_tagged(lengths.view(np.uint8).reshape(len(array), 8))), array)
    return _tagged_nothing(len(array))


def _tagged_nothing(rows: int) -> pa.LargeBinaryArray:
    return from_matrix(np.zeros((rows, 1), np.uint8))


def _tagged_numbers(array: pa.Array) -> npt.NDArray[np.uint8]:
    numbers = stored_numbers(array)
    assert numbers is not None
    little = numbers.astype(numbers.dtype.newbyteorder("<"))
    return _tagged(little.view(np.uint8).reshape(len(array), array.type.bit_width // 8))


def _tagged(matrix: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Each row of ``matrix`` behind the byte that says "not null"."""
    rows, width = matrix.shape
    found = np.zeros((rows, 1 + width), np.uint8)
    found[:, 1:] = matrix
    return found


def _joined(*parts: pa.LargeBinaryArray | bytes) -> pa.LargeBinaryArray:
    separated = [pa.scalar(part, pa.large_binary()) if isinstance(part, bytes) else part for part in (*parts, b"")]
    return pc.binary_join_element_wise(*separated, null_handling="replace", null_replacement="")
