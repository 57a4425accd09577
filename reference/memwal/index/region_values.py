"""Region values as values: when two of them are one region, which are possible, and their bytes in revision R."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa

from ..clauses import implements
from ..codec.canonical import stored_numbers, unscaled
from ..codec.index_details import RegionSpec
from ..codec.region_manifest import RegionManifest
from ..errors import ArtifactError, InvalidArgument
from ..revisions import Revision
from . import result_types
from .transform_table import NUM_BUCKETS, TRANSFORMS, settings

RegionKey = tuple[tuple[str, object], ...]
Values = tuple[tuple[str, object], ...]
"""Region value per field id, in the order of the spec's fields; a field that is absent is unknown."""

_NAN = ("NaN",)


@implements("REGION-006", "AMB-57", "AMB-64")
def values_key(row: Mapping[str, object]) -> RegionKey:
    """A hashable form of region values by field id: equal exactly if the values name one region.

    NULL equals NULL, all NaN are equal, and so are both zeros; the order of ``row`` does not matter.
    """
    return tuple((name, normal(row[name])) for name in sorted(row))


def normal(value: object) -> object:
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value + 0.0
    return value


def exact(values: Sequence[object], kind: pa.DataType) -> pa.Array | None:
    """``values`` as a column of type ``kind``; None unless each of them is exactly one of its values."""
    try:
        column = pa.array(values, kind)
        stored = column.to_pylist()
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    same = all(_same(value, other) for value, other in zip(values, stored, strict=True))
    return column if same else None


def _same(value: object, stored: object) -> bool:
    """Whether a literal survived its conversion; never for NaN, whose comparison engines define differently."""
    if value is None or stored is None:
        return value is stored
    return bool(value == stored)


@implements("REGION-010", "REGION-024", "REGION-038", "AMB-57")
def checked(values: Mapping[str, object], spec: RegionSpec, revision: Revision) -> Values:
    """``values`` as a region of ``spec`` has them; raises `InvalidArgument` for values that no row can have."""
    names = [field.field_id for field in spec.fields]
    if set(values) != set(names):
        raise InvalidArgument(f"region values {sorted(values)} do not match the spec {names}", clause="REGION-010")
    found = []
    for field in spec.fields:
        value, kind = values[field.field_id], result_types.parse(field.result_type)
        column = exact([value], kind)
        if column is None:
            reason = f"region value {field.field_id}={value!r} is no {field.result_type}"
            raise InvalidArgument(reason, clause="REGION-024")
        if value is None and revision.null_bucket:
            reason = f"region value {field.field_id} is NULL, which revision {revision.name} has no region for"
            raise InvalidArgument(reason, clause="AMB-57")
        entry = TRANSFORMS.get(field.transform or "")
        if entry is not None and entry.parameter == NUM_BUCKETS and value is not None:
            buckets = settings(entry, field, revision, 0).number
            if not 0 <= column[0].as_py() < buckets:
                reason = f"region value {field.field_id}={value!r} is none of {buckets} buckets"
                raise InvalidArgument(reason, clause="REGION-038")
        found.append((field.field_id, column[0].as_py()))
    return tuple(found)


@implements("AMB-53")
def to_shard_fields(values: Values, spec: RegionSpec | None) -> tuple[tuple[str, bytes], ...]:
    """Region values as region manifests of revision R hold them."""
    types = {f.field_id: result_types.parse(f.result_type) for f in spec.fields} if spec is not None else {}
    return tuple((name, encode_scalar_r(pa.scalar(value, types[name]))) for name, value in values)


@implements("AMB-53")
def from_shard_fields(manifest: RegionManifest, spec: RegionSpec, path: str) -> Values:
    """Region values that a region manifest of revision R holds; raises `ArtifactError` for bytes that are none."""
    types = {f.field_id: result_types.parse(f.result_type) for f in spec.fields}
    try:
        return tuple((n, decode_scalar_r(v, types[n]).as_py()) for n, v in manifest.shard_fields if n in types)
    except ValueError as error:
        raise ArtifactError("AMB-53", path, f"a region value of the manifest cannot be read: {error}") from error


def encode_scalar_r(value: pa.Scalar) -> bytes:
    """Bytes of a region value in a shard field entry: little-endian, in the width of its type.

    Booleans are one byte, text is UTF-8, binary is as it is, decimals have their Arrow width. Raises `InvalidArgument`
    for NULL, which revision R has no bytes for, and for nested types.
    """
    if not value.is_valid:
        raise InvalidArgument("revision R has no bytes for a NULL region value", clause="AMB-57")
    kind = value.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str(value.as_py()).encode()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return bytes(value.as_py())
    array = pa.array([value.as_py()], kind) if pa.types.is_decimal(kind) else pa.repeat(value, 1)
    if pa.types.is_decimal(kind):
        (number,) = unscaled(array)
        assert number is not None
        return number.to_bytes(kind.byte_width, "little", signed=True)
    numbers = stored_numbers(array)
    if numbers is None:
        raise InvalidArgument(f"a region value of type {kind} has no bytes in revision R", clause="REGION-016")
    return numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()


def decode_scalar_r(data: bytes, kind: pa.DataType) -> pa.Scalar:
    """Inverse of `encode_scalar_r`. Raises ValueError for bytes that are no value of ``kind``."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.scalar(data.decode(), kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.scalar(data, kind)
    width = 1 if pa.types.is_boolean(kind) else kind.bit_width // 8
    if len(data) != width:
        raise ValueError(f"{len(data)} bytes are no {kind}")
    if pa.types.is_boolean(kind):
        return pa.scalar(data != b"\0")
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(data)])[0]
