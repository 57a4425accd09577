"""Fragments of a table that may hold rows with certain values, as its own btree says.

Source: MemWAL revision A, "Query Execution" and appendix 3, "TakeLastExec".
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..clauses import implements
from ..codec import data_file
from ..codec.pb.lance import table_pb2
from ..codec.table_manifest import TableManifest
from ..effects import Io
from ..errors import NotFound
from ..ids import FragmentId
from ..index.region_values import exact
from ..maintained.scalar import Between
from ..table import reuse
from ..table.coverage import fragment_ids, index_names, named_fragments, segments
from ..table.mirror import index_folder
from ..table.state import TableState
from .values import Predicate

PAGES = "page_data.lance"
"""File of a btree with all its values and the addresses of their rows."""

STABLE_ROW_IDS = 2
"""Feature flag of a table whose indexes name rows by ids that are not their addresses."""


@implements("PLAN-028", "PLAN-033", "AMB-99")
async def holding(io: Io, state: TableState, predicate: Predicate, columns: Collection[str]) -> frozenset[FragmentId]:
    """Fragments that may hold a row for which ``predicate`` holds, told by the btrees over ``columns``.

    Fragments that no btree covers are among them. A btree that cannot be asked excludes nothing.
    """
    found = fragment_ids(state)
    if state.manifest.message.reader_feature_flags & STABLE_ROW_IDS:
        return found
    names = {int(number): name for name, number in state.field_ids.items()}
    for index in index_names(state):
        entries = segments(state, index)
        indexed = {names.get(field, "") for entry in entries for field in entry.fields}
        column = indexed.pop()
        if indexed or column not in columns or not all(map(is_btree, entries)):
            continue  # it says nothing about one column of the predicate alone
        wanted = _wanted(predicate, column, state)
        if wanted is not None:
            found &= await _of_index(io, state, entries, wanted)
    return found


def is_btree(entry: table_pb2.IndexMetadata) -> bool:
    """Whether an index entry is a btree over one column."""
    return entry.index_details.type_url.endswith("BTreeIndexDetails") and len(entry.fields) == 1


def restricted(state: TableState, fragments: Collection[FragmentId]) -> TableState:
    """``state`` with some of its fragments only; itself if those are all. Not to be committed."""
    if fragment_ids(state) <= set(fragments):
        return state
    message = table_pb2.Manifest()
    message.CopyFrom(state.manifest.message)
    kept = [fragment for fragment in message.fragments if fragment.id in fragments]
    del message.fragments[:]
    message.fragments.extend(kept)
    return TableState(TableManifest(message=message, indices=state.manifest.indices), state.path)


def empty(state: TableState) -> TableState:
    """A table like ``state`` without rows and indexes."""
    return TableState(TableManifest(message=restricted(state, ()).manifest.message, indices=()), state.path)


def _wanted(predicate: Predicate, column: str, state: TableState) -> pa.Array | None:
    values = predicate.get(column)
    if values is None or isinstance(values, Between) or None in values:
        return None
    return exact(list(values), state.schema.field(column).type)


async def _of_index(
    io: Io, state: TableState, entries: Collection[table_pb2.IndexMetadata], wanted: pa.Array
) -> frozenset[FragmentId]:
    """Fragments that the parts of a btree give for the values ``wanted``, and those that none of them covers."""
    covered: set[FragmentId] = set()
    hits: set[FragmentId] = set()
    for entry in entries:
        name = f"{index_folder(entry.uuid.uuid)}/{PAGES}"
        try:
            pages = data_file.decode(await io.get(name), io.path(name), clause="PLAN-033")
        except NotFound:
            continue  # a part that covers nothing yet may have no files
        same = pc.is_in(pages.column("values"), value_set=wanted.cast(pages.schema.field("values").type))
        addresses = reuse.addresses(pages.column("ids").filter(same).to_numpy(), state.moves)
        hits |= {FragmentId(int(number)) for number in np.unique(addresses >> np.uint64(32))}
        covered |= named_fragments(state, entry)
    return (fragment_ids(state) - covered) | (fragment_ids(state) & hits)
