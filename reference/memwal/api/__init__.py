"""The public blocking interface: tables and writers over a real store.

Everything here runs protocol coroutines with `memwal.drive.drive`; there is no protocol in this room.
"""

from .creating import create, enable, open  # noqa: A004 - the names that users of a storage library expect
from .reports import CatchUpReport, GcReport, MergeReport, RegionInfo
from .table import Table
from .verifying import RepairReport, repair, verify
from .writer import Writer

__all__ = [
    "CatchUpReport",
    "GcReport",
    "MergeReport",
    "RegionInfo",
    "RepairReport",
    "Table",
    "Writer",
    "create",
    "enable",
    "open",
    "repair",
    "verify",
]
