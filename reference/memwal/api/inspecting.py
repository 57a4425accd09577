"""Looking into a table or a file of one, whatever state it is in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..arguments import checked
from ..drive import Listener
from ..effects import Io
from ..errors import InvalidArgument, NotFound
from ..ids import TableVersion
from ..inspection.files import inspect_file
from ..inspection.node import Node, relative
from ..inspection.table import inspect_table
from ..paths import VERSIONS
from ..stores.base import Store
from .place import PROFILE, Place, Where, find, found

_LEVELS = 8
"""How many folders above a file its table is looked for."""


@checked
def inspect(
    url: Where,
    *,
    version: int | None = None,
    region: str | None = None,
    limit: int = 20,
    entries: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    listener: Listener | None = None,
) -> Node:
    """What is in the table, or in the one file of a table, at ``url``; read only, and no rows are read.

    ``version``, ``region``: of a table, look at these. ``limit``: most entries of each list, ``entries``: of a
    WAL, if not the same. Damage is part of what is
    returned, and the check continues with the rest. Raises `NotFound` if nothing is there, `InvalidArgument` for a file
    of no known kind and for a version or region that is not there.
    """
    if limit < 1:
        raise InvalidArgument(f"limit must be at least 1, not {limit}")
    if entries is not None and entries < 0:
        raise InvalidArgument(f"entries must be at least 0, not {entries}")
    place, name = _file(url, storage_options, store, listener)
    if name:
        if version is not None or region is not None:
            raise InvalidArgument(f"{url} is a file: leave out version and region, which are for tables")
        node = found(place, inspect_file(place.io, name, limit=limit))
        return relative(node, place.io.root)
    wanted = TableVersion(version) if version is not None else None
    shown = str(url).rstrip("/")
    node = found(
        place, inspect_table(place.io, version=wanted, region=region, limit=limit, entries=entries, name=shown)
    )
    return relative(node, place.io.root)


def _file(
    url: Where, storage_options: Mapping[str, str] | None, store: Store | None, listener: Listener | None
) -> tuple[Place, str]:
    """Where ``url`` is: the table that a file is in, or its folder, and the file's name; no name for a table."""
    local = Path(str(url).removeprefix("file://"))
    if store is None and ("://" not in str(url) or str(url).startswith("file://")):
        if not os.path.isfile(local):  # unlike Path.is_file never raises
            return find(url, storage_options, store, listener, PROFILE), ""
        folder = next((p for p in list(local.absolute().parents)[:_LEVELS] if (p / VERSIONS).is_dir()), local.parent)
        place = find(folder.absolute(), storage_options, store, listener, PROFILE)
        return place, local.absolute().relative_to(folder.absolute()).as_posix()
    place = find(url, storage_options, store, listener, PROFILE)
    if not place.io.root or not place.run(_exists(place.io)):
        return place, ""
    file, whole = place.io.root, replace(place, io=replace(place.io, root=""))
    root = place.run(_table_of(whole.io, file))
    return replace(whole, io=whole.io.child(root)), file.removeprefix(f"{root}/" if root else "")


async def _exists(io: Io) -> bool:
    try:
        await io.head("")
    except NotFound:
        return False
    return True


async def _table_of(io: Io, path: str) -> str:
    """The nearest folder above ``path`` that is a table; the folder of ``path`` if there is none."""
    parts = path.split("/")[:-1]
    for end in range(len(parts), max(-1, len(parts) - _LEVELS), -1):
        folder = "/".join(parts[:end])
        if VERSIONS in await io.list_folders(folder):
            return folder
    return "/".join(parts)
