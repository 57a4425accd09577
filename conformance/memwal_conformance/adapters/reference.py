"""The reference engine behind the adapter protocol: ``python -m memwal_conformance.adapters.reference``.

Tables, writers, readers and jobs go through the engine's public blocking API; the ``eval`` messages through its codecs.
Settings of ``configure``: ``profile`` (``strict`` or ``literal``), ``wal_collection`` and ``manifest_collection``
(``on`` or ``off``), and ``inline_regions``: most regions whose snapshot is inline.
"""

from __future__ import annotations

import functools
import importlib.util
import operator
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import memwal
import pyarrow as pa
import pyarrow.compute as pc
from memwal import paths
from memwal.errors import (
    AlreadyExists,
    AlreadyMerged,
    ArtifactError,
    Conflict,
    Fenced,
    InvalidArgument,
    NotFound,
    OutcomeUnknown,
    StorageError,
    Throttled,
    WriterStopped,
)
from memwal.index.spec_requests import FieldRequest, SpecRequest
from memwal.lazy import light
from memwal.read.scan import ReadRaced
from memwal.revisions import REVISIONS

from memwal_conformance import cells
from memwal_conformance.adapters import base_indexes
from memwal_conformance.adapters import reference_views as views
from memwal_conformance.adapters.reference_evals import (
    eval_bloom,
    eval_decode,
    eval_encode,
    eval_hash,
    eval_legacy,
    eval_name,
    eval_region,
)
from memwal_conformance.adapters.reference_sequences import (
    sequence_delete,
    sequence_open,
    sequence_put,
    task_done,
    task_finish,
)
from memwal_conformance.adapters.reference_state import Reader, ReferenceState
from memwal_conformance.adapters.serve import Handler, serve
from memwal_conformance.cells import CellError
from memwal_conformance.protocol import ROLES, ErrorKind, Json, messages

KINDS: dict[type[Exception], ErrorKind] = {
    Fenced: "fenced",
    WriterStopped: "cancelled",
    AlreadyMerged: "conflict",
    Conflict: "conflict",
    NotFound: "not_found",
    AlreadyExists: "already_exists",
    ArtifactError: "corrupt",
    InvalidArgument: "invalid_argument",
    CellError: "invalid_argument",
    OutcomeUnknown: "storage",
    Throttled: "storage",
    StorageError: "storage",
    ReadRaced: "storage",
}
"""Errors of the engine -> kinds of the protocol. A broken assertion of the engine ends the process."""

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def hello(_state: ReferenceState, _: Json) -> Json:
    capabilities = [message.name for message in messages().values() if message.role == "capability"]
    if importlib.util.find_spec("obstore") is not None:  # by which the engine speaks S3
        capabilities.append("s3")
    return {
        "protocol": "1",
        "implementation": "reference",
        "version": _version(),
        "revisions": list(REVISIONS),
        "roles": list(ROLES),
        "capabilities": [*capabilities, "trace", "rows.ipc", "concurrent"],
    }


def configure(state: ReferenceState, params: Json) -> Json:
    shutdown(state, {})
    settings = dict(params["settings"])
    state.revision = REVISIONS[params["revision"]]
    state.profile = settings.pop("profile", "strict")
    state.wal_collection = settings.pop("wal_collection", "off") == "on"
    state.manifest_collection = settings.pop("manifest_collection", "off") == "on"
    inline = settings.pop("inline_regions", "")
    if inline and not inline.isdecimal():
        raise InvalidArgument(f"inline_regions is a number, not {inline!r}")
    state.inline_regions = int(inline) if inline else None
    state.watch.tell = state.tell if params.get("trace", False) else None
    state.watch.left = 0
    state.rows = cells.to_stream if params.get("rows") == "ipc" else cells.to_rows
    storage = params.get("storage")
    state.storage = None
    if storage is not None:
        state.storage = {"allow_http": "true", **{f"aws_{name}": value for name, value in storage.items()}}
    if settings:
        raise InvalidArgument(f"the reference has no setting {', '.join(sorted(settings))}")
    return {}


def shutdown(state: ReferenceState, _: Json) -> Json:
    state.writers.clear()
    state.readers.clear()
    return {}


