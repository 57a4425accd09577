"""The indexes of a flushed generation: rows and configuration -> index files and entries of its table manifest.

Scalar and text indexes are built by the native package over the rows of the MemTable, whose row offsets the files then
name; they are rewritten to the row addresses of the generation. Vector indexes are written here: the native package has
no parameter for the bounds of scalar quantisation, and codes are at hand. Equal input gives equal bytes.
Source: MemWAL revision A, "MemTable Flush" and "MemTable Indexing"; AMB-19, 48, 51.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyroaring

from ..clauses import implements
from ..codec import index_file
from ..codec.pb.lance import table_pb2
from ..errors import StorageError
from ..ids import FieldId, FragmentId, Milliseconds
from ..table.mirror import Mirror, index_folder
from ..table.reuse import Addresses
from . import remap, vector_index
from .base_index import MaintainedIndex
from .vector_code import Encoded

_NATIVE_KINDS = {"btree": "BTREE", "bitmap": "BITMAP", "inverted": "INVERTED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIndex:
    """One index of a generation, not stored yet."""

    name: str
    column: str
    details_type: str
    details: bytes
    """Type URL and bytes of the index details."""
    version: int
    """Version of the layout of its files."""
    files: tuple[tuple[str, bytes], ...]
    """Names inside the index's folder and contents, by name."""

    @implements("GEN-009", "FORMAT-005")
    def entry(
        self,
        identity: bytes,
        field: FieldId,
        fragments: Sequence[FragmentId],
        created_at_ms: Milliseconds,
    ) -> table_pb2.IndexMetadata:
        """The entry in the table manifest. ``identity``: the 16 bytes of the UUID that names the index's folder."""
        message = table_pb2.IndexMetadata(
            fields=[field],
            name=self.name,
            fragment_bitmap=pyroaring.BitMap(fragments).serialize(),
            index_version=self.version,
            created_at=created_at_ms,
        )
        message.uuid.uuid = identity
        message.index_details.type_url, message.index_details.value = self.details_type, self.details
        return message


@implements("GEN-009", "FLUSH-007", "FLUSH-023", "AMB-19", "AMB-48")
def build(
    rows: pa.Table,
    addresses: Addresses,
    maintained: Sequence[MaintainedIndex],
    encoded: Mapping[str, Encoded] | None = None,
) -> tuple[BuiltIndex, ...]:
    """The indexes over ``rows`` of a MemTable, in write order.

    ``addresses``: row address of each row in the generation's table, ascending. ``encoded``: vectors that are encoded
    already, by index name. Raises `StorageError` if the local scratch folder does not take the files.
    """
    known = encoded or {}
    built = [_vector(rows, addresses, index, known.get(index.name)) for index in maintained if index.code is not None]
    native = [index for index in maintained if index.code is None]
    if native:
        built += _native(rows, addresses, native)
    order = {index.name: number for number, index in enumerate(maintained)}
    return tuple(sorted(built, key=lambda index: order[index.name]))


def _vector(rows: pa.Table, addresses: Addresses, index: MaintainedIndex, encoded: Encoded | None) -> BuiltIndex:
    assert index.code is not None
    vectors = encoded if encoded is not None else index.code.encode(rows.column(index.column))
    files = vector_index.files(index.code, vectors, addresses)
    return BuiltIndex(
        name=index.name,
        column=index.column,
        details_type=index.details_type,
        details=index.details,
        version=vector_index.FORMAT,
        files=tuple(sorted(files.items())),
    )


def _native(rows: pa.Table, addresses: Addresses, maintained: Sequence[MaintainedIndex]) -> list[BuiltIndex]:
    """Build in a private table of one fragment, so that row addresses there are row offsets of the MemTable."""
    import lance

    # Columns are renamed, since the native package would parse names as paths.
    columns = {f"c{number}": rows.column(index.column) for number, index in enumerate(maintained)}
    moved = not np.array_equal(addresses, np.arange(len(addresses), dtype=np.uint64))
    with Mirror() as mirror:
        try:
            scratch = lance.write_dataset(pa.table(columns), mirror.location, max_rows_per_file=max(1, rows.num_rows))
            for number, index in enumerate(maintained):
                options = index.tokenizer.options() if index.tokenizer is not None else {}
                kind = _NATIVE_KINDS[index.kind]
                scratch.create_scalar_index(f"c{number}", kind, name=f"i{number}", **options)
        except (OSError, ValueError, RuntimeError, NotImplementedError, pa.ArrowException) as error:
            first = str(error).partition("\n")[0]
            raise StorageError(mirror.location, f"indexes cannot be built: {first}") from error
        entries = {entry.name: entry for entry in mirror.newest().indices}
        return [
            _read_back(mirror, entries[f"i{number}"], index, addresses if moved else None)
            for number, index in enumerate(maintained)
        ]


def _read_back(
    mirror: Mirror, entry: table_pb2.IndexMetadata, index: MaintainedIndex, addresses: Addresses | None
) -> BuiltIndex:
    folder = index_folder(entry.uuid.uuid)
    files = []
    for path in mirror.files(folder):
        name, data = path.removeprefix(f"{folder}/"), index_file.with_ordered_maps(mirror.path(path).read_bytes())
        files.append((name, data if addresses is None else remap.file(index.kind, name, data, addresses)))
    return BuiltIndex(
        name=index.name,
        column=index.column,
        details_type=entry.index_details.type_url,
        details=entry.index_details.value,
        version=entry.index_version,
        files=tuple(files),
    )
