"""A vector index over the rows of one MemTable, in the code of the base index, and the Lance files that it becomes.

Source: MemWAL revision A, "MemTable Indexing" and "Vector Index Configuration"; AMB-51, 109.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..codec import index_file, protobuf
from ..codec.canonical import Mask
from ..codec.pb.lance import index_pb2
from ..codec.vector_model import AUXILIARY_FILE, INDEX_FILE
from ..errors import InvalidArgument
from ..table.reuse import Addresses
from .hits import Hits, best
from .vector_code import Encoded, VectorCode

FORMAT = 1
"""Index version of an entry whose files are laid out like these."""

CODE_COLUMNS = {"IVF_FLAT": "flat", "IVF_PQ": "__pq_code", "IVF_SQ": "__sq_code"}
"""Column with the encoded vectors by kind of index."""
_IVF_BUFFER = 1
_FIRST_MATRIX = 2


@dataclass(slots=True)
class VectorIndex:
    """Encoded vectors, in row order. Mutable: each insert adds to it."""

    code: VectorCode
    inserted: list[Encoded] = field(default_factory=list)

    @implements("WRITER-021")
    def insert(self, column: pa.ChunkedArray, start: int) -> None:
        """Encode and add the vectors of rows ``start`` and following."""
        self.inserted.append(self.code.encode(column, start))

    def encoded(self) -> Encoded:
        """All vectors; a usable one for each row that has it."""
        if len(self.inserted) != 1:
            self.inserted = [Encoded.joined([self.code.encode(_nothing(self.code)), *self.inserted])]
        return self.inserted[0]

    @implements("AMB-109")
    def nearest(self, query: npt.ArrayLike, k: int, live: Mask, partitions: int | None = None) -> Hits:
        """The ``k`` rows of the least distance to ``query``, nearest first, among the rows that are ``live``.

        ``partitions``: how many of the nearest partitions are looked at; None looks at all.
        """
        if k < 1 or (partitions is not None and partitions < 1):
            raise InvalidArgument("k and nprobes must be at least 1")
        vector = self.code.query_vector(query)
        encoded = self.encoded()
        wanted = live[encoded.offsets]
        if partitions is not None and partitions < len(self.code.centroids):
            wanted &= np.isin(encoded.partitions, vector.nearest(partitions))
        kept = encoded.at(wanted)
        return best(kept.offsets, self.code.distances(kept, vector), k)


def _nothing(code: VectorCode) -> pa.ChunkedArray:
    return pa.chunked_array([], pa.list_(pa.float32(), code.dimension))


@implements("GEN-009", "FLUSH-023", "WRITER-025")
def files(code: VectorCode, encoded: Encoded, addresses: Addresses) -> dict[str, bytes]:
    """The two files of an index over ``encoded`` by name, with the base index's centroids and quantisation."""
    order = np.argsort(encoded.partitions, kind="stable")
    lengths = np.bincount(encoded.partitions, minlength=len(code.centroids))
    codes = encoded.codes[order]
    if code.transposed:
        ends = np.cumsum(lengths)
        for start, end in zip(ends - lengths, ends, strict=True):
            codes[start:end] = codes[start:end].T.reshape(codes[start:end].shape)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(codes.reshape(-1)), codes.shape[1])
    matrices = code.model.buffers if code.kind != "IVF_FLAT" else ()
    storage: dict[str, Any] = {"dim": code.dimension}
    if code.kind != "IVF_FLAT":
        storage = {name: json.loads(value) for name, value in code.model.exact}
    storage |= {name: _FIRST_MATRIX + number for number, (name, _) in enumerate(matrices)}
    schema = pa.schema(
        [
            pa.field("_rowid", pa.uint64()),
            pa.field(CODE_COLUMNS[code.kind], flat.type, nullable=code.kind != "IVF_FLAT"),
        ],
        metadata={
            "distance_type": code.metric,
            "lance:ivf": str(_IVF_BUFFER),
            "storage_metadata": json.dumps([json.dumps(storage)]),
        },
    )
    rows = pa.table([pa.array(addresses[encoded.offsets[order]]), flat], schema=schema)
    place = index_pb2.IVF(offsets=(np.cumsum(lengths) - lengths).tolist(), lengths=lengths.tolist())
    buffers = [protobuf.serialise(place), *(data for _, data in matrices)]
    return {INDEX_FILE: _index_file(code), AUXILIARY_FILE: index_file.encode(rows, buffers)}


def _index_file(code: VectorCode) -> bytes:
    """The file of the partitions themselves; what is in them is in the other one."""
    nothing = [0] * len(code.centroids)
    ivf = index_pb2.IVF(offsets=nothing, lengths=nothing)
    ivf.centroids_tensor.ParseFromString(code.model.centroids)
    schema = pa.schema(
        [pa.field("__flat_marker", pa.uint64(), nullable=False)],
        metadata={
            "lance:flat": json.dumps([""] * len(code.centroids)),
            "lance:index": json.dumps({"type": code.kind, "distance_type": code.metric}),
            "lance:ivf": str(_IVF_BUFFER),
        },
    )
    return index_file.encode(schema.empty_table(), [protobuf.serialise(ivf)])
