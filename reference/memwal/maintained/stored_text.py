"""Rows that a stored full-text index gives for a query: of a generation, or of the base table.

The native package reads the index, in a private folder that has its files and the table manifest and no rows; its
scores, which know one source only, are not used.
Source: MemWAL revision A, "Full-Text Search Queries"; AMB-110.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .. import paths
from ..clauses import implements
from ..codec import native, table_manifest
from ..codec.pb.lance import table_pb2
from ..codec.table_manifest import TableManifest
from ..effects import Io
from ..table import reuse
from ..table.mirror import Mirror, fetch_index
from ..table.state import TableState

Addresses = npt.NDArray[np.uint64]
"""Row addresses, ascending. Shape (rows,)."""

_DELETIONS = 1
"""Reader feature flag of a table with deletion files."""


@implements("PLAN-011", "PLAN-023")
async def matching(
    io: Io, state: TableState, entry: table_pb2.IndexMetadata, column: str, query: str, documents: int
) -> Addresses:
    """Rows with a term of ``query`` in ``column``, by one index entry of the table ``state`` at ``io``.

    Deleted rows are among them as long as the index holds them. ``documents``: at least as many as the index has.
    """
    from lance import dataset
    from lance.query import MatchQuery

    if not documents:
        return np.empty(0, np.uint64)
    message = table_pb2.Manifest()
    message.CopyFrom(state.manifest.message)
    for fragment in message.fragments:
        fragment.ClearField("deletion_file")
    message.reader_feature_flags &= ~_DELETIONS
    message.writer_feature_flags &= ~_DELETIONS
    with Mirror() as mirror:
        for base in message.base_paths:
            base.path = mirror.base(base.id)
        moved = filter(reuse.is_reuse, state.manifest.indices)
        manifest = TableManifest(message=message, indices=(entry, *moved))
        mirror.write(paths.table_manifest(state.version), table_manifest.encode(manifest))
        await fetch_index(io, state, mirror, entry)
        with native.reading(io.root, "PLAN-023", refusal=f"index {entry.name!r} is not readable"):
            scanner = dataset(mirror.location).scanner(
                columns=["_score"],
                full_text_query=MatchQuery(query, column),
                fast_search=True,
                with_row_id=True,
                limit=documents,
            )
            found = scanner.to_table()
    return np.unique(found.column("_rowid").to_numpy()).astype(np.uint64)
