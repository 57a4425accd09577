"""The public blocking interface: tables and writers over a real store.

Everything here runs protocol coroutines with `memwal.drive.drive`; there is no protocol in this room. As in
`memwal` itself, names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import loader

if TYPE_CHECKING:
    from .base import BaseTable, base_table, clone
    from .creating import create, enable, open  # noqa: A004 - the names that users of a storage library expect
    from .inspecting import inspect
    from .migrating import MigrationReport, migrate
    from .reports import CatchUpReport, GcReport, MergeReport, RegionInfo
    from .table import Table
    from .verifying import RepairReport, repair, verify
    from .writer import Writer

__getattr__ = loader(__name__, {
    "base": ("BaseTable", "base_table", "clone"),
    "creating": ("create", "enable", "open"),
    "inspecting": ("inspect",),
    "migrating": ("MigrationReport", "migrate"),
    "reports": ("CatchUpReport", "GcReport", "MergeReport", "RegionInfo"),
    "table": ("Table",),
    "verifying": ("RepairReport", "repair", "verify"),
    "writer": ("Writer",),
})  # fmt: skip

__all__ = [
    "BaseTable",
    "CatchUpReport",
    "GcReport",
    "MergeReport",
    "MigrationReport",
    "RegionInfo",
    "RepairReport",
    "Table",
    "Writer",
    "base_table",
    "clone",
    "create",
    "enable",
    "inspect",
    "migrate",
    "open",
    "repair",
    "verify",
]


def __dir__() -> list[str]:
    return list(__all__)
