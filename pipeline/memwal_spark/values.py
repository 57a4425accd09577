"""Region values of rows as one text each, for grouping."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_NULL = "\0"
_SEPARATOR = "\1"


def as_text(values: pa.Table) -> pa.Array:
    """One text per row of a table of region values: equal for equal values, never NULL."""
    texts = [pc.fill_null(pc.cast(column, pa.string()), _NULL) for column in values.columns]
    joined = pc.binary_join_element_wise(*texts, _SEPARATOR) if len(texts) > 1 else texts[0]
    return joined.combine_chunks()
