"""Digests of many values, one for each: by hashlib one after another, and where that is slow by DataFusion at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MANY = 8192
"""From so many values on the work of beginning is less than a Python call for each."""


def digests(function: Callable[[bytes], Any], prefix: bytes, values: pa.LargeBinaryArray) -> bytes:
    """The digests of ``prefix`` and each value behind each other. ``function``: one of hashlib; no value is NULL."""
    if len(values) >= MANY and function(b"").name == "sha256":
        return _sha256(prefix, values)
    return b"".join([function(prefix + value).digest() for value in values.to_pylist()])


def _sha256(prefix: bytes, values: pa.LargeBinaryArray) -> bytes:
    from datafusion import SessionConfig, SessionContext, col
    from datafusion.functions import sha256

    nothing = pa.scalar(b"", pa.large_binary())
    whole = pc.binary_join_element_wise(pa.scalar(prefix, pa.large_binary()), values, nothing)
    # One partition: rows come out in the order in which they went in.
    context = SessionContext(SessionConfig().with_target_partitions(1))
    found = context.from_arrow(pa.table({"value": whole})).select(sha256(col("value")).alias("digest"))
    digest = found.to_arrow_table().column("digest").combine_chunks()
    return bytes(pc.cast(digest, pa.binary(32)).buffers()[1])


def latin_text(values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Each value as the UTF-8 text that has its bytes as characters of Latin-1. No value is NULL."""
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(values) + 1, 8 * values.offset)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    # An upper byte becomes two, so that what follows begins one byte later for each.
    more = np.concatenate([[0], np.cumsum(data >> 7, dtype=np.int64)])
    starts = offsets - offsets[0]
    text = data.tobytes().decode("latin-1").encode()
    buffers = [None, pa.py_buffer(starts + more[starts]), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
