"""Arrow arrays from plain values and back, written down a second time: no kernel of pyarrow is trusted here.

A *cell* is a plain value: None, a number, text, bytes, a list of cells, or a tuple of the cells of a struct's fields.
Times are the numbers that are stored, decimals their unscaled digits, floats their text: NaN equals NaN and -0.0
is not 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

Cell = Any
Choose = Callable[[int], int]
"""A number from 0 to below the given one."""


def stored_as(arrow: pa.DataType) -> pa.DataType | None:
    """The integers behind a time, a date, a timestamp or a duration; None for any other type."""
    if not pa.types.is_temporal(arrow):
        return None
    return pa.int32() if arrow.bit_width == 32 else pa.int64()


def item_type(arrow: pa.DataType) -> pa.DataType | None:
    """The type of a list's items, of whatever layout; None for any other type."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return arrow.value_type if any(is_(arrow) for is_ in lists) else None


def array(cells: Sequence[Cell], arrow: pa.DataType, choose: Choose) -> pa.Array:
    """An array of ``cells`` laid out as ``choose`` likes.

    What it begins with may be cut off, at every level; NULL lists and structs may have values under them, and items may
    have gaps between them.
    """
    ahead = choose(3)
    padded = [_filler(arrow)] * ahead + list(cells)
    return _laid_out(padded, arrow, choose)[ahead:]


def _laid_out(cells: Sequence[Cell], arrow: pa.DataType, choose: Choose) -> pa.Array:
    gone = np.array([cell is None for cell in cells], dtype=bool)
    mask = pa.array(gone) if gone.any() else None
    if pa.types.is_struct(arrow):
        columns = [
            array([_filler(f.type) if cell is None else cell[at] for cell in cells], f.type, choose)
            for at, f in enumerate(arrow)
        ]
        if not columns:
            return pa.array([None if cell is None else {} for cell in cells], arrow)
        return pa.StructArray.from_arrays(columns, fields=list(arrow), mask=mask)
    inner = item_type(arrow)
    if inner is None:
        return _leaf(cells, arrow)
    if pa.types.is_fixed_size_list(arrow):
        size = arrow.list_size
        if not size:
            return pa.array(cells, arrow)
        items = [item for cell in cells for item in ([_filler(inner)] * size if cell is None else cell)]
        return pa.FixedSizeListArray.from_arrays(array(items, inner, choose), type=arrow, mask=mask)
    items, offsets = [], [0]
    for cell in cells:
        items += [_filler(inner)] * choose(2) if cell is None else cell
        offsets.append(len(items))
    kind, width = (pa.LargeListArray, pa.int64()) if pa.types.is_large_list(arrow) else (pa.ListArray, pa.int32())
    return kind.from_arrays(pa.array(offsets, width), array(items, inner, choose), type=arrow, mask=mask)


def _filler(arrow: pa.DataType) -> Cell:
    """A value that is not NULL, at any depth, and stands where nobody may look."""
    if pa.types.is_struct(arrow):
        return tuple(_filler(field.type) for field in arrow)
    inner = item_type(arrow)
    if inner is not None:
        return [_filler(inner)] * (arrow.list_size if pa.types.is_fixed_size_list(arrow) else 1)
    if pa.types.is_null(arrow):
        return None
    if pa.types.is_fixed_size_binary(arrow):
        return b"\x07" * arrow.byte_width
    if any(is_(arrow) for is_ in (pa.types.is_string, pa.types.is_large_string)):
        return "filler"
    if any(is_(arrow) for is_ in (pa.types.is_binary, pa.types.is_large_binary)):
        return b"filler"
    return "7.0" if pa.types.is_floating(arrow) else True if pa.types.is_boolean(arrow) else 0


def _leaf(cells: Sequence[Cell], arrow: pa.DataType) -> pa.Array:
    if pa.types.is_floating(arrow):
        return pa.array([None if cell is None else float(cell) for cell in cells], arrow)
    if pa.types.is_decimal(arrow):
        context = Context(prec=90)
        return pa.array([None if c is None else Decimal(c).scaleb(-arrow.scale, context) for c in cells], arrow)
    number = stored_as(arrow)
    return pa.array(cells, arrow) if number is None else pa.array(cells, number).view(arrow)


def cells(found: pa.Array | pa.ChunkedArray) -> list[Cell]:
    """The cells of an array."""
    if isinstance(found, pa.ChunkedArray):
        return [cell for chunk in found.chunks for cell in cells(chunk)]
    arrow = found.type
    valid = [found.is_valid()[at].as_py() for at in range(len(found))] if len(found) else []
    if pa.types.is_struct(arrow):
        columns = [cells(found.field(at)) for at in range(arrow.num_fields)]
        return [tuple(c[at] for c in columns) if there else None for at, there in enumerate(valid)]
    inner = item_type(arrow)
    if inner is None:
        return _leaf_cells(found)
    items = cells(found.values)
    if pa.types.is_fixed_size_list(arrow):
        starts = [(found.offset + at) * arrow.list_size for at in range(len(found) + 1)]
    else:
        starts = [offset.as_py() for offset in found.offsets]
    return [items[starts[at] : starts[at + 1]] if there else None for at, there in enumerate(valid)]


def _leaf_cells(found: pa.Array) -> list[Cell]:
    arrow = found.type
    if pa.types.is_floating(arrow):
        return [None if value is None else repr(float(value)) for value in found.to_pylist()]
    if pa.types.is_decimal(arrow):
        context = Context(prec=90)
        return [None if value is None else int(value.scaleb(arrow.scale, context)) for value in found.to_pylist()]
    number = stored_as(arrow)
    return found.to_pylist() if number is None else found.view(number).to_pylist()
