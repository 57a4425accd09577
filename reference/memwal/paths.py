"""Every path rule, relative to the root of a table.

Sources: MemWAL revisions A and B, "Storage Layout", "WAL Storage Layout", "Region Manifest Versioning"; table
documents, "Manifest Naming Schemes".
"""

from __future__ import annotations

import re
from functools import lru_cache

from .clauses import implements
from .ids import UINT64_MAX, Generation, ManifestVersion, RegionId, TableVersion, WalPosition

MEM_WAL = "_mem_wal"
VERSIONS = "_versions"
TRANSACTIONS = "_transactions"
DATA = "data"
DELETIONS = "_deletions"
INDICES = "_indices"
BLOOM_FILTER = "bloom_filter.bin"
LATEST = "_latest.manifest"

_NAMES = 1 << 12
"""So many full names of objects are not put together anew where they are asked for again."""
_BITS = re.compile(r"[01]{64}")
_GENERATION = re.compile(r"([0-9a-fA-F]{8})_gen_(0|[1-9][0-9]{0,19})")
_V2 = re.compile(r"([0-9]{20})\.manifest")


@lru_cache(maxsize=_NAMES)
def full(root: str, name: str) -> str:
    """Name inside its store of ``name`` below the folder ``root``; raises ValueError for one that leaves the store."""
    parts: list[str] = [p for p in root.split("/") if p]
    for part in name.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if not parts:
                raise ValueError(f"{name!r} leaves the store from {root!r}")
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


@implements("WAL-013", "MANIFEST-024")
def bit_reversed(number: int) -> str:
    """64 characters 0/1: the binary form of ``number``, least significant bit first."""
    if not 0 <= number <= UINT64_MAX:
        raise ValueError(f"not an unsigned 64-bit number: {number}")
    return format(number, "064b")[::-1]


def from_bit_reversed(name: str) -> int | None:
    """Inverse of `bit_reversed`; None for any other text."""
    return int(name[::-1], 2) if _BITS.fullmatch(name) else None


def region(region_id: RegionId) -> str:
    return f"{MEM_WAL}/{region_id}"


def manifest(version: ManifestVersion) -> str:
    """A region manifest version, relative to the region's folder."""
    return f"manifest/{bit_reversed(version)}.binpb"


def manifest_version(name: str) -> ManifestVersion | None:
    """Version of a file name in the manifest folder; None for anything else."""
    stem, _, suffix = name.rpartition("/")[2].partition(".")
    number = from_bit_reversed(stem)
    return ManifestVersion(number) if suffix == "binpb" and number is not None else None


VERSION_HINT = "manifest/version_hint.json"


def wal(position: WalPosition, suffix: str) -> str:
    """A WAL entry, relative to the region's folder; ``suffix`` without the dot."""
    return f"wal/{bit_reversed(position)}.{suffix}"


def wal_position(name: str, suffix: str) -> WalPosition | None:
    """Position of a file name in the WAL folder; None for anything else."""
    stem, _, found = name.rpartition("/")[2].partition(".")
    number = from_bit_reversed(stem)
    return WalPosition(number) if found == suffix and number is not None else None


def generation(prefix: str, number: Generation) -> str:
    """A generation's folder, relative to the region's folder; ``prefix``: 8 hexadecimal digits."""
    return f"{prefix}_gen_{number}"


def generation_number(folder: str) -> Generation | None:
    """Generation of a folder name; None for anything else."""
    found = _GENERATION.fullmatch(folder)
    return Generation(int(found[2])) if found else None


def table_manifest(version: TableVersion) -> str:
    """V2 name of a table version."""
    return f"{VERSIONS}/{UINT64_MAX - version:020d}.manifest"


def table_version(name: str) -> TableVersion | None:
    """Version of a V2 manifest name; None for anything else."""
    found = _V2.fullmatch(name.rpartition("/")[2])
    return TableVersion(UINT64_MAX - int(found[1])) if found else None


def transaction(name: str) -> str:
    return f"{TRANSACTIONS}/{name}"


def data_file(name: str) -> str:
    return f"{DATA}/{name}"
