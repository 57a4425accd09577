"""Changing columns: adding, dropping, recomputing and replacing them.

Source: table documents, "Merge", "Project", "Update" (REWRITE_COLUMNS) and "DataReplacement"; AMB-50, 55, 66.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

import pyarrow as pa

from .. import cellwise
from ..clauses import implements
from ..codec.pb.lance import file_pb2, table_pb2
from ..effects import Io
from ..errors import InvalidArgument
from ..ids import FragmentId
from . import read, schema
from .commit import commit
from .door import admitted, check_schema
from .draft import copied_fragment
from .fragments import arrow, write_column_file
from .state import TableState, load, versions
from .transactions import Transaction
from .write import retried

TOMBSTONE_FIELD = -2
"""In `DataFile.fields`: a column whose newer version is in another file of the fragment (TXN-041)."""

Compute = Callable[[pa.Table], pa.Table]
"""New values of columns from all rows of one fragment, deleted ones included, in row order: as many rows."""

MayChange = Callable[[TableState, Sequence[str]], Coroutine[Any, Any, Collection[int]]]
"""Raises if columns may not come or go on a version (AMB-50, 55, 66); returns field ids that no new column may take."""


async def _no_mem_wal(state: TableState, names: Sequence[str]) -> Collection[int]:
    """Without a check columns come and go only where MemWAL is not enabled."""
    if state.mem_wal_entry is not None:
        reason = f"MemWAL is enabled, and its regions were not checked for {list(names)}"
        raise InvalidArgument(reason, clause="AMB-50")
    return ()


@implements("TXN-033", "FORMAT-016", "FORMAT-023", "FORMAT-033")
async def add(io: Io, new: pa.Schema, compute: Compute | None = None, may_add: MayChange = _no_mem_wal) -> TableState:
    """Add the columns ``new``; each fragment gets a data file with the values that ``compute`` gives for its rows.

    Without ``compute`` the columns are NULL everywhere, and no file is written. Raises `InvalidArgument` for a column
    that is there, or that may not be NULL where rows without it exist or are still to be merged.
    """

    async def attempt(state: TableState) -> TableState:
        check_new(state, new, computed=compute is not None)
        known = await may_add(state, new.names)
        fields = schema.to_fields(new, await _unused_field_id(io, state, known))
        fragments = []
        for fragment in state.fragments:
            changed = copied_fragment(fragment)
            if compute is not None:
                values = _checked(arrow(compute(await _whole(io, state, fragment))), new, fragment)
                changed.files.append(await write_column_file(io, values, schema.leaf_ids(fields), state.file_version))
            fragments.append(changed)
        body = Transaction.Merge(fragments=fragments, schema=[*state.fields, *fields])
        return await commit(io, state, Transaction(merge=body), rebase=state.mem_wal_entry is None)

    return await retried(io, attempt)


@implements("AMB-50")
def check_new(state: TableState, new: pa.Schema, *, computed: bool) -> None:
    """Raise `InvalidArgument` for columns that cannot be added to this version, whatever is in regions."""
    check_schema(new, key=())
    known = set(state.schema.names)
    there = [name for name in new.names if name in known]
    if there or len(set(new.names)) != len(new.names) or not len(new):
        raise InvalidArgument(
            f"columns {there or new.names} exist already, are named twice, or are none", clause="TXN-033"
        )
    strict = [field.name for field in new if not field.nullable]
    if strict and (state.mem_wal_entry is not None or (state.fragments and not computed)):
        reason = f"columns {strict} may not be NULL, and there are rows without them"
        raise InvalidArgument(reason, clause="AMB-50")


@implements("AMB-50", "AMB-66")
async def _unused_field_id(io: Io, state: TableState, known: Collection[int]) -> int:
    """An id above all that a data file of the table may hold, so that no dropped column comes back to life.

    With MemWAL, generations (``known``: their ids) and region specs name columns by id too, and may know columns that
    were dropped: there every retained version is looked at.
    """
    used = _field_ids(state) | set(known)
    if state.mem_wal_entry is not None:
        used |= {number for spec in state.mem_wal.specs for field in spec.fields for number in field.source_ids}
        for version in await versions(io):
            used |= _field_ids(await load(io, version))
    return max(used, default=-1) + 1


def _field_ids(state: TableState) -> set[int]:
    held = {number for fragment in state.fragments for file in fragment.files for number in file.fields}
    return held | {field.id for field in state.fields}


async def _whole(io: Io, state: TableState, fragment: table_pb2.DataFragment) -> pa.Table:
    """All rows of ``fragment``, deleted ones too: new files have a value for each."""
    bare = copied_fragment(fragment)
    bare.ClearField("deletion_file")
    return await read.read_fragment(io, state, bare, state.schema.names, with_row_address=False)


def _checked(values: pa.Table, new: pa.Schema, fragment: table_pb2.DataFragment) -> pa.Table:
    if values.num_rows != fragment.physical_rows or values.schema.names != new.names:
        reason = f"{values.num_rows} rows of {values.schema.names} for the {fragment.physical_rows} of {new.names}"
        raise InvalidArgument(reason, clause="TXN-033")
    return admitted(cellwise.converted(values, new), new)


async def declare_key(io: Io, state: TableState, key: Sequence[str]) -> TableState:
    """Make ``key`` the primary key of a table that has none: columns in which ``state`` has no NULL.

    They cannot be NULL any more. Raises `Conflict` if the table is not at the version of ``state``.
    """
    declared = []
    for field in state.fields:
        changed = file_pb2.Field()
        changed.CopyFrom(field)
        if field.parent_id == -1 and field.name in key:
            changed.nullable = False
            changed.unenforced_primary_key = True
            changed.metadata[schema.PRIMARY_KEY.decode()] = b"true"
        declared.append(changed)
    return await commit(io, state, Transaction(project=Transaction.Project(schema=declared)), rebase=False)


@implements("TXN-034", "AMB-55", "AMB-66")
async def drop(io: Io, names: Sequence[str], may_drop: MayChange = _no_mem_wal) -> TableState:
    """Drop top-level columns from the schema; no data file is touched. Key columns stay."""

    async def attempt(state: TableState) -> TableState:
        check_dropped(state, names)
        await may_drop(state, names)
        kept = _without(state.fields, {state.field_ids[name] for name in names})
        left = {field.id for field in kept}
        bare = [f.id for f in state.fragments if not any(left & set(file.fields) for file in f.files)]
        if bare or not kept:
            reason = f"fragments {bare} would have no data file left" if bare else "a table keeps a column"
            raise InvalidArgument(reason, clause="TXN-034")
        body = Transaction(project=Transaction.Project(schema=kept))
        return await commit(io, state, body, rebase=state.mem_wal_entry is None)

    return await retried(io, attempt)


@implements("AMB-55", "AMB-66")
def check_dropped(state: TableState, names: Sequence[str]) -> None:
    """Raise `InvalidArgument` for columns that cannot be dropped from this version, whatever is in regions."""
    unknown = [name for name in names if name not in state.field_ids]
    if unknown or not names:
        raise InvalidArgument(f"there are no columns {unknown}; the table has {state.schema.names}", clause="TXN-034")
    keys = [name for name in names if name in state.primary_key]
    if keys:
        raise InvalidArgument(f"key columns {keys} cannot be dropped: leave them out", clause="AMB-66")


def _without(fields: Sequence[file_pb2.Field], gone: set[int]) -> list[file_pb2.Field]:
    """``fields`` without those of the ids and what is below them."""
    lost = set(gone)
    kept = []
    for field in fields:
        if field.id in lost or field.parent_id in lost:
            lost.add(field.id)
        else:
            kept.append(field)
    return kept


def _leaves(state: TableState, names: Sequence[str]) -> list[int]:
    """Leaf field ids of top-level columns, in the order of ``names``."""
    found: list[int] = []
    for name in names:
        kept = {f.id for f in _without(state.fields, {state.field_ids[name]})}
        found += schema.leaf_ids([f for f in state.fields if f.id not in kept])
    return found


@implements("TXN-039", "TXN-041", "TXN-042")
async def recompute(io: Io, names: Sequence[str], compute: Compute) -> TableState:
    """Rewrite the columns ``names`` of every row in place (REWRITE_COLUMNS); the older versions are tombstoned.

    Costs a data file with these columns for each fragment, however few rows change: `write.update` is for few rows.
    """

    async def attempt(state: TableState) -> TableState:
        wanted = pa.schema([state.schema.field(name) for name in _known(state, names)])
        leaves = _leaves(state, names)
        updated = []
        for fragment in state.fragments:
            values = _checked(arrow(compute(await _whole(io, state, fragment))), wanted, fragment)
            changed = _tombstoned(fragment, leaves)
            changed.files.append(await write_column_file(io, values, leaves, state.file_version))
            updated.append(changed)
        body = Transaction.Update(
            updated_fragments=updated, fields_modified=leaves, update_mode=Transaction.UpdateMode.REWRITE_COLUMNS
        )
        return await commit(io, state, Transaction(update=body))

    return await retried(io, attempt)


def _tombstoned(fragment: table_pb2.DataFragment, leaves: Sequence[int]) -> table_pb2.DataFragment:
    """A copy whose files no longer hold the fields ``leaves``; a file that would hold none is no longer named."""
    changed = copied_fragment(fragment)
    for file in changed.files:
        kept = [TOMBSTONE_FIELD if number in leaves else number for number in file.fields]
        del file.fields[:]
        file.fields.extend(kept)
    alive = [file for file in changed.files if set(file.fields) != {TOMBSTONE_FIELD}]
    del changed.files[:]
    changed.files.extend(alive)
    return changed


def _known(state: TableState, names: Sequence[str]) -> Sequence[str]:
    wrong = [name for name in names if name not in state.field_ids or name in state.primary_key]
    if wrong or not names:
        reason = f"columns {wrong} are not there or belong to the key; others are {state.schema.names}"
        raise InvalidArgument(reason, clause="TXN-041")
    return names


@implements("TXN-044")
async def replace_data(io: Io, values: Mapping[FragmentId, pa.Table]) -> TableState:
    """Replace the data of columns in the fragments named: a table per fragment, with a value for each row.

    The columns have to be those of one data file of the fragment, or of none. Raises `InvalidArgument` otherwise.
    """

    async def attempt(state: TableState) -> TableState:
        fragments = {f.id: f for f in state.fragments}
        body = Transaction.DataReplacement()
        for number, given in sorted(values.items()):
            if number not in fragments:
                raise InvalidArgument(f"there is no fragment {number}", clause="TXN-044")
            table = arrow(given)
            wanted = pa.schema([state.schema.field(name) for name in _known(state, table.schema.names)])
            checked = _checked(table, wanted, fragments[number])
            leaves = _leaves(state, table.schema.names)
            item = body.replacements.add(fragment_id=number)
            item.new_file.CopyFrom(await write_column_file(io, checked, leaves, state.file_version))
        return await commit(io, state, Transaction(data_replacement=body))

    return await retried(io, attempt)
