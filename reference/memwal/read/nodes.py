"""Execution nodes of plans, and how a plan is printed.

A node of a lookup is asked for keys and gives what it found of them; it runs its inputs only as far as it has to. Each
node remembers whether it ran, so that a printed plan shows what was read and what was skipped.
Source: MemWAL revision A, "Query Execution" and appendix 3; AMB-46, 111, 112.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..keys import KeySet, among, without
from .parts import Part, last_of_each
from .predicates import Predicate, comparable

_MOST_VALUES = 1_000
"""Most keys of one lookup that a btree is asked for; more are looked for in every fragment."""


class Node(Protocol):
    """A node of a plan."""

    @property
    def text(self) -> str:
        """The node in one line, without its inputs."""

    @property
    def inputs(self) -> Sequence[Node]:
        """Its inputs, in the order in which they are listed."""

    outcome: str
    """What became of the node when the plan ran; empty if it has not run."""


def explain(node: Node, depth: int = 0) -> str:
    """The plan below ``node``, one line per node; what became of each in brackets, once it ran."""
    said = f"  [{node.outcome}]" if node.outcome else ""
    lines = [f"{'  ' * depth}{node.text}{said}", *(explain(each, depth + 1) for each in node.inputs)]
    return "\n".join(lines)


@dataclass(slots=True)
class Listed:
    """A node that is only shown: what it stands for is done by the node above it."""

    text: str
    inputs: Sequence[Node] = ()
    outcome: str = ""


class Lookup(Node, Protocol):
    """A node that is asked for keys."""

    async def find(self, keys: pa.Table) -> pa.Table:
        """The rows found of ``keys`` (a table of the key columns), at most one per key, marks of deletes included."""


@dataclass(slots=True)
class TakeLast:
    """TakeLastExec: the last row of each key in one source."""

    part: Part
    key: tuple[str, ...]
    columns: tuple[str, ...]
    inputs: Sequence[Node] = ()
    outcome: str = "not read"
    fragments_read: int = 0

    @property
    def text(self) -> str:
        return f"TakeLastExec: {self.part.name}, filter=[{', '.join(self.key)} = target]"

    @implements("PLAN-019", "PLAN-027", "PLAN-028", "AMB-46")
    async def find(self, keys: pa.Table) -> pa.Table:
        """Fragments from the last backwards, until each of ``keys`` is found; without those that a btree excludes."""
        names, wanted = list(dict.fromkeys([*self.key, *self.columns])), keys
        found = []
        for fragment in reversed(await self.part.fragments(_predicate(keys))):
            self.fragments_read += 1
            here = last_of_each(among(await self.part.rows(names, [fragment]), wanted), self.key)
            found.append(here)
            wanted = without(wanted, here.select(list(self.key)))
            if not wanted.num_rows:
                break
        rows = pa.concat_tables(found) if found else keys.slice(0, 0)
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
    def inputs(self) -> Sequence[Node]:
        return (self.child,)

    @implements("PLAN-018", "PLAN-032")
    async def find(self, keys: pa.Table) -> pa.Table:
        perhaps = await self.part.may_contain(keys)
        if not perhaps.any():
            self.outcome, self.child.outcome = "negative", "skipped"
            return keys.slice(0, 0)
        self.outcome = "positive"
        return await self.child.find(keys.filter(pa.array(perhaps)))


@dataclass(slots=True)
class OfRegion:
    """The keys that belong to one region, asked of one of its sources."""

    keys: pa.Table
    child: Lookup

    @property
    def text(self) -> str:
        return self.child.text

    @property
    def inputs(self) -> Sequence[Node]:
        return self.child.inputs

    @property
    def outcome(self) -> str:
        return self.child.outcome

    @outcome.setter
    def outcome(self, said: str) -> None:
        self.child.outcome = said

    async def find(self, keys: pa.Table) -> pa.Table:
        own = among(keys, self.keys)
        return await self.child.find(own) if own.num_rows else own


@dataclass(slots=True)
class CoalesceFirst:
    """CoalesceFirstExec: each key from the first input that has it; inputs run in order, while any key is left."""

    key: tuple[str, ...]
    children: Sequence[Lookup]
    outcome: str = ""
    text: str = "CoalesceFirstExec: return_first_non_null"

    @property
    def inputs(self) -> Sequence[Node]:
        return self.children

    @implements("PLAN-017", "PLAN-020", "PLAN-029", "AMB-111")
    async def find(self, keys: pa.Table) -> pa.Table:
        """A row that deletes its key is found too: older inputs are not asked for it."""
        found, wanted = [], keys
        for child in self.children:
            if not wanted.num_rows:
                break
            here = await child.find(wanted)
            if here.num_rows:
                found.append(here)
                wanted = without(wanted, here.select(list(self.key)))
        self.outcome = f"{keys.num_rows - wanted.num_rows} of {keys.num_rows} keys"
        return pa.concat_tables(found, promote_options="default") if found else keys.slice(0, 0)


def _predicate(keys: pa.Table) -> Predicate:
    """What is known of the key columns of the rows that are looked for; nothing if there are many."""
    if keys.num_rows > _MOST_VALUES:
        return {}
    return {
        name: frozenset(keys.column(name).to_pylist())
        for name in keys.schema.names
        if comparable(keys.schema.field(name).type)
    }


@dataclass(slots=True)
class Deduplicate:
    """DeduplicateExec as a stream: of each key the row with the highest pair of generation and row address.

    Rows come from the newest generation to the oldest, and of one generation in batches from the last to the first,
    each in write order. In memory are the keys that have come, not their rows.
    """

    key: tuple[str, ...]
    seen: list[KeySet] = field(default_factory=list)

    @implements("PLAN-025", "PLAN-026", "AMB-112")
    async def stream(self, batches: AsyncIterator[pa.Table]) -> AsyncIterator[pa.Table]:
        """Of each batch the rows that no row before hides, as soon as it comes."""
        async for batch in batches:
            last = last_of_each(batch, self.key)
            keys = last.select(list(self.key))
            new: npt.NDArray[np.bool_] = np.ones(last.num_rows, np.bool_)
            for before in self.seen:
                new &= ~before.mask(keys)
            if last.num_rows:
                self.seen.append(KeySet(keys))
            yield last.filter(pa.array(new))
