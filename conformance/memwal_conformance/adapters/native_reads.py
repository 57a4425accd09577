"""Readers of the native package: scans, searches and lookups, as its documentation puts them together."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memwal_conformance import cells
from memwal_conformance.adapters.native_package import ADD_SSTABLE, LOOKUP, SCANNER, SEARCH, SNAPSHOT
from memwal_conformance.adapters.native_state import NativeState
from memwal_conformance.adapters.native_store import TableStore
from memwal_conformance.protocol import AdapterError, Json


def reader_open(state: NativeState, params: Json) -> Json:
    dataset = state.dataset(params["table"])
    handle = state.handle("reader")
    state.readers[handle] = (params["table"], dataset)
    return {"reader": handle, "version": str(dataset.version)}


def snapshots(table: str, *, all_listed: bool = False) -> list[Any]:
    """What the readers of the package want to be told: SSTables that the base table does not have yet.

    ``all_listed``: also those that it has. A search needs them, since it looks only at what the base index covers.
    """
    store = TableStore(table)
    compacted, found = {} if all_listed else store.compacted(), []
    for shard in store.shards():
        snapshot = SNAPSHOT(shard.shard_id).with_current_generation(shard.current_generation)
        for generation, folder in shard.generations:
            if generation > compacted.get(shard.shard_id, 0):
                snapshot = ADD_SSTABLE(snapshot, generation, folder)
        found.append(snapshot)
    return found


def _scanner(state: NativeState, params: Json) -> tuple[Any, list[str]]:
    """A scanner, and the names of the table's columns."""
    table, dataset = state.reader(params)
    beside = [state.writer(handle) for handle in params.get("writers", ())]
    if len(beside) > 1:
        raise AdapterError("invalid_argument", "a scan of the package takes part in one MemTable at most")
    names = [column.name for column in dataset.schema]
    if not beside:
        return SCANNER.from_snapshots(dataset, snapshots(table)), names
    others = [snapshot for snapshot in snapshots(table) if snapshot.shard_id != beside[0].shard_id]
    return beside[0].alive().lsm_scanner(others), names


def _sql(part: Json) -> str:
    value = cells.value(part["value"])
    text = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
    return f"{part['column']} {part['op']} {text}"


def reader_scan(state: NativeState, params: Json) -> Json:
    scanner, names = _scanner(state, params)
    if "columns" in params:
        scanner = scanner.project(params["columns"])
    if params.get("filter"):
        scanner = scanner.filter(" AND ".join(map(_sql, params["filter"])))
    if "limit" in params:
        scanner = scanner.limit(params["limit"])
    return {"rows": cells.to_rows(scanner.to_table().select(params.get("columns", names)))}


def reader_search(state: NativeState, params: Json) -> Json:
    table, dataset = state.reader(params)
    prefilter = {"filter": " AND ".join(map(_sql, params["filter"]))} if params.get("filter") else {}
    planner = SEARCH(dataset, snapshots(table, all_listed=True), params["column"], distance_type="l2", **prefilter)
    vector = pa.array([float(number) for number in params["vector"]], pa.float32())
    found = planner.plan_search(vector, k=params["k"]).to_table()
    return {"rows": cells.to_rows(found.select([column.name for column in dataset.schema]))}


def reader_get(state: NativeState, params: Json) -> Json:
    table, dataset = state.reader(params)
    keys = cells.to_table(params["keys"])
    names = params.get("columns", [column.name for column in dataset.schema])
    found: list[pa.Table] = []
    if params.get("writers"):  # the planner sees no MemTable: a filtered scan does
        scanner, _ = _scanner(state, params)
        rows = scanner.to_table()
        found = [rows.filter(_is_key(keys, number)) for number in range(keys.num_rows)]
    else:
        planner = LOOKUP(dataset, snapshots(table), keys.column_names)
        for number in range(keys.num_rows):
            one = keys.slice(number, 1).combine_chunks()
            arrays = [column.chunk(0) for column in one.columns]
            wanted = arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, names=keys.column_names)
            found.append(planner.plan_lookup(wanted).to_table())
    none = dataset.schema.empty_table()
    return {"rows": cells.to_rows(pa.concat_tables([rows.select(names) for rows in (none, *found)]))}


def _is_key(keys: pa.Table, number: int) -> Any:
    parts = [pc.field(name) == keys[name][number] for name in keys.column_names]
    return functools.reduce(lambda a, b: a & b, parts)
