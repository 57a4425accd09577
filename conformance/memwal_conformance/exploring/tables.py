"""The tables of lives: their columns and first rows, the values that operations write, and which keys a region has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from memwal.index import hashing
from memwal_sim.following import RowTold
from memwal_sim.histories.history import Rows

from .. import cells
from ..protocol import Json
from ..running.scenarios import plain_rows, rows
from .lives import ForeignLife

KEY = ("id",)
_ID: Json = {"name": "id", "type": "int64", "nullable": False}
_V: Json = {"name": "v", "type": "utf8", "nullable": True}
_VECTOR: Json = {"name": "vec", "type": "float32[2]", "nullable": True}
_SEQ: Json = {"name": "seq", "type": "int64", "nullable": False}
_TENANT: Json = {"name": "tenant", "type": "utf8", "nullable": False}
SEQUENCE = "seq"
"""The column that orders rows."""
LATE = 1
"""Sequence of late rows: behind those that the table begins with, and before those of any put."""
INDEXES: list[Json] = [
    {"name": "by_id", "column": "id", "kind": "btree"},
    {"name": "by_v", "column": "v", "kind": "text"},
    {"name": "by_value", "column": "v", "kind": "btree"},
    {"name": "by_vec", "column": "vec", "kind": "vector"},
]
"""Of a table with indexes."""
BUCKETS, BOTH = "bucket", "both"
"""Region fields of a table with several regions; the second one where they are by text, and by text and key."""
IMMUTABLE = "immutable_sources"
"""Parameter of a region field whose source is no part of the key: that of a key never changes (AMB-55)."""
REGION = "0a0b0c0d-0000-4000-8000-000000000001"
"""Of a region that a life makes itself."""
FIRST_KEY = 100_000
"""Of the rows that a table begins with."""
FIRST_VALUE = "base"
"""Value of these rows."""
FIRST, FIRST_INDEXED = 2, 8
"""How many they are, in a plain table and in one with indexes."""


def columns(life: ForeignLife) -> list[Json]:
    """The columns of its table."""
    tenant = {**_TENANT, "nullable": life.textless}
    more = ((life.indexed, _VECTOR), (life.sequenced, _SEQ), (life.by_text, tenant))
    return [_ID, _V, *(column for has, column in more if has)]


def first_keys(life: ForeignLife, region: int = 0) -> tuple[int, ...]:
    """Keys of the rows that its table begins with; ``region``: those of one of its regions."""
    keys = range(FIRST_KEY, FIRST_KEY + (FIRST_INDEXED if life.indexed else FIRST))
    return tuple(_of_region(life, keys, region)) if region else tuple(keys)


def new_keys(life: ForeignLife, number: int, size: int, region: int) -> tuple[int, ...]:
    """``size`` keys that only the ``number``-th operation writes first, all of one region."""
    return tuple(_of_region(life, range(100 * number, 100 * number + 100), region))[:size]


def _of_region(life: ForeignLife, keys: Iterable[int], region: int) -> list[int]:
    found = list(keys)
    if life.regions == 1:
        return found
    ids = pa.array(found, pa.int64())
    if not life.by_text:
        buckets = hashing.bucket(hashing.murmur3(ids), life.regions).to_pylist()
        return [key for key, bucket in zip(found, buckets, strict=True) if bucket == region - 1]
    texts = pa.array([tenant(life, key) for key in found], pa.string())
    hashes = hashing.murmur3(texts), hashing.murmur3_multi([texts, ids])
    values = zip(*(hashing.bucket(each, _buckets(life)).to_pylist() for each in hashes), strict=True)
    return [key for key, value in zip(found, values, strict=True) if value == _values(life, region)]


def _values(life: ForeignLife, region: int) -> tuple[int | None, ...]:
    """The values of a region's fields. Those of rows without a text have no bucket of the text, and one of both."""
    both = region - 1
    return (None if life.textless and region > 1 else both, both) if life.by_text else (both,)


def _buckets(life: ForeignLife) -> int:
    """Of each region field. By text there are more than regions: of two buckets, a hash's sign tells nothing."""
    return life.regions + life.by_text


def tenant(life: ForeignLife, key: int) -> str | None:
    """The text of the row of a key; None: it has none, and never gets one."""
    return None if life.textless and key % 2 else f"of tenant {key % 7}"  # of a length that is no whole number of words


def key_of(life: ForeignLife) -> tuple[str, ...]:
    """Columns of the primary key; none in an append-only table."""
    if life.append_only:
        return ()
    return ("tenant", *KEY) if life.by_text and not life.textless else KEY


def of_region(life: ForeignLife, region: int) -> Json:
    """What `writer.open` is told of a region of a table with several, and nothing in another table."""
    fields = [BUCKETS, BOTH] if life.by_text else [BUCKETS]
    values = (cells.cell("int32", value) for value in _values(life, region))
    return {"values": dict(zip(fields, values, strict=True))} if life.regions > 1 else {}


def made(life: ForeignLife) -> Json:
    """What `table.create` is told of it, without its place."""
    found: Json = {"rows": sent(life, first_keys(life), FIRST_VALUE), "primary_key": list(key_of(life) or KEY)}
    sources = {BUCKETS: ["tenant"], BOTH: ["tenant", "id"]} if life.by_text else {BUCKETS: ["id"]}
    fields = [
        {
            "field_id": name,
            "source_columns": columns,
            "transform": "multi_bucket" if name == BOTH else "bucket",
            "parameters": {"num_buckets": str(_buckets(life))} | ({IMMUTABLE: "true"} if life.textless else {}),
        }
        for name, columns in sources.items()
    ]
    found |= {"region_fields": fields} if life.regions > 1 else {}
    return found | ({"indexes": INDEXES} if life.indexed else {})


def sent(life: ForeignLife, keys: Sequence[int], value: str, sequence: int | None = None) -> Json:
    """Rows with these keys and this value, for a message; ``sequence``: another one than that of the value."""
    found = columns(life)
    order = sequence if sequence is not None else (number_of(value) + 1) * 10 if value != FIRST_VALUE else 0
    plain = [
        {"id": key, "v": value, "vec": place(key, value), SEQUENCE: order, "tenant": tenant(life, key)} for key in keys
    ]
    return rows(found, [tuple(row[column["name"]] for column in found) for row in plain])


def number_of(value: str) -> int:
    """The number of the write that has a value; 0 for the rows that a table begins with."""
    return int(value.removeprefix("w")) if value.startswith("w") else 0


def place(key: int, value: str) -> list[float]:
    """The vector of a row: no two versions of rows are as far from the origin, and newer ones are nearer or farther."""
    number = number_of(value)
    return [(key * 11 + number * 37) % 101 + number / 64 + key % 16 / 1024, 0.0]


def keys_sent(keys: Sequence[int]) -> Json:
    """Keys, for a message."""
    return rows([_ID], [(key,) for key in keys])


def written(sent: Json) -> Rows:
    """Rows of a message, as a history has them."""
    return tuple(((row["id"],), dict(row)) for row in plain_rows(sent))


def told(rows: Rows) -> tuple[RowTold, ...]:
    """Rows of a write as words: keys and values of lives have one word each, and vectors have none."""
    words = ((key, [value for value in (row or {}).values() if not isinstance(value, list)]) for key, row in rows)
    return tuple(RowTold.of(key, values) for key, values in words)
