"""What the region snapshots of table versions list: the generations that time travel reads.

Source: MemWAL revisions A and B, "Reader Consistency".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...effects import Io
from ...ids import RegionId, TableVersion
from ...index import snapshot
from ...table.state import TableState
from .generations import Folders


@dataclass(slots=True)
class Remembered:
    """The snapshots of some versions, each read when it is first asked for."""

    table: Io
    states: Sequence[TableState]
    _read: dict[TableVersion, Folders] = field(default_factory=dict)

    async def by_version(self) -> dict[TableVersion, Folders]:
        """What each version's snapshot lists. Raises `ArtifactError` for one that cannot be read."""
        for state in self.states:
            if state.version not in self._read and state.mem_wal_entry is not None:
                self._read[state.version] = await _folders(self.table, state)
        return self._read

    async def folders(self) -> Folders:
        """What any of them lists."""
        return frozenset[tuple[RegionId, str]]().union(*(await self.by_version()).values())


async def _folders(table: Io, state: TableState) -> Folders:
    rows = await snapshot.load(table, state)
    return frozenset(
        (row.region_id, listed.path) for row in rows if row.manifest is not None for listed in row.manifest.flushed
    )
