"""What vectors that are whole tables have in common: names, expected answers, and the case that is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .case import Case
from .hashes import cell
from .objects import REGION
from .tables import Files, Row

FIRST = {"A": 1, "B": 0, "R": 1}
"""Position of the first WAL entry."""
NEW = "writer_epoch: 1 current_generation: 1"
FOLDERS = ("a1b2c3d4_gen_1", "00ff00ff_gen_2")
TABLE = "table"
"""Folder below input/ that holds the table."""


def rows_view(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows of the protocol, in the order given (which means nothing)."""
    columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "v", "type": "utf8", "nullable": True}]
    return {"columns": columns, "rows": [[cell("int64", key), cell("utf8", value)] for key, value in rows]}


def manifest_view(
    region: str, version: int, epoch: int, pointer: int, current: int, listed: Sequence[tuple[int, str]]
) -> Any:
    return {
        "region_id": region,
        "version": str(version),
        "region_spec_id": "0",
        "writer_epoch": str(epoch),
        "replay_after": str(pointer),
        "last_seen": str(pointer),
        "current_generation": str(current),
        "flushed_generations": [{"generation": str(g), "path": path} for g, path in listed],
    }


def inspected(regions: Mapping[str, tuple[Any, int]], version: int = 1) -> dict[str, Any]:
    return {
        "version": str(version),
        "primary_key": ["id"],
        "regions": [
            {"region_id": region, "manifest": manifest, "merged": str(merged)}
            for region, (manifest, merged) in sorted(regions.items())
        ],
    }


def recovered(epoch: int, position: int, current: int, rows: Sequence[Row]) -> dict[str, Any]:
    """``position`` is the least that the next one may be: a claim may put an entry of its own at the tip (AMB-24)."""
    return {
        "recover": {"region_id": REGION, "epoch": str(epoch), "rows": rows_view(rows)},
        "status": {"region_id": REGION, "position_at_least": str(position), "generation": str(current)},
    }


def case(
    revision: str,
    folder: str,
    name: str,
    title: str,
    files: Files,
    expected: Any,
    clauses: tuple[str, ...],
    **more: Any,
) -> Case:
    standard: dict[str, Any] = {
        "kind": folder if folder in ("state", "table") else "state",
        "directions": tuple(expected),
        "derived": "Table manifests, region manifests and WAL entries written by the script; rows counted by hand.",
        "stable": not any(file.endswith(".lance") for file in files) and not _holds_snapshot(files),
    }
    return Case(
        revision=revision,
        folder=folder,
        name=name,
        title=title,
        clauses=clauses,
        files={f"{TABLE}/{file}": data for file, data in files.items()},
        expected=expected,
        **standard | more,
    )


def _holds_snapshot(files: Files) -> bool:
    return any(file.endswith(".manifest") and b"LANC" in data[:-4] for file, data in files.items())
