"""What is done with rows of users that leaves each of their cells as it is.

pyarrow (26.0) is wrong on some nested columns. Its ``take`` and ``filter`` read beside the values of fixed-size lists
of fixed-size lists without NULLs, at any depth, where these do not begin at the start of their memory, as they do not
in a slice; its ``cast`` fails on slices of lists of NULLs, and on what lies under a NULL list. Key columns alone, never
nested, may be left to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from . import truths
from .errors import InvalidArgument


def at(rows: pa.Table, positions: npt.NDArray[np.integer[Any]]) -> pa.Table:
    """The rows at ``positions``, in that order."""
    return _sound(rows).take(numbers(positions))


def where(rows: pa.Table, mask: npt.NDArray[np.bool_] | pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows for which ``mask`` is true, in their order; NULL counts as false."""
    if isinstance(mask, np.ndarray) and mask.all():
        return rows
    return _sound(rows).filter(truths.to_arrow(mask) if isinstance(mask, np.ndarray) else mask)


def numbers(values: npt.NDArray[np.number[Any]]) -> pa.Array:
    """``values``, none of them NULL, as an array of Arrow."""
    # pa.array takes masked arrays too, and loads what makes them: 20 ms of a short command
    held = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(held.dtype), len(held), [None, pa.py_buffer(held)], null_count=0)


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
    try:
        found = cast(values, field.type)
        same = pa.types.is_null(values.type) or _equal(values, cast(found, values.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = f"column {field.name!r} is {values.type}, and its values do not fit {field.type}: {error}"
        raise InvalidArgument(reason, clause="WRITER-015") from error
    if not same:
        reason = f"column {field.name!r} is {values.type}, and some of its values would change as {field.type}"
        raise InvalidArgument(reason, clause="WRITER-015")
    return found


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether both, of one type, have the same values; NaN equals NaN, within lists and structs too."""
    return bool(one.equals(other)) or _same(pa.concat_arrays(one.chunks), pa.concat_arrays(other.chunks))


def _same(one: pa.Array, other: pa.Array) -> bool:
    if not one.is_null().equals(other.is_null()):
        return False
    if pa.types.is_floating(one.type):
        left, right = (each.to_numpy(zero_copy_only=False) for each in (one, other))
        return bool(np.array_equal(left, right, equal_nan=True))
    if pa.types.is_struct(one.type):
        return all(_same(*pair) for pair in zip(one.flatten(), other.flatten(), strict=True))
    if pa.types.is_nested(one.type):
        return pc.list_value_length(one).equals(pc.list_value_length(other)) and _same(one.flatten(), other.flatten())
    return bool(one.equals(other))


def cast(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """``values`` as ``kind``. What lies under a NULL is not looked at; whether there may be NULLs, neither.

    Raises pyarrow's `ArrowInvalid` for a value that does not fit, and `ArrowNotImplementedError`.
    """
    return pa.chunked_array([_cast(chunk, kind) for chunk in values.chunks], kind)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind or not (pa.types.is_nested(values.type) and pa.types.is_nested(kind)):
        return values if values.type == kind else values.cast(kind)
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(values.type) and pa.types.is_struct(kind):
        if children(values.type) and [f.name for f in values.type] == [f.name for f in kind]:
            below = [_cast(child, field.type) for child, field in zip(values.flatten(), kind, strict=True)]
            return pa.StructArray.from_arrays(below, fields=list(kind), mask=mask)
        return values.cast(kind)
    if pa.types.is_struct(values.type) or pa.types.is_struct(kind):
        return values.cast(kind)
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends, items = np.cumsum(lengths), _cast(values.flatten(), kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        if (lengths[values.is_valid().to_numpy(zero_copy_only=False)] != kind.list_size).any():
            raise pa.ArrowInvalid(f"each list must have {kind.list_size} items")
        at = np.repeat(ends - lengths, kind.list_size) + np.tile(np.arange(kind.list_size), len(values))
        under = np.repeat(values.is_null().to_numpy(zero_copy_only=False), kind.list_size)
        items = from_start(items).take(pa.array(at, mask=under))
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)
    form = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    offsets = pa.array(np.concatenate([[0], ends]), pa.int64() if pa.types.is_large_list(kind) else pa.int32())
    return form.from_arrays(offsets, items, type=kind, mask=mask)


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
