"""Execution nodes of plans, and how a plan is printed.

A node of a scan streams its rows; a node of a lookup is asked for keys and gives what it found of them. Each runs its
inputs only as far as it has to, and remembers what became of it, so that a printed plan shows what was read and what
was skipped.
Source: MemWAL revision A, "Query Execution" and appendix 3.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import cellwise
from ..clauses import implements
from ..errors import EngineBug
from ..keys import KeySet, Seen, among, last_of_each, newest, without
from ..region.rows import TOMBSTONE
from ..table.read import ROW_ADDRESS
from ..table.state import TableState
from .origin import field_of
from .parts import Addresses, Mask, Part
from .values import NOTHING, Predicate, Values, comparable

Keep = Callable[[pa.Table], pa.Table]
"""The rows of a table that a filter keeps."""

_MOST_VALUES = 1_000
"""Most keys of one lookup that a btree is asked for; more are looked for in every fragment."""


class PlanNode(Protocol):
    """A node of a plan."""

    @property
    def text(self) -> str:
        """The node in one line, without its inputs."""

    @property
    def inputs(self) -> Sequence[PlanNode]:
        """Its inputs, in the order in which they are listed."""

    outcome: str
    """What became of the node when the plan ran; empty if it has not run."""


def explain(node: PlanNode, depth: int = 0) -> str:
    """The plan below ``node``, one line per node; what became of each in brackets, once it ran."""
    said = f"  [{node.outcome}]" if node.outcome else ""
    lines = [f"{'  ' * depth}{node.text}{said}", *(explain(each, depth + 1) for each in node.inputs)]
    return "\n".join(lines)


class Lookup(PlanNode, Protocol):
    """A node that is asked for keys."""

    async def find(self, keys: pa.Table) -> pa.Table:
        """The rows found of ``keys`` (a table of the key columns), at most one per key, marks of deletes included."""


@dataclass(slots=True)
class TakeLast:
    """TakeLastExec: the last row of each key in one source."""

    part: Part
    key: tuple[str, ...]
    columns: tuple[str, ...]
    inputs: Sequence[PlanNode] = ()
    outcome: str = "not read"
    fragments_read: int = 0

    @property
    def text(self) -> str:
        return f"TakeLastExec: {self.part.name}, filter=[{', '.join(self.key)} = target]"

    @implements("PLAN-019", "PLAN-027", "PLAN-028", "AMB-46")
    async def find(self, keys: pa.Table) -> pa.Table:
        """Fragments from the last backwards, until each of ``keys`` is found; without those that a btree excludes.

        Where a btree names the rows, only those are read; else key columns, and then the others of the rows that were
        found.
        """
        names, key, wanted = list(dict.fromkeys([*self.key, *self.columns])), list(self.key), keys
        fragments = await self.part.fragments(_predicate(keys))
        found: list[pa.Table] = []
        places: list[Addresses] = []
        # PLAN-028, the last row: from the last fragment backwards, and no further than the first match.
        for fragment, told in reversed(fragments.items()):
            self.fragments_read += 1
            whole = told is not None or await self.part.is_small(fragment)
            looked_at = names if whole else key
            rows = await (self.part.rows(looked_at, [fragment]) if told is None else self.part.at(looked_at, told))
            here = last_of_each(among(rows, wanted), self.key)
            if whole:
                found.append(here)
            elif here.num_rows:
                places.append(here.column(ROW_ADDRESS).to_numpy())
            wanted = without(wanted, here.select(key))
            if not wanted.num_rows:
                break
        if places:
            found.append(await self.part.at(names, np.sort(np.concatenate(places))))
        rows = pa.concat_tables(found) if found else keys.slice(0, 0)
        if rows.num_rows > keys.num_rows:
            raise EngineBug(f"{self.part.name} gave {rows.num_rows} rows for {keys.num_rows} keys")
        self.outcome = f"{rows.num_rows} rows of {self.fragments_read} fragments"
        return rows


@dataclass(slots=True)
class BloomFilterGuard:
    """BloomFilterGuardExec: runs its input only for keys that the source's filter does not deny."""

    part: Part
    child: Lookup
    outcome: str = "not asked"

    @property
    def text(self) -> str:
        return f"BloomFilterGuardExec: bf[{self.part.name}]"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)

    @implements("PLAN-018", "PLAN-032")
    async def find(self, keys: pa.Table) -> pa.Table:
        perhaps = await self.part.may_contain(keys)
        # PLAN-032, a negative answer: the source is not read at all.
        if not perhaps.any():
            self.outcome, self.child.outcome = "negative", "skipped"
            return keys.slice(0, 0)
        self.outcome = "positive"
        return await self.child.find(keys.filter(pa.array(perhaps)))


