"""Tagged cells and rows of the protocol <-> Arrow tables and Python values.

A cell is ``{"t": type, "v": value}``: ``v`` is None for NULL, a bool for ``bool``, text for ``utf8``, base64 for
``binary`` and a decimal string for every number, so that no number passes through a JSON double. A vector,
``float32[n]``, is an array of n such strings. Under the capability ``rows.ipc`` rows of any Arrow type are
``{"ipc": …}`` instead, one Arrow IPC stream in base64.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

Cell = dict[str, Any]
Rows = dict[str, Any]
"""``{"columns": [...], "rows": [[cell, ...], ...]}``, or ``{"ipc": text}``"""

ARROW: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.string(),
    "binary": pa.binary(),
    "date32": pa.date32(),
    "timestamp_us": pa.timestamp("us"),
}
"""Arrow type of each type name of the protocol."""

_NAMES = {arrow: name for name, arrow in ARROW.items()} | {pa.large_string(): "utf8", pa.large_binary(): "binary"}
_AS_INTEGER = {"date32": pa.int32(), "timestamp_us": pa.int64()}


class CellError(ValueError):
    """A cell or a column that the protocol cannot carry, or whose value does not fit its type."""


_VECTOR = re.compile(r"float32\[([1-9][0-9]{0,3})\]")


def arrow_type(name: str) -> pa.DataType:
    """Arrow type of a type name; ``float32[n]`` is a fixed size list. Raises `CellError` for an unknown name."""
    if vector := _VECTOR.fullmatch(name):
        return pa.list_(pa.float32(), int(vector[1]))
    if name not in ARROW:
        raise CellError(f"the protocol has no type {name}")
    return ARROW[name]


def type_name(arrow: pa.DataType) -> str:
    """Type name of an Arrow type. Raises `CellError` for a type that the protocol does not have."""
    if pa.types.is_fixed_size_list(arrow) and arrow.value_type == pa.float32():
        return f"float32[{arrow.list_size}]"
    try:
        return _NAMES[arrow]
    except KeyError:
        raise CellError(f"the protocol has no type for {arrow}") from None


def cell(name: str, value: object) -> Cell:
    """The cell of a Python value. Raises `CellError` for a value that is not of type ``name``."""
    if value is None:
        return {"t": name, "v": None}
    if name == "bool" and isinstance(value, bool):
        return {"t": name, "v": value}
    if name == "utf8" and isinstance(value, str):
        return {"t": name, "v": value}
    if name == "binary" and isinstance(value, bytes):
        return {"t": name, "v": base64.b64encode(value).decode()}
    if name in ("float32", "float64") and isinstance(value, int | float):
        return {"t": name, "v": _float_text(float(value))}
    if _VECTOR.fullmatch(name):
        if not isinstance(value, list | tuple) or len(value) != arrow_type(name).list_size:
            raise CellError(f"{value!r} is not a value of type {name}")
        return {"t": name, "v": [_float_text(float(each)) for each in value]}
    if isinstance(value, int) and not isinstance(value, bool) and name not in ("null", "bool", "utf8", "binary"):
        return {"t": name, "v": str(value)}
    raise CellError(f"{value!r} is not a value of type {name}")


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _float32(text: str) -> float:
    """The binary32 that a text names, so that its shortest text and all its digits are one value."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])
    except OverflowError:
        raise CellError(f"{text} does not fit float32") from None


def value(tagged: Mapping[str, Any]) -> object:
    """Python value of a cell: dates and timestamps as their counts. Raises `CellError` if it does not fit its type."""
    name, text = tagged["t"], tagged["v"]
    if text is None:
        return None
    if name == "null":
        raise CellError(f"type null has no value {text!r}")
    if name == "bool":
        if not isinstance(text, bool):
            raise CellError(f"a bool cell holds {text!r}")
        return text
    if _VECTOR.fullmatch(name):
        if not isinstance(text, list) or len(text) != arrow_type(name).list_size:
            raise CellError(f"a cell of type {name} holds {text!r}")
    elif not isinstance(text, str):
        raise CellError(f"a cell of type {name} holds {text!r}")
    try:
        if name == "utf8":
            return text
        if name == "binary":
            return base64.b64decode(text, validate=True)
        if name == "float64":
            return float(text)
        if name == "float32":
            return _float32(text)
        if isinstance(text, list):
            return [_float32(each) for each in text]
        number = int(text)
    except (ValueError, binascii.Error):
        raise CellError(f"{text!r} is not a value of type {name}") from None
    try:
        pa.scalar(number, _AS_INTEGER.get(name, ARROW[name]))
    except (pa.ArrowInvalid, OverflowError):
        raise CellError(f"{text} does not fit {name}") from None
    return number


def columns(schema: pa.Schema) -> list[dict[str, object]]:
    """Column descriptions of an Arrow schema."""
    return [{"name": field.name, "type": type_name(field.type), "nullable": field.nullable} for field in schema]


def schema(described: Iterable[Mapping[str, Any]]) -> pa.Schema:
    """Inverse of `columns`."""
    return pa.schema([pa.field(c["name"], arrow_type(c["type"]), c["nullable"]) for c in described])


def _plain(column: pa.ChunkedArray) -> list[object]:
    integers = _AS_INTEGER.get(type_name(column.type))
    return list(column.cast(integers).to_pylist() if integers is not None else column.to_pylist())


def to_rows(table: pa.Table) -> Rows:
    """Rows of the protocol from an Arrow table."""
    described = columns(table.schema)
    values = [_plain(column) for column in table.columns]
    names = [str(c["type"]) for c in described]
    rows = [[cell(name, v) for name, v in zip(names, row, strict=True)] for row in zip(*values, strict=True)]
    return {"columns": described, "rows": rows}


def to_table(rows: Mapping[str, Any]) -> pa.Table:
    """Arrow table from rows of the protocol. Raises `CellError` if a row or a cell does not fit the columns."""
    if "ipc" in rows:
        return _of_stream(rows["ipc"])
    described: Sequence[Mapping[str, Any]] = rows["columns"]
    values: list[list[object]] = [[] for _ in described]
    for number, row in enumerate(rows["rows"]):
        if len(row) != len(described):
            raise CellError(f"row {number} has {len(row)} cells for {len(described)} columns")
        for column, into, tagged in zip(described, values, row, strict=True):
            if tagged["t"] != column["type"]:
                raise CellError(f"row {number}: column {column['name']} of type {column['type']} holds {tagged['t']}")
            into.append(value(tagged))
    arrow = schema(described)
    arrays = []
    for field, cells in zip(arrow, values, strict=True):
        integers = _AS_INTEGER.get(type_name(field.type))
        array = pa.array(cells, integers if integers is not None else field.type)
        arrays.append(array.cast(field.type) if integers is not None else array)
    return pa.table(arrays, schema=arrow) if arrays else pa.table({})


def to_stream(table: pa.Table) -> Rows:
    """Rows of the protocol, of any Arrow type, as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return {"ipc": base64.b64encode(sink.getvalue()).decode()}


def _of_stream(text: str) -> pa.Table:
    try:
        with pa.ipc.open_stream(base64.b64decode(text, validate=True)) as reader:
            rows = reader.read_all()
    except (binascii.Error, pa.ArrowException, OSError) as error:
        raise CellError(f"the rows are no Arrow IPC stream: {error}") from None
    # Copied, since a stream aligns to 8 bytes only, and libraries that are given decimals by address want 16.
    return rows.take(pa.array(range(rows.num_rows), pa.int64()))
