"""The public blocking interface: tables and writers over a real store.

Everything here runs protocol coroutines with `memwal.drive.drive`; there is no protocol in this room. As in
`memwal` itself, names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import BaseTable, base_table, clone
    from .creating import create, enable, open  # noqa: A004 - the names that users of a storage library expect
    from .inspecting import inspect
    from .migrating import MigrationReport, migrate
    from .reports import CatchUpReport, GcReport, MergeReport, RegionInfo
    from .table import Table
    from .verifying import RepairReport, repair, verify
    from .writer import Writer

_HOME = {
    "base": ("BaseTable", "base_table", "clone"),
    "creating": ("create", "enable", "open"),
    "inspecting": ("inspect",),
    "migrating": ("MigrationReport", "migrate"),
    "reports": ("CatchUpReport", "GcReport", "MergeReport", "RegionInfo"),
    "table": ("Table",),
    "verifying": ("RepairReport", "repair", "verify"),
    "writer": ("Writer",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

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


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
