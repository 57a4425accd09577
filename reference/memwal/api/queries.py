"""What can be asked of a table: scans, lookups, searches, and their plans."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

import pyarrow as pa

from ..arguments import checked_methods
from ..drive import Meter
from ..effects import Io, Protocol
from ..errors import InvalidArgument, check_name
from ..ids import RegionId, TableVersion, WalPosition
from ..read import changes, cut, filters, lookup, merging, nodes, predicates
from ..read import query as asking
from ..read import scan as reading
from ..read import text as text_search
from ..read import vector as vector_search
from ..read import view as viewing
from ..read.defaults import NPROBES
from ..table import door, state
from ..table.state import TableState
from . import explaining
from .memory import exceeded
from .place import Place, parsed_region
from .writer import Writer

T = TypeVar("T")


@checked_methods
class Queries:
    """A table as far as it is read: at one version, or at the newest version at the time of the call."""

    def __init__(self, place: Place, current: TableState, *, pinned: bool = False) -> None:
        self._place = place
        self._state = current
        self._pinned = pinned

    def __repr__(self) -> str:
        where = self._place.io.location or self._place.io.root
        return f"<memwal.{type(self).__name__} {where!r} version {self.version}>"

    @property
    def _io(self) -> Io:
        return self._place.io

    def _run(self, coroutine: Protocol[T]) -> T:
        return self._place.run(coroutine)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema; key columns carry Lance's primary key metadata."""
        return self._state.schema

    @property
    def version(self) -> TableVersion:
        """Version of the base table that this object knows; `refresh` looks for a newer one."""
        return self._state.version

    @property
    def primary_key(self) -> tuple[str, ...]:
        return self._state.primary_key

    def refresh(self) -> Self:
        """Load the newest version; returns this object. A table opened at a version stays there."""
        if not self._pinned:
            self._state = self._run(state.latest(self._io))
        return self

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        *,
        limit: int | None = None,
        consistency: str = "strong",
        writers: Sequence[Writer] = (),
        memory_bytes: float | None = None,
    ) -> pa.Table:
        """The merged rows, one per key, in no particular order.

        ``filter``: a pyarrow compute expression, or SQL text as in a WHERE clause. ``limit``: that many rows at most,
        whichever, and fewer only if there are no more. ``memory_bytes``: what the answer may take; a larger one is an
        `InvalidArgument` before it is read, or as soon as it is known to be larger. None takes what this process can
        still get, ``math.inf`` sets no bound. ``strong`` sees every acknowledged
        durable write, and with ``writers`` what those hold in memory; ``eventual`` reads the table version's own
        region snapshot, and strongly if ``writers`` flushed a generation since that was built. A table opened at a
        version reads eventually.
        """
        if limit is not None and limit < 0:
            raise InvalidArgument(f"limit={limit} is negative")
        asked = replace(
            self._query(columns, filter, consistency, writers),
            rows_most=None if limit is None else min(limit, sys.maxsize),
            bytes_exceeded=partial(exceeded, memory_bytes),
        )
        return _only(self._run(reading.query(self._io, asked))[0], columns)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        *,
        consistency: str = "strong",
        writers: Sequence[Writer] = (),
    ) -> Iterator[pa.Table]:
        """The rows of `scan` in parts that come while others are still to be read: one batch in memory at a time.

        Raises `ReadRaced` if a generation that is still to be read was collected meanwhile.
        """
        asked = self._query(columns, filter, consistency, writers)
        return self._following(reading.stream(self._io, asked), columns)

    def _following(self, rows: AsyncIterator[pa.Table], columns: Sequence[str] | None) -> Iterator[pa.Table]:
        while (part := self._run(_next(rows))) is not None:
            yield _only(part, columns)

    def plan_read(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        *,
        splits: int | None = None,
        consistency: str = "strong",
    ) -> tuple[cut.Split, ...]:
        """The read that `scan` would do now, in parts for several programs: `batches_of` gives the rows of each.

        All of them read one state of the table, fixed here. ``splits``: that many at most; None makes one for each
        128 MiB of the base and for each eight generations. Each has fragments of the base and regions of its own; a
        ``filter`` leaves out what cannot match. Splits can be pickled, if the filter can.
        """
        if splits is not None and splits < 1:
            raise InvalidArgument(f"splits={splits}: a read has at least one")
        asked = replace(self._query(columns, filter, consistency, ()), columns=columns)
        return self._run(cut.planned(self._io, asked, filter, splits))

    def plan_read_again(self, named: Mapping[str, Any], columns: Sequence[str] | None = None) -> tuple[cut.Split, ...]:
        """The splits of a cut that an earlier `plan_read` made, ``named`` by its `memwal.read.cut.Cut.named`.

        Raises `memwal.read.cut.CutGone` if something of it was collected since.
        """
        asked = replace(self._query(columns, None, "strong", ()), columns=columns)
        return self._run(cut.planned_again(self._io, named, asked))

    def batches_of(self, split: cut.Split, hiding: merging.Hiding | None = None) -> Iterator[pa.Table]:
        """The rows of one part of `plan_read`, which this object may have made or another one of the same table.

        Rows come as from `batches`. Each key is relied on to be in the base once (AMB-105). ``hiding``: a
        `memwal.read.merging.Hiding` that is given with split after split, so that the keys above the base, which it
        keeps in memory, are read once and not for each. Raises
        `memwal.read.cut.CutGone` if something that the split needs was collected since the read was planned.
        """
        asked = cut.asked_of(split, self._query(split.columns, split.condition, "strong", ()), self._state)
        return self._following(cut.split_rows(self._io, split, asked, hiding or merging.Hiding()), split.columns)

    def log_ends(self) -> dict[RegionId, WalPosition]:
        """Of each region the position after the last entry of its WAL: what is acknowledged before is below."""
        return self._run(changes.log_ends(self._io))

    def log_starts(self) -> dict[RegionId, WalPosition]:
        """Of each region the position of the first entry that its WAL still has, or where the next one will be."""
        return self._run(changes.log_starts(self._io))

    def log_entries(self, region: str, start: int, end: int) -> Iterator[changes.ChangeEntry]:
        """The WAL entries of ``region`` that have rows, from ``start`` to before ``end``, which `log_ends` gave.

        Flushed or not, in order. Raises `memwal.read.changes.LogGone` if one of them was collected, and
        `InvalidArgument` for a region that has no WAL.
        """
        positions = WalPosition(start), WalPosition(end)
        entries = changes.log_entries(self._io, parsed_region(region), *positions)
        while (entry := self._run(_next(entries))) is not None:
            yield entry

    def get(
        self,
        keys: pa.Table,
        columns: Sequence[str] | None = None,
        *,
        writers: Sequence[Writer] = (),
    ) -> pa.Table:
        """The rows of ``keys`` (a table of exactly the key columns), those that exist, in no particular order."""
        consistency = "eventual" if self._pinned else "strong"
        return _only(self._lookup(keys, self._query(columns, None, consistency, writers))[0], columns)

    def search(
        self,
        vector: Any,
        column: str,
        k: int = 10,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        metric: str | None = None,
        index: str | None = None,
        exact: bool = False,
        nprobes: int = NPROBES,
        refine_factor: int | None = None,
        approximate: bool = False,
        consistency: str = "strong",
        writers: Sequence[Writer] = (),
    ) -> pa.Table:
        """The ``k`` newest rows nearest to ``vector`` in ``column``, nearest first, with their ``_distance``.

        Only among rows that ``filter`` keeps, which `scan` describes, as ``consistency`` and ``writers``. ``index``:
        the vector index of the base table that accelerates it; None takes one over the column, and without any, or with
        ``exact``, all vectors are compared, by ``metric`` (``l2``, ``cosine`` or ``dot``). ``nprobes``: how many
        partitions of the index are looked at, the nearest ones; more, until ``k`` rows are found. ``refine_factor``:
        rank that many times ``k`` rows anew by their vectors. ``approximate``: a row goes if the key filter of a newer
        generation only may have its key (AMB-107).
        """
        asked = vector_search.Nearest(
            column=column,
            vector=vector,
            k=k,
            metric=metric,
            index=index,
            exact=exact,
            nprobes=nprobes,
            refine_factor=refine_factor,
        )
        rows = self._query(columns, filter, consistency, writers)
        return self._run(vector_search.search(self._io, asked, rows, approximate=approximate))[0]

    def search_text(
        self,
        query: str,
        column: str,
        k: int = 10,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        index: str | None = None,
        every_term: bool = False,
        phrase: bool = False,
        approximate: bool = False,
        consistency: str = "strong",
        writers: Sequence[Writer] = (),
    ) -> pa.Table:
        """The ``k`` newest rows whose ``column`` matches ``query`` best, best first, with their ``_score`` (BM25).

        The base table needs a full-text index over the column. ``every_term``: rows need all terms of the query;
        ``phrase``: as far from each other as they are there, by an index that is built with positions.
        ``approximate``: as in `search`, and superseded rows count in the statistics as long as an index holds them,
        which spares a pass over the keys of the base table. The other options are those of `search`.
        """
        asked = text_search.Matching(column=column, query=query, k=k, index=index, every_term=every_term, phrase=phrase)
        rows = self._query(columns, filter, consistency, writers)
        return self._run(text_search.search(self._io, asked, rows, approximate=approximate))[0]

    def explain(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        keys: pa.Table | None = None,
        vector: Any = None,
        text: str | None = None,
        analyse: bool = False,
        form: str = "text",
        consistency: str = "strong",
        writers: Sequence[Writer] = (),
        **options: Any,
    ) -> str:
        """The plan of a query as text, a line per node.

        It is that of `get` for ``keys``, of `search` for ``vector``, of `search_text` for ``text``, else of `scan`.
        ``options``: those of the search, by its names (``column``, ``k``, ``nprobes``, ``phrase`` and so on).
        ``analyse``: run it, and say behind each node what became of it and what it spent: rows, time in milliseconds,
        requests to the store and bytes that these gave (docs/reading.md). ``form``: ``text``, or ``json`` for the same
        as a tree.
        """
        check_name("form of a plan", form, explaining.FORMS)
        asked = explaining.Asked(keys=keys, vector=vector, text=text, filtered=filter is not None, options=options)
        # One request after another: none that the plan can do without, and each is charged to the node that makes it.
        # Nothing is read past them, which could not be counted.
        place = replace(self._place, io=replace(self._io, concurrent=False, files=False))
        if not analyse:
            planning = Queries(place, self._state, pinned=self._pinned)
            plan = planning._plan(asked, planning._query(columns, filter, consistency, writers), run=False)
            return explaining.FORMS[form](plan, None)
        meter = Meter(place.store, place.listener)
        measured = replace(place, store=meter, listener=meter.hear)
        queries = Queries(measured, self._state, pinned=self._pinned)
        query = replace(queries._query(columns, filter, consistency, writers), watched=True)
        plan = queries._plan(asked, query, run=True)
        meter.charge()
        return explaining.FORMS[form](plan, meter)

    def _plan(self, asked: explaining.Asked, query: asking.Query, *, run: bool) -> nodes.PlanNode:
        approximate = asked.approximate
        match asked.search:
            case vector_search.Nearest() as nearest:
                coroutine = vector_search.search(self._io, nearest, query, approximate=approximate, run=run)
                return self._run(coroutine)[1]
            case text_search.Matching() as matching:
                return self._run(text_search.search(self._io, matching, query, approximate=approximate, run=run))[1]
        if asked.keys is not None:
            return self._lookup(asked.keys, query, run=run)[1]
        return self._run(reading.query(self._io, query, run=run))[1]

    def _query(
        self,
        columns: Sequence[str] | None,
        condition: Any,
        consistency: str,
        writers: Sequence[Writer],
    ) -> asking.Query:
        twice = [name for name, times in Counter(columns or ()).items() if times > 1]
        if twice:
            raise InvalidArgument(f"columns has {twice[0]!r} twice: a column is read once")
        keep = filters.parse(condition, self.schema) if condition is not None else None
        understood = predicates.understood(condition, self.schema)
        # A table of Arrow without columns forgets how many rows it has: one is read, and left out of the answer.
        least = [*self.primary_key, *self.schema.names][:1]
        version, memory = self._version_read(consistency, writers), [writer.memory() for writer in writers]
        # AMB-102, memory and a stale snapshot: only the newest manifests say what lies between the two.
        if version is not None and not self._run(viewing.joins(self._io, version, memory)):
            version = None
        return asking.Query(
            columns=columns if columns is None or len(columns) else least,
            keep=keep,
            predicate=predicates.of_columns(understood, self.schema),
            understood=understood,
            version=version,
            memory=memory,
        )

    def _lookup(self, keys: pa.Table, query: asking.Query, *, run: bool = True) -> tuple[pa.Table, nodes.PlanNode]:
        wanted = door.admitted(keys, pa.schema([self.schema.field(name) for name in self.primary_key]))
        return self._run(lookup.lookup(self._io, wanted, query, run=run))

    def _version_read(self, consistency: str, writers: Sequence[Writer]) -> TableState | None:
        """The version to read from, None for the newest state of everything."""
        if consistency not in ("strong", "eventual"):
            raise InvalidArgument(f"consistency must be 'strong' or 'eventual', not {consistency!r}")
        if self._pinned and writers:
            raise InvalidArgument(
                "a table opened at a version cannot read the memory of writers: leave out writers",
                clause="AMB-115",
            )
        if not self._pinned and consistency == "strong":
            return None
        self.refresh()
        return self._state


async def _next(parts: AsyncIterator[T]) -> T | None:
    """The next of ``parts``; None at the end."""
    async for part in parts:
        return part
    return None


def _only(rows: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    """``rows`` as they are, but without any column where none was asked for: then they are counted."""
    return rows if columns is None or len(columns) else rows.select([])