def inspect(state: ReferenceState, params: Json) -> Json:
    table = state.table(params)
    return {
        "version": str(table.version),
        "primary_key": list(table.primary_key),
        "regions": [
            {
                "region_id": region.region_id,
                "manifest": None if region.manifest is None else views.manifest_view(region.manifest),
                "merged": str(region.merged),
            }
            for region in table.regions()
        ],
    }


def table_create(state: ReferenceState, params: Json) -> Json:
    fields = tuple(
        FieldRequest(
            field_id=asked["field_id"],
            columns=tuple(asked["source_columns"]),
            transform=asked.get("transform"),
            parameters=tuple(asked.get("parameters", {}).items()),
        )
        for asked in params.get("region_fields", ())
    )
    table = memwal.create(
        params["table"],
        cells.to_table(params["rows"]),
        primary_key=params["primary_key"],
        revision=state.revision,
        storage_options=state.storage,
        spec=SpecRequest(fields) if fields else None,
        wal_collection=state.wal_collection,
        manifest_collection=state.manifest_collection,
        profile=state.profile,
    )
    if indexes := params.get("indexes", []):
        import lance  # takes longer to load than all the rest, and few tables have an index

        dataset = lance.dataset(params["table"], storage_options=state.storage)
        for index in indexes:
            base_indexes.build(dataset, index)
        table.refresh()
        table.maintain([index["name"] for index in indexes])
    return {"version": str(table.version)}


def sync_crash(state: ReferenceState, params: Json) -> Json:
    state.watch.crash(params["class"], params["moment"], params.get("occurrence", 1))
    return {}


def writer_open(state: ReferenceState, params: Json) -> Json:
    table = memwal.open(params["table"], revision=state.revision, storage_options=state.storage, profile=state.profile)
    values = params.get("values")
    plain = None if values is None else {name: cells.value(tagged) for name, tagged in values.items()}
    limits = memwal.Limits(wal_interval_ms=None)  # what is stored depends on the messages only, never on the clock
    if "memtable_rows" in params:
        limits = replace(limits, memtable_rows=params["memtable_rows"])
    if "region_id" in params and not state.has_region(table, params):
        raise NotFound(params["region_id"], f"there is no region {params['region_id']}")
    region = params.get("region_id", params.get("new_region_id"))
    if region is None and values is None:
        region = table.register_region()  # the message asks for a new one
    writer = table.writer(
        region,
        values=plain,
        limits=limits,
        background="memtable_rows" in params,
    )
    handle = state.handle("writer")
    state.writers[handle] = writer
    return {"writer": handle, "region_id": writer.region_id, "epoch": str(writer.epoch)}


def writer_put(state: ReferenceState, params: Json) -> Json:
    state.writer(params).put(cells.to_table(params["rows"]), durable=params["durable"])
    return {}


def writer_delete(state: ReferenceState, params: Json) -> Json:
    state.writer(params).delete(cells.to_table(params["keys"]), durable=params["durable"])
    return {}


def writer_flush_wal(state: ReferenceState, params: Json) -> Json:
    state.writer(params).flush_wal()
    return {}


def writer_flush_memtable(state: ReferenceState, params: Json) -> Json:
    generation = state.writer(params).flush()
    return {"generation": None if generation is None else str(generation)}


def writer_status(state: ReferenceState, params: Json) -> Json:
    writer = state.writer(params)
    return {
        "region_id": writer.region_id,
        "epoch": str(writer.epoch),
        "next_position": str(writer.position_next),
        "generation": str(writer.generation),
    }


def writer_close(state: ReferenceState, params: Json) -> Json:
    writer = state.writer(params)
    del state.writers[params["writer"]]
    writer.close()
    return {}


def merge_run(state: ReferenceState, params: Json) -> Json:
    until = int(params["generation"]) if "generation" in params else None
    merged = state.table(params).merge(params.get("region_id"), until=until).merged
    return {"merged": [{"region_id": region, "generation": str(generation)} for region, generation in merged]}


def snapshot_run(state: ReferenceState, params: Json) -> Json:
    return {"regions": state.table(params).snapshot(inline_most=state.inline_regions)}


def catchup_run(state: ReferenceState, params: Json) -> Json:
    found = state.table(params).catch_up(params.get("index"))
    return {"indexes": [each.index_name for each in found.indexes]}


