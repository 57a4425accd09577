"""Rows that lie apart in a large data file: its pages, or chunks of them, are fetched once and held for the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from ..codec import mini_blocks
from ..codec.data_file import Decoder
from ..codec.file_layout import Page, Range, joined
from ..codec.mini_blocks import Chunks
from ..codec.scratch import Piece
from ..effects import Io, remembered
from .stored_file import Rows, StoredFile, decoder, open_rows, opened, parts

PAGES_BYTES = 8 << 20
"""About how many bytes of one large file are kept for the next rows that are read of it."""


async def open_at(io: Io, file: StoredFile, wanted: npt.NDArray[np.uint64]) -> Rows:
    """A reader of the rows ``wanted``, which ascend and are at least one: of pages that say where, only their chunks.

    It may read no other row.
    """
    if file.legacy is not None or file.layout is None:
        return await open_rows(io, file, int(wanted[0]), int(wanted[-1] - wanted[0]) + 1)
    what = ("pages of a data file", io.path(file.name), file.columns, file.places, file.fields)
    pages = await remembered(io, what, partial(_no_pages, io, file), lambda _: min(file.wanted_bytes, PAGES_BYTES))
    if pages.now[1].size_bytes > PAGES_BYTES:
        pages.now = (await _no_pages(io, file)).now
    reader, before = pages.now
    if reader.opened:
        return reader
    # What was not fetched after all is not held, and others may read meanwhile.
    held = replace(before, ranges=set(before.ranges), chunks=dict(before.chunks))
    reader.add(await parts_at(io, file, wanted, held))
    if pages.now[0] is reader:
        pages.now = reader, held
    return reader


async def _no_pages(io: Io, file: StoredFile) -> _Pages:
    """What is kept is in memory: a file that is kept open takes its room on the disk even if it is deleted."""
    whole = None if io.remembers else await opened(io, file.name, file.size_bytes)
    reader = decoder(io, file, whole or file.ends)
    reader.shared = io.remembers
    return _Pages((reader, Held()))


@dataclass(slots=True)
class Held:
    """What has been fetched of a file, and is not fetched again."""

    ranges: set[Range] = field(default_factory=set)
    chunks: dict[Range, Chunks | None] = field(default_factory=dict)
    """Of pages, by their first buffer, where their chunks are; None if it does not say."""
    size_bytes: int = 0

    async def fetch(self, io: Io, file: StoredFile, wanted: Iterable[Range]) -> list[Piece]:
        """What is missing of ``wanted``."""
        missing = set(wanted) - self.ranges
        if not missing:
            return []
        self.ranges |= missing
        together = joined(missing, 0)
        self.size_bytes += sum(size for _, size in together)
        return await parts(io, file.name, together, file.size_bytes)


@dataclass(slots=True)
class _Pages:
    """A reader of a file, and which of its pages it has."""

    now: tuple[Decoder, Held]


async def parts_of(io: Io, file: StoredFile, rows: npt.NDArray[np.uint64], held: Held) -> list[Piece]:
    """The pages that hold ``rows``, which ascend, of a file with a layout, as far as they are not ``held``."""
    assert file.layout is not None
    return await held.fetch(io, file, file.layout.pages_of(file.indices, rows.astype(np.int64)))


async def parts_at(io: Io, file: StoredFile, wanted: npt.NDArray[np.uint64], held: Held) -> list[Piece]:
    """As `parts_of`, for rows that lie apart: of pages that say where, only the chunks that hold one of them."""
    assert file.layout is not None
    whole: list[Range] = []
    chunked: list[tuple[Page, npt.NDArray[np.uint64]]] = []
    for column in file.indices:
        whole += file.layout.shared[column]
        for page in file.layout.columns[column]:
            first, end = np.searchsorted(wanted, np.array([page.first_row, page.end_row], np.uint64))
            if page.word is not None and first < end:
                chunked.append((page, wanted[first:end] - np.uint64(page.first_row)))
                whole += [page.buffers[0], *page.buffers[2:]]
            elif page.row_bytes and first < end:
                at, width = page.buffers[0][0], page.row_bytes
                whole += [(at + (int(row) - page.first_row) * width, width) for row in wanted[first:end]]
            elif first < end:
                whole += page.buffers
    found = await held.fetch(io, file, whole)
    chunks: list[Range] = []
    for page, inside in chunked:
        assert page.word is not None
        words, values = page.buffers[:2]
        if words not in held.chunks:
            # What is held of a page without where its chunks are is all of it.
            at, data = next((part for part in found if 0 <= words[0] - part[0] < len(part[1])), (words[0], b""))
            data = bytes(memoryview(data)[words[0] - at :][: words[1]])
            held.chunks[words] = mini_blocks.chunks(data, page.word, values, page.end_row - page.first_row)
        there = held.chunks[words]
        chunks += [values] if there is None else there.of(inside)
    return found + await held.fetch(io, file, chunks)
