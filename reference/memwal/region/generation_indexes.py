"""Storing the maintained indexes of a generation: files first, then their entries in the generation's table manifest.

Source: MemWAL revision A, "MemTable Flush", step 6.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import numpy as np

from .. import confirm
from ..clauses import implements
from ..codec.pb.lance import table_pb2, transaction_pb2
from ..effects import Io
from ..ids import FieldId, FragmentId
from ..maintained.base_index import CONFIG_INHERITED, MaintainedIndex
from ..maintained.build import build
from ..table.commit import commit
from ..table.mirror import index_folder
from ..table.reuse import Addresses
from ..table.state import TableState
from .memtable import MemTable
from .region import Region

Entries = tuple[table_pb2.IndexMetadata, ...]


def maintained(sealed: MemTable) -> tuple[MaintainedIndex, ...]:
    """The base indexes that ``sealed`` carries too."""
    return sealed.indexes.maintained if sealed.indexes is not None else ()


@implements("AMB-51")
def inherited_config(sealed: MemTable) -> dict[str, str]:
    """Config of the generation's table that names the base indexes whose parameters it has."""
    return {f"{CONFIG_INHERITED}{index.name}": index.uuid for index in maintained(sealed)}


@implements("GEN-009", "FLUSH-007", "FLUSH-023", "AMB-19")
async def store(
    io: Io,
    region: Region,
    sealed: MemTable,
    fragments: Sequence[table_pb2.DataFragment],
    fields: Mapping[str, FieldId],
) -> Entries:
    """Build the indexes of ``sealed`` and store their files under fresh UUIDs in the generation's folder ``io``.

    ``fragments``: of the generation's table, in order; their ids are their places. ``fields``: ids of its columns.
    Nothing refers to the files yet.
    """
    indexes = sealed.index_up_to_date(maintained=True) if maintained(sealed) else None
    if indexes is None:
        return ()
    encoded = {name: index.encoded() for name, index in indexes.vectors.items()}
    addresses = _addresses(region, sealed, fragments)
    covered = [FragmentId(number) for number in range(len(fragments))]
    entries = []
    for built in build(sealed.table(), addresses, indexes.maintained, encoded):
        identity = uuid.UUID(hex=await io.random_hex(32), version=4).bytes
        for name, data in built.files:
            await confirm.create(io, f"{index_folder(identity)}/{name}", data)
        entries.append(built.entry(identity, fields[built.column], covered, await io.now()))
    return tuple(entries)


@implements("FLUSH-007", "AMB-19", "AMB-106")
def _addresses(region: Region, sealed: MemTable, fragments: Sequence[table_pb2.DataFragment]) -> Addresses:
    """Row address in the generation of each row of ``sealed``: in A by way of the WAL fragment mapping."""
    if not region.revision.self_contained:
        return sealed.mapping().addresses(np.arange(sealed.rows, dtype=np.uint64))
    parts = [
        np.arange(fragment.physical_rows, dtype=np.uint64) + np.uint64(number << 32)
        for number, fragment in enumerate(fragments)
    ]
    return np.concatenate([np.empty(0, np.uint64), *parts])


@implements("AMB-48", "AMB-49")
async def publish(io: Io, generation: TableState, entries: Entries) -> None:
    """Commit ``entries`` as the second version of a generation's table, which no region manifest lists yet."""
    if not entries:
        return
    body = transaction_pb2.Transaction.CreateIndex(new_indices=entries)
    for entry in body.new_indices:
        entry.dataset_version = generation.version
    await commit(io, generation, transaction_pb2.Transaction(create_index=body))
