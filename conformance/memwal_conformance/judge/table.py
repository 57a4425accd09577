"""The base table: its manifests read field by field, its rows read by pylance, as any Lance user would."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from . import artifacts
from .artifacts import JudgedIndexDetails
from .wire import DamagedBytes, WireMessage, little_endian

_V2 = re.compile(r"([0-9]{20})\.manifest")
FOOTER_BYTES = 16
_UINT64_MAX = 2**64 - 1
DETAILS = "MemWalIndexDetails"
"""How the type URL of the details of the MemWAL index ends."""


def table_version(name: str) -> int | None:
    """Version of a manifest name in the V2 scheme; None for any other name."""
    found = _V2.fullmatch(name)
    return _UINT64_MAX - int(found[1]) if found else None


def manifest_name(version: int) -> str:
    """Inverse of `table_version`."""
    return f"{_UINT64_MAX - version:020d}.manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTableManifest:
    """What the judge needs of a table manifest."""

    version: int
    fragments: int
    base_paths: tuple[str, ...]
    memwal: tuple[JudgedIndexDetails, ...]
    """Details of every MemWAL index: more than one is a fault."""
    config: dict[str, str]
    data: tuple[bytes, ...] = ()
    """The encoded fragments: what says which rows there are."""
    columns: Mapping[int, str] = field(default_factory=dict)
    """Field id -> name, of top-level columns."""


def table_manifest(data: bytes) -> JudgedTableManifest:
    """Decode a table manifest file. Raises `DamagedBytes`."""
    message = WireMessage.of(message_of(data))
    section = message.optional_uint(6)
    indices = WireMessage.of(block(data, section)).messages(1) if section is not None else []
    details = []
    for index in indices:
        described = index.message(6)
        if described is not None and described.text(1).endswith(DETAILS):
            details.append(artifacts.index_details(described.blob(2) or b""))
    return JudgedTableManifest(
        version=message.uint(3),
        fragments=len(message.blobs(2)),
        base_paths=tuple(base.text(4) for base in message.messages(18)),
        memwal=tuple(details),
        config=message.text_map(16),
        data=tuple(message.blobs(2)),
        columns={found.sint(3): found.text(2) for found in message.messages(1) if found.sint(4) == -1},
    )


def message_of(data: bytes) -> bytes:
    """The message of a table manifest file. Raises `DamagedBytes`."""
    if len(data) < FOOTER_BYTES or data[-4:] != b"LANC":
        raise DamagedBytes("not a table manifest: no LANC mark at the end")
    return block(data, little_endian(data, len(data) - FOOTER_BYTES, 8))


def block(data: bytes, at: int) -> bytes:
    """The message at a place of a table manifest file, which its length precedes. Raises `DamagedBytes`."""
    size = little_endian(data, at, 4)
    if at + 4 + size > len(data):
        raise DamagedBytes("a block is cut", at)
    return data[at + 4 : at + 4 + size]


def versions(root: Path) -> dict[int, Path]:
    """Table versions on the store, by number. Raises `DamagedBytes` for a folder without any."""
    folder = root / "_versions"
    found = {v: p for p in folder.iterdir() if (v := table_version(p.name)) is not None} if folder.is_dir() else {}
    if not found:
        raise DamagedBytes(f"{folder.name} of {root.name} holds no table manifest in the V2 scheme")
    return dict(sorted(found.items()))


def newest(root: Path) -> JudgedTableManifest:
    """The newest table manifest. Raises `DamagedBytes`."""
    return table_manifest(list(versions(root).values())[-1].read_bytes())


def retained(root: Path) -> list[JudgedTableManifest]:
    """All versions that are there and decode, in their order."""
    found: list[JudgedTableManifest] = []
    with suppress(DamagedBytes):  # that there is one is known from the newest, which was read before
        for path in versions(root).values():
            with suppress(DamagedBytes):
                found.append(table_manifest(path.read_bytes()))
    return found


def rows(root: Path, storage: Mapping[str, str] | None = None, *, with_row_address: bool = False) -> pa.Table:
    """All rows of a Lance table in row order, without its MemWAL regions, as pylance reads them.

    ``storage``: options under which pylance reaches files that the table names by URL (``base_paths``). Raises
    `DamagedBytes` if pylance cannot open or read the table.
    """
    look = () if storage else _look_of(root)
    known = _READ.get((with_row_address, *look))
    if known is not None:
        return known
    with _by_pylance("the table"):
        found = _dataset(root, storage).to_table(scan_in_order=True, with_row_address=with_row_address)
    with suppress(DamagedBytes):  # pylance reads what the judge does not: it is not kept
        if look and not newest(root).base_paths:
            while len(_READ) >= _READ_MOST:
                _READ.pop(next(iter(_READ)), None)
            _READ[with_row_address, *look] = found
    return found


_READ: dict[tuple[object, ...], pa.Table] = {}
"""What was read of small tables, by the bytes of their files: the same one is read by many checks, in many states."""
_READ_MOST, _READ_BYTES = 1024, 1 << 18
"""Tables that are kept, and the size of their files up to which they are."""


def _look_of(root: Path) -> tuple[object, ...]:
    """Names and digests of all files of a small table without its regions; empty for a large one."""
    found: list[tuple[str, bytes]] = []
    size = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "_mem_wal")
        for path in (Path(folder, name) for name in sorted(files)):
            size += path.stat().st_size
            if size > _READ_BYTES:
                return ()
            found.append((str(path.relative_to(root)), hashlib.sha256(path.read_bytes()).digest()))
    return tuple(found)


def file_rows(file: Path) -> pa.Table:
    """All rows of a Lance file. Raises `DamagedBytes` if pylance cannot read it."""
    from lance.file import LanceFileReader

    with _by_pylance(file.name):
        return LanceFileReader(str(file)).read_all().to_table()


def unindexed_rows(root: Path, index: str, storage: Mapping[str, str] | None = None) -> int:
    """How many rows of the base table are not in the index of that name, as pylance says.

    Raises `DamagedBytes` if it cannot say.
    """
    with _by_pylance(f"the index {index}"):
        found: int = _dataset(root, storage).stats.index_stats(index)["num_unindexed_rows"]
        return found


def indexed_rows(root: Path, storage: Mapping[str, str] | None = None) -> dict[str, int]:
    """Index name -> rows of a Lance table that are in it, as pylance says. Raises `DamagedBytes` if it cannot say."""
    with _by_pylance("the indexes of a table"):
        return {index.name: index.num_rows_indexed for index in _dataset(root, storage).describe_indices()}


def _dataset(root: Path, storage: Mapping[str, str] | None) -> Any:
    import lance

    return lance.dataset(str(root), storage_options=dict(storage or {}) or None)


@contextmanager
def _by_pylance(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, pa.ArrowException) as error:
        raise DamagedBytes(f"pylance cannot read {what}: {str(error).splitlines()[0]}") from error


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as dictionaries, for comparison."""
    found: list[dict[str, Any]] = table.to_pylist()
    return found
