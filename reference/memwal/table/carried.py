"""Types and marks that a column may have: what the WAL, recovery, flush, merge, scans, filters and pylance carry.

Each entry was found by what failed: `docs/types.md` shows for every type whether it may come in.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from . import schema as schemas

EXTENSION = b"ARROW:extension:name"
"""Field metadata key by which Arrow readers make an extension type of a column."""
ENCODING = b"lance-encoding:"
"""Field metadata keys that begin so choose how the native writer encodes a column."""
PACKED = (b"packed", b"lance-encoding:packed")
"""Field metadata keys that make one column of a struct in a data file, where the field list has one per leaf."""
ENCODINGS: dict[bytes, frozenset[bytes]] = {
    b"lance-encoding:blob": frozenset({b"true", b"false"}),
    b"lance-encoding:compression": frozenset({b"none", b"lz4", b"zstd", b"fsst"}),
    b"lance-encoding:compression-level": frozenset(str(level).encode() for level in range(1, 23)),
    b"lance-encoding:structural-encoding": frozenset({b"miniblock", b"fullzip"}),
}
"""Values of the encoding marks that a column may have; with others the native writer fails at the flush."""


def refusal(field: pa.Field) -> str:
    """Why no table has a field like this, whatever is below it; empty: it may.

    Raises `InvalidArgument` for a type that Lance has no name for.
    """
    name = schemas.logical_type(field.type)
    for applies, reason in _TYPES:
        if applies(field.type):
            return f"{reason}: {field.type}"
    if not schemas.is_parent(name) and schemas.arrow_type(name) != field.type:
        return f"a table would give {schemas.arrow_type(name)} for {field.type}"
    return _marked(field)


def _marked(field: pa.Field) -> str:
    marks: dict[bytes, bytes] = field.metadata or {}
    for key, value in marks.items():
        if not (_is_text(key) and _is_text(value)):
            return f"metadata that are not UTF-8: {key!r}: {value!r}"
        if key == EXTENSION:
            return f"the extension type {value.decode()!r} would not come back from the WAL; leave out its metadata"
        if key in PACKED:
            return "other readers find NULL in a packed struct"
        if key.startswith(ENCODING) and value not in ENCODINGS.get(key, ()):
            return f"{key.decode()}={value.decode()} is no encoding that the native writer is known to carry out"
    return ""


def _is_text(given: bytes) -> bool:
    try:
        given.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_empty(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_struct(arrow) and not arrow.num_fields)


def _has_no_width(arrow: pa.DataType) -> bool:
    """A list of no items, or bytes of no width."""
    if pa.types.is_fixed_size_list(arrow):
        return not arrow.list_size
    return bool(pa.types.is_fixed_size_binary(arrow) and not arrow.byte_width)


def _has_odd_items(arrow: pa.DataType) -> bool:
    """A fixed-size list of what has no fixed width of its own; lists in it are looked at by themselves."""
    return pa.types.is_fixed_size_list(arrow) and not any(is_(arrow.value_type) for is_ in _FIXED_WIDTH)


_FIXED_WIDTH = (
    pa.types.is_boolean,
    pa.types.is_primitive,
    pa.types.is_decimal,
    pa.types.is_fixed_size_binary,
    pa.types.is_fixed_size_list,
)
_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (_is_empty, "a struct without fields comes back as NULL"),
    (_has_no_width, "values of no width cannot be read back"),
    (_has_odd_items, "the native writer fails on fixed-size lists of what has no fixed width"),
)
"""What is refused though Lance has a name for it, and why."""
