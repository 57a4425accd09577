"""A Lance table as such, whether MemWAL is enabled on it or not: one method for each kind of change.

Where MemWAL is enabled, what would pull the ground from under its regions is checked first (`memwal.index.guards`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from ..arguments import checked, checked_methods
from ..drive import Listener
from ..effects import Protocol
from ..errors import AlreadyExists, InvalidArgument
from ..ids import FieldId, FragmentId, TableVersion
from ..index import guards
from ..jobs import column_change
from ..read import filters
from ..stores import ManifestStore
from ..stores.base import Store
from ..table import cloning, columns, compaction, read, state, tags, whole, write
from ..table.columns import Compute
from ..table.legacy import upgrade
from ..table.state import TableState
from ..table.write import Changes
from .place import PROFILE, Place, Profile, Where, check_mechanism, find, found, taken

T = TypeVar("T")

_URL_PARTS = len(["s3:", "", "bucket"])
_PATH_PARTS = len(["", "folder"])

Condition: TypeAlias = Any
"""A pyarrow compute expression, or SQL text as in a WHERE clause."""


@checked
def base_table(
    url: Where,
    *,
    within: str | Path | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    manifest_store: ManifestStore | None = None,
    listener: Listener | None = None,
    profile: Profile = PROFILE,
) -> BaseTable:
    """Open the newest version of a Lance table. Raises `NotFound`.

    ``within``: a folder above the table that holds all files that it refers to: those of a shallow clone lie beside it.
    ``manifest_store``: as for `memwal.open`.
    """
    place = find(url, storage_options, store, listener, profile, manifest_store)
    if within is not None:
        place = _inside(str(within), place.io.location or str(url), storage_options, listener, profile, manifest_store)
    current = found(place, state.latest(place.io))
    check_mechanism(place, current)
    return BaseTable(place, current)


@checked
def clone(
    source: Where,
    target: Where,
    *,
    shallow: bool,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    manifest_store: ManifestStore | None = None,
    listener: Listener | None = None,
    profile: Profile = PROFILE,
) -> BaseTable:
    """Create ``target`` as a copy of ``version`` of ``source`` (the newest if None), without its MemWAL.

    Both lie in one store. ``manifest_store``: that of the source; the copy has none. Raises `AlreadyExists`,
    `NotFound`, and `InvalidArgument` for places in different stores.
    """
    names = [find(url, storage_options, None, listener, profile).io.location for url in (source, target)]
    names = [str(Path(name).resolve()) if ".." in name.split("/") and "://" not in name else name for name in names]
    parts = posixpath.commonprefix([name.split("/")[:-1] for name in names])
    if len(parts) < (_URL_PARTS if "://" in names[0] else _PATH_PARTS):
        raise InvalidArgument(
            f"{str(source)!r} and {str(target)!r} have no folder in common: copy within one store",
            clause="TXN-037",
        )
    above = "/".join(parts)
    origin = _inside(above, names[0], storage_options, listener, profile, manifest_store)
    place = _inside(above, names[1], storage_options, listener, profile, None)
    wanted = TableVersion(version) if version is not None else None
    try:
        return BaseTable(place, origin.run(cloning.clone(place.io, origin.io, wanted, shallow=shallow)))
    except AlreadyExists as there:
        raise taken(place, there) from None


def _inside(
    above: str,
    location: str,
    storage_options: Mapping[str, str] | None,
    listener: Listener | None,
    profile: Profile,
    manifest_store: ManifestStore | None,
) -> Place:
    """The table at ``location`` in the store that is opened at the folder ``above``."""
    parent = find(above, storage_options, None, listener, profile, manifest_store)
    if not f"{location}/".startswith(f"{parent.io.location}/") or location == parent.io.location:
        raise InvalidArgument(f"{location!r} is not below {parent.io.location!r}")
    name = location[len(parent.io.location) :].strip("/")
    return replace(parent, io=replace(parent.io.child(name), location=location))


@checked_methods
class BaseTable:
    """A Lance table. Each change is executed again on the newest version after a retryable conflict.

    All changes raise `InvalidArgument` for what the table or its regions forbid, and `Conflict` for what another commit
    has made meaningless.
    """

    def __init__(
        self, place: Place, current: TableState, changed: Callable[[TableState], None] = lambda _: None
    ) -> None:
        """``changed``: is told each version that this object commits."""
        self._place = place
        self._state = current
        self._told = changed

    def __repr__(self) -> str:
        return f"<memwal.BaseTable {self._place.io.location or self._place.io.root!r} version {self.version}>"

    @property
    def version(self) -> TableVersion:
        """The version that this object knows: the one that it committed or loaded last."""
        return self._state.version

    @property
    def schema(self) -> pa.Schema:
        return self._state.schema

    @property
    def versions(self) -> tuple[TableVersion, ...]:
        """All versions that are retained, ascending."""
        return self._run(state.versions(self._place.io))

    def refresh(self) -> BaseTable:
        """Load the newest version; returns this object."""
        self._state = self._run(state.latest(self._place.io))
        return self

    def scan(self, columns: Sequence[str] | None = None, *, version: int | None = None) -> pa.Table:
        """The live rows of the base table, in row address order; ``version``: those of an earlier one."""
        current = self._state
        if version is not None:
            current = self._run(state.load(self._place.io, TableVersion(version)))
        return self._run(read.scan(self._place.io, current, columns))

    def append(self, rows: pa.Table) -> BaseTable:
        """Add rows without looking at keys."""
        return self._changed(write.append(self._place.io, rows))

    def delete(self, condition: Condition) -> BaseTable:
        """Delete the rows that match."""
        return self._changed(write.delete(self._place.io, self._mask(condition), str(condition)))

    def update(self, condition: Condition, compute: Callable[[pa.Table], pa.Table]) -> BaseTable:
        """Replace the rows that match by what ``compute`` makes of them: as many, with the same keys."""
        return self._changed(write.update(self._place.io, self._mask(condition), compute))

    def overwrite(self, rows: pa.Table, config: Mapping[str, str] | None = None) -> BaseTable:
        """Replace all rows and the schema, which has to stay as it is where MemWAL is enabled."""
        io = self._place.io
        return self._changed(whole.overwrite(io, rows, config, guards.may_replace(io)))

    def upgrade(self) -> BaseTable:
        """Write all rows anew, if the table has data files of a version, or of several, that are read only.

        Indexes over columns have to be built again; earlier versions stay as they are. Costs as much as copying the
        table.
        """
        return self._changed(upgrade.upgrade(self._place.io))

    def restore(self, version: int) -> BaseTable:
        """Make the content of an earlier version the newest again; rows of MemWAL merged since are merged again.

        Where the columns, the key or the region specs were others then, open writers are fenced, and `ChangeLost` is
        raised if one opens meanwhile.
        """
        return self._changed(column_change.restore(self._place.io, TableVersion(version)))

    def compact(self, fragments: Collection[int] | None = None, *, defer_index_remap: bool = False) -> BaseTable:
        """Rewrite fragments (all if None) into as few as possible, without deleted rows.

        Indexes lose the fragments that are gone until `Table.catch_up`. With ``defer_index_remap`` they cover what they
        covered, by the fragment reuse index, and fragments that different indexes cover are not joined. Not with
        pylance's own compaction beside it: that of 14.0 loses rows of its indexes then (docs/transactions.md).
        """
        chosen = [FragmentId(number) for number in fragments] if fragments is not None else None
        return self._changed(compaction.compact(self._place.io, chosen, defer_index_remap=defer_index_remap))

    def add_columns(self, new: pa.Schema, compute: Compute | None = None) -> BaseTable:
        """Add columns with computed values, or NULL everywhere; see `memwal.table.columns.add`.

        Where MemWAL is enabled, what is in the WAL is flushed first, and open writers are fenced: open them again.
        `memwal.jobs.fenced_change.ChangeLost` if one opens meanwhile: try again.
        """
        return self._changed(column_change.add(self._place.io, new, compute))

    def drop_columns(self, names: Sequence[str]) -> BaseTable:
        """Drop top-level columns; no data file is touched. Open writers are fenced as by `add_columns`."""
        return self._changed(column_change.drop(self._place.io, names))

    def recompute(self, names: Sequence[str], compute: Compute) -> BaseTable:
        """Rewrite columns of all rows in place."""
        return self._changed(columns.recompute(self._place.io, names, compute))

    def replace_data(self, values: Mapping[int, pa.Table]) -> BaseTable:
        """Replace the data of columns in fragments: a table per fragment id, with a value for each physical row."""
        chosen = {FragmentId(number): table for number, table in values.items()}
        return self._changed(columns.replace_data(self._place.io, chosen))

    def update_metadata(
        self,
        *,
        config: Changes | None = None,
        table: Changes | None = None,
        schema: Changes | None = None,
        fields: Mapping[int, Changes] | None = None,
    ) -> BaseTable:
        """Change keys of the config and of the metadata of table, schema and fields (by id); None removes a key."""
        numbered = {FieldId(number): changes for number, changes in (fields or {}).items()}
        changing = write.update_metadata(self._place.io, config=config, table=table, schema=schema, fields=numbered)
        return self._changed(changing)

    def drop_index(self, name: str) -> BaseTable:
        """Drop an index over columns."""
        return self._changed(write.drop_index(self._place.io, name))

    def add_bases(self, bases: Mapping[str, str]) -> BaseTable:
        """Add folders, by name, in which data files may lie."""
        return self._changed(cloning.add_bases(self._place.io, bases))

    @property
    def tags(self) -> Mapping[str, TableVersion]:
        """Tags and the versions that they keep."""
        return self._run(tags.versions(self._place.io))

    def tag(self, name: str, version: int | None = None) -> None:
        """Tag a version, this object's if None. Raises `AlreadyExists`."""
        self._run(tags.create(self._place.io, name, TableVersion(version) if version is not None else self.version))

    def untag(self, name: str) -> None:
        """Remove a tag. Raises `NotFound`."""
        self._run(tags.delete(self._place.io, name))

    def _mask(self, condition: Condition) -> Callable[[pa.Table], Any]:
        return lambda rows: filters.mask(condition, rows.schema)(rows)

    def _changed(self, operation: Protocol[TableState]) -> BaseTable:
        self._state = self._run(operation)
        self._told(self._state)
        return self

    def _run(self, coroutine: Protocol[T]) -> T:
        return self._place.run(coroutine)
