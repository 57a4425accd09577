"""How much memory an answer takes: said before it is read, as far as it is known then, and else as soon as it is."""

from __future__ import annotations

import pyarrow as pa

from ..errors import InvalidArgument
from ..table.state import TableState
from . import origin
from .query import Query

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def check_base(base: TableState, asked: Query) -> None:
    """Raise `InvalidArgument` if the rows of ``base`` alone are more than ``asked`` may have.

    Newer rows take the place of those of the base, so that an answer without a filter is hardly smaller. Columns of
    one width count what they take; with the others a row is at least what all data files have for it on average.
    """
    if asked.keep is not None:
        return
    names = asked.names(base)
    rows = base.rows if asked.rows_most is None else min(base.rows, asked.rows_most)
    width = sum(_width(origin.field_of(base, name).type) for name in names)
    if set(base.schema.names) <= set(names):
        physical = sum(fragment.physical_rows for fragment in base.fragments)
        stored = sum(file.file_size_bytes for fragment in base.fragments for file in fragment.files)
        width = max(width, stored / physical if physical else 0.0)
    check(int(rows * width), asked)


def check(size_bytes: int, asked: Query) -> None:
    """Raise `InvalidArgument` if ``size_bytes`` are more than ``asked`` may have."""
    most = asked.bytes_exceeded(size_bytes) if asked.bytes_exceeded is not None else None
    if most is None:
        return
    reason = f"the answer takes {_said(size_bytes)} of memory at least, and there are {_said(most)}"
    raise InvalidArgument(f"{reason}: read it in parts with batches(), or read fewer columns or rows")


def _width(kind: pa.DataType) -> float:
    """Bytes that a value takes at least."""
    try:
        return float(kind.bit_width / 8)
    except ValueError:
        return 0.0


def _said(size_bytes: int) -> str:
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} bytes"
