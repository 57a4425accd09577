"""Readers of the native package: scans, searches and lookups, as its documentation puts them together."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from memwal_conformance import cells
from memwal_conformance.adapters.native_package import ADD_SSTABLE, LOOKUP, SCANNER, SEARCH, SNAPSHOT
from memwal_conformance.adapters.native_state import NativeState
from memwal_conformance.protocol import AdapterError, Json

_DISTANCE = "_distance"


def reader_open(state: NativeState, params: Json) -> Json:
    dataset = state.dataset(params["table"])
    handle = state.handle("reader")
    state.readers[handle] = (params["table"], dataset)
    return {"reader": handle, "version": str(dataset.version)}


def snapshots(state: NativeState, table: str) -> list[Any]:
    """What the readers of the package want to be told: the SSTables that the shard manifests list."""
    found = []
    for shard in state.store(table).shards():
        snapshot = SNAPSHOT(shard.shard_id).with_current_generation(shard.current_generation)
        for generation, folder in shard.generations:
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
        return SCANNER.from_snapshots(dataset, snapshots(state, table)), names
    others = [snapshot for snapshot in snapshots(state, table) if snapshot.shard_id != beside[0].shard_id]
    return beside[0].native.lsm_scanner(others), names


def _literal(value: Any) -> str:
    """A value in SQL."""
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _sql(part: Json) -> str:
    return f"{part['column']} {part['op']} {_literal(cells.value(part['value']))}"


def reader_scan(state: NativeState, params: Json) -> Json:
    scanner, names = _scanner(state, params)
    if "columns" in params:
        scanner = scanner.project(params["columns"])
    if params.get("filter"):
        scanner = scanner.filter(" AND ".join(map(_sql, params["filter"])))
    if "limit" in params:
        scanner = scanner.limit(params["limit"])
    return {"rows": state.rows(scanner.to_table().select(params.get("columns", names)))}


def reader_search(state: NativeState, params: Json) -> Json:
    table, dataset = state.reader(params)
    prefilter = {"filter": " AND ".join(map(_sql, params["filter"]))} if params.get("filter") else {}
    planner = SEARCH(dataset, snapshots(state, table), params["column"], distance_type="l2", **prefilter)
    vector = pa.array([float(number) for number in params["vector"]], pa.float32())
    found = planner.plan_search(vector, k=params["k"]).to_table()
    told = {"distances": list(map(str, found[_DISTANCE].to_pylist()))} if _DISTANCE in found.column_names else {}
    return {"rows": state.rows(found.select([column.name for column in dataset.schema])), **told}


def reader_get(state: NativeState, params: Json) -> Json:
    table, dataset = state.reader(params)
    keys = cells.to_table(params["keys"])
    names = params.get("columns", [column.name for column in dataset.schema])
    found: list[pa.Table] = []
    for number in range(keys.num_rows):
        one = keys.slice(number, 1).combine_chunks()
        if params.get("writers"):  # the planner sees no MemTable
            scanner, _ = _scanner(state, params)
            found.append(scanner.filter(_is_key(one)).to_table())
            continue
        arrays = [column.chunk(0) for column in one.columns]
        wanted = arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, names=keys.column_names)
        found.append(LOOKUP(dataset, snapshots(state, table)).plan_lookup(wanted).to_table())
    none = dataset.schema.empty_table()
    return {"rows": state.rows(pa.concat_tables([rows.select(names) for rows in (none, *found)]))}


def _is_key(one: pa.Table) -> str:
    return " AND ".join(f"{name} = {_literal(one[name][0].as_py())}" for name in one.column_names)
