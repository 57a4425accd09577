"""Lance MemWAL, executable: a reference engine for the specification.

    import memwal
    table = memwal.create("flights", schema, primary_key=["id"], spec=memwal.region_spec([...]))
    with table.writer(values={"bucket": 3}) as writer:
        writer.put(rows)
    table.merge()
    table.scan()

See `memwal.api` for the whole interface and `memwal.errors` for what it raises. Names are loaded on first use, so that
importing a part of the package costs that part only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .lazy import loader

if TYPE_CHECKING:
    from .api import (
        BaseTable,
        CatchUpReport,
        GcReport,
        MergeReport,
        MigrationReport,
        RegionInfo,
        RepairReport,
        Table,
        Writer,
        base_table,
        clone,
        create,
        enable,
        inspect,
        migrate,
        open,  # noqa: A004
        repair,
        verify,
    )
    from .errors import (
        AlreadyExists,
        AlreadyMerged,
        ArtifactError,
        CloseFailed,
        Conflict,
        EngineBug,
        Fenced,
        InvalidArgument,
        MemwalError,
        NoRoom,
        NotFound,
        Outcome,
        OutcomeUnknown,
        StorageError,
        Throttled,
        Unmergeable,
        Unreachable,
        WriterStopped,
    )
    from .index.transforms import bucket, day, expression, hour, identity, month, region_spec, truncate, year
    from .region.limits import Limits

_load = loader(__name__, {
    "api": (
        "BaseTable", "CatchUpReport", "GcReport", "MergeReport", "MigrationReport", "RegionInfo", "RepairReport",
        "Table", "Writer", "base_table", "clone", "create", "enable", "inspect", "migrate", "open", "repair", "verify",
    ),
    "errors": (
        "AlreadyExists", "AlreadyMerged", "ArtifactError", "CloseFailed", "Conflict", "EngineBug", "Fenced",
        "InvalidArgument", "MemwalError", "NoRoom", "NotFound", "Outcome", "OutcomeUnknown", "StorageError",
        "Throttled",
        "Unmergeable", "Unreachable", "WriterStopped",
    ),
    "region.limits": ("Limits",),
    "index.transforms": (
        "bucket", "day", "expression", "hour", "identity", "month", "region_spec", "truncate", "year",
    ),
})  # fmt: skip

__all__ = [
    "AlreadyExists",
    "AlreadyMerged",
    "ArtifactError",
    "BaseTable",
    "CatchUpReport",
    "CloseFailed",
    "Conflict",
    "EngineBug",
    "Fenced",
    "GcReport",
    "InvalidArgument",
    "Limits",
    "MemwalError",
    "MergeReport",
    "MigrationReport",
    "NoRoom",
    "NotFound",
    "Outcome",
    "OutcomeUnknown",
    "RegionInfo",
    "RepairReport",
    "StorageError",
    "Table",
    "Throttled",
    "Unmergeable",
    "Unreachable",
    "Writer",
    "WriterStopped",
    "base_table",
    "bucket",
    "clone",
    "create",
    "day",
    "enable",
    "expression",
    "hour",
    "identity",
    "inspect",
    "migrate",
    "month",
    "open",
    "region_spec",
    "repair",
    "truncate",
    "verify",
    "year",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version(__name__)
    return _load(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
