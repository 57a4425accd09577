"""A stored full-text index, of a generation or of the base table: its documents, and the lists of some terms.

Of the lists, which are most of an index, only those of the terms that are asked for are fetched, by ranges.
Source: MemWAL revision A, "MemTable Indexing" and "Full-Text Search Queries"; AMB-110.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..codec import data_file, json_text, postings, token_fst
from ..codec.pb.lance import table_pb2
from ..codec.postings import PostingLayout, Postings
from ..effects import Io, remembered
from ..errors import ArtifactError, InvalidArgument, NotFound
from ..table.mirror import index_folder
from ..table.reuse import Addresses
from ..table.stored_index import IndexFile, open_index_file
from .tokenizer import METADATA_FILE

_CLAUSE = "WRITER-027"
_TERM_BYTES = 64
"""At most what a term takes in memory, besides its text; a byte of a transducer takes less."""
_LISTS = ("_posting", "_length")
_PLACES = ("_compressed_position", "_position_block_offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """One partition of a stored index. It never changes, and neither do its files."""

    io: Io
    prefix: str
    addresses: Addresses
    """Row of each document, as the index names it."""
    lengths: npt.NDArray[np.uint32]
    """Terms of each document."""
    terms: bytes | Mapping[str, int]
    """Number of each term: a transducer, or a table in older indexes."""
    lists: IndexFile
    """The file of lists, of which row n is that of term n."""
    layout: PostingLayout

    @property
    def files(self) -> tuple[str, ...]:
        """Full names of the files that it was opened from."""
        return tuple(self.io.path(f"{self.prefix}_{name}.lance") for name in ("docs", "tokens", "invert"))

    def numbers(self, terms: Collection[str] | None = None) -> dict[str, int]:
        """Where the lists of ``terms`` are, of all terms for None."""
        path = self.io.path(f"{self.prefix}_tokens.lance")
        if not isinstance(self.terms, bytes):
            found = {term: n for term, n in self.terms.items() if terms is None or term in terms}
        elif terms is None:
            found = _text(token_fst.decode(self.terms, path, self.lists.rows), path)
        else:
            found = _text(token_fst.find(self.terms, [term.encode() for term in terms], path), path)
        if any(not 0 <= number < self.lists.rows for number in found.values()):
            raise ArtifactError(_CLAUSE, path, f"a term has no list of documents among {self.lists.rows}")
        return found

    @implements("WRITER-027", "PLAN-023")
    async def postings(self, terms: Collection[str] | None, *, positions: bool = False) -> dict[str, Postings]:
        """The lists of those of ``terms`` (None: all) that are there. ``positions``: with where the terms are.

        Raises `InvalidArgument` for positions that the index does not have.
        """
        columns = (*_LISTS, *_PLACES) if positions else _LISTS
        if positions and (self.layout.positions is None or not set(_PLACES) <= set(self.lists.schema.names)):
            reason = f"a phrase needs the positions of terms, and {self.io.path(self.prefix)} has none that are read"
            raise InvalidArgument(f"{reason}: the index is not built with_position, or by an older writer")
        found: dict[str, Postings] = {}
        for term, number in sorted(self.numbers(terms).items(), key=lambda each: each[1]):
            row = await self.lists.read(columns, number, 1)
            values = {name: row.column(name)[0] for name in columns}
            path = self.io.path(self.lists.name)
            found[term] = postings.decode(values, self.layout, len(self.lengths), path, positions=positions)
        return found


def lists_bytes(lists: Mapping[str, Postings]) -> int:
    """About what lists of documents take in memory."""
    return _TERM_BYTES + sum(each.nbytes for each in lists.values())


@implements("WRITER-027", "PLAN-011")
async def parts(io: Io, entry: table_pb2.IndexMetadata) -> list[StoredPart]:
    """The partitions of one index entry of the table at ``io``. Raises `ArtifactError` for missing or damaged files."""
    folder = index_folder(entry.uuid.uuid)
    return await remembered(io, ("text index", io.path(folder)), partial(_opened, io, entry, folder), size_bytes)


def size_bytes(parts: Sequence[StoredPart]) -> int:
    """About what partitions take in memory, without lists."""
    return sum(part.addresses.nbytes + part.lengths.nbytes + _TERM_BYTES * len(part.terms) for part in parts)


async def _opened(io: Io, entry: table_pb2.IndexMetadata, folder: str) -> list[StoredPart]:
    told = await _read(io, f"{folder}/{METADATA_FILE}")
    try:
        numbers = [int(number) for number in json_text.parse((told.schema.metadata or {})[b"partitions"])]
    except (ValueError, TypeError, LookupError) as error:
        reason = f"the partitions are not readable: {error}"
        raise ArtifactError(_CLAUSE, io.path(f"{folder}/{METADATA_FILE}"), reason) from error
    return [await _part(io, entry, f"part_{number}") for number in numbers]


async def _part(io: Io, entry: table_pb2.IndexMetadata, name: str) -> StoredPart:
    prefix = f"{index_folder(entry.uuid.uuid)}/{name}"
    documents = await _read(io, f"{prefix}_docs.lance")
    path = io.path(f"{prefix}_invert.lance")
    lists = await open_index_file(io, entry, f"{name}_invert.lance")
    if lists is None:
        raise ArtifactError(_CLAUSE, path, "the index has no such file")
    if not {"_rowid", "_num_tokens"} <= set(documents.schema.names) or not set(_LISTS) <= set(lists.schema.names):
        raise ArtifactError(_CLAUSE, path, "the index has no lists of documents as they are read here")
    return StoredPart(
        io=io,
        prefix=prefix,
        addresses=documents.column("_rowid").to_numpy().astype(np.uint64, copy=False),
        lengths=documents.column("_num_tokens").to_numpy().astype(np.uint32, copy=False),
        terms=await _terms(io, f"{prefix}_tokens.lance"),
        lists=lists,
        layout=postings.layout(lists.schema.metadata or {}, path),
    )


async def _terms(io: Io, name: str) -> bytes | Mapping[str, int]:
    table = await _read(io, name)
    if "_token_fst_bytes" in table.schema.names and table.num_rows == 1:
        data: bytes = table.column("_token_fst_bytes")[0].as_py()
        return data
    if not {"_token", "_token_id"} <= set(table.schema.names):
        raise ArtifactError(_CLAUSE, io.path(name), f"it has no list of terms; its columns are {table.schema.names}")
    return dict(zip(table.column("_token").to_pylist(), table.column("_token_id").to_pylist(), strict=True))


def _text(numbers: Mapping[bytes, int], path: str) -> dict[str, int]:
    try:
        return {term.decode(): number for term, number in numbers.items()}
    except UnicodeDecodeError as error:
        raise ArtifactError(_CLAUSE, path, f"a term is not text: {error}") from error


async def _read(io: Io, name: str) -> pa.Table:
    try:
        return data_file.decode(await io.get(name), io.path(name), clause=_CLAUSE)
    except NotFound:
        raise ArtifactError(_CLAUSE, io.path(name), "the index has no such file") from None
