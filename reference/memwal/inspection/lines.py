"""What a file is, in words and in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..words import counted
from . import kinds
from .node import Node, Value


def words(kind: str) -> str:
    """A kind for people, such as ``WAL entry``."""
    return kind.replace("_", " ").replace("mem wal", "MemWAL").replace("wal", "WAL")


def line(node: Node) -> str:
    """The file ``node`` in a few words; empty if its kind says all."""
    told = _LINES.get(node.kind)
    return "" if told is None or node.damage else told(node, dict(node.fields))


Told = Mapping[str, Value]


def _region_manifest(_node: Node, told: Told) -> str:
    generations = told["generations"]
    flushed = ", ".join(map(str, generations)) if isinstance(generations, tuple) and generations else "none"
    sealed = ", sealed" if told.get("sealed") else ""
    return f"epoch {told['epoch']}, replay after {told['position_replay_after']}, flushed {flushed}{sealed}"


def _wal_entry(_node: Node, told: Told) -> str:
    return (
        f"epoch {told['epoch']}, {'barrier' if told['barrier'] or not told['rows'] else counted(told['rows'], 'row')}"
    )


def _table_version(node: Node, told: Told) -> str:
    indexes = sum(child.kind == "index" for each in node.children for child in each.children)
    parts = (f"version {told['version']}", counted(told["fragments"], "fragment"), counted(indexes, "index", "indexes"))
    return ", ".join(parts)


def _transaction(_node: Node, told: Told) -> str:
    return f"{str(told['operation'] or 'no operation').replace('_', ' ')} on version {told['read_version']}"


def _bloom_filter(_node: Node, told: Told) -> str:
    known = "" if told["understood"] else ", of a format that is not known: every key may be there"
    return f"{told['form']}{known}"


_LINES: Mapping[str, Callable[[Node, Told], str]] = {
    kinds.REGION_MANIFEST: _region_manifest,
    kinds.WAL_ENTRY: _wal_entry,
    kinds.TABLE_VERSION: _table_version,
    kinds.TRANSACTION: _transaction,
    kinds.BLOOM_FILTER: _bloom_filter,
    kinds.VERSION_HINT: lambda _, told: f"version {told['version']}",
    kinds.TABLE_VERSION_HINT: lambda _, told: f"version {told.get('version')}",
    kinds.DELETION_FILE: lambda _, told: counted(told["deleted_rows"], "row"),
    kinds.DATA_FILE: lambda _, told: counted(told["rows"], "row"),
    kinds.LEGACY_DATA_FILE: lambda _, told: counted(told["rows"], "row"),
    kinds.ENTRY_0: lambda _, told: counted(told["rows"], "row"),
}
"""Kind -> node and its fields -> the line."""
