"""Truth values of rows: a byte for each in numpy, a bit for each in Arrow; pyarrow itself goes from one to the next."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .codec.canonical import Mask

# A value that is made of Python's takes longer, and loads pandas.
_FALSE, _TRUE = pa.BooleanArray.from_buffers(pa.bool_(), 2, [None, pa.py_buffer(b"\2")])


def of_arrow(values: pa.Array | pa.ChunkedArray) -> Mask:
    """``values``, of Arrow's type of truth values; NULL counts as false."""
    if isinstance(values, pa.ChunkedArray):
        parts = [of_arrow(chunk) for chunk in values.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.bool_), *parts])
    known, bits = values.buffers()
    found = _unpacked(bits, values)
    return found & _unpacked(known, values) if values.null_count else found


def _unpacked(bits: pa.Buffer, values: pa.Array) -> Mask:
    if not len(values):
        return np.zeros(0, np.bool_)
    first, skipped = divmod(values.offset, 8)
    held = np.frombuffer(bits, np.uint8)[first:]
    found: Mask = np.unpackbits(held, count=skipped + len(values), bitorder="little").view(np.bool_)[skipped:]
    return found


def to_arrow(mask: Mask) -> pa.BooleanArray:
    """``mask`` as an array of Arrow."""
    return pa.BooleanArray.from_buffers(
        pa.bool_(), len(mask), [None, pa.py_buffer(np.packbits(mask, bitorder="little"))], null_count=0
    )


def repeated(value: bool, count: int) -> pa.BooleanArray:
    """``count`` times ``value``, in less time than `to_arrow` takes for a mask."""
    return pa.repeat(_TRUE if value else _FALSE, count)
