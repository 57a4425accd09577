"""Which regions a query has to look at: by what its filter says, or by the keys that it asks for.

Pruning only ever leaves out regions that provably hold no row of the answer: manual regions, regions whose value is not
known and regions of a spec that is not known stay.
Source: MemWAL revisions A and B, "Region Pruning" and "Point Lookups".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..codec.index_details import RegionSpec
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import InvalidArgument
from ..ids import RegionId
from ..index import regions, snapshot, transforms
from ..index.region_values import RegionKey, values_key
from ..index.snapshot import RegionRow
from ..table.state import TableState
from .fragments import holding, restricted
from .sources import MemoryView, unmerged
from .values import Predicate
from .view import Found, View, every

Mask = npt.NDArray[np.bool_]
"""One truth value per key. Shape (rows,)."""


@implements("PLAN-004", "PLAN-008", "PLAN-009", "AMB-114")
async def kept(io: Io, view: View, among: Collection[RegionId], predicate: Predicate) -> frozenset[RegionId]:
    """Those of the regions ``among`` that may hold a row for which ``predicate`` holds."""
    if not among or not _says_of_regions(view.base, predicate):
        return frozenset(among)
    known = await registered(io, view.base, live=view.live)
    return _matching(view.base, known, among, predicate)


def that_may_match(io: Io, predicate: Predicate) -> Found | None:
    """What finds the manifests that a strong read with ``predicate`` needs; None: all.

    The values of a region never change, so that one that cannot match now has nothing of the answer later either.
    """
    if not predicate:
        return None

    async def found(base: TableState) -> tuple[Mapping[RegionId, RegionManifest], int]:
        if not _says_of_regions(base, predicate):
            return await every(io, base)
        among = await regions.folders(io)
        known = await registered(io, base, live=True)
        stay = _matching(base, known, among, predicate)
        return await regions.discover(io, base.revision, stay), len(among) - len(stay)

    return found


async def narrowed(
    io: Io, view: View, memory: Sequence[MemoryView], predicate: Predicate
) -> tuple[View, tuple[MemoryView, ...]]:
    """``view`` and ``memory`` without the regions and fragments that hold no row for which ``predicate`` holds.

    Fragments are left out by key columns only, so that no row hides an older one of its key that is read (AMB-99).
    """
    if not predicate:
        return view, tuple(memory)
    stay = await kept(io, view, {*view.manifests, *(held.region_id for held in memory)}, predicate)
    base = restricted(view.base, await holding(io, view.base, predicate, view.base.primary_key))
    manifests = {region: manifest for region, manifest in view.manifests.items() if region in stay}
    return replace(view, base=base, manifests=manifests), tuple(held for held in memory if held.region_id in stay)


def left_out(view: View, chosen: View) -> dict[str, int]:
    """What `narrowed` left out of ``view``, by the names that plans print."""

    def generations(of: View) -> int:
        return sum(len(unmerged(each, of.base.mem_wal.progress(region))) for region, each in of.manifests.items())

    return {
        "regions_pruned": view.passed_by + len(view.manifests) - len(chosen.manifests),
        "generations_pruned": generations(view) - generations(chosen),
        "fragments_pruned": len(view.base.fragments) - len(chosen.base.fragments),
    }


def _says_of_regions(base: TableState, predicate: Predicate) -> bool:
    """Whether a spec of the table makes region values of a column that ``predicate`` says something of."""
    names = _names(base)
    sources = (names.get(number) for spec in base.mem_wal.specs for field in spec.fields for number in field.source_ids)
    return any(name in predicate for name in sources)


def _matching(
    base: TableState, known: Mapping[RegionId, RegionRow], among: Collection[RegionId], predicate: Predicate
) -> frozenset[RegionId]:
    """Those of ``among`` that may match."""
    judges = {
        spec.spec_id: transforms.may_match(
            spec, predicate, schema=base.schema, fields=_names(base), revision=base.revision
        )
        for spec in base.mem_wal.specs
    }

    def stays(row: RegionRow | None) -> bool:
        # AMB-114, pruning: a region goes only where its values are known and cannot match. A manual one has none.
        judge = judges.get(row.spec_id) if row is not None else None
        return row is None or judge is None or judge(dict(row.values))

    return frozenset(region for region in among if stays(known.get(region)))


@implements("PLAN-016", "AMB-54", "AMB-56")
def targets(
    base: TableState, known: Mapping[RegionId, RegionRow], among: Collection[RegionId], keys: pa.Table
) -> Mapping[RegionId, Mask]:
    """For each of the regions ``among``, by id, which of ``keys`` it may hold; regions that hold none are left out.

    ``known``: of `registered`.
    """
    everything = np.ones(keys.num_rows, np.bool_)
    values: dict[int, Mapping[RegionKey, Sequence[int]] | None] = {}
    found: dict[RegionId, Mask] = {}
    for region in sorted(among):
        row = known.get(region)
        spec = regions.spec_of(base.mem_wal, row.spec_id) if row is not None else None
        mask = everything
        if row is not None and spec is not None and len(row.values) == len(spec.fields):
            if spec.spec_id not in values:
                values[spec.spec_id] = _values(base, spec, keys)
            of_keys = values[spec.spec_id]
            if of_keys is not None:
                own = of_keys.get(values_key(dict(row.values)))
                if own is None:
                    continue  # it has none of them
                mask = np.zeros(keys.num_rows, np.bool_)
                mask[own] = True
        found[region] = mask
    return found if keys.num_rows else {}


def _values(base: TableState, spec: RegionSpec, keys: pa.Table) -> Mapping[RegionKey, Sequence[int]] | None:
    """Rows of ``keys`` by their region value; None if the key does not tell it, or this reader does not compute it."""
    names = _names(base)
    sources = [names.get(number) for field in spec.fields for number in field.source_ids]
    if not set(sources) <= set(keys.schema.names) or not all(
        transforms.profile_recorded(field, base.revision) for field in spec.fields
    ):
        return None
    try:
        computed = transforms.evaluate(spec, keys, names, revision=base.revision)
    except InvalidArgument:
        return None
    found: dict[RegionKey, list[int]] = {}
    for at, row in enumerate(computed.to_pylist()):
        found.setdefault(values_key(row), []).append(at)
    return found


async def registered(io: Io, base: TableState, *, live: bool) -> Mapping[RegionId, RegionRow]:
    """What the snapshot in ``base`` says of regions; nothing where the table has no spec by which it would matter.

    ``live``: ``base`` is the newest version, so that regions are found by listing if the snapshot's file is gone.
    """
    if not base.mem_wal.specs:
        return {}
    rows = await (regions.known(io, base) if live else snapshot.load(io, base))
    return {row.region_id: row for row in rows}


def _names(base: TableState) -> transforms.Fields:
    return {number: name for name, number in base.field_ids.items()}
