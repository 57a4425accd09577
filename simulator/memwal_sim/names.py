"""Names for people: of objects, without numbers and random parts that differ from run to run, and of operations.

``wal/@12``, ``manifest/@3``, ``hint``, ``gen/@2/data/…``, ``versions/@4`` of the base table. Traces, coverage and the
fault addresses of the gate use them. A name of none of these kinds stays as it is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from memwal import paths
from memwal.effects import StoreRequest


def operation(request: StoreRequest[Any]) -> str:
    """Name of the request's operation in traces: the class's name in lower case with underscores."""
    return words(type(request).__name__, "_")


def words(name: str, separator: str) -> str:
    """``PutIfAbsent`` as words in lower case with ``separator`` between them."""
    return "".join(f"{separator}{c.lower()}" if c.isupper() else c for c in name).removeprefix(separator)


@lru_cache(maxsize=1 << 16)
def symbolic(path: str) -> str:
    """Symbolic name of an object or folder of a table. The region is left out: scenarios name their own."""
    table, found, inner = path.partition(f"{paths.MEM_WAL}/")
    if not found:
        return _of_table(table)
    _, _, name = inner.partition("/")
    return _of_region(name) if name else "region"


def _of_region(name: str) -> str:
    if name == paths.VERSION_HINT:
        return "hint"
    folder, _, rest = name.partition("/")
    if folder == "manifest" and rest:
        version = paths.manifest_version(name)
        return name if version is None else f"manifest/@{version}"
    if folder == "wal" and rest:
        position = paths.wal_position(name, rest.rpartition(".")[2])
        return name if position is None else f"wal/@{position}"
    number = paths.generation_number(folder)
    if number is None:
        return name
    return f"gen/@{number}/{_of_table(rest)}" if rest else f"gen/@{number}"


def _of_table(name: str) -> str:
    """Inside a Lance table: versions by number, files with random names by their folder."""
    folder, _, rest = name.rpartition("/")
    version = paths.table_version(name) if folder.endswith(paths.VERSIONS) else None
    if version is not None:
        return f"{folder.removesuffix(paths.VERSIONS)}versions/@{version}"
    if folder.rpartition("/")[2] in _RANDOM_NAMES:
        return f"{folder}/*{rest[rest.rfind('.') :]}" if "." in rest else f"{folder}/*"
    return name


_RANDOM_NAMES = frozenset({paths.DATA, paths.TRANSACTIONS, paths.DELETIONS, paths.INDICES})
