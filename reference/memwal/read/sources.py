"""Where rows come from: the base table, flushed generations, and MemTables in memory.

Source: MemWAL revisions A and B, "MemTable Collection", "LSM Tree Merging Read".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from ..clauses import implements
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..effects import Io
from ..ids import Epoch, Generation, RegionId
from ..table import read, state

if TYPE_CHECKING:
    from ..maintained.key_filter import KeyFilter
    from ..maintained.scalar import ScalarIndex
    from ..maintained.text_index import TextIndex
    from ..maintained.vector_code import Encoded, VectorCode

BASE_GENERATION = -1
"""Generation of the base table in reads; a reader-side number that is never stored (AMB-104)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldIndexes:
    """What the indexes of one MemTable said when its rows were taken."""

    key_filter: KeyFilter | None = None
    """Has the keys of all its rows, perhaps of later ones too."""
    vectors: Mapping[str, tuple[VectorCode, tuple[Encoded, ...]]] = field(default_factory=dict)
    """Code and encoded vectors by index name, in parts, of the first ``rows_indexed`` rows."""
    scalars: Mapping[str, tuple[str, ScalarIndex]] = field(default_factory=dict)
    """Column and scalar index by index name, of the first ``rows_indexed`` rows and perhaps of later ones."""
    texts: Mapping[str, TextIndex] = field(default_factory=dict)
    """Full-text indexes by name; their first ``rows_indexed`` rows do not change any more."""
    rows_indexed: int = 0


@dataclass(frozen=True, slots=True)
class MemoryView:
    """What one open writer holds in memory: rows of its unflushed MemTables, by generation ascending."""

    region_id: RegionId
    epoch: Epoch
    tables: tuple[tuple[Generation, pa.Table], ...]
    indexes: Mapping[Generation, HeldIndexes] = field(default_factory=dict)
    """By generation, where the writer keeps indexes."""


@implements("MERGE-004", "GEN-006", "AMB-118")
def unmerged(manifest: RegionManifest, progress: Generation) -> tuple[FlushedGeneration, ...]:
    """Listed generations above merge progress, ascending."""
    return tuple(sorted((g for g in manifest.flushed if g.generation > progress), key=lambda g: g.generation))


@implements("MERGE-005", "GEN-012")
async def open_generation(region: Io, folder: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of a generation, in write order. Raises `NotFound` if the folder holds no table."""
    io = region.child(folder)
    return await read.scan(io, await state.latest(io), columns)
