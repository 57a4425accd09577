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

if TYPE_CHECKING:
    from .api import GcReport, MergeReport, RegionInfo, Table, Writer, create, enable, open  # noqa: A004
    from .errors import (
        AlreadyExists,
        AlreadyMerged,
        ArtifactError,
        Conflict,
        EngineBug,
        Fenced,
        InvalidArgument,
        MemwalError,
        NotFound,
        Outcome,
        OutcomeUnknown,
        StorageError,
        Throttled,
        WriterStopped,
    )
    from .index.transforms import bucket, day, expression, hour, identity, month, region_spec, truncate, year

_HOME = {
    "api": ("GcReport", "MergeReport", "RegionInfo", "Table", "Writer", "create", "enable", "open"),
    "errors": (
        "AlreadyExists", "AlreadyMerged", "ArtifactError", "Conflict", "EngineBug", "Fenced", "InvalidArgument",
        "MemwalError", "NotFound", "Outcome", "OutcomeUnknown", "StorageError", "Throttled", "WriterStopped",
    ),
    "index.transforms": (
        "bucket", "day", "expression", "hour", "identity", "month", "region_spec", "truncate", "year",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "AlreadyExists",
    "AlreadyMerged",
    "ArtifactError",
    "Conflict",
    "EngineBug",
    "Fenced",
    "GcReport",
    "InvalidArgument",
    "MemwalError",
    "MergeReport",
    "NotFound",
    "Outcome",
    "OutcomeUnknown",
    "RegionInfo",
    "StorageError",
    "Table",
    "Throttled",
    "Writer",
    "WriterStopped",
    "bucket",
    "create",
    "day",
    "enable",
    "expression",
    "hour",
    "identity",
    "month",
    "open",
    "region_spec",
    "truncate",
    "year",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value
