"""Which rows an index over a column gives for a comparison: one part of an index of any scalar kind.

Btree, bitmap and label list indexes give the rows; zone maps, bloom filters and n-gram indexes give more. Deleted rows
are among them, and rows are where they are now.
Source: MemWAL revision A, "Query Execution".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..maintained.scalar import Between
from ..table import reuse
from ..table.coverage import index_names, segments
from ..table.mirror import index_folder
from ..table.reuse import Addresses
from ..table.state import TableState
from ..table.stored_index import open_index_file
from . import row_sets, zones
from .btree import DATA, can_be_asked, open_btree
from .conditions import Compare, HasLabels, HasText, Leaf
from .row_sets import few
from .wanted import TooMany, Wanted, asked

_KINDS: tuple[tuple[str, type[Compare | HasLabels | HasText]], ...] = (
    ("BTreeIndexDetails", Compare),
    ("BitmapIndexDetails", Compare),
    ("LabelListIndexDetails", HasLabels),
    ("NGramIndexDetails", HasText),
    ("ZoneMapIndexDetails", Compare),
    ("BloomFilterIndexDetails", Compare),
)
"""Kinds of indexes by the last part of the type URL of their details, and what they are asked for; the best first."""

_FEW_POINTS = 16
"""So many values are looked for one by one, each by its place in the order."""
_NOTHING = np.empty(0, np.uint64)


def fitting(state: TableState, leaf: Leaf) -> tuple[str, ...]:
    """Names of the indexes of a table that may answer a comparison, the best kind first, then by name."""
    number = state.field_ids.get(leaf.column)
    found = []
    for name in index_names(state):
        entries = segments(state, name)
        ranks = {_rank(entry, leaf) for entry in entries if list(entry.fields) == [number]}
        if len(ranks) == 1 and None not in ranks and all(list(entry.fields) == [number] for entry in entries):
            found.append((ranks.pop(), name))
    return tuple(name for _, name in sorted(found))


def _rank(entry: table_pb2.IndexMetadata, leaf: Leaf) -> int | None:
    for rank, (kind, answered) in enumerate(_KINDS):
        if entry.index_details.type_url.endswith(kind) and isinstance(leaf, answered):
            return rank
    return None


@implements("PLAN-033")
async def rows(
    io: Io,
    state: TableState,
    entry: table_pb2.IndexMetadata,
    leaf: Leaf,
    most: int | None = None,
    *,
    pages: Pages | None = None,
) -> Addresses | None:
    """Rows for which ``leaf`` may hold, ascending; None if this part of the index does not tell.

    ``pages``: what `pages_of` gives, if the caller has it. Raises `TooMany` for more than ``most``, and `ArtifactError`
    for damaged files.
    """
    if pages is None and not can_be_asked(state, entry):
        return None
    try:
        if pages is None or not isinstance(leaf, Compare):
            found = await _found(io, state, entry, leaf, most)
        else:
            found = _among(pages, leaf, most)
    except pa.ArrowNotImplementedError:
        return None  # values of a type that has no such comparison here
    return found if found is None or not len(found) else np.unique(reuse.addresses(found, state.moves))


async def _found(
    io: Io, state: TableState, entry: table_pb2.IndexMetadata, leaf: Leaf, most: int | None
) -> Addresses | None:
    kind = next(name for name, _ in _KINDS if entry.index_details.type_url.endswith(name))
    if isinstance(leaf, HasLabels):
        return await row_sets.with_labels(io, entry, leaf, most)
    if isinstance(leaf, HasText):
        return await row_sets.with_text(io, entry, leaf, most)
    column = state.schema.field(leaf.column).type
    values = column.value_type if pa.types.is_dictionary(column) else column
    if asked(leaf, values) is None:
        return None
    if kind == "BitmapIndexDetails":
        return await row_sets.with_values(io, entry, lambda keys: asked(leaf, keys), most)
    if kind == "ZoneMapIndexDetails":
        return await zones.by_ends(io, state, entry, leaf, most)
    if kind == "BloomFilterIndexDetails":
        return await zones.by_filters(io, state, entry, leaf, values, most)
    return await _by_tree(io, entry, leaf, most)


@dataclass(frozen=True, slots=True)
class Pages:
    """All pages of a small btree, in its order: NULLs first, then the values as they ascend."""

    values: pa.ChunkedArray
    ids: Addresses
    numbers: npt.NDArray[np.integer[Any]] | None
    """The values where they are whole numbers, none of them NULL, and do ascend."""

    @classmethod
    def of(cls, table: pa.Table) -> Pages:
        values, numbers = table.column("values"), None
        if pa.types.is_integer(values.type) and not values.null_count:
            numbers = values.to_numpy()
            numbers = numbers if bool((numbers[1:] >= numbers[:-1]).all()) else None
        return cls(values, table.column("ids").to_numpy(), numbers)

    @classmethod
    def joined(cls, every: Sequence[Pages]) -> Pages:
        """The values of all of them, in order if they are whole numbers; the ids are the places of the rows."""
        count = sum(len(each.ids) for each in every)
        numbers = [each.numbers for each in every if each.numbers is not None]
        if len(numbers) < len(every):
            chunks = [chunk for each in every for chunk in each.values.chunks]
            return cls(pa.chunked_array(chunks, every[0].values.type), np.arange(count, dtype=np.uint64), None)
        unordered = np.concatenate(numbers)
        order = np.argsort(unordered, kind="stable")
        ordered = unordered[order]
        values = pa.chunked_array([pa.array(ordered, every[0].values.type)])
        return cls(values, order.astype(np.uint64), ordered)

    @property
    def size_bytes(self) -> int:
        return int(self.values.nbytes + self.ids.nbytes)

    def rows(self, wanted: Wanted) -> Addresses:
        """The rows that have one of the values."""
        if self.numbers is not None and isinstance(wanted.values, Between):
            return self.ids[self._inside(self.numbers, wanted.values)]
        points = wanted.points
        if self.numbers is None or points is None or len(points) > _FEW_POINTS:
            return self.ids[wanted.holds(self.values)]
        asked = np.array(points, self.numbers.dtype)
        first, end = self.numbers.searchsorted(asked, "left"), self.numbers.searchsorted(asked, "right")
        if not (first < end).any():
            return _NOTHING
        return np.concatenate([self.ids[one:other] for one, other in zip(first, end, strict=True)])

    @staticmethod
    def _inside(numbers: npt.NDArray[np.integer[Any]], wanted: Between) -> slice:
        first, end = 0, len(numbers)
        if wanted.lower is not None:
            side: Literal["left", "right"] = "left" if wanted.with_lower else "right"
            first = int(numbers.searchsorted(np.array(wanted.lower, numbers.dtype), side))
        if wanted.upper is not None:
            side = "right" if wanted.with_upper else "left"
            end = int(numbers.searchsorted(np.array(wanted.upper, numbers.dtype), side))
        return slice(first, end)


async def pages_of(io: Io, state: TableState, entry: table_pb2.IndexMetadata) -> Pages | None:
    """The pages of a btree that is read as one; None for any other index."""
    if not entry.index_details.type_url.endswith(_KINDS[0][0]) or not can_be_asked(state, entry):
        return None
    pages = await open_index_file(io, entry, DATA)
    return Pages.of(pages.table) if pages is not None and pages.table is not None else None


def _among(pages: Pages, leaf: Compare, most: int | None) -> Addresses | None:
    wanted = asked(leaf, pages.values.type)
    return None if wanted is None else few(pages.rows(wanted), most)


async def _by_tree(io: Io, entry: table_pb2.IndexMetadata, leaf: Compare, most: int | None) -> Addresses | None:
    """By the pages of a btree that may have a wanted value; of a small one all of them are at hand."""
    pages = await open_index_file(io, entry, DATA)
    if pages is not None and pages.table is not None:
        return _among(Pages.of(pages.table), leaf, most)
    tree = await open_btree(io, index_folder(entry.uuid.uuid))
    wanted = asked(leaf, tree.kind) if tree is not None and tree.file is not None else None
    if tree is None or wanted is None:
        return None
    if most is not None and tree.at_least(wanted.codes) > most:
        raise TooMany
    return few(await tree.addresses(wanted.codes), most)
