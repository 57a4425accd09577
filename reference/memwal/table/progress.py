"""Merge progress in the MemWAL index of the next version.

Source: MemWAL revisions A and B, "MemWAL Index Details" and "Index Catchup Progress"; AMB-71, 81, 84.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..clauses import implements
from ..codec import index_details
from ..codec.index_details import IndexCatchup, IndexDetails
from ..codec.pb.lance import table_pb2
from ..errors import AlreadyMerged, ArtifactError, EngineBug
from ..ids import Generation, RegionId
from ..revisions import Interpretation, R
from .draft import Draft
from .transactions import is_mem_wal

Made = Sequence[tuple[RegionId, Generation]]
"""Generations that a transaction merges."""


def advance(draft: Draft, made: Made) -> None:
    """Enter ``made`` into the MemWAL index of ``draft``; nothing else of the index changes."""
    if not made:
        return
    index = _mem_wal(draft)
    details = index_details.decode(index.index_details.value, R, draft.path)
    index.index_details.value = index_details.encode(with_progress(details, made, draft.interpretation), R)
    index.dataset_version = draft.message.version


def _mem_wal(draft: Draft) -> table_pb2.IndexMetadata:
    for index in draft.indices:
        if is_mem_wal(index):
            return index
    raise ArtifactError("INDEX-001", draft.path, "merge progress was to be stored, and the table has no MemWAL index")


@implements("MERGE-018", "AMB-71", "AMB-81")
def with_progress(details: IndexDetails, made: Made, interpretation: Interpretation) -> IndexDetails:
    """``details`` after merging the given generations.

    Raises `AlreadyMerged` when progress is there or beyond (literal: it stays, AMB-84), and `EngineBug` when a
    generation would be skipped. The first merge of a region also writes an explicit catch-up entry for every maintained
    index that lacks one.
    """
    merged, catchup = dict(details.merged), {c.index_name: c for c in details.catchup}
    for region, generation in made:
        before = details.progress(region)
        if before >= generation:
            if interpretation.progress_in_conflict:
                raise AlreadyMerged(region, generation, before)
            continue
        if interpretation.contiguous_merge and generation != before + 1:
            raise EngineBug(f"merging generation {generation} of {region} would skip those above {before}")
        merged[region] = generation
        for name in details.maintained_indexes:
            entry = catchup.get(name, IndexCatchup(index_name=name, generations=()))
            if region not in dict(entry.generations):
                entry = replace(entry, generations=(*entry.generations, (region, before)))
            catchup[name] = entry
    return replace(details, merged=tuple(merged.items()), catchup=tuple(catchup.values()))
