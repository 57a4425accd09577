"""What one commit of a merger carries: the next generation of one region, or of several.

Source: MemWAL revisions A and B, "MemTable Merger"; AMB-150.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..ids import RegionId
from ..keys import newest
from ..read.generation import GenerationSource
from ..table.upsert import Source

OWN_FILE_ROWS = 1 << 13
"""Fewest rows of a generation that get data files of their own, named after its region, in a commit of several. Who
asks for one region's rows, as its next writer does, then reads no other's."""
OWN_FILES = 32
"""A generation gets them only if it has this share of the commit's rows, so that one commit makes no more of them."""
GROUP_BYTES = 64 << 20
"""Most bytes of keys, and of rows in memory, that the generations of one commit have together; one always goes."""


@dataclass(frozen=True, slots=True)
class NextMerge:
    """The generation that is merged next in one region."""

    region: RegionId
    manifest: RegionManifest
    """The region's newest, which lists it."""
    listed: FlushedGeneration


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A generation that is opened for a commit."""

    region: RegionId
    listed: FlushedGeneration
    source: GenerationSource


def held_bytes(source: GenerationSource) -> int:
    """Bytes that an opened generation keeps in memory."""
    return int(source.keys.nbytes + (source.held.nbytes if source.held is not None else 0))


@dataclass(frozen=True, slots=True)
class _Together:
    """The generations of a commit as one source: those of the first region, then of the second, and so on."""

    sources: tuple[GenerationSource, ...]
    keys: pa.Table
    rows: int

    @property
    def path(self) -> str:
        return f"{self.sources[0].path} and {len(self.sources) - 1} more"

    @property
    def absent(self) -> tuple[str, ...]:
        return self.sources[0].absent

    async def batches(self) -> AsyncIterator[pa.Table]:
        for source in self.sources:
            async for batch in source.batches():
                yield batch


def combined(members: Sequence[GroupMember]) -> Source:
    """What ``members`` bring into the base table."""
    sources = tuple(member.source for member in members)
    return sources[0] if len(sources) == 1 else _Together(sources, _keys(sources), sum(each.rows for each in sources))


def parts(members: Sequence[GroupMember]) -> Sequence[tuple[RegionId | None, Source]]:
    """``members`` in parts with data files of their own: each large generation with its region, and all small ones.

    None where all go into the same files.
    """
    fewest = max(OWN_FILE_ROWS, -(-sum(each.source.rows for each in members) // OWN_FILES))
    large = [(each.region, each.source) for each in members if each.source.rows >= fewest]
    if len(members) == 1 or not large:
        return ()
    small = [each for each in members if each.source.rows < fewest]
    return [*([(None, combined(small))] if small else []), *large]


def share_keys(members: Sequence[GroupMember]) -> bool:
    """Whether two of ``members`` have a row or a delete of one key."""
    key = members[0].source.base.primary_key if members else ()
    if len(members) < 2 or not key:
        return False
    each = [len(newest(member.source.keys, key)) for member in members]
    return sum(each) > len(newest(_keys([member.source for member in members]), key))


def _keys(sources: Sequence[GenerationSource]) -> pa.Table:
    return pa.concat_tables([source.keys for source in sources])
