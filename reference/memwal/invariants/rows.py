"""Invariants of the rows of a generation, and of the WAL entries that no generation holds yet.

Source: MemWAL revisions A and B, "Flushed MemTable", "MemTable Flush" and "Region Spec"; AMB-46, 47, 48, 55, 106, 136.

What is not claimed: that the base table is the fold of what was merged into it, since others may write to it
(AMB-88); and the order of rows inside a generation whose WAL entries are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .. import cellwise
from ..codec import bloom, data_file, key_index
from ..codec.index_details import RegionSpec
from ..codec.pb.lance import table_pb2
from ..errors import ArtifactError, InvalidArgument, NotFound
from ..ids import FieldId, WalPosition
from ..index import transforms
from ..index.transforms import IMMUTABLE_SOURCES, RegionKey
from ..keys import newest
from ..region.recovery import read_entry
from ..region.rows import TOMBSTONE, Rows
from ..revisions import Revision
from ..table import read
from ..violations import Violation, objection
from ..words import counted
from .finding import invariant
from .generations import recorded_range
from .seen import GenerationView, RegionView, SeenEntry

_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRows:
    """The rows of one generation, and what was said about them when it was flushed."""

    path: str
    """Folder of the generation."""
    number: int
    key: tuple[str, ...]
    stored: pa.Table
    """Every row in the order of its address, hidden ones included."""
    live: npt.NDArray[np.bool_]
    """Shape (rows,): False where a deletion file hides the row."""
    logged: pa.Table | None
    """Rows of the WAL entries that it covers, in order; None if they are gone, or not known."""
    not_compared: str = ""
    """Why ``logged`` is None."""

    @property
    def keys(self) -> pa.Table:
        """The key columns of ``stored``."""
        return self.stored.select(list(self.key))


async def load_rows(view: RegionView, generation: GenerationView) -> GenerationRows:
    """Read the rows of a generation that opens. Raises `ArtifactError` or `NotFound` for what cannot be read."""
    state, io = generation.state, generation.io
    assert state is not None
    names = state.schema.names
    parts = [pa.schema([state.schema.field(n) for n in names]).empty_table()]
    masks = []
    for fragment in sorted(state.fragments, key=lambda f: f.id):
        bare = table_pb2.DataFragment()
        bare.CopyFrom(fragment)
        bare.ClearField("deletion_file")
        parts.append(await read.read_fragment(io, state, bare, names, with_row_address=False))
        live = np.ones(fragment.physical_rows, dtype=np.bool_)
        live[await read.deleted_offsets(io, fragment, state)] = False
        masks.append(live)
    columns = pa.schema([f for f in state.schema if f.name != TOMBSTONE or not view.revision.tombstones])
    ids = tuple(state.field_ids.items())
    rows = Rows(table=columns, key=state.primary_key, revision=view.revision, field_ids=ids)
    logged = await _logged(view, generation, rows)
    return GenerationRows(
        path=io.root,
        number=generation.listed.generation,
        key=state.primary_key,
        stored=pa.concat_tables(parts),
        live=np.concatenate([np.empty(0, np.bool_), *masks]),
        logged=logged if isinstance(logged, pa.Table) else None,
        not_compared=logged if isinstance(logged, str) else "",
    )


async def _logged(view: RegionView, generation: GenerationView, rows: Rows) -> pa.Table | str:
    entries = _entries_of(view, generation)
    if isinstance(entries, str):
        return entries
    parts = [rows.schema.empty_table()]
    for entry in entries:
        try:
            found = await read_entry(view.io, entry.position, view.revision, rows.schema)
        except (ArtifactError, NotFound):
            return f"entry {entry.position} cannot be read"
        parts.append(rows.restored(found.rows, entry.path))
    return pa.concat_tables(parts)


def _entries_of(view: RegionView, generation: GenerationView) -> list[SeenEntry] | str:
    """The entries whose rows the generation has to hold, or why that is not known."""
    number, found = generation.listed.generation, recorded_range(generation)
    readable = {entry.position: entry for entry in view.entries}
    if found is not None:
        wanted = [WalPosition(position) for position in range(found[0], found[1] + 1)]
        if any(position not in view.positions for position in wanted):
            return "its WAL entries were collected"
        if any(position not in readable for position in wanted):
            return "one of its WAL entries cannot be read"
        covered = [readable[position] for position in wanted]
        return [e for e in covered if e.generation is None or e.generation >= number]
    if not view.revision.entry_generation or any(e.generation is None and e.rows for e in view.entries):
        return "it does not record which WAL entries it covers"
    whole = view.positions[:1] == (view.revision.first_position,)
    if not whole and not any(e.generation is not None and e.generation < number for e in view.entries):
        return "its WAL entries were collected"
    return [entry for entry in view.entries if entry.generation == number]


@invariant(
    "FLUSH-004",
    "GEN-014",
    "FLUSH-006",
    "MANIFEST-009",
    "WAL-028",
    "AMB-43",
    "AMB-106",
    about="rows",
    rows=True,
    remedy="The generation is not what was written. While the WAL entries are there: take the generation off the list, "
    "set the replay pointer back, and let a writer flush again; that is no repair that a tool may do.",
)
def generations_equal_their_wal(generation: GenerationRows) -> Iterator[Violation]:
    """A generation has exactly the rows of the WAL entries that it covers, in their order."""
    if generation.logged is None:
        return
    difference = _difference(generation.stored, generation.logged)
    if difference:
        yield objection(generation.path, f"generation {generation.number}: {difference}")


def _difference(stored: pa.Table, logged: pa.Table) -> str:
    if stored.num_rows != logged.num_rows:
        return f"{counted(stored.num_rows, 'row')}, its WAL entries have {logged.num_rows}"
    known = set(stored.schema.names)
    for name in logged.schema.names:
        if name not in known:
            return f"column {name!r} is missing"
        ours, theirs = stored.column(name), logged.column(name)
        if ours.equals(theirs):
            continue
        # NaN is equal to nothing, so that columns with it are compared by what they show.
        for at, (a, b) in enumerate(zip(ours.to_pylist(), theirs.to_pylist(), strict=True)):
            if repr(a) != repr(b):
                return f"row {at} has {name}={_shown(a)}, its WAL entry {_shown(b)}"
    return ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@invariant(
    "GEN-010",
    "WRITER-024",
    "PLAN-003",
    "AMB-47",
    about="rows",
    rows=True,
    remedy="Lookups skip the generation for keys that it holds, and return older rows. Merge and collect it; delete "
    "the filter file until then: readers without a filter look into the generation.",
)
def filters_have_every_key(
    generation: GenerationRows, data: bytes, path: str, revision: Revision
) -> Iterator[Violation]:
    """The bloom filter of a generation denies none of its keys."""
    if not data:
        yield objection(path, f"the filter of generation {generation.number} is empty", offset=0)
        return
    try:
        found = bloom.decode(data, revision, path).might_contain(generation.keys)
    except ArtifactError as error:
        yield objection(path, error.reason, error.clause, error.offset)
        return
    if not found.all():
        at = int(np.argmin(found))
        key = generation.keys.slice(at, 1).to_pylist()[0]
        yield objection(
            path, f"denies {counted(int((~found).sum()), 'key')} of generation {generation.number}: {_shown(key)}"
        )


@invariant(
    "AMB-48",
    about="rows",
    rows=True,
    remedy="Native lookups miss rows of the generation; this engine does not use the index. Merge and collect it.",
)
def key_indexes_have_every_key(
    generation: GenerationRows, data: bytes, path: str, lookup: bytes, lookup_path: str
) -> Iterator[Violation]:
    """In R the key index of a generation can be read, and has the key and the place of every visible row."""
    keys = generation.keys
    try:
        data_file.decode(lookup, lookup_path, clause="AMB-48")
        pages = data_file.decode(data, path, clause="AMB-48")
        wanted = keys.column(0).combine_chunks() if keys.num_columns == 1 else key_index.composite(keys)
    except ArtifactError as error:
        yield objection(error.path, error.reason, error.clause, error.offset)
        return
    if not {"values", "ids"} <= set(pages.schema.names) or not pa.types.is_integer(pages.schema.field("ids").type):
        yield objection(path, f"has the columns {pages.schema.names}, not values and ids")
        return
    ids = pages.column("ids").to_numpy()
    places = np.flatnonzero(generation.live)
    order = np.argsort(ids, kind="stable")
    at = np.searchsorted(ids[order], places)
    there = at < len(ids)
    there[there] = ids[order][at[there]] == places[there]
    if not there.all():
        row = int(places[np.argmin(there)])
        yield objection(path, f"lacks {int((~there).sum())} visible rows of generation {generation.number}: row {row}")
        return
    values = pages.column("values").combine_chunks().take(pa.array(order[at]))
    same = pc.equal(_comparable(values.cast(wanted.type)), _comparable(wanted.take(pa.array(places))))
    if not pc.all(same, skip_nulls=False, min_count=0).as_py():
        row = int(places[np.argmin(same.fill_null(False).to_numpy(zero_copy_only=False))])
        yield objection(path, f"has another key for row {row} of generation {generation.number}")


@invariant(
    "AMB-136",
    "WRITER-015",
    about="rows",
    rows=True,
    remedy="Such a row is never matched by a merge, and appears again with each. Find out which implementation wrote "
    "it.",
)
def keys_are_not_null(keys: pa.Table, path: str) -> Iterator[Violation]:
    """No row of a generation or of an unflushed WAL entry has NULL in a key column."""
    for name in keys.schema.names:
        nulls = keys.column(name)
        if nulls.null_count:
            at = int(np.argmax(nulls.is_null().to_numpy()))
            yield objection(
                path, f"key column {name!r} is NULL in {counted(nulls.null_count, 'row')}, the first at {at}"
            )


@invariant(
    "AMB-46",
    "READ-005",
    about="rows",
    rows=True,
    remedy="Readers that rely on the deletion file return a key twice. This engine's merge takes the last row all the "
    "same; merge and collect the generation.",
)
def older_rows_are_hidden(generation: GenerationRows) -> Iterator[Violation]:
    """In R the last row of each key of a generation is visible, and every other one is hidden."""
    wanted = np.zeros(generation.stored.num_rows, dtype=np.bool_)
    wanted[newest(generation.keys, generation.key)] = True
    wrong = np.flatnonzero(wanted != generation.live)
    if len(wrong):
        kind = "hidden, and the last of its key" if wanted[wrong[0]] else "visible, and a later one has its key"
        yield objection(generation.path, f"row {wrong[0]} of generation {generation.number} is {kind}")


@invariant(
    "REGION-002",
    "REGION-017",
    "WRITER-015",
    "AMB-52",
    "AMB-136",
    about="rows",
    rows=True,
    remedy="Keys may be in two regions, and the order of merging decides which row wins. Stop the writer that routes "
    "rows wrongly; merge the region whose rows are older first.",
)
def rows_belong_to_their_region(
    found: Mapping[RegionKey, int], known: RegionKey | None, path: str
) -> Iterator[Violation]:
    """Under the region's spec every row has the region's values; where they are not recorded, all rows agree."""
    wanted = known if known is not None else next(iter(found), None)
    for values, at in found.items():
        if values != wanted:
            yield objection(path, f"row {at} has the region values {_named(values)}, the region {_named(wanted or ())}")
            return


def _named(values: RegionKey) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in values)


def region_values(
    rows: pa.Table, spec: RegionSpec, columns: Mapping[FieldId, str], revision: Revision
) -> dict[RegionKey, int]:
    """The distinct region values of ``rows`` and the first row of each; raises `InvalidArgument` if not computable.

    Deletes count only where they have every source: the columns beside the key are NULL in them.
    """
    sources = {columns.get(i) for field in spec.fields for i in field.source_ids}
    offsets = np.arange(rows.num_rows)
    vouched = any(dict(field.parameters).get(IMMUTABLE_SOURCES) == "true" for field in spec.fields)
    if vouched and TOMBSTONE in rows.schema.names:
        kept = pc.invert(rows.column(TOMBSTONE))
        offsets = offsets[kept.to_numpy()]
        rows = cellwise.where(rows, kept)
    held = rows.select([name for name in rows.schema.names if name in sources])
    if not rows.num_rows:
        return {}
    if not held.num_columns:
        held = rows.select(rows.schema.names[:1])
    values = transforms.evaluate(spec, held, columns, revision=revision)
    names = values.schema.names
    numbered = values.append_column("__row", pa.array(offsets))
    grouped = numbered.group_by(names, use_threads=False).aggregate([("__row", "min")]).sort_by("__row_min")
    return {
        transforms.values_key({name: row[name] for name in names}): int(row["__row_min"]) for row in grouped.to_pylist()
    }


def registered_values(values: tuple[tuple[str, object], ...], spec: RegionSpec | None) -> RegionKey | None:
    """Registered values in the form of `region_values`; None unless every field of the spec is known."""
    if spec is None or {name for name, _ in values} != {field.field_id for field in spec.fields}:
        return None
    return transforms.values_key(dict(values))


def manifest_values(fields: tuple[tuple[str, bytes], ...], spec: RegionSpec | None) -> tuple[tuple[str, object], ...]:
    """Region values that a manifest of R carries; empty for bytes that are no values of their fields."""
    from ..index import result_types

    types = {field.field_id: field.result_type for field in spec.fields} if spec is not None else {}
    try:
        return tuple(
            (name, transforms.decode_scalar_r(data, result_types.parse(types[name])).as_py()) for name, data in fields
        )
    except (KeyError, ValueError, InvalidArgument):
        return ()


def _comparable(keys: pa.Array) -> pa.Array:
    """``keys`` in a type that pyarrow compares: it does not decimals of a negative scale."""
    return keys.view(pa.binary(keys.type.byte_width)) if pa.types.is_decimal(keys.type) else keys
