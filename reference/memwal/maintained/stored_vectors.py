"""The vectors of a stored vector index: those of a generation, or of the base table, with the addresses of their rows.

Source: MemWAL revision A, "Vector Search Queries"; AMB-51.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..codec import data_file, protobuf, vector_model
from ..codec.pb.lance import index_pb2, table_pb2
from ..codec.vector_model import AUXILIARY_FILE, BUFFER_ENTRY, FOOTER
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..table.mirror import index_folder
from .vector_code import Codes, Encoded, VectorCode
from .vector_index import CODE_COLUMNS, Addresses


@implements("PLAN-011", "PLAN-021")
async def load(io: Io, entry: table_pb2.IndexMetadata, code: VectorCode) -> tuple[Addresses, Encoded]:
    """Row addresses and encoded vectors of one index entry of the table at ``io``, which follows ``code``.

    The offsets of the vectors count from 0 in the order of the file. Raises `ArtifactError` for damaged files.
    """
    name = f"{index_folder(entry.uuid.uuid)}/{AUXILIARY_FILE}"
    try:
        data = await io.get(name)
    except NotFound:
        raise ArtifactError("PLAN-021", io.path(name), "the index has no such file") from None
    return decode(data, code, io.path(name))


def decode(data: bytes, code: VectorCode, path: str) -> tuple[Addresses, Encoded]:
    """What `load` gives, from the bytes of the file."""
    rows = data_file.decode(data, path, clause="PLAN-021")
    column = CODE_COLUMNS[code.kind]
    if not {"_rowid", column} <= set(rows.schema.names):
        raise ArtifactError("PLAN-021", path, f"no columns _rowid and {column}; there are {rows.schema.names}")
    lengths = _lengths(data, path)
    if sum(lengths) != rows.num_rows or len(lengths) != len(code.centroids):
        reason = f"{len(lengths)} partitions of {sum(lengths)} rows, for {len(code.centroids)} and {rows.num_rows}"
        raise ArtifactError("PLAN-021", path, reason)
    codes = _matrix(rows.column(column))
    if "true" in [value for name, value in code.model.exact if name == "transposed"]:
        codes = codes.copy()
        ends = np.cumsum(lengths)
        for start, end in zip(ends - lengths, ends, strict=True):
            codes[start:end] = codes[start:end].reshape(codes.shape[1], end - start).T
    partitions = np.repeat(np.arange(len(lengths)), lengths)
    addresses = rows.column("_rowid").to_numpy().astype(np.uint64)
    return addresses, Encoded(np.arange(rows.num_rows, dtype=np.int64), partitions, codes)


def _matrix(column: pa.ChunkedArray) -> Codes:
    array = column.combine_chunks()
    width = array.type.list_size
    values = array.values.slice(array.offset * width, len(array) * width)
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(array), width)


def _lengths(data: bytes, path: str) -> list[int]:
    """Rows of each partition, from the global buffer that the schema metadata name."""
    metadata = vector_model.schema_metadata(_buffer(data, 0, path), path)
    stored = _buffer(data, vector_model.centroid_buffer(metadata, path), path)
    return list(protobuf.parse(index_pb2.IVF, stored, clause="PLAN-021", path=path).lengths)


def _buffer(data: bytes, number: int, path: str) -> bytes:
    table, count = vector_model.buffer_table(data[-FOOTER.size :], path)
    if number >= count:
        raise ArtifactError("PLAN-021", path, f"there is no buffer {number}, only {count}")
    try:
        position, size_bytes = BUFFER_ENTRY.unpack_from(data, table + number * BUFFER_ENTRY.size)
    except struct.error as error:
        raise ArtifactError("PLAN-021", path, f"the buffer table is cut: {error}", table) from error
    return data[position : position + size_bytes]
