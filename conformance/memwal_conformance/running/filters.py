"""Bloom filters as they are stored, asked of their writer: the format is the writer's own (AMB-47, bloom filters).

The judge takes the keys out of each listed generation by decoders of its own, and has an adapter that answers
``eval.bloom`` look for them in the stored file. A filter that denies one of them loses rows. One that denies none of
many keys that the generation does not have was not made of its keys, or its own writer does not know its format.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memwal.words import counted

from .. import cells
from ..adapters.process import AdapterProcess
from ..judge import bloom, content
from ..judge.store import JudgedStore
from ..judge.wire import DamagedBytes
from ..protocol import AdapterError, Json, tells
from ..verdicts import Finding

CLAUSES: tuple[str, ...] = ("GEN-010",)
"""A generation has the serialised bloom filter over its primary keys."""
MESSAGE = "eval.bloom"
STRANGERS = 64
"""So many keys that are not there are asked for: an honest filter denies some of them."""

_FOREIGN: Mapping[str, Sequence[Any]] = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64"), range(1_500_000_007, 1_500_000_007 + 7919 * 96, 7919)),
    "utf8": [f"nobody wrote this key {number}" for number in range(96)],
}
"""Values of keys that no scenario writes, by their types."""


_UNASKED = ("date32", "timestamp_us")
"""Types of keys that are not asked for."""


def asked(store: JudgedStore, schema: Sequence[Json], free: Sequence[AdapterProcess]) -> Iterator[Finding]:
    """What the first of ``free`` that claims to answer says of each stored filter.

    Raises what a broken adapter raises.
    """
    adapter = next((each for each in free if each.hello is not None and MESSAGE in each.hello.capabilities), None)
    described = [column for name in store.key for column in schema if column["name"] == name]
    if adapter is None or len(described) < len(store.key) or any(each["type"] in _UNASKED for each in described):
        return
    for region in store.regions.values():
        for generation in region.newest.generations if region.newest is not None else ():
            file = region.folder / generation.path / bloom.FILE
            try:
                found = content.keys(content.generation_rows(store, region, generation.path), store.key)
            except DamagedBytes:
                continue  # a structural check says so
            if file.is_file():
                clauses = CLAUSES
                try:
                    wrong = _wrong(file.read_bytes(), sorted(found, key=repr)[: bloom.KEYS_MAX], described, adapter)
                except AdapterError as error:
                    wrong = f"cannot be read by the implementation that wrote it: {error}"
                    clauses = CLAUSES if tells(MESSAGE, error) else ()
                broken = None if wrong is None else f"{region.region_id}/{generation.path}/{bloom.FILE} {wrong}"
                yield Finding(clauses=clauses, broken=broken)


def _wrong(data: bytes, keys: Sequence[content.Key], columns: Sequence[Json], adapter: AdapterProcess) -> str | None:
    foreign = [key for key in _foreign(columns) if key not in set(keys)][:STRANGERS]
    rows = [[cells.cell(c["type"], v) for c, v in zip(columns, key, strict=True)] for key in (*keys, *foreign)]
    params = {"keys": {"columns": list(columns), "rows": rows}, "data": base64.b64encode(data).decode()}
    perhaps = adapter.call(MESSAGE, params).get("perhaps", ())
    if len(perhaps) != len(rows):
        return f"was asked about {counted(len(rows), 'key')}, and {len(perhaps)} answers came"
    lost = [key for key, said in zip(keys, perhaps, strict=False) if not said]
    if lost:
        return f"denies the key {lost[0]}, which the generation has"
    if foreign and all(perhaps[len(keys) :]):
        return f"denies none of {len(foreign)} keys that were never written: it does not filter its generation's keys"
    return None


def _foreign(columns: Sequence[Json]) -> list[content.Key]:
    """Keys that no scenario writes; none where a column has a type with few values."""
    values = [_FOREIGN.get(column["type"], ()) for column in columns]
    return list(zip(*values, strict=False))