@dataclass(slots=True)
class OfRegion:
    """One source of a region, and which of the plan's keys belong to that."""

    mask: Mask
    child: Lookup

    @property
    def text(self) -> str:
        return self.child.text

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return self.child.inputs

    @property
    def outcome(self) -> str:
        return self.child.outcome

    @outcome.setter
    def outcome(self, said: str) -> None:
        self.child.outcome = said

    async def find(self, keys: pa.Table) -> pa.Table:
        return await self.child.find(keys)


@dataclass(slots=True)
class CoalesceFirst:
    """CoalesceFirstExec: each key from the first input that has it; inputs run in order, while any key is left."""

    key: tuple[str, ...]
    children: Sequence[Lookup]
    outcome: str = ""
    text: str = "CoalesceFirstExec: return_first_non_null"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return self.children

    @implements("PLAN-017", "PLAN-020", "PLAN-029", "AMB-111")
    async def find(self, keys: pa.Table) -> pa.Table:
        """``keys``: those of the plan. A row that deletes its key is found too: older inputs are not asked for it."""
        found, left = [], np.ones(keys.num_rows, np.bool_)
        # PLAN-020, no older source: newest first, and each key only until it is found.
        for child in self.children:
            if not left.any():
                break
            own = np.flatnonzero(left & child.mask if isinstance(child, OfRegion) else left)
            wanted = cellwise.at(keys, own)
            here = await child.find(wanted) if len(own) else wanted
            if here.num_rows:
                found.append(here)
                left[own[KeySet(here.select(list(self.key))).mask(wanted)]] = False
        self.outcome = f"{np.count_nonzero(~left)} of {keys.num_rows} keys"
        return pa.concat_tables(found, promote_options="default") if found else keys.slice(0, 0)


def _predicate(keys: pa.Table) -> Predicate:
    """What is known of the key columns of the rows that are looked for; nothing if there are many."""
    if keys.num_rows > _MOST_VALUES:
        return {}
    found: dict[str, Values] = {}
    for name in keys.schema.names:
        if comparable(keys.schema.field(name).type):
            # Days and times beyond Python's, or in a time zone that it does not know, narrow nothing down.
            with suppress(ValueError, OverflowError, KeyError):
                found[name] = frozenset(keys.column(name).to_pylist())
    return found


class Streamed(PlanNode, Protocol):
    """A node that gives its rows as they come."""

    def stream(self) -> AsyncIterator[pa.Table]:
        """The rows, in parts."""


@dataclass(slots=True)
class Scan:
    """ScanExec: the rows of one source in batches, the newest first; of each batch in write order."""

    part: Part
    columns: tuple[str, ...]
    keep: Keep | None = None
    """A filter below deduplication (AMB-99, literal)."""
    more: str = ""
    """What else the plan says of it."""
    inputs: Sequence[PlanNode] = ()
    outcome: str = ""

    @property
    def text(self) -> str:
        below = ", filter=[pushed_down]" if self.keep is not None else ""
        return f"ScanExec: {self.part.name}{self.more}{below}"

    async def stream(self) -> AsyncIterator[pa.Table]:
        rows = fragments = 0
        for fragment in reversed(await self.part.fragments(NOTHING)):
            fragments = fragments + 1
            async for found in self.part.stream(self.columns, fragment):
                rows += found.num_rows
                self.outcome = f"{rows} rows of {fragments} fragments"
                yield self.keep(found) if self.keep is not None else found


@dataclass(slots=True)
class Union:
    """UnionExec: the rows of all sources. The base table is listed first, and read last."""

    base: Scan
    regions: Sequence[Sequence[Scan]]
    """Sources of each region above the base, newest first."""
    masks: Sequence[Scan] = ()
    """Sources of other regions, whose rows another split gives: their keys hide rows of the base."""
    text: str = "UnionExec"
    outcome: str = ""

    @property
    def inputs(self) -> Sequence[Scan]:
        return (self.base, *(scan for region in self.regions for scan in region), *self.masks)


