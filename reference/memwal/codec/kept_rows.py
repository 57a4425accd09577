"""Single rows of one Lance file that are read again and again, by a session of pylance that keeps what pages say.

pylance's file reader works that out anew for each read, which takes about as long as the rows themselves. Only a
fragment of a table has sessions; therefore the file becomes one, of a table in a folder that is gone once it is open.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import paths
from ..ids import TableVersion
from . import protobuf, table_manifest
from .file_layout import FOOTER, ITEMS_VERSION, schema_range, tables_start
from .pb.lance import file_pb2, table_pb2
from .scratch import OpenFile, Scratch

_NAME = "rows.lance"
_VERSION = TableVersion(1)
_CACHE_BYTES = 16 << 20
"""Most that a session keeps of what the pages of its file say."""


def session(file: Scratch | OpenFile, size_bytes: int, path: str, rows: npt.NDArray[np.int64], found: pa.Table) -> Any:
    """A session of the ``file`` of ``size_bytes``, for the columns of ``found``, which are its ``rows``.

    It sees what is added to the file later. None where there can be none, or where it would give other types: for
    columns inside of others, those that a table shows otherwise than its files do, and without a temporary folder.
    Raises `ArtifactError` for a file that is none.
    """
    clause = "FORMAT-024"
    tail = file.read(size_bytes - FOOTER.size, FOOTER.size)
    start = tables_start(tail, size_bytes, path, clause=clause)
    position, size = schema_range(file.read(start, size_bytes - start), size_bytes, path, clause=clause)
    described = protobuf.parse(file_pb2.FileDescriptor, file.read(position, size), clause=clause, path=path)
    if any(field.parent_id >= 0 for field in described.schema.fields):
        return None
    stored = FOOTER.unpack(tail)[5:7]
    version = (2, 0) if stored == ITEMS_VERSION else stored
    try:
        opened = _opened(file.name, _manifest(described, version, size_bytes), found.schema.names)
        again = opened.take(rows.tolist())
    except (OSError, ValueError):
        return None  # the file reader, which has just read these rows, goes on
    return opened if again.schema.equals(found.schema) else None


def _manifest(described: file_pb2.FileDescriptor, version: tuple[int, int], size_bytes: int) -> bytes:
    """Of a table with this file alone, whose fields have a column each."""
    found = table_pb2.Manifest(version=_VERSION, fields=described.schema.fields, max_fragment_id=0)
    found.data_format.file_format, found.data_format.version = "lance", f"{version[0]}.{version[1]}"
    file = found.fragments.add(id=0, physical_rows=described.length).files.add(path=_NAME, file_size_bytes=size_bytes)
    file.file_major_version, file.file_minor_version = version
    file.fields.extend(field.id for field in described.schema.fields)
    file.column_indices.extend(range(len(described.schema.fields)))
    return table_manifest.encode(table_manifest.TableManifest(message=found))


def _opened(file: str, manifest: bytes, columns: Sequence[str]) -> Any:
    import lance

    with tempfile.TemporaryDirectory(prefix="memwal-") as folder:
        data, version = Path(folder, paths.data_file(_NAME)), Path(folder, paths.table_manifest(_VERSION))
        data.parent.mkdir()
        data.symlink_to(file)
        version.parent.mkdir()
        version.write_bytes(manifest)
        own = lance.Session(index_cache_size_bytes=0, metadata_cache_size_bytes=_CACHE_BYTES)
        (fragment,) = lance.dataset(folder, version=_VERSION, session=own).get_fragments()
        return fragment.open_session(columns=list(columns))
