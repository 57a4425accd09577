"""Fragments of a table that may hold rows with certain values, as its own btree says.

Source: MemWAL revision A, "Query Execution" and appendix 3, "TakeLastExec".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..codec.table_manifest import TableManifest
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..ids import FragmentId
from ..index.region_values import exact
from ..maintained.scalar import Between, comparable, has_order
from ..table.coverage import fragment_ids, index_names, segments
from ..table.reuse import Addresses
from ..table.state import TableState
from .btree import NO_ROWS, Wanted, find
from .values import Predicate

ROWS_PER_KEY = 4096
"""Rows of the base for each key, from which on its btrees are asked: for a key they read a page, of so many rows."""


@implements("PLAN-028", "PLAN-033", "AMB-99")
async def holding(
    io: Io, state: TableState, predicate: Predicate, columns: Collection[str]
) -> dict[FragmentId, Addresses | None]:
    """Fragments that may hold a row for which ``predicate`` holds, told by the btrees over ``columns``.

    With the addresses of all rows that may be such ones, ascending; None where that is not told: fragments that no
    btree covers are among them. A btree that cannot be asked excludes nothing.
    """
    found: dict[FragmentId, Addresses | None] = dict.fromkeys(sorted(fragment_ids(state)))
    if not predicate:
        return found
    names = {int(number): name for name, number in state.field_ids.items()}
    for index in index_names(state):
        entries = segments(state, index)
        indexed = {names.get(field, "") for entry in entries for field in entry.fields}
        column = indexed.pop()
        if indexed or column not in columns:
            continue  # it says nothing about one column of the predicate alone
        wanted = _wanted(predicate, column, state)
        told = await find(io, state, entries, wanted) if wanted is not None else None
        if told is not None:
            hits = told.by_fragment()
            for fragment in told.covered & found.keys():
                before, here = found.pop(fragment), hits.get(fragment, NO_ROWS)
                both = here if before is None else np.intersect1d(before, here)
                if len(both):
                    found[fragment] = both
    return dict(sorted(found.items()))


@implements("PLAN-033")
async def holding_keys(io: Io, state: TableState, keys: pa.Table) -> dict[FragmentId, Addresses | None] | None:
    """As `holding`, for rows whose key may be among ``keys``; None where reading the key columns is not dearer.

    No row with such a key is left out, whichever process committed to the table. The entries of an index are part of
    the very version that is asked, and each names the fragments that it covers: rows never change their place in a
    fragment, appended, updated and compacted rows are in fragments that no entry names yet, and a commit that replaces
    values of a key column in place takes the fragment out of the entry. All other fragments are told as unknown. An
    index that cannot be read is none.
    """
    if keys.num_rows * ROWS_PER_KEY >= sum(fragment.physical_rows for fragment in state.fragments):
        return None
    predicate = {name: frozenset(keys.column(name).to_pylist()) for name in keys.schema.names}
    try:
        return await holding(io, state, predicate, keys.schema.names)
    except (ArtifactError, NotFound) as failure:
        await io.note("key_index_not_read", path=io.root, reason=str(failure))
        return None


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


def _wanted(predicate: Predicate, column: str, state: TableState) -> Wanted | None:
    """What a btree is asked for; None where the column's type does not have the values exactly."""
    values, kind = predicate.get(column), state.schema.field(column).type
    if values is None or not has_order(kind):
        return None
    if isinstance(values, Between):
        ends = [exact([end], kind) for end in (values.lower, values.upper)]
        if any(end is None for end in ends):
            return None
        lower, upper = (comparable(end)[0] for end in ends)
        return replace(values, lower=lower, upper=upper)
    found = exact(list(values), kind)
    return comparable(found) if found is not None else None
