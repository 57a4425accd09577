"""What generations and MemTables inherit from an index of the base table.

Source: MemWAL revision A, "Vector Index Configuration" and "MemTable Indexing"; AMB-48, 51.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pyarrow as pa

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io, remembered
from ..errors import ArtifactError, InvalidArgument, Outcome, check_name
from ..table import vector_models
from ..table.coverage import index_names, segments
from ..table.state import TableState, latest
from . import tokenizer as tokenizers
from .scalar import has_order
from .tokenizer import Tokenizer
from .vector_code import STORED_AS, VectorCode, vector_code

Kind = Literal["btree", "bitmap", "inverted", "IVF_FLAT", "IVF_PQ", "IVF_SQ"]

CONFIG_INHERITED = "memwal.inherited."
"""Prefix of config keys of a generation's table: index name -> UUID of the base index that it inherited from."""

_SCALAR_KINDS: dict[str, Kind] = {
    "BTreeIndexDetails": "btree",
    "BitmapIndexDetails": "bitmap",
    "InvertedIndexDetails": "inverted",
}
"""Kind by the last part of the type URL of an index's details."""
_CARRIED = (*_SCALAR_KINDS.values(), *STORED_AS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedIndex:
    """One index of the base table that every MemTable and generation carries too."""

    name: str
    """Name in the base table; the generation's index has the same."""
    kind: Kind
    """Of vectors: how they are encoded, whatever graph the base index has over them."""
    column: str
    """The indexed column; always a top-level one."""
    parts: tuple[str, ...]
    """Hyphenated UUIDs of the base index's entries, oldest first."""
    details_type: str = ""
    """Type URL of the base index's details."""
    details: bytes = b""
    """The details themselves."""
    code: VectorCode | None = None
    """Centroids and quantisation; for IVF kinds only."""
    tokenizer: Tokenizer | None = None
    """How text becomes terms; for ``inverted`` only."""

    @property
    def uuid(self) -> str:
        """The UUID that generations record: of the oldest entry, which index builders keep (AMB-51)."""
        return self.parts[0]


@implements("WRITER-002", "WRITER-023", "WRITER-025", "WRITER-026", "AMB-48", "AMB-51")
async def load(
    io: Io, state: TableState, names: Sequence[str] | None = None, *, known: Collection[MaintainedIndex] = ()
) -> tuple[MaintainedIndex, ...]:
    """The indexes ``names`` of the base table ``state`` at ``io``; None takes those that the MemWAL index names.

    ``known``: what an earlier call gave; an index that has the same entries is not read again. Raises
    `InvalidArgument` for a name that does not resolve and for an index that a MemTable cannot carry, and
    `ArtifactError` for damaged index files. Left out are vector indexes that have no centroids yet, since they were
    created on an empty table; and where the table maintains every index (R), those that a MemTable cannot carry.
    """
    lenient = names is None and bool(state.mem_wal.maintain_all)
    wanted = names if names is not None else index_names(state) if lenient else state.mem_wal.maintained_indexes
    earlier = {(index.name, index.parts): index for index in known}
    found = []
    for name in dict.fromkeys(wanted):
        entries = segments(state, name)
        if not entries:
            check_name("index", name, index_names(state), clause="AMB-48")
        parts = tuple(str(uuids.UUID(bytes=entry.uuid.uuid)) for entry in entries)
        try:
            index = earlier.get((name, parts)) or await _read(io, state, name, parts, entries)
        except InvalidArgument as refusal:
            if not lenient:
                raise
            await io.note("index_not_maintained", index=name, reason=str(refusal))
            continue
        if index is None:
            await io.note("index_not_maintained", index=name, reason="it has no centroids yet")
        else:
            found.append(index)
    return tuple(found)


async def _read(
    io: Io, state: TableState, name: str, parts: tuple[str, ...], entries: Sequence[table_pb2.IndexMetadata]
) -> MaintainedIndex | None:
    """The index; None for one over vectors that was never trained."""
    column = _column(state, name, entries)
    details = entries[0].index_details
    suffix = details.type_url.rpartition(".")[2]
    code, tokenizer, kind = None, None, _SCALAR_KINDS.get(suffix)
    if vector_models.is_vector(entries[0]):
        what = ("vector code", io.root, name, parts)
        code = await remembered(io, what, partial(_code, io, name, entries), _code_bytes)
        if code is None:
            return None
        kind = code.kind
        _check_type(name, kind, column, pa.types.is_fixed_size_list(column.type) and code.fits(column.type))
    elif kind is None:
        reason = f"index {name!r} is of kind {suffix or 'unknown'}; MemTables carry {', '.join(_CARRIED)}"
        raise InvalidArgument(reason, clause="AMB-48")
    elif kind == "inverted":
        tokenizer = await tokenizers.load(io, name, parts)
        _check_type(name, kind, column, pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
    else:
        _check_type(name, kind, column, has_order(column.type))
    return MaintainedIndex(
        name=name,
        kind=kind,
        column=column.name,
        parts=parts,
        details_type=details.type_url,
        details=details.value,
        code=code,
        tokenizer=tokenizer,
    )


def _column(state: TableState, name: str, entries: Iterable[table_pb2.IndexMetadata]) -> pa.Field:
    names = {int(field): column for column, field in state.field_ids.items()}
    indexed = {tuple(entry.fields) for entry in entries}
    columns = indexed.pop()
    if indexed or len(columns) != 1 or columns[0] not in names:
        raise InvalidArgument(f"index {name!r} is not over one top-level column", clause="AMB-48")
    return state.schema.field(names[columns[0]])


def _check_type(name: str, kind: str, column: pa.Field, fits: bool) -> None:
    if not fits:
        reason = f"index {name!r} of kind {kind} over column {column.name!r} of type {column.type} is not supported"
        raise InvalidArgument(reason, clause="AMB-48")


def _code_bytes(code: VectorCode | None) -> int:
    return 0 if code is None else int(code.centroids.nbytes) + (0 if code.codebook is None else code.codebook.nbytes)


async def _code(io: Io, name: str, entries: Iterable[table_pb2.IndexMetadata]) -> VectorCode | None:
    models = {await vector_models.load(io, entry) for entry in entries} - {None}
    if len(models) > 1:
        reason = f"parts of index {name!r} were trained differently, so their distances cannot be compared"
        raise InvalidArgument(reason, clause="AMB-51")
    model = models.pop() if models else None
    if model is None:
        return None
    if model.kind not in STORED_AS:
        reason = f"index {name!r} is of kind {model.kind}; MemTables carry {', '.join(_CARRIED)}"
        raise InvalidArgument(reason, clause="AMB-48")
    return vector_code(model, name)


@implements("WRITER-002", "AMB-142")
async def refreshed(io: Io, known: Sequence[MaintainedIndex]) -> tuple[MaintainedIndex, ...]:
    """What the next MemTable of an open writer maintains: what the base table at ``io`` says now.

    ``known``: what the MemTable before it maintains. That stays where the newest configuration cannot be had: a writer
    with rows to flush does not stop for it.
    """
    try:
        return await load(io, await latest(io), known=known)
    except (Outcome, ArtifactError, InvalidArgument) as failure:
        await io.note("maintained_indexes_kept", reason=str(failure))
        return tuple(known)


@implements("AMB-51", "WRITER-029")
def retrained(before: MaintainedIndex, after: MaintainedIndex) -> bool:
    """Whether an index under a maintained name is another one now: distances or terms of old generations do not fit it.

    Such a change is refused; the way to it is a second index under another name (WRITER-030).
    """
    return (before.kind, before.column, before.code, before.tokenizer) != (
        after.kind,
        after.column,
        after.code,
        after.tokenizer,
    )


def inherited(generation: TableState) -> dict[str, str]:
    """UUIDs of the base indexes that a generation inherited from, by index name."""
    return {
        key.removeprefix(CONFIG_INHERITED): value
        for key, value in generation.config.items()
        if key.startswith(CONFIG_INHERITED)
    }


@implements("AMB-51")
def matches(index: MaintainedIndex, generation: TableState) -> bool:
    """Whether a generation's own index of that name may answer for it in a query on ``index``; else it is scanned.

    Vector indexes have to come from an entry that the base index still has. Scalar and text indexes answer alike
    whatever they come from, as long as the generation has one that is like the base's.
    """
    entries = segments(generation, index.name)
    if not entries:
        return False
    if index.code is not None:
        return inherited(generation).get(index.name) in index.parts
    wanted = index.details_type, index.details
    return all((entry.index_details.type_url, entry.index_details.value) == wanted for entry in entries)
