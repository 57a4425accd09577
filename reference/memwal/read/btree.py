"""A btree of the native package, read by pages: where the rows are that have certain values in its column.

``page_lookup.lance`` holds the least and the largest value of each page; ``page_data.lance`` the values of all pages in
order, NULLs first, each with the address of its row. Only the pages that may hold what is wanted are read.
Values are those of `memwal.maintained.scalar`: as SQL compares them, floating numbers in total order with one zero.
Source: MemWAL revision A, "Query Execution" and appendix 3, "TakeLastExec"; the btrees that pylance 0.25 to 14.0 write.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..clauses import implements
from ..codec import data_file
from ..codec.canonical import flat, valid
from ..codec.file_layout import Range
from ..codec.pb.lance import table_pb2
from ..effects import Io, remembered
from ..errors import ArtifactError, NotFound
from ..ids import FragmentId
from ..maintained.scalar import Between, codes, comparable, has_order, in_total_order
from ..table import reuse
from ..table.coverage import fragment_ids, named_fragments
from ..table.held_pages import open_at
from ..table.legacy import structure
from ..table.mirror import index_folder
from ..table.read import FETCH_BYTES
from ..table.reuse import Addresses
from ..table.state import TableState
from ..table.stored_file import Rows, StoredFile, open_columns, open_ranges
from ..words import counted

LOOKUP = "page_lookup.lance"
DATA = "page_data.lance"
STABLE_ROW_IDS = 2
"""Feature flag of a table whose indexes name rows by ids that are not their addresses."""

NO_ROWS: Addresses = np.empty(0, np.uint64)
Mask = npt.NDArray[np.bool_]
Wanted = Collection[Any] | Between
"""Comparable values (`memwal.maintained.scalar.comparable_value`), of which None asks for NULL; or a range of them."""

_CLAUSE = "PLAN-033"
_PAGE_ROWS = 4096
"""Rows of a page of an index that does not say it."""
_BOUND_BYTES = 256
"""About what the bounds of a page take in memory."""
_BRIDGED_PAGES = 8
"""Wanted pages that are not further apart than this are decoded together, with those between them."""
_FEW_PAGES = 4
"""So many wanted pages of a large file are read by rows, and more by whole pages of that file."""
_LEAST, _LARGEST = in_total_order(np.array([-np.inf, np.inf])).tolist()  # not by way of an array: that loads pandas
"""The floating numbers that only NaNs are beyond, those with a sign below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Btree:
    """One part of a btree. It never changes, and neither do its files."""

    io: Io
    file: StoredFile | None
    """The pages; None if there are none."""
    kind: pa.DataType
    page_rows: int
    nulls: int
    """Pages with NULLs: they come first."""
    first: int
    """The first page that has a value."""
    lower: Sequence[Any]
    """Of each page from that on the least value; the first may be unknown."""
    upper: Sequence[Any]
    """Of each of these pages the largest value."""

    @implements("PLAN-028", "PLAN-033")
    async def addresses(self, wanted: Wanted) -> Addresses:
        """Addresses of all rows that have a value among ``wanted``. NaN is one value; a range may give any of them."""
        found = [NO_ROWS]
        async for values, ids in self._read(self._pages(wanted)):
            found.append(ids[self._matching(values, wanted)])
        return np.concatenate(found)

    def at_least(self, wanted: Wanted) -> int:
        """How many rows there are for ``wanted`` at least: values are in order, so that the ends of a page tell it."""
        if isinstance(wanted, Between):
            return max(0, len(self._between(wanted)) - 3) * self.page_rows  # neither first, last nor the file's last
        single = set(wanted)
        pages = sum(1 for low, high in zip(self.lower, self.upper, strict=True) if low == high and high in single)
        return max(0, pages - 1) * self.page_rows

    def _pages(self, wanted: Wanted) -> set[int]:
        ranges = [wanted] if isinstance(wanted, Between) else map(self._same, filter(_is_value, wanted))
        found: set[int] = set()
        for each in ranges:
            found.update(*(self._between(part) for part in self._parts(each)))
        if not isinstance(wanted, Between) and None in wanted:
            found.update(range(self.nulls))
        return found

    def _same(self, value: Any) -> Between:
        return Between(lower=_LARGEST, with_lower=False) if self._is_nan(value) else Between(lower=value, upper=value)

    def _is_nan(self, value: Any) -> bool:
        return pa.types.is_floating(self.kind) and not _LEAST <= value <= _LARGEST

    def _parts(self, wanted: Between) -> Iterator[Between]:
        """``wanted``, and where NaNs with a sign are that belong above all others."""
        yield wanted
        if pa.types.is_floating(self.kind) and (wanted.upper is None or wanted.upper > _LARGEST):
            yield Between(upper=_LEAST, with_upper=False)

    def _between(self, wanted: Between) -> range:
        if not self.lower:
            return range(0)
        start = 0 if wanted.lower is None else bisect_left(self.upper, wanted.lower)
        unknown = int(self.lower[0] is None)
        end = len(self.lower) if wanted.upper is None else bisect_right(self.lower, wanted.upper, lo=unknown)
        return range(self.first + start, self.first + end)

    def _matching(self, values: pa.Array, wanted: Wanted) -> Mask:
        held, present = codes(values), valid(values)
        if isinstance(wanted, Between):
            found = np.zeros(len(values), np.bool_)
            for part in self._parts(wanted):
                found |= _inside(held, part)
            return found & present
        single = [value for value in wanted if value is not None]
        if isinstance(held, pa.Array):
            found = pc.is_in(held, value_set=pa.array(single, held.type)).to_numpy(zero_copy_only=False)
        else:
            those = np.array(single, held.dtype)
            found = held == those[0] if len(those) == 1 else np.isin(held, those)
            if any(map(self._is_nan, single)):
                found |= (held > _LARGEST) | (held < _LEAST)
        return (found & present) | ~present if None in wanted else found & present

    async def _read(self, pages: Iterable[int]) -> AsyncIterator[tuple[pa.Array, Addresses]]:
        """Values and addresses of ``pages``, neighbours together."""
        size = self.page_rows
        runs = [range(run[0] * size, (run[-1] + 1) * size) for run in _runs(sorted(pages), _BRIDGED_PAGES)]
        for together in self._groups(runs):
            what = ("pages of a btree", self.io.root, tuple(together))
            for page in await remembered(self.io, what, partial(self._decoded, together), _pages_bytes):
                yield page

    async def _decoded(self, runs: Sequence[range]) -> list[tuple[pa.Array, Addresses]]:
        assert self.file is not None
        layout = self.file.layout
        if layout is not None and sum(map(len, runs)) <= _FEW_PAGES * self.page_rows:
            # Pages of the file are much larger than those of the btree: of few only the chunks are read.
            rows = np.concatenate([np.arange(run.start, min(run.stop, layout.rows)) for run in runs])
            with await open_at(self.io, self.file, rows.astype(np.uint64)) as decoder:
                self._check_rows(decoder)
                return [self._columns(decoder, decoder.take(rows))]
        with await open_ranges(self.io, self.file, self._ranges(runs)) as decoder:
            self._check_rows(decoder)
            ends = [(run.start, min(decoder.rows, run.stop)) for run in runs]
            return [self._columns(decoder, decoder.read(start, end - start)) for start, end in ends]

    @staticmethod
    def _columns(decoder: Rows, found: pa.Table) -> tuple[pa.Array, Addresses]:
        values, ids = found.select(list(decoder.columns or ())).columns
        return flat(values), ids.to_numpy()

    def _groups(self, runs: Sequence[range]) -> Iterator[Sequence[range]]:
        """``runs`` in parts for each of which about `FETCH_BYTES` of the file are fetched at most."""
        start, held = 0, frozenset[Range]()
        for at, run in enumerate(runs):
            wider = held | self._ranges([run])
            if at > start and sum(size for _, size in wider) > FETCH_BYTES:
                yield runs[start:at]
                start, wider = at, self._ranges([run])
            held = wider
        if runs:
            yield runs[start:]

    def _ranges(self, runs: Iterable[range]) -> frozenset[Range]:
        if self.file is None or self.file.layout is None:
            return frozenset()
        layout, indices = self.file.layout, self.file.indices
        return frozenset[Range]().union(*(layout.ranges(indices, run.start, len(run)) for run in runs))

    def _check_rows(self, decoder: Rows) -> None:
        pages = self.first + len(self.lower)
        if -(-decoder.rows // self.page_rows) != pages:
            reason = (
                f"holds {counted(decoder.rows, 'row')}, and the btree has {counted(pages, 'page')} of {self.page_rows}"
            )
            raise ArtifactError(_CLAUSE, self.io.path(DATA), reason)


def _pages_bytes(pages: Sequence[tuple[pa.Array, Addresses]]) -> int:
    return sum(values.nbytes + ids.nbytes for values, ids in pages)


def _is_value(value: Any) -> bool:
    return value is not None


def _inside(held: npt.NDArray[Any] | pa.Array, wanted: Between) -> Mask:
    found = np.ones(len(held), np.bool_)
    above = "greater_equal" if wanted.with_lower else "greater"
    below = "less_equal" if wanted.with_upper else "less"
    for end, sign in ((wanted.lower, above), (wanted.upper, below)):
        if end is None:
            continue  # without an end on this side there is nothing to compare with
        if isinstance(held, pa.Array):
            same = pa.scalar(end, held.type)
            found &= pc.fill_null(getattr(pc, sign)(held, same), False).to_numpy(zero_copy_only=False)
        else:
            found &= getattr(np, sign)(held, end)
    return found


def _runs(pages: Sequence[int], apart: int) -> Iterator[Sequence[int]]:
    """Parts of ``pages``, which ascend, whose neighbours are at most ``apart`` from each other."""
    start = 0
    for at in range(1, len(pages) + 1):
        if at == len(pages) or pages[at] - pages[at - 1] > apart:
            yield pages[start:at]
            start = at


@dataclass(frozen=True, slots=True, kw_only=True)
class BtreeHits:
    """What the parts of a btree say together."""

    addresses: Addresses
    """Rows with what was wanted, where they are now; some may be deleted."""
    covered: frozenset[FragmentId]
    """Fragments all of whose such rows are in `addresses`."""

    def by_fragment(self) -> dict[FragmentId, Addresses]:
        """`addresses` of each fragment that has some; they ascend."""
        homes, starts = np.unique(self.addresses >> np.uint64(32), return_index=True)
        return {FragmentId(int(f)): part for f, part in zip(homes, np.split(self.addresses, starts[1:]), strict=False)}


@implements("PLAN-033", "AMB-78", "TXN-054")
async def find(
    io: Io, state: TableState, entries: Sequence[table_pb2.IndexMetadata], wanted: Wanted
) -> BtreeHits | None:
    """The rows of ``state`` that its btree ``entries``, parts of one index, give for ``wanted``.

    None for one that cannot be asked: it is older than pylance 0.25, in several files, over values without an order,
    or names rows by ids. Raises `ArtifactError` for a damaged one.
    """
    parts = []
    for entry in entries:
        if not (is_btree(entry) and can_be_asked(state, entry)):
            return None
        opened = await open_btree(io, index_folder(entry.uuid.uuid))
        if opened is None:
            return None
        parts.append((opened, named_fragments(state, entry) & fragment_ids(state)))
    found = [NO_ROWS]
    for opened, fragments in parts:
        moved = reuse.addresses(await opened.addresses(wanted), state.moves)
        found.append(moved[reuse.within(moved, fragments)])
    return BtreeHits(
        addresses=np.unique(np.concatenate(found)),
        covered=frozenset[FragmentId]().union(*(fragments for opened, fragments in parts if opened.file is not None)),
    )


def is_btree(entry: table_pb2.IndexMetadata) -> bool:
    """Whether an index entry is a btree over one column."""
    return entry.index_details.type_url.endswith("BTreeIndexDetails") and len(entry.fields) == 1


def can_be_asked(state: TableState, entry: table_pb2.IndexMetadata) -> bool:
    """Whether an index names rows of this table by their addresses, and its files are below the table's folder."""
    return not state.manifest.message.reader_feature_flags & STABLE_ROW_IDS and not entry.HasField("base_id")


@implements("PLAN-033")
async def open_btree(io: Io, folder: str) -> Btree | None:
    """The btree in ``folder``; without pages if there are no files; None for one that cannot be asked (see `find`)."""
    within = io.child(folder)
    return await remembered(io, ("btree", within.root), partial(_opened_btree, within), _btree_bytes)


def _btree_bytes(tree: Btree | None) -> int:
    return 0 if tree is None else _BOUND_BYTES * len(tree.lower)


async def _opened_btree(within: Io) -> Btree | None:
    try:
        data = await within.get(LOOKUP)
    except NotFound:
        return Btree(io=within, file=None, kind=pa.null(), page_rows=1, nulls=0, first=0, lower=(), upper=())
    if structure.is_legacy(data):
        return None
    pages = data_file.decode(data, within.path(LOOKUP), clause=_CLAUSE)
    told = pages.schema.metadata or {}
    names = {"min", "max", "null_count", "page_idx"}
    if told.get(b"range_partitioned", b"false") != b"false" or not names <= set(pages.schema.names):
        return None
    kind = pages.schema.field("min").type
    if not has_order(kind):
        return None
    return _checked(within, await open_columns(within, DATA, ("values", "ids")), pages.sort_by("page_idx"), told)


def _checked(within: Io, file: StoredFile, pages: pa.Table, told: Mapping[bytes, bytes]) -> Btree:
    lower, upper = comparable(pages.column("min")), comparable(pages.column("max"))
    first = next((at for at, value in enumerate(upper) if value is not None), len(upper))
    nulls = int(np.count_nonzero(pages.column("null_count").to_numpy()))
    size = told.get(b"batch_size", b"%d" % _PAGE_ROWS)
    bounds = [*zip(lower, upper, strict=True)][first:]
    ends = [end for bound in bounds for end in bound][int(bool(bounds) and bounds[0][0] is None) :]
    in_order = None not in ends and all(one <= other for one, other in pairwise(ends))
    numbered = np.array_equal(pages.column("page_idx").to_numpy(), np.arange(pages.num_rows))
    if not (in_order and numbered and first <= nulls <= first + 1 and size.isdigit() and int(size)):
        raise ArtifactError(_CLAUSE, within.path(LOOKUP), "these are no pages in order, NULLs first")
    return Btree(
        io=within, file=file, kind=pages.schema.field("min").type, page_rows=int(size),
        nulls=nulls, first=first, lower=lower[first:], upper=upper[first:],
    )  # fmt: skip
