"""The index of the base table that a search uses."""

from __future__ import annotations

from typing import Literal

from ..effects import Io
from ..errors import InvalidArgument
from ..maintained import base_index
from ..maintained.base_index import MaintainedIndex
from ..table.coverage import index_names, segments
from ..table.state import TableState


async def chosen_index(
    io: Io, base: TableState, column: str, name: str | None, kind: Literal["vector", "text"]
) -> MaintainedIndex | None:
    """The index ``name``, which has to fit; for None the first by name over ``column``, or None if there is none.

    An index that this engine cannot follow is passed over, unless it was asked for by name. Raises `InvalidArgument`.
    """
    for candidate in index_names(base) if name is None else (name,):
        if name is None and not _is_of(base, candidate, column, kind):
            continue  # over another column, or of another kind
        try:
            (found,) = await base_index.load(io, base, [candidate]) or (None,)
        except InvalidArgument:
            if name is not None:
                raise
            continue  # AMB-48, which indexes: one that this engine cannot follow is no choice of its own
        if found is not None and found.column == column and (found.code if kind == "vector" else found.tokenizer):
            return found
        if name is not None:
            raise InvalidArgument(
                f"index {name!r} is not a trained {kind} index over column {column!r}", clause="AMB-48"
            )
    return None


def _is_of(base: TableState, name: str, column: str, kind: str) -> bool:
    entries = segments(base, name)
    number = base.field_ids.get(column)
    suffix = "VectorIndexDetails" if kind == "vector" else "InvertedIndexDetails"
    fits = entries[0].index_details.type_url.endswith(suffix)
    return fits and number is not None and list(entries[0].fields) == [number]
