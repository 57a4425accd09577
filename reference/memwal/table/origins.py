"""Which fragments came from merges, and of which generations, told by the transactions of retained versions.

Merged rows carry no generation, but the Update transaction of a merge names the data files of its new fragments
beside its merge progress. Source: MemWAL revision A, "Indexed Read Plan"; AMB-113.
"""

from __future__ import annotations

from collections.abc import Collection

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import NotFound
from ..ids import FragmentId, Generation, RegionId, TableVersion, region_id_from_bytes
from .commit import transaction_of
from .coverage import Origin
from .state import TableState, load
from .transactions import Transaction

_Files = tuple[tuple[str, tuple[int, ...]], ...]


@implements("AMB-113")
async def merge_origins(
    io: Io, state: TableState, fragments: Collection[FragmentId], *, back_most: int | None = None
) -> dict[FragmentId, Origin]:
    """The merges that made ``fragments`` of ``state``; a fragment of unknown or other origin has no entry.

    Versions are read from ``state`` backwards until every fragment is explained or a version is gone, ``back_most`` of
    them at most. A fragment whose data files changed since its merge counts as of unknown origin: its values are no
    longer the generation's.
    """
    wanted = {_files(f): FragmentId(f.id) for f in state.fragments if f.id in set(fragments)}
    found: dict[FragmentId, Origin] = {}
    current = state
    while wanted:
        transaction = await transaction_of(io, current)
        if transaction is None:
            break
        update = transaction.update
        origin = frozenset(
            (region_id_from_bytes(merged.region_id.uuid), Generation(merged.generation))
            for merged in update.merged_generations
        )
        for fragment in _made(transaction):
            number = wanted.pop(_files(fragment), None)
            if number is not None and origin:
                found[number] = origin
        if back_most is not None and state.version - current.version + 1 >= back_most:
            break
        if current.version == 1 or transaction.WhichOneof("operation") in ("restore", "clone"):
            break
        try:
            current = await load(io, TableVersion(current.version - 1))
        except NotFound:
            break
    return found


def _made(transaction: Transaction) -> list[table_pb2.DataFragment]:
    """Fragments that a transaction added."""
    rewritten = [fragment for group in transaction.rewrite.groups for fragment in group.new_fragments]
    new = [transaction.append.fragments, transaction.overwrite.fragments, transaction.update.new_fragments]
    return [*rewritten, *(fragment for fragments in new for fragment in fragments)]


def _files(fragment: table_pb2.DataFragment) -> _Files:
    """What a fragment's values come from: name and fields of each data file."""
    return tuple((file.path, tuple(file.fields)) for file in fragment.files)


@implements("AMB-113")
async def merged_fragments(io: Io, state: TableState) -> dict[RegionId, dict[Generation, frozenset[FragmentId]]]:
    """Fragments of ``state`` that merges made, by region and generation, as far as retained versions tell."""
    found: dict[RegionId, dict[Generation, frozenset[FragmentId]]] = {}
    for fragment, origin in (await merge_origins(io, state, {FragmentId(f.id) for f in state.fragments})).items():
        for region, generation in origin:
            known = found.setdefault(region, {})
            known[generation] = known.get(generation, frozenset()) | {fragment}
    return found
