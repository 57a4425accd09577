"""What is done with rows of users that leaves each of their cells as it is.

pyarrow (26.0) is wrong on some nested columns. Its ``take`` and ``filter`` read beside the values of fixed-size lists
of fixed-size lists without NULLs, at any depth, where these do not begin at the start of their memory, as they do not
in a slice; its ``cast`` fails on lists of NULLs. Key columns alone, which cannot be nested, may be left to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def at(rows: pa.Table, positions: npt.NDArray[np.integer[Any]]) -> pa.Table:
    """The rows at ``positions``, in that order."""
    return _sound(rows).take(pa.array(positions))


def where(rows: pa.Table, mask: npt.NDArray[np.bool_] | pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows for which ``mask`` is true, in their order; NULL counts as false."""
    return _sound(rows).filter(pa.array(mask) if isinstance(mask, np.ndarray) else mask)


def under(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """``rows`` under a schema with the same types: with its names, its metadata, and its word on what may be NULL."""
    assert rows.schema.names == schema.names, (rows.schema, schema)
    assert rows.schema.types == schema.types, (rows.schema, schema)
    return pa.Table.from_arrays(rows.columns, schema=schema)


def from_start(values: pa.Array) -> pa.Array:
    """A copy of ``values`` that begins at the start of its memory, at every level."""
    return pa.concat_arrays([values])


def _sound(rows: pa.Table) -> pa.Table:
    """``rows`` with copies of those columns that pyarrow may choose wrongly from."""
    for number, field in enumerate(rows.schema):
        if _is_misread(field.type):
            chunks = [from_start(chunk) for chunk in rows.column(number).chunks]
            rows = rows.set_column(number, field, pa.chunked_array(chunks, field.type))
    return rows


def _is_misread(arrow: pa.DataType) -> bool:
    if not pa.types.is_nested(arrow):
        return False
    if pa.types.is_fixed_size_list(arrow) and pa.types.is_fixed_size_list(arrow.value_type):
        return True
    return any(_is_misread(arrow.field(number).type) for number in range(arrow.num_fields))
