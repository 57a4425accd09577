"""Region values of rows as one text each, for grouping."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_NULL = "-"


def as_text(values: pa.Table) -> pa.Array:
    """One text per row of a table of region values: equal for equal values, and for no others; never NULL."""
    texts = [_texts(column.combine_chunks()) for column in values.columns]
    return pc.binary_join_element_wise(*texts, "") if len(texts) > 1 else texts[0]


def _texts(column: pa.Array) -> pa.Array:
    """Of each value its length and its text, so that what follows is never taken for a part of it."""
    coded = column.dictionary_encode()
    values = coded.dictionary
    if _is_bytes(values.type):
        values = pa.array([value.hex() for value in values.to_pylist()], pa.string())
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0, values.type))  # -0.0 is 0.0
    texts = pc.cast(values, pa.string())
    lengths = pc.cast(pc.binary_length(texts), pa.string())
    return pc.fill_null(pc.binary_join_element_wise(lengths, texts, ":").take(coded.indices), _NULL)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind) for is_kind in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    )
