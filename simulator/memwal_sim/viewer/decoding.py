"""Objects for people: what `memwal table inspect` says of their bytes, in one line and as a tree, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from memwal.codec import data_file, wal
from memwal.effects import Io
from memwal.errors import ArtifactError
from memwal.inspection import files, kinds
from memwal.inspection import node as inspected
from memwal.inspection.lines import line, words
from memwal.revisions import STRICT, Revision
from memwal.table import transactions

from ..process import Process, run_alone
from ..store import Contents
from .trees import ITEMS_MAX, TreeNode, node, table, text

HEX_MAX = 1024
"""Bytes that are shown of what cannot be decoded."""
ROWS_FROM_MAX_BYTES = 1 << 20
"""Largest file whose rows are shown."""
_LINE_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The bytes of one object, for people."""

    kind: str
    """Such as ``region manifest``; ``bytes`` for what is none of ours."""
    size_bytes: int
    summary: str
    """One line; empty if there is nothing to say."""
    nodes: tuple[TreeNode, ...] = ()
    problem: str = ""
    """Why the bytes could not be decoded; empty if they could, or if there is nothing to decode."""
    dump: str = ""
    """The first bytes in hexadecimal where there are no nodes."""


def decode(path: str, data: bytes, revision: Revision) -> Decoded:
    """What the object ``path`` with these bytes is. Never raises: bytes that are refused are shown with the reason."""
    known = kinds.by_name(path)
    if known is None:
        return _unknown(data)
    looking = partial(files.inspect_file, Io("", interpretation=STRICT), path, revision, known, ITEMS_MAX)
    end = run_alone(Process("onlooker", looking), Contents({path: data})).end
    found = end.result
    if not isinstance(found, inspected.Node):
        assert end.failure is not None
        return _refused(known, data, f"{end.failure.text} [{end.failure.clause}]")
    if found.damage:
        damage = found.damage[0]
        where = "" if damage.offset is None else f" at byte {damage.offset}"
        return _refused(found.kind, data, f"{damage.reason}{where} [{damage.clause}]")
    inside = {each.name: each for each in _inside(found.kind, path, data, revision)}
    said = {each.name: each for each in _below(found)}
    nodes = tuple({**said, **inside}.values())
    return Decoded(kind=words(found.kind), size_bytes=len(data), summary=line(found), nodes=nodes)


def part(path: str, data: bytes, first: int) -> Decoded:
    """What ``data`` is: bytes of the object ``path`` from ``first`` on; negative: counted from the end."""
    which = f"bytes {first:,} to {first + len(data):,}"
    if first < 0:
        which = f"the {len(data):,} bytes from {-first:,} before the end"
    kind = words(kinds.by_name(path) or "bytes")
    return Decoded(kind=f"part of {kind}", size_bytes=len(data), summary=which, dump=hex_dump(data))


def hex_dump(data: bytes) -> str:
    """Lines of offset, bytes and characters for the first `HEX_MAX` bytes."""
    lines = []
    for start in range(0, min(len(data), HEX_MAX), _LINE_BYTES):
        shown_bytes = data[start : start + _LINE_BYTES]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in shown_bytes)
        lines.append(f"{start:06x}  {shown_bytes.hex(' ').ljust(3 * _LINE_BYTES)} {shown}")
    if len(data) > HEX_MAX:
        lines.append(f"… {len(data) - HEX_MAX:,} bytes more")
    return "\n".join(lines)


def _refused(kind: str, data: bytes, problem: str) -> Decoded:
    return Decoded(
        kind=words(kind), size_bytes=len(data), summary="cannot be decoded", problem=problem, dump=hex_dump(data)
    )


def _unknown(data: bytes) -> Decoded:
    try:
        found = data.decode()
    except UnicodeDecodeError:
        found = ""
    if not found or not all(char.isprintable() or char.isspace() for char in found):
        return Decoded(kind="bytes", size_bytes=len(data), summary="", dump=hex_dump(data))
    shown = text(found)
    return Decoded(kind="bytes", size_bytes=len(data), summary=shown[:60], nodes=(TreeNode("text", shown),))


def _below(found: inspected.Node) -> Iterator[TreeNode]:
    """Fields and parts of what was inspected, as a tree of names and texts."""
    yield from (node(name, value) for name, value in found.fields if name != "size_bytes")
    for child in found.children:
        yield TreeNode(_title(child), "", tuple(_below(child)))
    if found.more:
        yield TreeNode("…", f"{found.more:,} more")


def _title(part: inspected.Node) -> str:
    """Its name, and its kind where the name does not say it."""
    if part.kind in (part.name, "column", "field", "operation"):
        return part.kind if part.kind == "operation" else part.name
    return f"{words(part.kind)} {part.name}".strip()


def _rows(data: bytes, path: str, revision: Revision) -> TreeNode:
    found = wal.decode(data, revision, path).rows
    return TreeNode("rows", f"{found.num_rows:,}", rows=table(found))


def _data(data: bytes, path: str, _revision: Revision) -> TreeNode:
    found = data_file.decode(data, path)
    return TreeNode("rows", f"{found.num_rows:,}", rows=table(found))


def _deleted(data: bytes, path: str, _revision: Revision) -> TreeNode:
    return node("deleted_rows", tuple(map(int, files.deleted_offsets(data, path))))


def _operation(data: bytes, path: str, _revision: Revision) -> TreeNode:
    return node("operation", transactions.decode(data, path))


_INSIDE: Mapping[str, Callable[[bytes, str, Revision], TreeNode]] = {
    kinds.WAL_ENTRY: _rows,
    kinds.DATA_FILE: _data,
    kinds.DELETION_FILE: _deleted,
    kinds.TRANSACTION: _operation,
}
"""Kind -> what is in such a file besides what `memwal table inspect` says, in place of its field of that name."""


def _inside(kind: str, path: str, data: bytes, revision: Revision) -> Iterator[TreeNode]:
    if kind in _INSIDE and len(data) <= ROWS_FROM_MAX_BYTES:
        try:
            yield _INSIDE[kind](data, path, revision)
        except ArtifactError as refused:
            yield TreeNode("refused", str(refused))
