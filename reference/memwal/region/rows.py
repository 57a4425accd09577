"""Rows as a region stores them: validation of writes, and the tombstone column of revision R."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from .. import truths
from ..clauses import implements
from ..errors import ArtifactError, InvalidArgument
from ..ids import FieldId
from ..revisions import Revision
from ..table.door import admitted
from ..table.write import conform

if TYPE_CHECKING:
    from ..table.state import TableState

TOMBSTONE = "_tombstone"
"""Column that marks a delete in revision R: bool, not null, last."""
FIELD_ID = b"lance:field_id"
"""Field metadata key of WAL columns in revision R: id of the column in the base table, decimal."""

Belongs = Callable[[pa.Table], None]
"""Checks that rows belong to the region; raises `InvalidArgument` naming the first that does not (AMB-136)."""


def any_row(rows: pa.Table) -> None:
    """Manual regions take every row (AMB-56)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """How rows of one region look in its WAL and generations."""

    table: pa.Schema
    """Schema of the base table."""
    key: tuple[str, ...]
    """Primary key columns."""
    revision: Revision
    field_ids: tuple[tuple[str, FieldId], ...] = ()
    """Ids of the base table's columns, for revisions whose WAL carries them (R)."""
    belongs: Belongs = any_row
    plain: pa.Schema = field(init=False, repr=False, compare=False)
    """Schema of rows as clients write them: the base table's, without its metadata."""
    schema: pa.Schema = field(init=False, repr=False, compare=False)
    """Schema of rows in the WAL: the base table's, and the tombstone column where the revision has one."""
    none: pa.Table = field(init=False, repr=False, compare=False)
    """A table of this schema without rows, which most WAL tails are."""

    def __post_init__(self) -> None:
        plain = self.table.remove_metadata()
        schema = plain
        if self.revision.tombstones:
            numbered = with_field_ids(plain, dict(self.field_ids))
            schema = numbered.append(pa.field(TOMBSTONE, pa.bool_(), nullable=False))
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "none", schema.empty_table())

    @classmethod
    def of(cls, base: TableState, *, belongs: Belongs = any_row) -> Rows:
        """Those of the regions of a table."""
        ids = tuple(base.field_ids.items())
        return cls(table=base.schema, key=base.primary_key, revision=base.revision, field_ids=ids, belongs=belongs)

    @property
    def stored_schema(self) -> pa.Schema:
        """Schema of rows in generations: the base table's, key marked, and the tombstone column."""
        if not self.revision.tombstones:
            return self.plain
        return self.plain.append(self.schema.field(TOMBSTONE))

    @implements("WRITER-015", "AMB-136")
    def upserts(self, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """``rows`` as stored; raises `InvalidArgument` for a wrong schema, a NULL key, or a row of another region."""
        checked = admitted(rows, self.plain)
        self.belongs(checked)
        return self._marked(checked, deleted=False)

    @implements("AMB-89")
    def tombstones(self, keys: pa.Table, sequence: str | None = None) -> pa.Table:
        """Rows that delete ``keys``, a table of exactly the key columns. Other columns become NULL.

        ``sequence``: a column that ``keys`` has too, and that is stored.
        """
        given = (*self.key, sequence) if sequence is not None else self.key
        check_deletes(self.revision, self.table, given)
        keys = admitted(keys, pa.schema([self.table.field(name) for name in given]))
        columns = [keys[f.name] if f.name in given else pa.nulls(keys.num_rows, f.type) for f in self.table]
        rows = pa.table(columns, schema=self.plain)
        self.belongs(rows)
        return self._marked(rows, deleted=True)

    def _marked(self, rows: pa.Table, *, deleted: bool) -> pa.Table:
        if not self.revision.tombstones:
            return rows
        flags = truths.repeated(deleted, rows.num_rows)
        return pa.table([*rows.columns, flags], schema=self.schema)

    @implements("AMB-50")
    def restored(self, rows: pa.Table, path: str, *, narrowed: bool = False) -> pa.Table:
        """Rows of a WAL entry in the stored schema; raises `ArtifactError` naming the column that does not fit.

        Columns that say their field id are taken by it: one that the table does not have is left out, and one that they
        do not have is NULL. Without ids a column that was dropped cannot be told from one that got its name, and they
        have to be those of the table. ``narrowed``: other columns are left out, since only some are asked for.
        """
        if not rows.num_rows:
            return rows if rows.schema.equals(self.schema, check_metadata=True) else self.none
        marked = self._mapped(rows)
        if narrowed:
            held = set(marked.schema.names)
            marked = marked.select([name for name in self.schema.names if name in held])
        if self.revision.tombstones and TOMBSTONE not in rows.schema.names:
            marked = marked.append_column(TOMBSTONE, truths.repeated(False, rows.num_rows))
        try:
            return conform(marked, self.schema)
        except InvalidArgument as error:
            raise ArtifactError("AMB-50", path, f"the entry does not fit the table: {error}") from error

    @implements("AMB-50")
    def filled(self, rows: pa.Table) -> frozenset[str]:
        """The columns that rows of a WAL entry do not have, and that `restored` makes NULL."""
        held = {field_id(column) for column in rows.schema if column.name != TOMBSTONE}
        if None in held:
            return frozenset()
        return frozenset(name for name, number in self._ids().items() if number not in held)

    def _ids(self) -> dict[str, FieldId]:
        """Ids of the columns that rows have, of those that are known."""
        names = set(self.plain.names)
        return {name: number for name, number in self.field_ids if name in names}

    def _mapped(self, rows: pa.Table) -> pa.Table:
        """``rows`` with the columns that have the field ids of the table's; as they are if an id is not known."""
        ids = self._ids()
        held = {column.name: field_id(column) for column in rows.schema if column.name != TOMBSTONE}
        unknown = len(ids) < len(self.plain) or None in held.values() or len(set(held.values())) < len(held)
        if unknown or held == ids:
            return rows
        names = {number: name for name, number in held.items()}
        columns = {
            column.name: rows.column(names[number])
            if (number := ids[column.name]) in names
            else pa.nulls(rows.num_rows, column.type)
            for column in self.plain
        }
        marks = {TOMBSTONE: rows.column(TOMBSTONE)} if TOMBSTONE in rows.schema.names else {}
        return pa.table({**columns, **marks})


@implements("AMB-89")
def check_deletes(revision: Revision, schema: pa.Schema, given: Sequence[str]) -> None:
    """Raise `InvalidArgument` unless rows can be deleted by the columns ``given`` alone: the others become NULL."""
    if not revision.tombstones:
        reason = f"revision {revision.name} has no deletes; delete from the base table once it is merged"
        raise InvalidArgument(reason, clause="AMB-89")
    strict = [f.name for f in schema if f.name not in given and not f.nullable]
    if strict:
        raise InvalidArgument(
            f"a delete stores NULL in all columns but those of the key: make {strict} nullable", clause="AMB-89"
        )


def field_id(column: pa.Field) -> FieldId | None:
    """The id that a column of a WAL entry or a generation says it has in the base table; None if it says none."""
    text = (column.metadata or {}).get(FIELD_ID, b"")
    return FieldId(int(text)) if text.isdigit() else None


def with_field_ids(schema: pa.Schema, ids: Mapping[str, FieldId]) -> pa.Schema:
    """``schema`` with `FIELD_ID` in the metadata of each column of the base table."""
    fields = [
        f.with_metadata({**(f.metadata or {}), FIELD_ID: str(ids[f.name]).encode()}) if f.name in ids else f
        for f in schema
    ]
    return pa.schema(fields, schema.metadata)
