"""docs/types.md: which types columns may have. Written anew by ``python -m reference.tests.kit.types_page``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from memwal.errors import InvalidArgument
from memwal.table.door import check_schema

from .nested_types import LEAVES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "types.md"

REFUSED = (
    pa.decimal32(5, 2), pa.decimal64(12, 2), pa.month_day_nano_interval(),
    pa.string_view(), pa.binary_view(),
    pa.dictionary(pa.int32(), pa.string()), pa.run_end_encoded(pa.int32(), pa.string()),
    pa.map_(pa.string(), pa.int32()), pa.list_view(pa.int32()), pa.large_list_view(pa.int32()),
    pa.dense_union([pa.field("a", pa.int32())]),
    pa.uuid(), pa.json_(), pa.bool8(), pa.fixed_shape_tensor(pa.float32(), [2, 2]), pa.opaque(pa.string(), "t", "v"),
)  # fmt: skip
NESTED = (
    pa.list_(pa.int32()),
    pa.large_list(pa.int32()),
    pa.list_(pa.int32(), 3),
    pa.list_(pa.int32(), 0),
    pa.struct([pa.field("a", pa.int32())]),
    pa.struct([]),
)
OUTER = {
    "column": lambda inner: inner,
    "`list`": pa.list_,
    "`large_list`": pa.large_list,
    "`fixed_size_list`": lambda inner: pa.list_(inner, 2),
    "`struct`": lambda inner: pa.struct([pa.field("a", inner), pa.field("b", pa.int8())]),
}
"""How a type is used -> the type of the column."""

_HEAD = """\
# Which types columns may have

This page lists the types that columns, keys and region values may have.

A table admits a type if every value of it is read back unchanged: from the WAL, from a writer's memory, from what the
next writer recovers, from generations, from the base table after merges and compaction, through filters and lookups,
and through pylance's reader, under revisions A, B and R. `reference/tests/api/test_nested_values.py` tests this for
each cell of the table. Any other type is an `InvalidArgument` of the call that brings it: `create`, `enable`,
`add_columns`, `overwrite`. Rows must have exactly the table's types; only `Table.upsert` casts values, if the cast
changes none of them.

`python -m reference.tests.kit.types_page` writes this page, and a test compares it.

"""
_MARKS = """
## What else decides

- **Nesting** may have any depth, with NULLs at every level that allows them. Items of fixed-size lists may be
  fixed-size lists themselves, and may always be NULL, because Lance cannot express that they may not.
- **Extension types** (`arrow.uuid`, `arrow.json`, `lance.bfloat16`, …) are refused, even if only the metadata of a
  column (`ARROW:extension:name`) names one: use the storage type for such columns.
- **Packed structs** (`packed`, `lance-encoding:packed`) are refused, because other readers find NULL in them.
- **Encoding marks** may be `lance-encoding:compression` (`none`, `lz4`, `zstd`, `fsst`), `…:compression-level`,
  `…:structural-encoding` and `…:blob`; others are refused. For blobs, pylance's `to_table` returns descriptions,
  unless it is called with `blob_handling="all_binary"`.
- **Metadata** of columns are UTF-8 text, and the names of the parts of a struct are unique.
"""


def verdict(arrow: pa.DataType) -> str:
    """Why a column of this type may not come in; empty if it may."""
    try:
        check_schema(pa.schema([pa.field("c", arrow)]))
    except InvalidArgument as error:
        return str(error)
    return ""


def types() -> Iterator[tuple[pa.DataType, str, pa.DataType]]:
    """Every type of the page: the inner one, how it is used, and the type of the column."""
    for inner in (*LEAVES, *NESTED, *REFUSED):
        for use, outer in OUTER.items():
            yield inner, use, outer(inner)


def page() -> str:
    lines = [f"| type | {' | '.join(OUTER)} | why not |", "|---" * (len(OUTER) + 2) + "|"]
    for inner in (*LEAVES, *NESTED, *REFUSED):
        found = [verdict(outer(inner)) for outer in OUTER.values()]
        said = ["no" if why else "yes" for why in found]
        why = next((why.partition(": ")[2] for why in found if why), "")
        lines.append(f"| `{inner}` | {' | '.join(said)} | {why} |")
    return _HEAD + "\n".join(lines) + "\n" + _MARKS


if __name__ == "__main__":
    PAGE.write_text(page())
