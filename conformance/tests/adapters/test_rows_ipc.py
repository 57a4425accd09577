"""Rows as Arrow IPC (capability ``rows.ipc``): every type goes there and back, with each adapter that claims it."""

from __future__ import annotations

import datetime
import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from memwal_conformance import cells, protocol
from memwal_conformance.adapters import native, reference
from memwal_conformance.adapters.process import AdapterProcess
from memwal_conformance.adapters.serve import Handler
from memwal_conformance.protocol import AdapterError, Json

NODE = shutil.which("node")
SUBJECT = Path(__file__).resolve().parents[2] / "subjects" / "node" / "adapter.mjs"
MOMENT = datetime.datetime(2026, 11, 23, 12, 30, tzinfo=datetime.UTC)
PLAIN = {"id": pa.array([2, 1], pa.int64()), "text": pa.array(["a", None]), "day": pa.array([1, None], pa.date32()),
         "v": pa.array([[1.5, -0.0], [2, 3]], pa.list_(pa.float32(), 2))}  # fmt: skip
CELLS_HAVE_NONE = {
    "money": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
    "at": pa.array([MOMENT, None], pa.timestamp("ms", "UTC")),
    "tags": pa.array([["x", None], []], pa.list_(pa.string())),
    "deep": pa.array([{"a": 1, "b": [1.5]}, None], pa.struct([("a", pa.int8()), ("b", pa.list_(pa.float64()))])),
}


def rows_of(columns: dict[str, pa.Array]) -> pa.Table:
    fields = [pa.field(name, array.type, nullable=name != "id") for name, array in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def written_and_read(handlers: dict[str, Handler], table: Path, revision: str, rows: pa.Table) -> pa.Table:
    """Rows that went into a table and came out of it."""

    def call(message: str, params: Json) -> Json:
        protocol.check(message, "params", params)
        return protocol.accepted(message, handlers[message](params))

    call("configure", {"revision": revision, "settings": {}, "rows": "ipc"})
    none = cells.to_stream(rows.schema.empty_table())
    call("table.create", {"table": str(table), "rows": none, "primary_key": ["id"]})
    writer = call("writer.open", {"table": str(table)})["writer"]
    call("writer.put", {"writer": writer, "rows": cells.to_stream(rows), "durable": True})
    reader = call("reader.open", {"table": str(table), "consistency": "strong"})["reader"]
    found = call("reader.scan", {"reader": reader, "writers": [writer]})["rows"]
    assert list(found) == ["ipc"]
    call("shutdown", {})
    read = cells.to_table(found)
    return read.select(rows.column_names).sort_by("id").cast(rows.schema).combine_chunks()


@pytest.mark.parametrize(("which", "revision"), [("reference", "A"), ("reference", "B"), ("native", "R")])
def test_rows_of_every_type_go_in_and_come_out_as_a_stream(tmp_path: Path, which: str, revision: str) -> None:
    handlers = {"reference": reference, "native": native}[which].handlers()
    rows = rows_of({**PLAIN, **CELLS_HAVE_NONE})
    assert written_and_read(handlers, tmp_path / "t", revision, rows).equals(rows.sort_by("id"))


@pytest.mark.skipif(NODE is None, reason="there is no node on this machine")
def test_the_subject_in_node_takes_streams_of_the_types_that_it_has(tmp_path: Path) -> None:
    with AdapterProcess([NODE or "node", str(SUBJECT)]) as process:
        assert "rows.ipc" in process.greet().capabilities
        names = ("configure", "table.create", "writer.open", "writer.put", "reader.open", "reader.scan", "shutdown")
        handlers = {name: lambda params, name=name: process.call(name, params) for name in names}
        rows = rows_of(PLAIN)
        assert written_and_read(handlers, tmp_path / "t", "B", rows).equals(rows.sort_by("id"))


@pytest.mark.parametrize("text", ["not base64!", "AAAA", ""])
def test_bytes_that_are_no_stream_are_the_callers_mistake(text: str) -> None:
    with pytest.raises(cells.CellError, match="no Arrow IPC stream"):
        cells.to_table({"ipc": text})


def test_without_being_asked_an_adapter_answers_in_cells(tmp_path: Path) -> None:
    handlers = reference.handlers()
    handlers["configure"]({"revision": "B", "settings": {}})
    rows = cells.to_rows(rows_of(PLAIN).select(["id", "text"]))
    handlers["table.create"]({"table": str(tmp_path / "t"), "rows": rows, "primary_key": ["id"]})
    reader = handlers["reader.open"]({"table": str(tmp_path / "t"), "consistency": "strong"})["reader"]
    assert list(handlers["reader.scan"]({"reader": reader})["rows"]) == ["columns", "rows"]


def test_the_package_refuses_what_it_always_did(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="revision R"):
        native.handlers()["configure"]({"revision": "B", "settings": {}, "rows": "ipc"})