def gc_run(state: ReferenceState, params: Json) -> Json:
    found = state.table(params).gc(retain_versions=params["retain_versions"])
    folders = [decision.name.split("/")[-2:] for decision in found.collected if decision.kind == "generation"]
    removed = [{"region_id": r, "generation": str(paths.generation_number(folder))} for r, folder in folders]
    return {"generations": removed}


def reader_open(state: ReferenceState, params: Json) -> Json:
    table = state.table(params)
    handle = state.handle("reader")
    state.readers[handle] = Reader(table, params["consistency"])
    return {"reader": handle, "version": str(table.version)}


def reader_scan(state: ReferenceState, params: Json) -> Json:
    reader = state.reader(params)
    rows = reader.table.scan(
        params.get("columns"),
        _condition(params),
        limit=params.get("limit"),
        consistency=reader.consistency,
        writers=state.beside(params),
    )
    return {"rows": state.rows(rows)}


def reader_get(state: ReferenceState, params: Json) -> Json:
    reader = state.reader(params)
    keys = cells.to_table(params["keys"])
    rows = reader.table.get(keys, params.get("columns"), writers=state.beside(params))
    return {"rows": state.rows(rows)}


def reader_search(state: ReferenceState, params: Json) -> Json:
    reader = state.reader(params)
    names = reader.table.schema.names
    shared: Json = {
        "columns": names,
        "filter": _condition(params),
        "consistency": reader.consistency,
        "writers": state.beside(params),
    }
    column, k = params["column"], params["k"]
    if "text" in params:
        rows = reader.table.search_text(params["text"], column, k, **shared)
    else:
        vector = pa.array([float(number) for number in params["vector"]], pa.float32())
        rows = reader.table.search(vector, column, k, **shared)
    return {"rows": state.rows(rows.select(names))}


MESSAGES: dict[str, Callable[[ReferenceState, Json], Json]] = {
    "hello": hello,
    "configure": configure,
    "shutdown": shutdown,
    "eval.name": eval_name,
    "eval.hash": eval_hash,
    "eval.region": eval_region,
    "eval.decode": eval_decode,
    "eval.encode": eval_encode,
    "eval.bloom": eval_bloom,
    "eval.legacy": eval_legacy,
    "inspect": inspect,
    "table.create": table_create,
    "sync.crash": sync_crash,
    "sequence.open": sequence_open,
    "sequence.put": sequence_put,
    "sequence.delete": sequence_delete,
    "task.finish": task_finish,
    "task.done": task_done,
    "writer.open": writer_open,
    "writer.put": writer_put,
    "writer.delete": writer_delete,
    "writer.flush_wal": writer_flush_wal,
    "writer.flush_memtable": writer_flush_memtable,
    "writer.status": writer_status,
    "writer.close": writer_close,
    "merge.run": merge_run,
    "snapshot.run": snapshot_run,
    "catchup.run": catchup_run,
    "gc.run": gc_run,
    "reader.open": reader_open,
    "reader.scan": reader_scan,
    "reader.get": reader_get,
    "reader.search": reader_search,
}
"""Message -> what answers it."""


def handlers(state: ReferenceState | None = None) -> dict[str, Handler]:
    """A function per message, sharing ``state`` or one of their own."""
    state = state or ReferenceState()
    return {name: functools.partial(answer, state) for name, answer in MESSAGES.items()}


def _condition(params: Json) -> Any:
    """The ``filter`` of a scan or a search as an expression; None without one."""
    condition = None
    for part in params.get("filter", ()):
        wanted = cells.to_table({"columns": [_column(part)], "rows": [[part["value"]]]}).column(0)[0]
        one = OPERATORS[part["op"]](pc.field(part["column"]), wanted)
        condition = one if condition is None else condition & one
    return condition


def _column(part: Json) -> Json:
    return {"name": part["column"], "type": part["value"]["t"], "nullable": True}


def _version() -> str:
    try:
        return version("memwal")
    except PackageNotFoundError:
        return "from source"


def main(made: Callable[[ReferenceState], dict[str, Handler]] = handlers) -> None:
    """Serve what ``made`` makes of a state, with every store watched."""
    state = ReferenceState()
    state.watch.every_store()

    def telling(tell: Callable[[Json], None]) -> None:
        state.tell = tell

    serve(made(state), KINDS, telling, concurrent=True)


if __name__ == "__main__":
    light(frames=False)
    main()
