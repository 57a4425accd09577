"""The released native package behind the adapter protocol: ``python -m memwal_conformance.adapters.native``.

Runs under any interpreter that has ``pylance`` 7.0.0 or later, and ``pyarrow``. What the package can do
is found out from its attributes, never from its version. It is given what its own documentation tells a caller to give,
and nothing better. What it has no call for is not claimed; the exceptions are named in `HELPED`, which ``hello`` tells
and the report shows.

Settings of ``configure``: ``append_only`` (``on``: tables are created without a primary key), ``environment`` (``on``:
what leads to the store is in the environment, too), and ``storage.<option>``, a storage option for the package.
"""

from __future__ import annotations

import functools
import inspect
import os
import uuid
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc

from memwal_conformance import cells
from memwal_conformance.adapters import base_indexes
from memwal_conformance.adapters.native_errors import RAISED, kind_of
from memwal_conformance.adapters.native_package import (
    ADD_SSTABLE,
    COMPACTED,
    EVALUATE,
    LOOKUP,
    MARK,
    SCANNER,
    SEARCH,
    WRITER,
)
from memwal_conformance.adapters.native_reads import reader_get, reader_open, reader_scan, reader_search
from memwal_conformance.adapters.native_state import NativeState, NativeWriter
from memwal_conformance.adapters.serve import Handler, serve
from memwal_conformance.protocol import AdapterError, Json

TOMBSTONE = "_tombstone"
HELPED = (
    "reader.open, reader.scan, reader.get, reader.search: the SSTables are read from the shard manifests, all of them",
    "reader.scan, reader.get: columns that were not asked for are dropped",
    "reader.get writers: a scan of the writer with the key as filter, since the lookup planner takes no MemTable",
    "writer.open: the epoch is read from the newest shard manifest",
    "writer.open memtable_rows: the limit of batches, too, since old versions flush by batches only; a put is one",
    "writer.open: max_wal_flush_interval_ms and manifest_scan_batch_size are 1, so that requests come one by one",
    "writer.flush_memtable: close, the only flush there is, and a new claim unless another writer has claimed",
    "writer.flush_memtable: the generation is read from the newest shard manifest",
    "merge.run: a merge_insert with progress for each listed SSTable above the stored progress, after one that deletes",
    "eval.region: columns are numbered as the package numbers them",
    "setting environment=on: what leads to the store is in the environment, for writers that ignore storage options",
)
"""What the adapter does and the package does not."""
_KEY = b"lance-schema:unenforced-primary-key"
_SETTINGS = {"durable_write": True, "max_wal_flush_interval_ms": 1, "manifest_scan_batch_size": 1}
"""Every put is durable: a writer of the package is so as a whole or not at all."""


def claims() -> tuple[list[str], list[str], list[str]]:
    """Roles, messages of roles that are not claimed as a whole, and capabilities, by what the package has."""
    roles = ["reader"] if SCANNER and LOOKUP and SEARCH and ADD_SSTABLE else []
    partial: list[str] = []
    if WRITER:
        partial += ["writer.open", "writer.put", *(["writer.delete"] if hasattr(WRITER, "delete") else [])]
        partial += ["writer.flush_memtable", "writer.close"]
    if MARK and COMPACTED:
        partial.append("merge.run")
    create = hasattr(lance.LanceDataset, "initialize_mem_wal")
    return (
        roles,
        partial,
        [*(["eval.region"] if EVALUATE else []), *(["table.create", "s3"] if create else []), "rows.ipc", "concurrent"],
    )


def without() -> list[str]:
    """Parameters that no call of the package takes."""
    found = ["table.create region_fields", "writer.open values", "reader.search text", "reader.search writers"]
    filtered = SEARCH is not None and "filter" in inspect.signature(SEARCH).parameters
    return [*found, *(() if filtered else ("reader.search filter",))]


def hello(_state: NativeState, _: Json) -> Json:
    roles, partial, capabilities = claims()
    return {
        "protocol": "1",
        "implementation": "pylance",
        "version": lance.__version__,
        "revisions": ["R"],
        "roles": roles,
        "partial": partial,
        "without": without(),
        "helped": list(HELPED),
        "looks_as": "aws-sdk-cpp",
        "capabilities": capabilities,
    }


