"""What analysed plans say that their nodes spent, against what the store was asked for."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal.api.queries import Queries
from memwal.cli.main import app
from memwal.effects import Get, Stamped, StoreRequest
from memwal.errors import InvalidArgument
from memwal.index import transforms
from memwal.stores.local import LocalStore
from typer.testing import CliRunner

from ..kit.maintained_scene import Base, rows
from ..kit.tables import flush

QUERIES: dict[str, dict[str, Any]] = {
    "scan": {},
    "columns": {"columns": ["id"], "filter": "id >= 0"},
    "eventual": {"consistency": "eventual"},
    "index": {"filter": "id = 7"},
    "lookup": {"keys": pa.table({"id": pa.array([3, 7, 90], pa.int64())})},
    "vector": {"vector": [9.0] * 4, "column": "vf", "k": 3, "nprobes": 1, "refine_factor": 2},
    "text": {"text": "fox", "column": "text", "k": 3, "every_term": True},
}


class Counting(LocalStore):
    """A store that counts for itself."""

    requests = bytes_given = 0

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.manifests: set[str] = set()
        """Folders of manifests that were looked at."""

    def perform(self, request: StoreRequest[Any]) -> Any:
        self.requests += 1
        if "/manifest/" in getattr(request, "path", ""):
            self.manifests.add(request.path.partition("/manifest/")[0])  # type: ignore[attr-defined]
        reply = super().perform(request)
        if isinstance(request, Get):
            self.bytes_given += len(reply[0] if isinstance(request, Stamped) else reply)
        return reply


@pytest.fixture
def store(base: Base) -> Counting:
    """That of an indexed table ``t`` with two regions of one generation each."""
    spec = transforms.bucket("b", "id", 2)
    table = memwal.enable(base.place, revision="A", spec=spec, maintained_indexes=["flat", "inverted"])
    values = table.region_values(rows(range(100))).column("b").to_pylist()
    for region, value in zip(table.register_regions([{"b": 0}, {"b": 1}]), (0, 1), strict=True):
        flush(table, rows([key for key in range(100) if values[key] == value][:5]), region=region)
    table.snapshot()
    return Counting(base.place.parent)


def nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for below in tree["inputs"]:
        yield from nodes(below)


def _manifests_of(table: memwal.Table, store: Counting, wanted: str) -> set[str]:
    store.manifests.clear()
    table.scan(filter=wanted)
    assert list(table.batches(filter=wanted))
    table.plan_read(filter=wanted)
    return set(store.manifests)


@pytest.mark.parametrize("remember_bytes", [0, 1 << 24])
@pytest.mark.parametrize("name", QUERIES)
def test_what_the_nodes_of_a_plan_spend_is_in_sum_what_the_store_was_asked_for(
    base: Base, store: Counting, name: str, remember_bytes: int
) -> None:
    table = memwal.open(base.place.name, store=store, remember_bytes=remember_bytes)
    before = store.requests, store.bytes_given
    told = json.loads(table.explain(**QUERIES[name], analyse=True, form="json"))
    asked = store.requests - before[0], store.bytes_given - before[1]
    assert (told["in_all"]["requests"], told["in_all"]["bytes_read"]) == asked
    spent = [each["metrics"] for each in nodes(told["plan"]) if each["metrics"]] + [told["beside_the_nodes"]]
    assert tuple(sum(each[what] for each in spent) for what in ("requests", "bytes_read")) == asked
    for what in ("elapsed_compute_ns", "elapsed_io_ns"):
        assert sum(each[what] for each in spent) == told["in_all"][what] > 0
    assert min(value for each in spent for value in each.values()) >= 0
    of_sources = [each["metrics"] for each in nodes(told["plan"]) if not each["inputs"] and each["metrics"]]
    assert sum(each["bytes_read"] for each in of_sources) > 0, "rows are read by the nodes that read them"


def test_a_node_counts_what_it_gives_and_reads_and_the_top_what_was_left_out(base: Base, store: Counting) -> None:
    table = memwal.open(base.place.name, store=store)
    scan = json.loads(table.explain(filter="id <> -5", analyse=True, form="json"))["plan"]
    assert scan["metrics"]["output_rows"] == table.scan().num_rows - 1
    of_sources = [each["metrics"] for each in nodes(scan) if not each["inputs"]]
    # The base has 300 rows; each region has an empty MemTable and a generation of 5.
    assert [each["output_rows"] for each in of_sources] == [299, 0, 5, 0, 5]
    assert [each["rows_scanned"] for each in of_sources] == [300, 0, 5, 0, 5]
    assert [each["fragments_scanned"] for each in of_sources] == [1, 0, 1, 0, 1]
    pruned = json.loads(table.explain(filter="id = 1", analyse=True, form="json"))["plan"]["metrics"]
    assert (pruned["regions_pruned"], pruned["generations_pruned"]) == (1, 0), "what is not read has no generations"
    asked_of = {wanted: _manifests_of(table, store, wanted) for wanted in ("id = 1", "id <> 1")}
    assert [len(folders) for folders in asked_of.values()] == [1, 2]
    lookup = json.loads(table.explain(**QUERIES["lookup"] | {"keys": one(1)}, analyse=True, form="json"))["plan"]
    assert lookup["metrics"]["regions_pruned"] == 1
    knn = json.loads(table.explain(**QUERIES["vector"], analyse=True, form="json"))["plan"]
    (of_base, *_) = (each["metrics"] for each in nodes(knn) if each["node"].startswith("KNNExec: base"))
    probed, skipped = of_base["partitions_probed"], of_base["partitions_skipped"]
    assert probed >= 1
    assert skipped >= 0
    assert f"{probed} of {probed + skipped} partitions" in table.explain(**QUERIES["vector"], analyse=True)


def test_a_plan_that_is_not_analysed_reads_no_row_and_says_no_number(base: Base, store: Counting) -> None:
    table = memwal.open(base.place.name, store=store)
    plan = table.explain()
    assert "metrics" not in plan
    assert "in all" not in plan
    assert all(each["metrics"] is None for each in nodes(json.loads(table.explain(form="json"))["plan"]))


def test_plans_take_all_options_of_the_queries_that_they_are_of(base: Base, store: Counting) -> None:
    table = memwal.open(base.place.name, store=store)
    taken = {"vector": "vector", "text": "query"}
    asked: dict[str, Any]
    for what, method in (("vector", Queries.search), ("text", Queries.search_text)):
        asked = dict(QUERIES[what])
        for name, parameter in inspect.signature(method).parameters.items():
            if name not in ("self", "exact", taken[what]) and parameter.default is not parameter.empty:
                asked.setdefault(name, parameter.default)
        assert "Exec" in table.explain(**asked), what
    assert "RefineExec: factor=2" in table.explain(**QUERIES["vector"])
    with pytest.raises(InvalidArgument, match="positions"):
        table.explain(text="quick fox", column="text", phrase=True)
    with pytest.raises(InvalidArgument, match=r"no options \['nprobes'\]"):
        table.explain(text="fox", column="text", nprobes=4)
    with pytest.raises(InvalidArgument, match=r"\['phrase'\] are for searches"):
        table.explain(phrase=True)


def test_the_command_prints_the_plan_of_the_table_as_text_and_as_json(base: Base, store: Counting) -> None:
    table = memwal.open(base.place)

    def shown(*words: str) -> str:
        found = CliRunner().invoke(app, ["explain", str(base.place), *words])
        assert found.exit_code == 0, found.output
        return found.stdout

    assert shown("--where", "id = 7", "--columns", "id").strip() == table.explain(filter="id = 7", columns=["id"])
    assert json.loads(shown("--key", '{"id": 7}', "--json")) == json.loads(table.explain(keys=one(7), form="json"))
    of_vector = shown("--vector", "[9, 9, 9, 9]", "--option", "column=vf", "--option", "k=2", "--analyse")
    assert "GlobalLimitExec: limit=2  [2 rows]  metrics=[output_rows=2, " in of_vector
    assert "FTSExec" in shown("--text", "fox", "--option", "column=text", "--option", "every_term=true")
    for wrong in (["--key", "{"], ["--key", '{"v": 1}'], ["--key", '{"id": "x"}'], ["--option", "k"]):
        refused = CliRunner().invoke(app, ["explain", str(base.place), *wrong])
        assert (refused.exit_code, refused.output.startswith(f"error: {base.place}: ")) == (2, True)


def one(key: int) -> pa.Table:
    return pa.table({"id": pa.array([key], pa.int64())})
