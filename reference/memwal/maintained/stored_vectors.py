"""The vectors of a stored vector index, of a generation or of the base table, read by partitions.

Of a large file only the partitions are fetched that are asked for, and of its columns the codes and the addresses.
Source: MemWAL revision A, "Vector Search Queries"; AMB-51.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..codec import protobuf, vector_model
from ..codec.pb.lance import index_pb2, table_pb2
from ..codec.vector_model import AUXILIARY_FILE
from ..effects import Io, remembered
from ..errors import ArtifactError, NotFound
from ..table.held_pages import open_at
from ..table.mirror import index_folder
from ..table.reuse import Addresses
from ..table.stored_file import StoredFile, open_columns, open_rows
from ..table.vector_models import open_buffers
from .vector_code import Codes, Encoded, VectorCode, in_one
from .vector_index import CODE_COLUMNS

_ADDRESS = "_rowid"
_BITS = "_rabit_codes"
"""Column of an IVF_RQ index, whose codes are not used."""


@dataclass(frozen=True, slots=True)
class VectorRows:
    """Rows of a vector index."""

    addresses: Addresses
    """Shape (rows,)."""
    encoded: Encoded | None
    """Their codes; None: they have none that count, and the vectors themselves do."""
    fragments: frozenset[int]
    """The fragments that they are in, or more."""

    def at(self, chosen: npt.NDArray[Any]) -> VectorRows:
        """Those that a mask or places choose."""
        encoded = None if self.encoded is None else self.encoded.at(chosen)
        return VectorRows(self.addresses[chosen], encoded, self.fragments)

    def size_bytes(self) -> int:
        """Bytes in memory."""
        return self.addresses.nbytes + (0 if self.encoded is None else self.encoded.size_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVectors:
    """One entry of a vector index. It never changes, and neither do its files."""

    io: Io
    file: StoredFile
    """For the address of each row and, where it has them, the codes."""
    code: VectorCode
    ends: npt.NDArray[np.int64]
    """Of each partition, the row after its last. Shape (partitions,)."""
    rows: VectorRows | None = None
    """All rows, if they are at hand."""

    def size_bytes(self) -> int:
        """Bytes in memory."""
        return int(self.ends.nbytes) + (self.rows.size_bytes() if self.rows is not None else 0)

    async def with_rows(self) -> StoredVectors:
        """The same with all rows at hand, if the file is one that is fetched as a whole."""
        if self.file.layout is not None or not self.ends[-1]:
            return self
        return replace(self, rows=await self._rows(0, int(self.ends[-1])))

    @implements("PLAN-011", "PLAN-021")
    async def of(self, partitions: npt.NDArray[np.int64]) -> Sequence[VectorRows]:
        """The rows of some partitions, in parts: those of each partition of a large file are kept by themselves."""
        starts, ends = np.where(partitions > 0, self.ends[partitions - 1], 0), self.ends[partitions]
        if self.file.layout is not None:
            spans = zip(starts.tolist(), ends.tolist(), strict=True)
            return [await self._rows(start, end) for start, end in spans if start < end]
        rows = int(self.ends[-1])
        # Partitions begin and end at these rows: where more of them have begun than ended is one that is wanted.
        marks = np.bincount(starts, minlength=rows + 1) - np.bincount(ends, minlength=rows + 1)
        chosen = np.flatnonzero(np.cumsum(marks[:rows]))
        if not len(chosen):
            return []
        return [(self.rows or await self._rows(0, rows)).at(chosen)]

    async def _rows(self, start: int, end: int) -> VectorRows:
        """Rows of the file, which are kept."""
        what = "rows of vectors", self.io.path(self.file.name), self.code.model, start, end
        return await remembered(self.io, what, partial(self._decoded, start, end), VectorRows.size_bytes)

    async def _decoded(self, start: int, end: int) -> VectorRows:
        if self.file.layout is None or end - start == self.ends[-1]:
            with await open_rows(self.io, self.file, start, end - start) as reader:
                rows = reader.read(start, end - start).select(list(self.file.columns))
        else:
            offsets = np.arange(start, end)
            with await open_at(self.io, self.file, offsets.astype(np.uint64)) as reader:
                rows = reader.take(offsets).select(list(self.file.columns))
        addresses = rows.column(_ADDRESS).to_numpy().astype(np.uint64)
        fragments = frozenset(np.unique(addresses >> np.uint64(32)).tolist())
        if not self._codes:
            return VectorRows(addresses, None, fragments)
        codes = _matrix(rows.column(self._codes[0]))
        if self.code.transposed:
            codes = codes.copy()
            cuts = np.unique(np.clip(self.ends, start, end)) - start
            for first, last in zip([0, *cuts], cuts, strict=False):
                codes[first:last] = codes[first:last].reshape(codes.shape[1], last - first).T
        first, last = np.searchsorted(self.ends, [start, max(start, end - 1)], side="right").tolist()
        if first == last:
            partitions = in_one(first, end - start)
        else:
            partitions = np.searchsorted(self.ends, np.arange(start, end), side="right")
        encoded = self.code.encoded(np.arange(end - start), partitions, codes)
        return VectorRows(addresses, encoded if self.code.codebook is None else encoded.paired(), fragments)

    @property
    def _codes(self) -> tuple[str, ...]:
        return tuple(name for name in self.file.columns if name == CODE_COLUMNS[self.code.kind])


@implements("PLAN-011", "PLAN-021")
async def open_vectors(io: Io, entry: table_pb2.IndexMetadata, code: VectorCode) -> StoredVectors:
    """One index entry of the table at ``io``, which follows ``code``. Raises `ArtifactError` for damaged files."""
    name = f"{index_folder(entry.uuid.uuid)}/{AUXILIARY_FILE}"
    what = ("vectors of an index", io.path(name), code.model)
    return await remembered(io, what, partial(_opened, io, name, code), StoredVectors.size_bytes)


async def _opened(io: Io, name: str, code: VectorCode) -> StoredVectors:
    path = io.path(name)
    try:
        buffers = await open_buffers(io, name)
    except NotFound:
        raise ArtifactError("PLAN-021", path, "the index has no such file") from None
    described = await buffers.descriptor()
    columns = [field.name for field in described.schema.fields if field.parent_id < 0]
    wanted = CODE_COLUMNS[code.kind]
    if _ADDRESS not in columns or not {wanted, _BITS} & set(columns):
        raise ArtifactError("PLAN-021", path, f"it lacks column {_ADDRESS} or {wanted}; it has {columns}")
    stored = await buffers.buffer(vector_model.centroid_buffer(dict(described.schema.metadata), path))
    lengths = np.array(protobuf.parse(index_pb2.IVF, stored, clause="PLAN-021", path=path).lengths, np.int64)
    if lengths.sum() != described.length or len(lengths) != len(code.centroids):
        reason = f"{len(lengths)} partitions of {lengths.sum()} rows, for {len(code.centroids)} and {described.length}"
        raise ArtifactError("PLAN-021", path, reason)
    file = await open_columns(io, name, columns)
    kept = [number for number, column in enumerate(columns) if column in (_ADDRESS, wanted)]
    file = replace(
        file,
        columns=tuple(columns[number] for number in kept),
        places=tuple(file.places[number] for number in kept),
        indices=tuple(file.indices[number] for number in kept) if file.indices else (),
    )
    return StoredVectors(io=io, file=file, code=code, ends=np.cumsum(lengths))


def _matrix(column: pa.ChunkedArray) -> Codes:
    array = column.combine_chunks()
    width = array.type.list_size
    values = array.values.slice(array.offset * width, len(array) * width)
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(array), width)
