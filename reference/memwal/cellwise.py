"""What is done with rows of users that leaves each of their cells as it is.

pyarrow (26.0) is wrong on some nested columns. Its ``take`` and ``filter`` read beside the values of fixed-size lists
of fixed-size lists without NULLs, at any depth, where these do not begin at the start of their memory, as they do not
in a slice; its ``cast`` fails on slices of lists of NULLs. Key columns alone, never nested, may be left to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .errors import InvalidArgument


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


def converted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of ``schema`` in its types. Raises `InvalidArgument` where a value would not stay what it is."""
    return pa.table([_converted(rows.column(field.name), field) for field in schema], schema=schema)


def _converted(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if values.type == field.type:
        return values
    copied = pa.chunked_array([from_start(chunk) for chunk in values.chunks], values.type)
    try:
        found = copied.cast(field.type)
        same = pa.types.is_null(values.type) or _equal(copied, found.cast(values.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = f"column {field.name!r} is {values.type}, and its values do not fit {field.type}: {error}"
        raise InvalidArgument(reason, clause="WRITER-015") from error
    if not same:
        reason = f"column {field.name!r} is {values.type}, and some of its values would change as {field.type}"
        raise InvalidArgument(reason, clause="WRITER-015")
    return found


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether both have the same values; NaN equals NaN."""
    if not pa.types.is_floating(one.type):
        return bool(one.equals(other))
    numbers = one.to_numpy(), other.to_numpy()
    return bool(one.is_null().equals(other.is_null()) and np.array_equal(*numbers, equal_nan=True))


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


def null_within(values: pa.Array, where: str) -> str:
    """What below ``values`` is NULL and may not be, where its parent is not NULL; empty: nothing."""
    if not _strict_below(values.type):
        return ""
    # Flattened children of a struct are NULL where the struct is; NULL lists have no items.
    allowed = values.null_count if pa.types.is_struct(values.type) else 0
    below = values.flatten() if pa.types.is_struct(values.type) else [values.flatten()]
    for field, child in zip(children(values.type), below, strict=True):
        named = f"{field.name!r} in {where}"
        if not field.nullable and child.null_count > allowed:
            return named
        if found := null_within(child, named):
            return found
    return ""


def _strict_below(kind: pa.DataType) -> bool:
    """Whether something below a column of this type may not be NULL."""
    return any(not child.nullable or _strict_below(child.type) for child in children(kind))


def children(kind: pa.DataType) -> list[pa.Field]:
    """The fields of a nested type; none of another."""
    return [kind.field(number) for number in range(kind.num_fields)] if pa.types.is_nested(kind) else []
