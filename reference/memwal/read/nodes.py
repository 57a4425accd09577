"""Execution nodes of plans, and how a plan is printed.

A node of a scan streams its rows; a node of a lookup is asked for keys and gives what it found of them. Each runs its
inputs only as far as it has to, and remembers what became of it, so that a printed plan shows what was read and what
was skipped.
Source: MemWAL revision A, "Query Execution" and appendix 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from .. import cellwise, truths
from ..clauses import implements
from ..codec.asked_keys import AskedKeys
from ..errors import EngineBug
from ..keys import KeySet, Mask, among, last_of_each, without
from ..metrics import Metrics, metered
from ..region.rows import TOMBSTONE
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from ..table.state import TableState
from ..words import counted
from .origin import field_of
from .parts import Part
from .values import Predicate, Values, comparable

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

    @property
    def metrics(self) -> Metrics:
        """What it gave and spent, if the plan was analysed."""


Planned = TypeVar("Planned", bound=PlanNode)


def explain(node: PlanNode, depth: int = 0) -> str:
    """The plan below ``node``, one line per node; what became of each in brackets, once it ran.

    Nodes that were measured say that behind it. Those that only pass rows on do no work of their own.
    """
    said = f"  [{node.outcome}]" if node.outcome else ""
    spent = f"  {node.metrics}" if node.metrics.ran else ""
    lines = [f"{'  ' * depth}{node.text}{said}{spent}", *(explain(each, depth + 1) for each in node.inputs)]
    return "\n".join(lines)


def as_json(node: PlanNode) -> dict[str, Any]:
    """The same as a tree: text, outcome, metrics (None for a node that did no work of its own) and inputs."""
    return {
        "node": node.text,
        "outcome": node.outcome,
        "metrics": node.metrics.as_json() if node.metrics.ran else None,
        "inputs": [as_json(each) for each in node.inputs],
    }


def watched(node: Planned, counts: Mapping[str, int]) -> Planned:
    """A plan that has not run, each of whose nodes is measured when it does. ``counts``: what is known before."""
    for each in every(node):
        each.metrics.watched = True
    node.metrics.counts |= counts
    return node


def every(node: PlanNode) -> Iterator[PlanNode]:
    """``node`` and all below it."""
    yield node
    for below in node.inputs:
        yield from every(below)


class Lookup(PlanNode, Protocol):
    """A node that is asked for keys."""

    async def find(self, keys: pa.Table) -> pa.Table:
        """The rows found of ``keys`` (a table of the key columns), at most one per key, marks of deletes included."""

    async def prepare(self, keys: pa.Table) -> None:
        """Read ahead what `find` will, as far as that is kept in memory."""


@dataclass(slots=True)
class TakeLast:
    """TakeLastExec: the last row of each key in one source."""

    part: Part
    key: tuple[str, ...]
    columns: tuple[str, ...]
    inputs: Sequence[PlanNode] = ()
    outcome: str = "not read"
    fragments_read: int = 0
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def text(self) -> str:
        return f"TakeLastExec: {self.part.name}, filter=[{', '.join(self.key)} = target]"

    async def prepare(self, keys: pa.Table) -> None:
        fragments = await self.part.fragments(_predicate(keys))
        await self.part.prepare(self._names, [fragment for fragment, told in fragments.items() if told is None])

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys([*self.key, *self.columns]))

    @metered
    @implements("PLAN-019", "PLAN-027", "PLAN-028", "AMB-46")
    async def find(self, keys: pa.Table) -> pa.Table:
        """Fragments from the last backwards, until each of ``keys`` is found; without those that a btree excludes.

        Where a btree names the rows, only those are read; else key columns, and then the others of the rows that were
        found.
        """
        names, key, wanted = self._names, list(self.key), keys
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
            wanted = without(wanted, here.select(key)) if here.num_rows < wanted.num_rows else wanted.slice(0, 0)
            if not wanted.num_rows:
                break
        if places:
            found.append(await self.part.at(names, np.sort(np.concatenate(places))))
        rows = pa.concat_tables(found) if found else keys.slice(0, 0)
        if rows.num_rows > keys.num_rows:
            raise EngineBug(f"{self.part.name} gave {rows.num_rows} rows for {keys.num_rows} keys")
        self.outcome = f"{counted(rows.num_rows, 'row')} of {counted(self.fragments_read, 'fragment')}"
        self.metrics.counts["fragments_scanned"] = self.fragments_read
        return rows


@dataclass(slots=True)
class Hashing:
    """The keys that filters of a plan were asked for last, hashed once for all filters that are asked for the same."""

    _last: AskedKeys | None = None

    def of(self, keys: pa.Table) -> AskedKeys:
        if self._last is None or self._last.all is not keys:
            self._last = AskedKeys(keys)
        return self._last


@dataclass(slots=True)
class BloomFilterGuard:
    """BloomFilterGuardExec: runs its input only for keys that the source's filter does not deny."""

    part: Part
    child: Lookup
    hashing: Hashing = field(default_factory=Hashing)
    outcome: str = "not asked"
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def text(self) -> str:
        return f"BloomFilterGuardExec: bf[{self.part.name}]"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)

    async def prepare(self, keys: pa.Table) -> None:
        perhaps = await self.part.may_contain(self.hashing.of(keys))
        if perhaps.any():
            await self.child.prepare(keys.filter(pa.array(perhaps)))

    @metered
    @implements("PLAN-018", "PLAN-032")
    async def find(self, keys: pa.Table) -> pa.Table:
        perhaps = await self.part.may_contain(self.hashing.of(keys))
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

    @property
    def metrics(self) -> Metrics:
        return self.child.metrics

    async def find(self, keys: pa.Table) -> pa.Table:
        return await self.child.find(keys)

    async def prepare(self, keys: pa.Table) -> None:
        await self.child.prepare(cellwise.where(keys, self.mask))


