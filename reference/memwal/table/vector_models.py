"""The models of vector indexes, read from the store by ranges: the vectors themselves are left where they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..clauses import implements
from ..codec import protobuf, vector_model
from ..codec.pb.lance import file_pb2, table_pb2
from ..codec.vector_model import AUXILIARY_FILE, BUFFER_ENTRY, FOOTER, INDEX_FILE, VectorModel
from ..effects import Io, remembered
from ..errors import ArtifactError, NotFound
from .mirror import index_folder


def is_vector(entry: table_pb2.IndexMetadata) -> bool:
    """Whether an index entry is over vectors."""
    return entry.index_details.type_url.endswith("VectorIndexDetails")


@implements("AMB-51")
async def load(io: Io, entry: table_pb2.IndexMetadata) -> VectorModel | None:
    """The model of a vector index entry of the table at ``io``; None for one that was never trained.

    Raises `ArtifactError` for damaged files.
    """
    folder = index_folder(entry.uuid.uuid)
    return await remembered(io, ("vector model", io.path(folder)), partial(_loaded, io, folder), _size)


def _size(model: VectorModel | None) -> int:
    return 0 if model is None else len(model.centroids) + sum(len(data) for _, data in model.buffers)


async def _loaded(io: Io, folder: str) -> VectorModel | None:
    try:
        index = await open_buffers(io, f"{folder}/{INDEX_FILE}")
    except NotFound:
        return None
    try:
        auxiliary = await open_buffers(io, f"{folder}/{AUXILIARY_FILE}")
    except NotFound as missing:
        raise ArtifactError("AMB-51", missing.path, f"it is not there, and {INDEX_FILE} is") from None
    metadata = await index.metadata()
    kind, metric = vector_model.kind_and_metric(metadata, index.path)
    ivf = await index.buffer(vector_model.centroid_buffer(metadata, index.path))
    storage = vector_model.storage_metadata(await auxiliary.metadata(), auxiliary.path)
    referred = vector_model.referred_buffers(storage)
    buffers = {name: await auxiliary.buffer(number) for name, number in referred.items()}
    return vector_model.decode(kind, metric, ivf, storage, buffers, index.path)


@dataclass(frozen=True, slots=True)
class BufferFile:
    """A Lance file of which only the global buffers are wanted."""

    io: Io
    name: str
    table: int
    count: int

    @property
    def path(self) -> str:
        return self.io.path(self.name)

    async def descriptor(self) -> file_pb2.FileDescriptor:
        """Rows and schema."""
        data = await self.buffer(0)
        return protobuf.parse(file_pb2.FileDescriptor, data, clause="AMB-51", path=self.path)

    async def metadata(self) -> dict[str, bytes]:
        return vector_model.schema_metadata(await self.buffer(0), self.path)

    async def buffer(self, number: int) -> bytes:
        if number >= self.count:
            raise ArtifactError("AMB-51", self.path, f"there is no buffer {number}, only {self.count}")
        entry = await self._range(self.table + number * BUFFER_ENTRY.size, BUFFER_ENTRY.size)
        return await self._range(*BUFFER_ENTRY.unpack(entry))

    async def _range(self, position: int, size_bytes: int) -> bytes:
        data = await self.io.get(self.name, position, size_bytes)
        if len(data) != size_bytes:
            raise ArtifactError("AMB-51", self.path, f"{size_bytes} bytes at {position} lie beyond the file", position)
        return data


async def open_buffers(io: Io, name: str) -> BufferFile:
    """Open a file for its buffers. Raises `NotFound`, and `ArtifactError` for one that is not a Lance file."""
    table, count = vector_model.buffer_table(await io.get(name, -FOOTER.size), io.path(name))
    return BufferFile(io, name, table, count)
