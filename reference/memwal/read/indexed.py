"""Rows of each source that an index of the base table answers for, directly or through a generation's own index.

What the base index does not cover is answered by the indexes of the generations that it came from, as far as the gap
plan uses them, and looked at row by row otherwise.
Source: MemWAL revisions A and B, "Indexed Read Plan".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import words
from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..ids import FragmentId
from ..keys import Mask, last_of_each
from ..maintained.base_index import MaintainedIndex, matches
from ..region import manifest as manifests
from ..table import reuse
from ..table.coverage import fragment_ids, named_fragments, segments, uncovered
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from ..table.state import TableState
from .btree import STABLE_ROW_IDS
from .collection import Parts
from .gap import IndexedPlan
from .parts import Part, TablePart

_COVERAGE_BYTES = 1 << 10
"""About what it takes to know how a generation is searched."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Index entries that answer for a part of a source, and how their rows are found in that source."""

    io: Io
    state: TableState
    """The table with the index."""
    entries: tuple[table_pb2.IndexMetadata, ...]
    fragments: frozenset[FragmentId]
    """Fragments of that table that count."""
    merged: tuple[TablePart, frozenset[FragmentId]] | None = None
    """The generation itself, and the fragments of the base that its merge made; None: the table is the source."""

    def by(self, entry: table_pb2.IndexMetadata) -> frozenset[FragmentId]:
        """Fragments for whose rows one of the entries answers."""
        return named_fragments(self.state, entry) & self.fragments


@dataclass(frozen=True, slots=True)
class Coverage:
    """How one source is searched."""

    answered: tuple[Answered, ...]
    scanned: tuple[FragmentId, ...] | None
    """Fragments whose rows are looked at one by one; None: all rows."""

    @property
    def text(self) -> str:
        """How plans say it."""
        via = [f"gen={each.merged[0].generation} index" if each.merged else "index" for each in self.answered]
        if self.scanned is None or self.scanned:
            via.append("scan" if self.scanned is None else f"scan of {words.counted(len(self.scanned), 'fragment')}")
        return "+".join(via) or "nothing"


@implements("PLAN-010", "PLAN-011", "AMB-113")
async def of_base(io: Io, parts: Parts, index: MaintainedIndex | None, plan: IndexedPlan | None) -> Coverage:
    """How the base table is searched: by its index, by generations in the gap, and the rest row by row."""
    state = parts.base.base
    if index is None or plan is None or state.manifest.message.reader_feature_flags & STABLE_ROW_IDS:
        return Coverage((), None)
    found = [Answered(io, state, segments(state, index.name), plan.indexed)] if plan.indexed else []
    for region in plan.regions:
        for used in region.gap:
            folder = manifests.folder(io, region.region_id).child(used.path)
            generation = TablePart(io=folder, generation=used.generation, region_id=region.region_id, base=state)
            own = await generation.opened()
            entries = segments(own, index.name)
            found.append(Answered(folder, own, entries, fragment_ids(own), (generation, used.fragments)))
    return Coverage(tuple(found), tuple(sorted(plan.scanned)))


@implements("PLAN-011", "AMB-51")
async def of_part(part: Part, index: MaintainedIndex | None) -> Coverage:
    """How a source above the base is searched: by its own index where that fits the base's, else row by row."""
    if index is None or not isinstance(part, TablePart):
        return Coverage((), None)

    async def made() -> Coverage:
        state = await part.opened()
        if not matches(index, state) or uncovered(state, index.name):
            return Coverage((), None)
        return Coverage((Answered(part.io, state, segments(state, index.name), fragment_ids(state)),), ())

    return await part.once(("coverage by an index", part.base.path, index.name), made, lambda _: _COVERAGE_BYTES)


def inside(fragments: frozenset[FragmentId], addresses: Addresses) -> Mask:
    """Which rows are in one of ``fragments``."""
    return reuse.within(addresses, fragments)


@implements("AMB-88", "AMB-113")
async def in_base(
    base: TablePart, generation: TablePart, fragments: frozenset[FragmentId], key: Sequence[str]
) -> tuple[Addresses, Addresses]:
    """Rows of a merged generation that are rows of the base in ``fragments``: addresses there, ascending, and here.

    Only the last row of a key in the generation was merged, and one that the base does not have any more counts as
    little as one that it has elsewhere.
    """
    names = list(key)
    merged = await base.rows(names, sorted(fragments))
    own = last_of_each(await generation.rows(names), names)
    joined = own.rename_columns([*names, "there", *own.schema.names[len(names) + 1 :]]).join(
        merged.select([*names, ROW_ADDRESS]), keys=names, join_type="inner"
    )
    there, here = joined.column("there").to_numpy(), joined.column(ROW_ADDRESS).to_numpy()
    order = np.argsort(there)
    return there[order], here[order]


def moved(addresses: Addresses, there: Addresses, here: Addresses) -> tuple[Addresses, Mask]:
    """Where the rows at ``addresses`` are now, and which are anywhere: those in ``there``, ascending, are ``here``.

    Those that are nowhere get an address that no row has: two documents never have one address, which would hide one.
    """
    if not len(there):
        return np.full(len(addresses), reuse.GONE), np.zeros(len(addresses), np.bool_)
    at = np.minimum(np.searchsorted(there, addresses), len(there) - 1)
    present = there[at] == addresses
    return np.where(present, here[at], reuse.GONE), present
