"""Scans whose filter an index answers: they give what a fold of all histories gives, filtered, and read less for it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal.read import indexed_scan
from memwal.revisions import LITERAL

from ..kit.plan_scene import unmeasured
from ..kit.profiles import under
from .test_answers import SCALAR as INDEXES
from .test_answers import matching, shown

NAN = float("nan")
KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.string())),
        ("m", pa.int64()),
    ]
)
KEYS = 60
MAINTAINED = ["n_btree", "f_btree", "s_bitmap"]
VALUES: dict[str, list[Any]] = {
    "n": [None, -1, 0, 3, 4, 7],
    "f": [None, -1.5, -0.0, 0.0, 2.5, NAN],
    "s": [None, "", "ab", "abc", "xabcy", "b", "ä"],
    "l": [None, [], ["x"], ["x", "y"], ["z", None]],
    "m": [None, 10, 20, 30],
}


def rows(drawn: random.Random, keys: list[int]) -> pa.Table:
    values = [{"id": key} | {name: drawn.choice(choice) for name, choice in VALUES.items()} for key in keys]
    return pa.Table.from_pylist(values, schema=SCHEMA)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in three fragments with an index of every kind, that pylance wrote."""
    place = tmp_path_factory.mktemp("indexed") / "template"
    lance.write_dataset(rows(random.Random(1), list(range(KEYS))), str(place), max_rows_per_file=25)
    for name, (column, kind) in INDEXES.items():
        lance.dataset(str(place)).create_scalar_index(column, kind, name=name)
    return place


def nodes(world_or_table: memwal.Table, condition: Any, **options: Any) -> list[str]:
    """The lines of what was read by index, as the plan ran."""
    plan = unmeasured(world_or_table.explain(filter=condition, analyse=True, **options))
    return [line.strip().removeprefix("ScalarIndexExec: ") for line in plan.splitlines() if "ScalarIndexExec" in line]


def made(place: Path, template: Path, revision: str = "B", maintained: list[str] = MAINTAINED) -> memwal.Table:
    shutil.copytree(template, place)
    return memwal.enable(place, revision=revision, maintained_indexes=maintained)


def sevens(first: int, count: int) -> pa.Table:
    return rows(random.Random(first), list(range(first, first + count))).set_column(
        1, SCHEMA.field("n"), pa.array([7] * count, pa.int32())
    )


@pytest.mark.clause("PLAN-010", "PLAN-011", "PLAN-033", "CATCHUP-010")
def test_generations_in_the_gap_answer_for_the_rows_that_the_base_index_lacks(tmp_path: Path, template: Path) -> None:
    table = made(tmp_path / "t", template)
    before = set(table.scan(["id"], "n = 7").column("id").to_pylist())
    with table.writer(background=False) as writer:
        writer.put(sevens(1_000, 3))
        writer.flush()
    table.merge()
    base, *_ = nodes(table, "n = 7")
    assert "via=index [n_btree]+gen=1 index  [" in base
    assert base.endswith("0 fragments scanned]")
    assert set(table.scan(["id"], "n = 7").column("id").to_pylist()) == before | {1_000, 1_001, 1_002}
    shutil.rmtree(next((tmp_path / "t" / "_mem_wal").glob("*/*_gen_1")))
    base, *_ = nodes(table, "n = 7")
    assert base.endswith("1 fragment scanned]"), "without the generation its rows are looked at one by one"
    assert set(table.scan(["id"], "n = 7").column("id").to_pylist()) == before | {1_000, 1_001, 1_002}


@pytest.mark.clause("WRITER-022", "WRITER-024")
def test_the_structures_of_a_memtable_are_asked_and_rows_that_they_lack_are_looked_at(
    tmp_path: Path, template: Path
) -> None:
    table = made(tmp_path / "t", template)
    with table.writer(background=False) as writer:
        writer.put(sevens(1_000, 50).set_column(1, SCHEMA.field("n"), pa.array(range(100, 150), pa.int32())))
        writer.put(sevens(2_000, 2), indexed=False)
        _, memory = nodes(table, "n BETWEEN 103 AND 104", writers=[writer])
        assert "via=memory index [n_btree]  [4 rows given, 4 read, 0 fragments scanned]" in memory
        assert table.scan(filter="n = 105", writers=[writer]).column("id").to_pylist() == [1_005]
        found = table.scan(["id"], "n = 7 AND id >= 1000", writers=[writer])
        assert sorted(found.column("id").to_pylist()) == [2_000, 2_001]
        writer.flush()
        *_, generation = nodes(table, "n BETWEEN 103 AND 104")
        assert "via=index [n_btree]  [2 rows given, 2 read, 0 fragments scanned]" in generation


@pytest.mark.clause("PLAN-033")
def test_both_sides_of_an_or_are_asked_or_none(tmp_path: Path, template: Path) -> None:
    table = made(tmp_path / "t", template)
    (base,) = nodes(table, "n = 7 OR s = 'abc'")
    assert "columns=[n, s], via=index [n_btree]+index [s_bitmap]" in base
    assert not nodes(table, "n = 7 OR id = 3"), "nothing is known of one side"
    for condition in ("n = 7 OR s = 'abc'", "n = 7 OR id = 3"):
        expected = matching(condition, table.scan())
        assert shown(table.scan(filter=condition)) == shown(expected)


@pytest.mark.clause("READ-015", "PLAN-015", "AMB-105")
def test_of_a_key_that_the_base_has_twice_both_plans_give_the_last_row_that_matches(
    tmp_path: Path, template: Path
) -> None:
    table = made(tmp_path / "t", template, "R")
    twice = [
        {"id": key, "n": n, "m": m} for m, pairs in ((1, [(5, 7), (6, 7)]), (2, [(5, 3), (6, 7)])) for key, n in pairs
    ]
    with table.writer(background=False) as writer:
        writer.delete(pa.table({"id": pa.array(range(KEYS), pa.int64())}).filter(pc.field("id") != 5))
        writer.flush()
    table.merge()
    for row in twice:
        table.base.append(pa.Table.from_pylist([row], schema=SCHEMA))

    def found(condition: str) -> list[tuple[int, int]]:
        return sorted((row["id"], row["m"]) for row in table.scan(filter=condition).to_pylist())

    for _ in range(2):
        assert nodes(table, "n = 7 AND m < 9")
        assert not nodes(table, "n + 0 = 7 AND m + 0 < 9")
        assert found("n = 7 AND m < 9") == found("n + 0 = 7 AND m + 0 < 9") == [(5, 1), (6, 2)]
        assert found("n = 3 AND m < 9") == found("n + 0 = 3 AND m + 0 < 9") == [(5, 2)]
        lance.dataset(str(tmp_path / "t")).optimize.optimize_indices()
    assert sorted(table.scan(["id"]).column("id").to_pylist()) == [5, 6], "without a filter the last row of each"


@pytest.mark.clause("AMB-99")
def test_the_literal_reading_and_a_filter_that_keeps_most_rows_are_answered_by_a_scan(
    tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t", template)
    with table.writer(background=False) as writer:
        writer.put(sevens(0, 3))
        assert not nodes(under(table, LITERAL), "n = 7", writers=[writer])
        condition = "n >= -1"
        assert nodes(table, condition, writers=[writer])
        matching = table.scan(filter=condition).num_rows
        monkeypatch.setattr(indexed_scan, "FEW_ROWS", matching // 2)
        assert not nodes(table, condition, writers=[writer])
        assert nodes(table, "n = 7", writers=[writer])
