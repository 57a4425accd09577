"""Which bytes of a page hold some of its rows, for pages of mini-blocks: chunks of at most 4,096 values.

The first buffer of such a page has a word for each chunk: the size of the chunk in its high bits, and in the low four
the number of values, as a power of two. The second has the chunks. Any others are needed whole. Pages of wide values of
one width have nothing but these, one after another.
Source: the Lance file format, version 2.1, "Mini Block Page Layout" and "Full Zip Page Layout", and files that pylance
14.0 writes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from .protobuf import fields

Range = tuple[int, int]
"""Position and size in bytes."""

_LAYOUT = b"/lance.encodings21.PageLayout"
_URL, _MESSAGE, _MINI_BLOCKS = 1, 2, 1
_REPETITIONS, _REPETITION_DEPTH, _ITEMS, _LARGE = 1, 8, 9, 10
"""Fields of the message of the layout."""
_SIZE_UNIT = 8
_ZIPPED, _REPETITION_BITS, _DEFINITION_BITS, _VALUE_BITS = 3, 1, 2, 3
"""Fields of the message of wide values."""


def word_of(encoding: bytes, rows: int) -> str | None:
    """The type of a chunk's word in a page of ``rows`` rows that is described by ``encoding``.

    None for a page that is stored otherwise, or whose values are not its rows, as those of lists are not.
    """
    try:
        described = fields(encoding)
        if described.get(_URL) != [_LAYOUT]:
            return None
        layout = fields(described.get(_MESSAGE, [b""])[0]).get(_MINI_BLOCKS)
        said = fields(layout[0]) if layout else {}
    except DecodeError:
        return None  # the native reader judges what is no description
    if _REPETITIONS in said or said.get(_REPETITION_DEPTH, [0]) != [0] or said.get(_ITEMS) != [rows]:
        return None
    return "<u4" if said.get(_LARGE, [0]) != [0] else "<u2"


def row_bytes_of(encoding: bytes, rows: int, size_bytes: int) -> int:
    """The width of a row in a page of ``rows`` wide values of one width, which take up ``size_bytes``; 0 for others."""
    try:
        described = fields(encoding)
        zipped = fields(described.get(_MESSAGE, [b""])[0]).get(_ZIPPED)
        said = fields(zipped[0]) if zipped and described.get(_URL) == [_LAYOUT] else {}
    except DecodeError:
        return 0
    levels = said.get(_REPETITION_BITS, [0]) + said.get(_DEFINITION_BITS, [0])
    bits = said.get(_VALUE_BITS, [0])[0]
    row_bytes, rest = divmod(bits, 8) if isinstance(bits, int) else (0, 0)
    return row_bytes if not any(levels) and not rest and row_bytes * rows == size_bytes else 0


@dataclass(frozen=True, slots=True)
class Chunks:
    """Where the chunks of a page are."""

    ends: npt.NDArray[np.int64]
    """Of each chunk the row after its last, counted from the page's first. Shape (chunks,)."""
    starts: npt.NDArray[np.int64]
    """Positions in the file. Shape (chunks,)."""
    sizes: npt.NDArray[np.int64]
    """In bytes. Shape (chunks,)."""

    def of(self, wanted: npt.NDArray[np.uint64]) -> list[Range]:
        """Those that hold the rows ``wanted`` of the page, which ascend."""
        numbers = self.ends.searchsorted(wanted.astype(np.int64), "right")
        if len(numbers) > 1:
            numbers = numbers[np.append(True, numbers[1:] != numbers[:-1])]
        return list(zip(self.starts[numbers].tolist(), self.sizes[numbers].tolist(), strict=True))


def chunks(words: bytes, word: str, buffer: Range, rows: int) -> Chunks | None:
    """The chunks of a page of ``rows`` rows; None if the words do not add up.

    ``words``: the first buffer; ``buffer``: where the second is.
    """
    if len(words) % np.dtype(word).itemsize:
        return None
    found = np.frombuffer(words, word).astype(np.int64)
    sizes = ((found >> 4) + 1) * _SIZE_UNIT
    values = np.int64(1) << (found & 15)
    if not len(found) or sizes.sum() != buffer[1]:
        return None
    values[-1] = rows - values[:-1].sum()  # the last one has what is left
    if values[-1] <= 0:
        return None
    return Chunks(np.cumsum(values), np.cumsum(sizes) - sizes + buffer[0], sizes)
