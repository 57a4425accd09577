"""Tier 1, read only: the newest table version, and the state of every region, from the folder of a table."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

from objects import hint, index_details, manifest
from values import digits, number_of, table_manifest, table_version
from wire import Corrupt, Message, block

KEY = "lance-schema:unenforced-primary-key"
KNOWN_READER_FLAGS = 0x3F
REGION = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _newest_table(root: Path) -> tuple[int, list[Message], dict[str, Any] | None]:
    folder = root / "_versions"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    versions = [version for name in names if (version := table_version(name)) is not None]
    if not versions:
        raise Corrupt(f"{root} has no table manifest")
    data = (folder / table_manifest(max(versions))).read_bytes()
    if len(data) < 16 or data[-4:] != b"LANC":
        raise Corrupt("a table manifest without LANC at its end")
    message = block(data, struct.unpack_from("<Q", data, len(data) - 16)[0])
    if message.uint(9) & ~KNOWN_READER_FLAGS:
        raise Corrupt(f"reader flags {message.uint(9)} are not known")
    indices = block(data, message.uint(6)).messages(1) if message.has(6) else []
    described = [index.message(6) for index in indices]
    found = [
        index_details(one.blob(2) or b"") for one in described if one and one.text(1).endswith("MemWalIndexDetails")
    ]
    if len(found) > 1:
        raise Corrupt(f"a table with {len(found)} MemWAL indexes")
    return max(versions), message.messages(1), found[0] if found else None


def _is_key(field: Message) -> bool:
    return field.uint(12) == 1 or any(e.text(1) == KEY and e.text(2) == "true" for e in field.messages(10))


def _newest_manifest(root: Path, region: str) -> dict[str, Any] | None:
    """From the hint on, or version 1, while the next one is there. If that one is not, list."""
    folder = f"_mem_wal/{region}/manifest"

    def path(version: int) -> str:
        return f"{folder}/{digits(version)}.binpb"

    hint_file = root / folder / "version_hint.json"
    version = int(hint(hint_file.read_bytes(), "")["version"]) if hint_file.exists() else 1
    if not (root / path(version)).exists():
        names = [file.name for file in (root / folder).iterdir()] if (root / folder).is_dir() else []
        listed = [number for name in names if (number := number_of(name, "binpb")) is not None]
        if not listed:
            return None
        version = max(listed)
    while (root / path(version + 1)).exists():
        version += 1
    return manifest((root / path(version)).read_bytes(), path(version))


def inspect(table: str) -> dict[str, Any]:
    """The result of the message ``inspect``."""
    root = Path(table)
    version, fields, details = _newest_table(root)
    folder = root / "_mem_wal"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    merged = {one["region_id"]: one["generation"] for one in details["merged_generations"]} if details else {}
    return {
        "version": str(version),
        "primary_key": [field.text(2) for field in fields if _is_key(field)],
        "regions": [
            {"region_id": name, "manifest": _newest_manifest(root, name), "merged": merged.get(name, "0")}
            for name in names
            if REGION.fullmatch(name)
        ],
    }
