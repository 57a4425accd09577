"""The key index beside a generation of revision R: which rows of the generation are in it, and under which keys.

The native readers hide a row where a newer generation's key index has its key. What the index lacks hides nothing, so
that an old row comes back beside the new one; an index that is not there makes the readers fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from . import table
from .store import JudgedStore
from .wire import DamagedBytes

FOLDER = "_pk_index"
PAGES = "page_data.lance"


def complete(store: JudgedStore) -> Iterator[str | None]:
    """Every visible row of a listed generation is in its key index, under its own key.

    Releases before 10.0 write no key index. One that is missing is a fault where another generation has one.
    """
    listed = [
        (f"{region.region_id}/{generation.path}", region.folder / generation.path)
        for region in store.regions.values()
        for generation in (region.newest.generations if region.newest is not None else ())
    ]
    if not any((folder / FOLDER).is_dir() for _, folder in listed):
        return
    for name, folder in listed:
        if not folder.is_dir():
            continue
        try:
            wrong = _lacking(store, folder)
        except DamagedBytes as error:
            wrong = str(error)
        yield None if wrong is None else f"{name}: {wrong}"


def _lacking(store: JudgedStore, folder: Path) -> str | None:
    if not (folder / FOLDER / PAGES).is_file():
        return "the generation has no key index, and others have one"
    rows = table.rows(folder, store.storage, with_row_address=True)
    pages = table.file_rows(folder / FOLDER / PAGES)
    if not {"values", "ids"} <= set(pages.column_names):
        return f"the key index has the columns {pages.column_names}, not values and ids"
    indexed = dict(zip(pages["ids"].to_pylist(), pages["values"].to_pylist(), strict=True))
    places = rows["_rowaddr"].to_pylist()
    if lacking := [place for place in places if place not in indexed]:
        return f"the key index lacks {len(lacking)} of {len(places)} visible rows, the first at {lacking[0]}"
    if len(store.key) != 1:
        return None  # the index has one encoded value for several columns
    keys: pa.ChunkedArray = rows[store.key[0]]
    other = [place for place, key in zip(places, keys.to_pylist(), strict=True) if indexed[place] != key]
    return f"the key index has another key for the row at {other[0]}" if other else None
