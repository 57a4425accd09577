"""Corpus statistics of a stored full-text index: those of a generation, or of the base table.

Source: MemWAL revision A, "MemTable Indexing"; AMB-110.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from .. import paths
from ..clauses import implements
from ..codec import data_file, json_text, token_fst
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..table.coverage import segments
from ..table.state import TableState
from .text_index import CorpusStatistics
from .tokenizer import METADATA_FILE

_CLAUSE = "WRITER-027"


@implements("WRITER-027", "AMB-110")
async def load(io: Io, state: TableState, name: str, terms: Collection[str] | None = None) -> CorpusStatistics:
    """Statistics of the full-text index ``name`` of the table ``state`` at ``io``; none if it has no such index.

    ``terms``: those whose frequencies are wanted; None takes all. Deleted and superseded rows count as long as the
    index holds them. Raises `ArtifactError` for damaged index files.
    """
    found = CorpusStatistics()
    for entry in segments(state, name):
        folder = f"{paths.INDICES}/{UUID(bytes=entry.uuid.uuid)}"
        for partition in await _partitions(io, f"{folder}/{METADATA_FILE}"):
            part = await _partition(io, f"{folder}/part_{partition}")
            found += part if terms is None else part.only(terms)
    return found


async def _partitions(io: Io, name: str) -> list[int]:
    table = await _read(io, name)
    try:
        return [int(number) for number in json_text.parse((table.schema.metadata or {})[b"partitions"])]
    except (ValueError, TypeError, LookupError) as error:
        raise ArtifactError(_CLAUSE, io.path(name), f"the partitions are not readable: {error}") from error


async def _partition(io: Io, prefix: str) -> CorpusStatistics:
    documents = await _read(io, f"{prefix}_docs.lance", "_num_tokens")
    postings = await _read(io, f"{prefix}_invert.lance", "_length")
    lengths = postings.column("_length").to_pylist()
    terms = await _terms(io, f"{prefix}_tokens.lance", len(lengths))
    if any(number >= len(lengths) for number in terms.values()):
        reason = f"a term has no list of documents among {len(lengths)}"
        raise ArtifactError(_CLAUSE, io.path(f"{prefix}_tokens.lance"), reason)
    return CorpusStatistics(
        documents=documents.num_rows,
        terms=pc.sum(documents.column("_num_tokens")).as_py() or 0,
        frequencies=Counter({term: lengths[number] for term, number in terms.items()}),
    )


async def _terms(io: Io, name: str, most: int) -> dict[str, int]:
    """Number of each term in a partition, which has at most ``most``."""
    table = await _read(io, name)
    if "_token_fst_bytes" in table.schema.names:
        numbers = token_fst.decode(table.column("_token_fst_bytes")[0].as_py(), io.path(name), most)
        try:
            return {term.decode(): number for term, number in numbers.items()}
        except UnicodeDecodeError as error:
            raise ArtifactError(_CLAUSE, io.path(name), f"a term is no text: {error}") from error
    listed = zip(table.column("_token").to_pylist(), table.column("_token_id").to_pylist(), strict=True)
    return dict(listed)


async def _read(io: Io, name: str, column: str | None = None) -> pa.Table:
    columns = None if column is None else [column]
    try:
        return data_file.decode(await io.get(name), io.path(name), clause=_CLAUSE, columns=columns)
    except NotFound:
        raise ArtifactError(_CLAUSE, io.path(name), "the index has no such file") from None