@dataclass(slots=True)
class Hiding:
    """The keys of all regions of a cut, which hide rows of the base: a program that reads several splits keeps them."""

    cut: object = None
    """That of `keys`."""
    keys: Seen | None = None
    """None: no split has read them yet."""


@dataclass(slots=True)
class Deduplicate:
    """DeduplicateExec: of each key the row with the highest pair of generation and row address, unless it deletes.

    Each region comes from its newest source to its oldest; the base table, which all regions share, comes last. In
    memory are the keys that have come, not their rows.
    """

    base: TableState
    columns: tuple[str, ...]
    """Columns of the answer."""
    union: Union
    deletes: bool = False
    """Rows that delete their key come too."""
    unique_base: bool = False
    """Whether the base is relied on to have each key once (AMB-105), so that its keys are not kept in memory."""
    hiding: Hiding | None = None
    """Keeps the keys above the base for the next split, or has them from the one before: then nothing masks here."""
    outcome: str = ""

    @property
    def text(self) -> str:
        key = ", ".join(self.base.primary_key)
        return f"DeduplicateExec: partition_by=[{key}], order_by=[_gen DESC, _rowaddr DESC]"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.union,)

    @implements("PLAN-012", "PLAN-013", "PLAN-014")
    async def stream(self) -> AsyncIterator[pa.Table]:
        key, above, rows = self.base.primary_key, Seen(), 0
        # PLAN-014, the order: newest source first, so that the first row of a key that comes is its newest.
        for scans in (*self.union.regions, (self.union.base,)):
            # READ-014, regions are apart: each forgets its keys to the next one; the base is below all of them.
            seen = above if scans[0] is self.union.base else Seen()
            if seen is above:
                for mask in self.union.masks:
                    async for batch in mask.stream():
                        above.add(batch.select(list(key)))
                if self.hiding is not None:
                    above = seen = self.hiding.keys = self.hiding.keys or above
            for scan in scans:
                apart = seen is above and self.unique_base
                batches = not_seen(scan.stream(), above) if apart else newest_rows(scan.stream(), key, seen)
                async for batch in batches:
                    found = batch.select(self.columns) if self.deletes else live(batch, self.base, self.columns)
                    rows += found.num_rows
                    self.outcome = f"{rows} rows"
                    yield found
            if seen is not above:
                above.join(seen)


@implements("PLAN-025", "PLAN-026", "AMB-112")
async def newest_rows(batches: AsyncIterator[pa.Table], key: Sequence[str], seen: Seen) -> AsyncIterator[pa.Table]:
    """Of each batch, as soon as it comes, the last row of each key that has not been ``seen``; and then it has.

    Batches come from the newest to the oldest, each in write order. Without a key all rows stay.
    """
    async for batch in batches:
        if not key:
            yield batch
            continue  # without a key no row replaces another
        keys = batch.select(list(key))
        kept = ~seen.mask(keys)
        last = newest(keys, key)
        if len(last) < batch.num_rows:
            is_last = np.zeros(batch.num_rows, np.bool_)
            is_last[last] = True
            kept &= is_last
        seen.add(keys)
        yield batch if kept.all() else cellwise.where(batch, kept)


async def not_seen(batches: AsyncIterator[pa.Table], seen: Seen) -> AsyncIterator[pa.Table]:
    """Of each batch the rows whose key has not been ``seen``."""
    async for batch in batches:
        kept = ~seen.mask(batch)
        yield batch if kept.all() else cellwise.where(batch, kept)


@dataclass(slots=True)
class Filter:
    """FilterExec: the rows that match, of each batch."""

    child: Streamed
    keep: Keep
    columns: tuple[str, ...]
    """Columns of the answer; the filter may need others."""
    outcome: str = ""
    text: str = "FilterExec"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)

    async def stream(self) -> AsyncIterator[pa.Table]:
        rows = 0
        async for batch in self.child.stream():
            found = self.keep(batch)
            rows += found.num_rows
            self.outcome = f"{rows} rows"
            yield found.select(list(self.columns))


def live(found: pa.Table, base: TableState, names: Sequence[str]) -> pa.Table:
    """``found`` without the rows that delete their key, in the columns ``names`` of ``base``."""
    shape = pa.schema([field_of(base, name) for name in names])
    if not found.num_rows:
        return shape.empty_table()
    if TOMBSTONE in found.schema.names:
        found = cellwise.where(found, pc.invert(pc.fill_null(found.column(TOMBSTONE), False)))
    return cellwise.under(found.select(list(names)), shape)