@dataclass(slots=True)
class CoalesceFirst:
    """CoalesceFirstExec: each key from the first input that has it; inputs run in order, while any key is left."""

    key: tuple[str, ...]
    children: Sequence[Lookup]
    outcome: str = ""
    text: str = "CoalesceFirstExec: return_first_non_null"
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return self.children

    @metered
    @implements("PLAN-017", "PLAN-020", "PLAN-029", "AMB-111")
    async def find(self, keys: pa.Table) -> pa.Table:
        """``keys``: those of the plan. A row that deletes its key is found too: older inputs are not asked for it."""
        found, left = [], np.ones(keys.num_rows, np.bool_)
        wanted, before = keys, np.arange(keys.num_rows)
        # PLAN-020, no older source: newest first, and each key only until it is found.
        for child in self.children:
            if not left.any():
                break
            own = (left & child.mask if isinstance(child, OfRegion) else left).nonzero()[0]
            if len(own) != len(before) or (own != before).any():
                wanted, before = cellwise.at(keys, own), own
            here = await child.find(wanted) if len(own) else wanted
            if here.num_rows:
                found.append(here)
                every = here.num_rows == len(own)  # an input gives one row for each key at most
                left[own if every else own[KeySet(here.select(list(self.key))).mask(wanted)]] = False
        self.outcome = f"{np.count_nonzero(~left)} of {counted(keys.num_rows, 'key')}"
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


def live(found: pa.Table, base: TableState, names: Sequence[str], fresh: Mask | None = None) -> pa.Table:
    """``found``, of which only the ``fresh`` ones count, without rows that delete their key, in columns ``names``."""
    shape = pa.schema([field_of(base, name) for name in names])
    if not found.num_rows:
        return shape.empty_table()
    kept = stays(found) if fresh is None else stays(found) & fresh
    given = cellwise.under(found.select(list(names)), shape)
    return given if kept.all() else cellwise.where(given, kept)


def stays(rows: pa.Table) -> Mask:
    """The rows that do not delete their key."""
    if TOMBSTONE not in rows.schema.names:
        return np.ones(rows.num_rows, np.bool_)
    return ~truths.of_arrow(rows.column(TOMBSTONE))
