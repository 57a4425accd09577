"""Whatever a public call is given, it answers or raises an error of this package: no TypeError from deep inside."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
KEYS = ROWS.select(["id"])
REGION = "00000000-0000-4000-8000-000000000001"
STRANGE: tuple[object, ...] = (
    object(), 5, -1, 1 << 70, 1.5, True, None, "strange", "", b"strange", [], [object()], [5], {"x": object()}, {5: 5},
)  # fmt: skip
"""One of each kind that may be handed over by mistake."""
UNHELD = {"listener", "options", "split", "hiding", "compute"}
"""Functions, which may do anything, and what `Table.plan_read` made for `Table.plan_read_again` and `batches_of`."""
NEEDED: Mapping[str, Mapping[str, object]] = {
    "create": {"url": "new", "data": ROWS, "primary_key": "id"},
    "enable": {"url": "plain"},
    **{name: {"url": "t"} for name in ("open", "base_table", "inspect", "migrate", "verify", "repair")},
    "clone": {"source": "t", "target": "copy", "shallow": False},
    "bucket": {"field_id": "b", "columns": "id", "num_buckets": 4},
    "truncate": {"field_id": "t", "column": "v", "width": 4},
    **{name: {"field_id": "f", "column": "id"} for name in ("identity", "year", "month", "day", "hour")},
    "expression": {"field_id": "e", "text": "col0", "columns": "id"},
    "region_spec": {"requests": [memwal.bucket("b", "id", 4)]},
    "Table.get": {"keys": KEYS},
    "Table.search": {"column": "v", "vector": [1.0]},
    "Table.search_text": {"column": "v", "query": "a"},
    "Table.log_entries": {"region": REGION, "start": 1, "end": 2},
    "Table.register_regions": {"values": [{}]},
    "Table.region_values": {"rows": ROWS},
    "Table.done": {"region": REGION},
    "Table.upsert": {"rows": ROWS},
    "Table.delete": {"keys": KEYS},
    "Table.add_spec": {"spec": memwal.bucket("b", "id", 4)},
    "Table.remove_spec": {"spec_id": 1},
    "Table.maintain": {"names": []},
    "BaseTable.append": {"rows": ROWS},
    "BaseTable.update": {"condition": "id = 1", "compute": lambda rows: rows},
    "BaseTable.delete": {"condition": "id = 1"},
    "BaseTable.overwrite": {"rows": ROWS},
    "BaseTable.restore": {"version": 1},
    "BaseTable.add_columns": {"new": pa.schema([("w", pa.string())])},
    "BaseTable.drop_columns": {"names": ["v"]},
    "BaseTable.recompute": {"names": ["v"], "compute": lambda rows: rows.select(["v"])},
    "BaseTable.replace_data": {"values": {}},
    "BaseTable.drop_index": {"name": "none"},
    "BaseTable.add_bases": {"bases": {}},
    "BaseTable.tag": {"name": "kept"},
    "BaseTable.untag": {"name": "kept"},
    "Writer.put": {"rows": ROWS},
    "Writer.delete": {"keys": KEYS},
    "Writer.finish": {"application": "a", "batch": 1, "partition": 0},
}
"""What a call needs besides the argument that is tried. Tables are named in the test's folder."""


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions of `memwal` and methods of what it opens, by name."""
    for name in memwal.__all__:
        value = getattr(memwal, name)
        if isfunction(value):
            yield name, value
        if name in ("Table", "BaseTable", "Writer"):
            methods = [each for each in dir(value) if not each.startswith("_") and isfunction(getattr(value, each))]
            yield from ((f"{name}.{each}", getattr(value, each)) for each in methods)


def tried() -> list[tuple[str, str]]:
    """Each call and each of its parameters."""
    found = {name: signature(value).parameters for name, value in public() if name != "Table.plan_read_again"}
    return [(name, each) for name, parameters in found.items() for each in parameters if each not in {"self", *UNHELD}]


@pytest.mark.parametrize(("call", "parameter"), tried())
def test_a_public_call_answers_or_raises_an_error_of_this_package(
    call: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a table of revision R, which has deletes, and one that MemWAL is not enabled on."""
    monkeypatch.chdir(tmp_path)
    table = memwal.create("t", ROWS, primary_key="id", revision="R")
    lance.write_dataset(ROWS, "plain")
    owner, _, method = call.rpartition(".")
    for value in STRANGE:
        on: Any = {"": memwal, "Table": table, "BaseTable": table.base}.get(owner) or table.writer(background=False)
        with suppress(memwal.MemwalError):
            answer = getattr(on, method)(**{**NEEDED.get(call, {}), parameter: value})
            deque(answer if isinstance(answer, Iterator) else ())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda table: table.writer({"b": 3}), "region must be a text or None, not the dict {'b': 3}"),
        (lambda table: table.scan(columns="id"), "columns must be a list of texts or None, not 'id'"),
        (lambda table: table.scan(limit="3"), "limit must be a whole number or None, not '3'"),
        (lambda table: table.scan(limit=True), "limit must be a whole number or None, not True"),
        (lambda table: table.gc(grace_ms=1.5), "grace_ms must be a whole number, not 1.5"),
        (lambda table: table.register_region({3: 1}), "values must be a dict by text or None, not the dict {3: 1}"),
        (lambda table: table.maintain("id"), "names must be a list of texts, not 'id'"),
        (
            lambda table: [table.add_spec(memwal.bucket("b", "id", 4)), table.register_region()],
            "or beside_spec=True for",
        ),
        (
            lambda table: [table.register_region(), table.add_spec(memwal.bucket("b", "id", 4))],
            "beside_manual=True (--beside-manual) adds",
        ),
        (lambda table: table.get(5), "give rows and keys as an Arrow table, a frame of pandas or polars, a list of"),
        (lambda table: table.scan(columns=["id", "id"]), "columns has 'id' twice: a column is read once"),
        (lambda table: list(table.log_entries("../up", 1, 2)), "not a region id: '../up'"),
        (lambda table: table.catch_up("nope"), "there is no index 'nope'; there are none"),
        (lambda table: table.base.drop_index("nope"), "there is no index 'nope'; there are none"),
        (lambda _: memwal.open("t", remember_bytes=-1), "remember_bytes must be at least 0, not -1"),
        (lambda _: memwal.inspect("ä" * 300), "File name too long"),
        (lambda table: table.scan(filter="nope = 3"), "it has no column nope; the table has ['id', 'v']"),
        (lambda _: memwal.create("t", ROWS, primary_key="id"), "there is already a table at {at}/t: open it, or"),
    ],
)
def test_the_sentence_names_the_argument_and_what_it_takes(
    call: Callable[[memwal.Table], object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = memwal.create("t", ROWS, primary_key="id")
    with pytest.raises(memwal.MemwalError) as raised:
        call(table)
    assert said.replace("{at}", str(tmp_path)) in str(raised.value)


def test_a_copy_may_lie_in_a_folder_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    memwal.create("t", ROWS, primary_key="id")
    copied = memwal.clone("t", "../copy", shallow=False)
    assert memwal.base_table(tmp_path / "copy").version == copied.version


def test_whatever_counts_as_a_whole_number_or_a_list_is_taken(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", ROWS, primary_key="id")
    assert table.scan(columns=np.array(["id"]), limit=np.int64(1)).num_rows == 1
    assert memwal.region_spec(each for each in [memwal.bucket("b", ("id",), 4)]).fields[0].columns == ("id",)