def configure(state: NativeState, params: Json) -> Json:
    shutdown(state, {})
    if params["revision"] != "R":
        raise AdapterError("invalid_argument", f"the package writes revision R, not {params['revision']}")
    settings = dict(params["settings"])
    state.append_only = settings.pop("append_only", "off") == "on"
    state.rows = cells.to_stream if params.get("rows") == "ipc" else cells.to_rows
    in_environment = settings.pop("environment", "off") == "on"
    state.storage = {name.removeprefix("storage."): value for name, value in settings.items()}
    if "storage" in params:
        state.storage |= _reached(params["storage"])
        if in_environment:
            os.environ.update({name.upper(): value for name, value in state.storage.items() if name.startswith("aws_")})
            os.environ["AWS_ALLOW_HTTP"] = "true"
    if strange := [name for name in settings if not name.startswith("storage.")]:
        raise AdapterError("invalid_argument", f"there is no setting {', '.join(sorted(strange))}")
    return {}


def _reached(storage: Json) -> dict[str, str]:
    """Storage options for the package."""
    return {
        "aws_endpoint": storage["endpoint"],
        "aws_region": storage["region"],
        "aws_access_key_id": storage["access_key_id"],
        "aws_secret_access_key": storage["secret_access_key"],
        "allow_http": "true",
    }


def shutdown(state: NativeState, _: Json) -> Json:
    for writer in state.writers.values():
        try:
            writer.native.close()
        except RAISED:  # a fenced or closed writer, or one without a table by now: it is not asked about
            continue
    state.writers.clear()
    state.readers.clear()
    return {}


def eval_region(_state: NativeState, params: Json) -> Json:
    rows = cells.to_table(params["rows"])
    spec = params["spec"]
    fields = [{**f, "source_ids": [int(i) for i in f["source_ids"]]} for f in spec["fields"]]
    schema = lance.schema.LanceSchema.from_pyarrow(rows.schema)
    # The package numbers the columns of a schema itself: the ids that are asked about become those.
    own = {int(asked): number for number, asked in enumerate(params["field_ids"])}
    for described in fields:
        described["source_ids"] = [own[i] for i in described["source_ids"]]
    batch = rows.combine_chunks().to_batches()[0]
    native = {"spec_id": int(spec["spec_id"]), "fields": [{"transform": None, "expression": None, **f} for f in fields]}
    found = cells.to_rows(pa.Table.from_batches([EVALUATE(batch, native, schema)]))
    return {"values": found["rows"]}


def table_create(state: NativeState, params: Json) -> Json:
    rows, key = cells.to_table(params["rows"]), params["primary_key"]
    if "region_fields" in params:
        raise AdapterError("invalid_argument", "the package takes a sharding mode, not a list of region fields")
    fields = []
    for column in rows.schema:
        marks = {_KEY: b"true"}
        if len(key) > 1 and column.name in key:
            marks[_KEY + b":position"] = str(key.index(column.name) + 1).encode()
        keyed = column.name in key and not state.append_only
        fields.append(column.with_metadata(marks) if keyed else column)
    rows = rows.cast(pa.schema(fields))
    dataset = lance.write_dataset(rows, params["table"], schema=rows.schema, storage_options=state.storage or None)
    indexes = params.get("indexes", [])
    for index in indexes:
        base_indexes.build(dataset, index)
    dataset.initialize_mem_wal(**({"maintained_indexes": [index["name"] for index in indexes]} if indexes else {}))
    return {"version": str(dataset.version)}


def _claim(state: NativeState, dataset: Any, table: str, shard_id: str, limits: Json) -> tuple[Any, int, bool]:
    """A writer, the epoch that is stored after its claim, and whether that is its own for certain."""
    store = state.store(table)
    before = store.shard(shard_id)
    native = dataset.mem_wal_writer(shard_id, **_SETTINGS, **limits)
    shard = store.shard(shard_id)
    epoch = 0 if shard is None else shard.epoch
    return native, epoch, epoch == (0 if before is None else before.epoch) + 1


def writer_open(state: NativeState, params: Json) -> Json:
    if "values" in params:
        raise AdapterError("invalid_argument", "the package opens a shard by its id, not by region values")
    shard_id = params.get("region_id") or params.get("new_region_id") or str(uuid.uuid4())
    dataset = state.dataset(params["table"])
    limits = {}
    if "memtable_rows" in params:  # old versions flush by batches only, and every put is one
        limits = dict.fromkeys(("max_memtable_rows", "max_memtable_batches"), params["memtable_rows"])
    native, epoch, own = _claim(state, dataset, params["table"], shard_id, limits)
    handle = state.handle("writer")
    state.writers[handle] = NativeWriter(params["table"], shard_id, epoch, dataset.schema, native, limits)
    return {"writer": handle, "region_id": shard_id, **({"epoch": str(epoch)} if own else {})}


