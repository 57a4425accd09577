"""Which region the rows of a fragment are of: asked in tables of several manual ones, and for one region's stored rows.

A merged row carries no region. So the data files of a merge are named after the region, which compactions of this
engine keep: those of manual regions, and large ones of a commit of several regions. Of others the transactions of the
newest versions tell. What neither tells has no known owner: rows that
came into the base otherwise, and those that another engine has rewritten.

Source: MemWAL revisions A and B, "Region"; AMB-56.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..ids import FragmentId, RegionId, region_id
from .origins import merge_origins
from .state import TableState

VERSIONS_BACK = 100
"""Table versions whose transactions are asked for the owner of a fragment; those of a merge, so that it is bounded."""
_UUID_CHARACTERS = 36


def prefix(owner: RegionId | None) -> str:
    """What the name of a data file with rows of ``owner`` begins with; nothing for no owner."""
    return f"{owner}-" if owner is not None else ""


def named_owner(fragment: table_pb2.DataFragment) -> RegionId | None:
    """The region that the names of the fragment's data files tell; None if they tell none."""
    for file in fragment.files:
        name, separator = file.path[:_UUID_CHARACTERS], file.path[_UUID_CHARACTERS : _UUID_CHARACTERS + 1]
        if separator == "-":
            try:
                return region_id(name)
            except ValueError:
                continue
    return None


@implements("REGION-003", "AMB-56")
async def owners(
    io: Io, state: TableState, fragments: Sequence[table_pb2.DataFragment], *, back_most: int | None = VERSIONS_BACK
) -> dict[FragmentId, RegionId]:
    """The regions whose merges made ``fragments``; one that nothing is known of has no entry.

    ``back_most``: versions whose transactions are asked; None: all that are retained.
    """
    named = {FragmentId(each.id): named_owner(each) for each in fragments}
    found = {number: owner for number, owner in named.items() if owner is not None}
    unnamed = named.keys() - found.keys()
    if unnamed:
        for number, origin in (await merge_origins(io, state, unnamed, back_most=back_most)).items():
            regions = {region for region, _ in origin}
            if len(regions) == 1:
                found[number] = regions.pop()
    return found
