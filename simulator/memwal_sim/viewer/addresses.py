"""Short names of objects: symbolic, with table and region in front where a film has several of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memwal import paths

from ..names import symbolic

_DIGITS = 4
"""Fewest characters that stand for a region."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where an object belongs."""

    table: str
    """Folder of the table, without a slash at its end; empty for the root of the store."""
    region: str
    """Name of the region's folder; empty for objects of the table itself."""


def home(path: str) -> Home:
    """Where the object or folder ``path`` belongs. Objects of a table that are not below ``_mem_wal`` have none."""
    table, found, inner = path.partition(f"{paths.MEM_WAL}/")
    return Home(table.rstrip("/"), inner.partition("/")[0]) if found else Home("", "")


class Addresses:
    """Names as they are shown; the same name stands for the same object in one film."""

    def __init__(self, known: Iterable[str]) -> None:
        homes = {found for found in map(home, known) if found.region}
        self._tables = len({found.table for found in homes}) > 1
        self._several = len(homes) > 1
        self._regions = _suffixes({found.region for found in homes})

    def __call__(self, path: str) -> str:
        """The name for ``path``, such as ``wal/@3`` or, among several regions, ``…0002/wal/@3``."""
        at = home(path)
        prefix = f"{at.table}/" if self._tables and at.region and at.table else ""
        if self._several and at.region in self._regions:
            prefix += f"{self._regions[at.region]}/"
        return f"{prefix}{symbolic(path)}" or "/"

    def short(self, text: str) -> str:
        """``text`` with short names of regions in place of their own."""
        for region, name in self._regions.items():
            text = text.replace(region, name)
        return text


def _suffixes(names: set[str]) -> dict[str, str]:
    """The shortest ends that tell ``names`` apart, all of one length; dots in front stand for what is left out."""
    length = _DIGITS
    while len({name[-length:] for name in names}) < len(names):
        length += 1
    return {name: name if len(name) <= length else f"…{name[-length:]}" for name in names}