def _marked(writer: NativeWriter, rows: pa.Table) -> pa.Table:
    """The rows under the table's schema, as the package's own example has it, where they have its columns."""
    known = {column.name: column for column in writer.schema}
    fields = [
        column.with_metadata(known[column.name].metadata)
        if column.name in known and known[column.name].type == column.type
        else column
        for column in rows.schema
    ]
    return pa.table(rows.columns, schema=pa.schema(fields))


def writer_put(state: NativeState, params: Json) -> Json:
    writer = state.writer(params["writer"])
    writer.native.put(_marked(writer, cells.to_table(params["rows"])))
    return {}


def writer_delete(state: NativeState, params: Json) -> Json:
    writer = state.writer(params["writer"])
    writer.native.delete(cells.to_table(params["keys"]))
    return {}


def writer_flush_memtable(state: NativeState, params: Json) -> Json:
    """Close, and claim the shard again unless another writer has: then the package answers for its closed writer."""
    writer = state.writer(params["writer"])
    store = state.store(writer.table)
    before = store.shard(writer.shard_id)
    writer.native.close()
    after = store.shard(writer.shard_id)
    known = before.generations if before is not None else ()
    new = [number for number, folder in after.generations if (number, folder) not in known] if after is not None else []
    if after is not None and after.epoch == writer.epoch:
        dataset = state.dataset(writer.table)
        writer.native, writer.epoch, _ = _claim(state, dataset, writer.table, writer.shard_id, writer.limits)
    return {"generation": str(new[-1]) if new else None}


def writer_close(state: NativeState, params: Json) -> Json:
    writer = state.writer(params["writer"])
    del state.writers[params["writer"]]
    writer.native.close()
    return {}


def merge_run(state: NativeState, params: Json) -> Json:
    """All that is left to merge, as it is listed; with ``generation`` up to that one, and that one in any case."""
    table, merged = params["table"], []
    store = state.store(table)
    asked = int(params["generation"]) if "generation" in params else None
    for shard in store.shards():
        if params.get("region_id") not in (None, shard.shard_id):
            continue
        done = store.compacted().get(shard.shard_id, 0)
        for generation, folder in shard.generations:
            if generation == asked or (generation > done and (asked is None or generation < asked)):
                place = f"{table}/_mem_wal/{shard.shard_id}/{folder}"
                _merge(state, table, place, COMPACTED(shard.shard_id, generation))
                merged.append({"region_id": shard.shard_id, "generation": str(generation)})
    return {"merged": merged}


def _merge(state: NativeState, table: str, sstable: str, progress: Any) -> None:
    """Deletes first and without progress, then rows with it, as the package asks for."""
    dataset = state.dataset(table)
    key = [column.name for column in dataset.schema if (column.metadata or {}).get(_KEY) == b"true"]
    rows = state.dataset(sstable).to_table()
    if TOMBSTONE in rows.column_names:
        dead, rows = rows.filter(rows[TOMBSTONE]).select(key), rows.filter(pc.invert(rows[TOMBSTONE]))
        rows = rows.drop_columns([TOMBSTONE])
        if dead.num_rows:
            remove = dataset.merge_insert(key).when_matched_delete()
            (MARK(remove, [progress]) if not rows.num_rows else remove).execute(dead)
            dataset = state.dataset(table)
    if rows.num_rows:
        insert = dataset.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
        MARK(insert, [progress]).execute(rows)


MESSAGES: dict[str, Callable[[NativeState, Json], Json]] = {
    "hello": hello,
    "configure": configure,
    "shutdown": shutdown,
    "eval.region": eval_region,
    "table.create": table_create,
    "writer.open": writer_open,
    "writer.put": writer_put,
    "writer.delete": writer_delete,
    "writer.flush_memtable": writer_flush_memtable,
    "writer.close": writer_close,
    "merge.run": merge_run,
    "reader.open": reader_open,
    "reader.scan": reader_scan,
    "reader.get": reader_get,
    "reader.search": reader_search,
}
"""Message -> what answers it."""


def handlers() -> dict[str, Handler]:
    """A function per message, sharing a state of their own."""
    state = NativeState()
    return {name: _guarded(functools.partial(answer, state)) for name, answer in MESSAGES.items()}


def _guarded(answer: Handler) -> Handler:
    def guarded(params: Json) -> Json:
        try:
            return answer(params)
        except RAISED as error:
            raise AdapterError(kind_of(error), str(error)) from error

    return guarded


if __name__ == "__main__":
    serve(handlers(), {}, concurrent=True)
