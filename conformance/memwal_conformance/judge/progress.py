"""Merge progress along the table versions that are retained: it rises with the rows that it speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from . import table
from .store import JudgedStore, generation_number
from .table import JudgedTableManifest
from .wire import DamagedBytes


def steps(store: JudgedStore) -> Iterator[str | None]:
    """A version in which the progress of a region rises has other data than the version before it.

    Only generations that are still there and have rows are looked at: one without rows changes nothing when merged.
    """
    versions = table.retained(store.root)
    for before, after in pairwise(versions):
        if after.version != before.version + 1:
            continue
        old = _progress(before)
        for region_id, generation in _progress(after).items():
            if generation > old.get(region_id, 0) and _has_rows(store, region_id, generation):
                told = f"version {after.version}: merge progress of {region_id} becomes {generation}, without any data"
                yield told if after.data == before.data else None


def _progress(manifest: JudgedTableManifest) -> dict[str, int]:
    return {region_id: generation for details in manifest.memwal for region_id, generation in details.merged}


def _has_rows(store: JudgedStore, region_id: str, generation: int) -> bool:
    region = store.regions.get(region_id)
    folders = [name for name in region.generations if generation_number(name) == generation] if region else []
    try:
        return region is not None and any(table.rows(region.folder / name, store.storage).num_rows for name in folders)
    except DamagedBytes:
        return False
