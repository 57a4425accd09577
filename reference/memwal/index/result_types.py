"""Spelling of a region field's result type.

Revisions A and B carry a text without a definition; Lance logical type names are written, Arrow's spellings are read
too (AMB-68). Revision R writes Arrow's.
"""

from __future__ import annotations

import re

import pyarrow as pa

from ..clauses import implements
from ..errors import InvalidArgument
from ..revisions import Revision
from ..table.schema import arrow_type, logical_type

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "largeutf8": pa.large_string(),
    "largebinary": pa.large_binary(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date32[day]": pa.date32(),
    "date64": pa.date64(),
    "date64[ms]": pa.date64(),
}
_WRITTEN_IN_R = {pa.bool_(): "boolean", pa.string(): "utf8", pa.large_string(): "large_utf8"}


@implements("REGION-016", "AMB-68")
def parse(name: str) -> pa.DataType:
    """The Arrow type of a result type's text. Raises `InvalidArgument` for a text that names no type."""
    lower = name.lower()
    if lower in _ARROW:
        return _ARROW[lower]
    # ``timestamp[us, tz=UTC]``, ``time64[us]``, ``decimal128(10, 2)``: the zone keeps its capital letters.
    found = re.fullmatch(r"(?i:timestamp)\[(s|ms|us|ns), tz=([^\]]+)\]", name)
    if found:
        return pa.timestamp(found[1], found[2])
    found = re.fullmatch(r"(timestamp|time32|time64)\[(s|ms|us|ns)\]", lower)
    if found:
        name = f"{found[1]}:{found[2]}" + (":-" if found[1] == "timestamp" else "")
    found = re.fullmatch(r"decimal(128|256)\((\d+), ?(-?\d+)\)", lower)
    if found:
        name = f"decimal:{found[1]}:{found[2]}:{found[3]}"
    for spelling in (name, name.lower()):
        try:
            return arrow_type(spelling)
        except ValueError:  # includes what Arrow says about impossible precisions and units
            continue
    raise InvalidArgument(f"result type {name!r} is not known", clause="AMB-68")


@implements("REGION-016", "AMB-68")
def spelling(arrow: pa.DataType, revision: Revision) -> str:
    """The text to write for ``arrow``. Raises `InvalidArgument` for a type that tables cannot hold."""
    if revision.native_type_names and arrow in _WRITTEN_IN_R:
        return _WRITTEN_IN_R[arrow]
    return logical_type(arrow)
