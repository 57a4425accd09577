"""Indexes that have a set of rows for each value: bitmap, label list and n-gram indexes, in their files.

Source: files that pylance 14.0 writes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyroaring

from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import ArtifactError
from ..table.reuse import Addresses
from ..table.stored_index import IndexFile, open_index_file
from .conditions import HasLabels, HasText
from .wanted import Mask, TooMany, Wanted, fitted

_BITMAPS = "bitmap_page_lookup.lance"
_POSTINGS = "ngram_postings.lance"
_COUNT = struct.Struct("<I")
_FRAGMENT = struct.Struct("<II")
"""Fragment id, and bytes of the bitmap of its row offsets."""
_NOTHING = np.empty(0, np.uint64)

_WORD = re.compile("[0-9A-Za-z]{3,}")
_GRAM = 3
_LETTERS = {letter: number for number, letter in enumerate("0123456789abcdefghijklmnopqrstuvwxyz", 1)}
"""Three of these in a row, as digits to the base of 37, are one token."""


async def with_values(
    io: Io, entry: table_pb2.IndexMetadata, fit: Callable[[pa.DataType], Wanted | None], most: int | None
) -> Addresses | None:
    """Rows with wanted values by a bitmap index, which ``fit`` gives for the type of its keys; None: cannot be told."""
    file = await _opened(io, entry, _BITMAPS, "keys", "bitmaps")
    wanted = fit(file.schema.field("keys").type) if file is not None else None
    if file is None or wanted is None:
        return None
    keys = (await file.read(["keys"])).column("keys")
    return _union(await _sets(file, "bitmaps", wanted.holds(keys)), most)


async def with_labels(io: Io, entry: table_pb2.IndexMetadata, leaf: HasLabels, most: int | None) -> Addresses | None:
    """Rows whose list has the labels, by a label list index."""
    file = await _opened(io, entry, _BITMAPS, "keys", "bitmaps")
    wanted = fitted(leaf.labels, file.schema.field("keys").type) if file is not None else None
    if file is None or wanted is None:
        return None
    mask = wanted.holds((await file.read(["keys"])).column("keys"))
    if leaf.every and int(mask.sum()) < len(leaf.labels):
        return _NOTHING
    found = await _sets(file, "bitmaps", mask)
    return _shared(found, most) if leaf.every else _union(found, most)


async def with_text(io: Io, entry: table_pb2.IndexMetadata, leaf: HasText, most: int | None) -> Addresses | None:
    """Rows that have all runs of three letters and digits of a text, by an n-gram index; None for a text without any.

    The index has them without case and accents.
    """
    tokens = sorted({_token(word[at:]) for word in _WORD.findall(leaf.text) for at in range(len(word) - _GRAM + 1)})
    file = await _opened(io, entry, _POSTINGS, "tokens", "posting_list") if tokens else None
    if file is None:
        return None
    held = (await file.read(["tokens"])).column("tokens").to_numpy()
    mask = np.isin(held, np.array(tokens))
    if int(mask.sum()) < len(tokens):
        return _NOTHING
    read = await file.read(["posting_list"])
    data = read.column("posting_list").filter(pa.array(mask)).to_pylist()
    return _shared([_bitmap(file, each) for each in data], most)


def _token(word: str) -> int:
    first, second, third = (_LETTERS[letter] for letter in word[:_GRAM].lower())
    return (first * 37 + second) * 37 + third


async def _opened(io: Io, entry: table_pb2.IndexMetadata, name: str, *columns: str) -> IndexFile | None:
    file = await open_index_file(io, entry, name)
    return file if file is not None and {*columns} <= {*file.schema.names} else None


async def _sets(file: IndexFile, column: str, mask: Mask) -> list[Addresses] | None:
    """The sets of rows of the chosen keys; None if one stands for a whole fragment, of which it says no more."""
    at = np.flatnonzero(mask)
    if not len(at):
        return []
    first = int(at[0])
    rows = await file.read([column], first, int(at[-1]) + 1 - first)
    found = [decoded(rows.column(column)[int(each) - first].as_py(), file.io.path(file.name)) for each in at]
    return None if any(each is None for each in found) else [each for each in found if each is not None]


def _union(sets: list[Addresses] | None, most: int | None) -> Addresses | None:
    if sets is None:
        return None
    return few(np.unique(np.concatenate([_NOTHING, *sets])), most)


def _shared(sets: list[Addresses] | None, most: int | None) -> Addresses | None:
    if not sets:
        return None
    found = min(sets, key=len)
    for each in sets:
        found = np.intersect1d(found, each)
    return few(found, most)


def few(found: Addresses, most: int | None) -> Addresses:
    """``found``; raises `TooMany` for more than ``most``."""
    if most is not None and len(found) > most:
        raise TooMany
    return found


def decoded(data: bytes, path: str) -> Addresses | None:
    """A set of row addresses: the number of fragments, then for each its id and a bitmap of offsets, with its size.

    None if a fragment has size 0, which stands for all of its rows. Raises `ArtifactError`.
    """
    found, at = [_NOTHING], _COUNT.size
    try:
        for _ in range(_COUNT.unpack_from(data)[0]):
            fragment, size = _FRAGMENT.unpack_from(data, at)
            at += _FRAGMENT.size
            if not size:
                return None
            offsets = np.asarray(pyroaring.BitMap.deserialize(data[at : at + size]).to_array(), np.uint64)
            found.append(offsets + np.uint64(fragment << 32))
            at += size
    except (struct.error, ValueError) as error:
        raise ArtifactError("PLAN-033", path, f"a set of rows is not readable: {error}") from error
    return np.concatenate(found)


def _bitmap(file: IndexFile, data: bytes) -> Addresses:
    try:
        return np.asarray(pyroaring.BitMap64.deserialize(data).to_array(), np.uint64)
    except ValueError as error:
        raise ArtifactError("PLAN-033", file.io.path(file.name), f"a set of rows is not readable: {error}") from error
