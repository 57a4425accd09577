"""What a vector index was trained to: the centroids of its partitions, and how it encodes vectors.

An index entry over vectors has two Lance files: ``index.idx`` holds the centroids in a global buffer, ``auxiliary.idx``
the storage metadata, for product quantisation with a codebook in another buffer. Distances are comparable between two
entries whose models are equal (AMB-51).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ArtifactError, InvalidArgument
from . import json_text, protobuf
from .pb.lance import file_pb2, index_pb2

INDEX_FILE = "index.idx"
AUXILIARY_FILE = "auxiliary.idx"

FOOTER = struct.Struct("<QQQIIHH4s")
"""Column metadata, column offset table and global buffer table positions; counts of both; version; magic."""
BUFFER_ENTRY = struct.Struct("<QQ")
"""Position and size of one global buffer; buffer 0 is the schema."""

_MAGIC = b"LANC"
_IVF_BUFFER = "lance:ivf"
_STORAGE = "storage_metadata"
_KIND = "lance:index"
_POSITION = "_position"
_TENSOR_TYPES: dict[int, np.dtype[Any]] = {
    index_pb2.Tensor.FLOAT16: np.dtype("<f2"),
    index_pb2.Tensor.FLOAT32: np.dtype("<f4"),
    index_pb2.Tensor.FLOAT64: np.dtype("<f8"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorModel:
    """The trained part of a vector index; equal models encode a vector to equal bytes."""

    kind: str
    """``IVF_FLAT``, ``IVF_PQ``, ``IVF_SQ``, or another that the native package has."""
    metric: str
    """``l2``, ``cosine``, ``dot`` or ``hamming``."""
    centroids: bytes
    """The tensor of partition centroids: element type, shape and values."""
    storage: tuple[tuple[str, str], ...]
    """Storage metadata by name, values as JSON; floating numbers at single precision, as they are used."""
    buffers: tuple[tuple[str, bytes], ...]
    """Codebook and other matrices that the storage metadata refers to, by the name of the reference."""
    exact: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """The storage metadata as they are stored, by name, values as JSON."""


def buffer_table(footer: bytes, path: str) -> tuple[int, int]:
    """Position and entries of the global buffer table, from the last bytes of a file."""
    if len(footer) != FOOTER.size or not footer.endswith(_MAGIC):
        raise ArtifactError("AMB-51", path, "it does not end with LANC: it was cut, or it is not a Lance file")
    _, _, table, count, _, _, _, _ = FOOTER.unpack(footer)
    return table, count


def schema_metadata(buffer: bytes, path: str) -> dict[str, bytes]:
    """Schema metadata of a file, from its global buffer 0."""
    return dict(protobuf.parse(file_pb2.FileDescriptor, buffer, clause="AMB-51", path=path).schema.metadata)


def centroid_buffer(metadata: Mapping[str, bytes], path: str) -> int:
    """Number of the buffer of ``index.idx`` that holds the centroids."""
    number = metadata.get(_IVF_BUFFER, b"").decode("ascii", "replace")
    if not number.isdecimal():
        raise ArtifactError("AMB-51", path, f"schema metadata {_IVF_BUFFER!r} is {number!r}, not a buffer's number")
    return int(number)


def storage_metadata(metadata: Mapping[str, bytes], path: str) -> dict[str, Any]:
    """The storage metadata of ``auxiliary.idx``: one JSON object inside a list of texts."""
    try:
        found = json_text.parse(json_text.parse(metadata.get(_STORAGE, b""))[0])
    except (ValueError, TypeError, LookupError) as error:
        raise ArtifactError("AMB-51", path, f"schema metadata {_STORAGE!r} is not readable: {error}") from error
    if not isinstance(found, dict):
        raise ArtifactError("AMB-51", path, f"schema metadata {_STORAGE!r} is not an object")
    return found


def referred_buffers(storage: Mapping[str, Any]) -> dict[str, int]:
    """Buffers of ``auxiliary.idx`` that the storage metadata refers to, by the name of the reference."""
    return {n: at for n, at in storage.items() if n.endswith(_POSITION) and isinstance(at, int) and at > 0}


def kind_and_metric(metadata: Mapping[str, bytes], path: str) -> tuple[str, str]:
    """Kind and metric that the schema metadata of ``index.idx`` name."""
    try:
        found = json_text.parse(metadata.get(_KIND, b""))
        return str(found["type"]), str(found["distance_type"])
    except (ValueError, TypeError, LookupError) as error:
        raise ArtifactError("AMB-51", path, f"schema metadata {_KIND!r} is not readable: {error}") from error


def decode(
    kind: str, metric: str, ivf: bytes, storage: Mapping[str, Any], buffers: Mapping[str, bytes], path: str
) -> VectorModel:
    """The model from its kind, the centroid buffer, the storage metadata and the buffers that it refers to."""
    message = protobuf.parse(index_pb2.IVF, ivf, clause="AMB-51", path=path)
    plain = sorted((name, json.dumps(_single(value))) for name, value in storage.items() if name not in buffers)
    return VectorModel(
        kind=kind,
        metric=metric,
        centroids=protobuf.serialise(message.centroids_tensor),
        storage=tuple(plain),
        buffers=tuple(sorted(buffers.items())),
        exact=tuple(sorted((name, json.dumps(value)) for name, value in storage.items() if name not in buffers)),
    )


def _single(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _single(inner) for name, inner in sorted(value.items())}
    if isinstance(value, list):
        return [_single(inner) for inner in value]
    return float(np.float32(value)) if isinstance(value, float) else value


def tensor(data: bytes, name: str) -> npt.NDArray[np.float64]:
    """The numbers of an encoded `Tensor` of the index ``name``, in its shape.

    Raises `ArtifactError` for a damaged one, and `InvalidArgument` for numbers of another type than floating point.
    """
    message = protobuf.parse(index_pb2.Tensor, data, clause="AMB-51", path=name)
    kind = _TENSOR_TYPES.get(message.data_type)
    if kind is None:
        reason = f"index {name!r} was trained on numbers of type {index_pb2.Tensor.DataType.Name(message.data_type)}"
        raise InvalidArgument(reason, clause="AMB-48")
    try:
        return np.frombuffer(message.data, kind).astype(np.float64).reshape(message.shape)
    except ValueError as error:
        raise ArtifactError("AMB-51", name, f"a tensor of the index is damaged: {error}") from error
