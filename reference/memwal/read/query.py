"""What a read asks for, whether it scans, looks keys up or searches.

Source: MemWAL revisions A and B, "Reader Expectations".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..table.state import TableState
from . import origin
from .conditions import Condition
from .filters import RowFilter
from .sources import MemoryView
from .values import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The rows, columns and state of a read."""

    columns: Sequence[str] | None = None
    """Of the answer, in this order, those of `origin.ORIGIN` too; None: all of the base table."""
    keep: RowFilter | None = None
    """A filter over whole rows; above deduplication, unless the reading is the literal one (AMB-99)."""
    predicate: Predicate = field(default_factory=dict)
    """What is known of rows that ``keep`` keeps, by which regions and fragments of the base are left out."""
    understood: Condition | None = None
    """What is understood of ``keep``, by which indexes are asked; it holds for each row that ``keep`` keeps."""
    version: TableState | None = None
    """None reads strongly: manifests, newest base, and above them the ``memory`` of open writers or, for regions
    without one, the WAL after the replay pointer. A version reads eventually, from its own snapshot."""
    memory: Sequence[MemoryView] = ()
    deletes: bool = False
    """Rows that delete their key are in the answer too, as long as a generation or the WAL has them (R)."""

    rows_most: int | None = None
    """A scan ends when it has so many rows; None: it gives all."""
    bytes_exceeded: Callable[[int], int | None] | None = None
    """Of so many bytes of an answer the bound that they exceed, if they do: then a scan is an error."""
    watched: bool = False
    """Whether the nodes of the plan say when they are at work, so that a driver can measure them."""

    def names(self, base: TableState) -> list[str]:
        """Columns of the answer, of the table or of `origin.ORIGIN`; raises `InvalidArgument` for any other one."""
        names = list(base.schema.names if self.columns is None else self.columns)
        origin.check(base, names)
        return names
