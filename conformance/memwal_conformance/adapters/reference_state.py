"""What the adapter of the reference keeps between messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import memwal
import pyarrow as pa
from memwal import paths
from memwal.effects import ListFolders
from memwal.errors import InvalidArgument
from memwal.revisions import REVISIONS, Revision
from memwal.stores import open_store

from memwal_conformance import cells
from memwal_conformance.adapters.watched import ProcessWatch
from memwal_conformance.protocol import Json


@dataclass(slots=True)
class Reader:
    """An open reader."""

    table: memwal.Table
    consistency: str


@dataclass(slots=True)
class ReferenceState:
    """What the adapter keeps between messages."""

    revision: Revision = REVISIONS["B"]
    profile: str = "strict"
    wal_collection: bool = False
    manifest_collection: bool = False
    inline_regions: int | None = None
    """None: as the table says."""
    storage: dict[str, str] | None = None
    """Storage options for URLs; None: paths only."""
    writers: dict[str, memwal.Writer] = field(default_factory=dict)
    readers: dict[str, Reader] = field(default_factory=dict)
    rows: Callable[[pa.Table], cells.Rows] = cells.to_rows
    """The form of rows in answers."""
    handles: int = 0
    watch: ProcessWatch = field(default_factory=ProcessWatch)
    tell: Callable[[Json], None] = lambda event: None
    """Sends an event."""

    def handle(self, kind: str) -> str:
        self.handles += 1
        return f"{kind}-{self.handles}"

    def table(self, params: Json) -> memwal.Table:
        return memwal.open(params["table"], storage_options=self.storage, profile=self.profile)

    def has_region(self, table: memwal.Table, params: Json) -> bool:
        """Whether there is the region that is asked for: it has a folder, or is registered and was never claimed."""
        store, root = open_store(params["table"], self.storage)
        folder = f"{root}/{paths.MEM_WAL}" if root else paths.MEM_WAL
        there = params["region_id"] in store.perform(ListFolders(folder))
        store.close()
        return there or any(region.region_id == params["region_id"] for region in table.regions())

    def writer(self, params: Json) -> memwal.Writer:
        return self.opened_writer(params["writer"])

    def beside(self, params: Json) -> list[memwal.Writer]:
        return [self.opened_writer(handle) for handle in params.get("writers", ())]

    def opened_writer(self, handle: str) -> memwal.Writer:
        if handle not in self.writers:
            raise InvalidArgument(f"no writer is open under the handle {handle!r}")
        return self.writers[handle]

    def reader(self, params: Json) -> Reader:
        if params["reader"] not in self.readers:
            raise InvalidArgument(f"no reader is open under the handle {params['reader']!r}")
        return self.readers[params["reader"]]
