"""Lance files of indexes: rows, schema metadata and further global buffers.

Written through a private in-memory session of pylance, as data files are.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..errors import EngineBug
from .data_file import FILE_VERSION
from .file_layout import FOOTER, GLOBAL_BUFFER
from .pb.lance import file_pb2


@functools.cache
def _session(_process: int) -> Any:
    from lance.file import LanceFileSession

    return LanceFileSession("memory://memwal-index-scratch")


def encode(table: pa.Table, buffers: Sequence[bytes] = ()) -> bytes:
    """One Lance file with the rows and the schema (metadata included) of ``table``. Equal input gives equal bytes.

    ``buffers``: global buffers besides the schema; the first has number 1.
    """
    session = _session(os.getpid())
    name = f"{os.urandom(8).hex()}.lance"
    writer = session.open_writer(name, schema=table.schema, version=".".join(map(str, FILE_VERSION)))
    try:
        for batch in table.combine_chunks().to_batches():
            if batch.num_rows:
                writer.write_batch(batch)
        for key, value in sorted((table.schema.metadata or {}).items()):
            writer.add_schema_metadata(key.decode(), value.decode())
        for buffer in buffers:
            writer.add_global_buffer(buffer)
        writer.close()
        return with_ordered_maps(session.read_range(name, 0, writer.size_bytes))
    finally:
        if session.contains(name):
            session.delete_file(name)


def with_ordered_maps(data: bytes) -> bytes:
    """A file that pylance wrote, with the metadata maps of its schema in key order: it stores them in any order."""
    position, size = GLOBAL_BUFFER.unpack_from(data, FOOTER.unpack(data[-FOOTER.size :])[2])
    schema = file_pb2.FileDescriptor.FromString(data[position : position + size])
    ordered = schema.SerializeToString(deterministic=True)
    if len(ordered) != size:
        raise EngineBug(f"reordering the schema of a Lance file changed its length from {size} to {len(ordered)}")
    return data[:position] + ordered + data[position + size :]
