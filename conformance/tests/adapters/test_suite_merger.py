"""The suite's own merger, index builder and base writer: what they leave breaks no rule, and readers agree on it."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal_conformance import cells
from memwal_conformance.adapters import suite_base, suite_merger, suite_roles, suite_store
from memwal_conformance.adapters.suite_store import SuiteTable
from memwal_conformance.judge import content, merging, store, structure, table
from memwal_conformance.protocol import AdapterError, Json
from obstore import exceptions

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
TABLES = [(case.parents[1].name, case) for case in sorted(VECTORS.glob("[ABR]/table/*"))]
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


def copied(case: Path, to: Path) -> Path:
    shutil.copytree(case / "input" / "table", to)
    return to


def judged(root: Path, revision: str) -> store.JudgedStore:
    return store.read(root, revision, merging.key_of(list(table.versions(root).values())[-1].read_bytes()))


def faults(root: Path, revision: str) -> list[str]:
    return [fault for result in structure.run(judged(root, revision)) for fault in result.faults]


def live(root: Path, revision: str) -> content.State:
    return {key: row for key, row in content.durable(judged(root, revision)).items() if row is not None}


def asked(root: Path, message: str, revision: str = "B", **params: Any) -> Json:
    answers = suite_roles.handlers()
    answers["configure"]({"revision": revision, "settings": {}})
    return answers[message]({"table": str(root), **params})


def verified(root: Path) -> set[str]:
    """What the engine's own check of a table finds."""
    return {str(finding) for finding in memwal.open(str(root)).verify().findings}


def rows_of(schema: pa.Schema, *rows: tuple[Any, ...]) -> cells.Rows:
    columns = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return cells.to_rows(pa.Table.from_pylist(columns, schema=schema))


def test_a_merge_whose_progress_is_taken_back_ends_with_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(VECTORS / "B" / "table" / "two_generations", tmp_path / "t")
    before = sorted(path.name for path in (root / "_versions").iterdir())
    monkeypatch.setattr(suite_merger, "_progress", lambda base, region_id: 0)  # as after a commit that leaves it out
    with pytest.raises(AdapterError, match=r"generation 1 of \S+ was merged, and the progress is 0") as caught:
        asked(root, "merge.run")
    assert caught.value.kind == "corrupt"
    assert len(list((root / "_versions").iterdir())) == len(before) + 1


@pytest.mark.parametrize(("revision", "case"), TABLES, ids=lambda given: getattr(given, "name", given))
def test_a_merge_and_a_snapshot_keep_every_row_and_break_no_rule(tmp_path: Path, revision: str, case: Path) -> None:
    root = copied(case, tmp_path / "t")
    before, known = live(root, revision), faults(root, revision)
    progress = {region: judged(root, revision).merged(region) for region in judged(root, revision).regions}
    told = asked(root, "merge.run", revision)["merged"]
    if revision != "R":
        assert asked(root, "snapshot.run", revision)["regions"] == len(judged(root, revision).regions)
    after = judged(root, revision)
    for region_id, region in after.regions.items():
        listed = {generation.number for generation in region.newest.generations} if region.newest else set()
        wanted = sorted(number for number in listed if number > progress[region_id])
        assert [int(one["generation"]) for one in told if one["region_id"] == region_id] == wanted
        assert after.merged(region_id) == max([progress[region_id], *wanted])
    assert live(root, revision) == before
    assert [fault for fault in faults(root, revision) if fault not in known] == []
    assert asked(root, "merge.run", revision) == {"merged": []}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A table of revision B with two flushed generations of one region, which nobody has merged."""
    root = tmp_path / "t"
    base = pa.Table.from_pylist([{"id": 1, "v": "base"}, {"id": 9, "v": "base"}], schema=SCHEMA)
    with memwal.create(str(root), base, primary_key="id").writer() as writer:
        for value in ("a", "b"):
            writer.put(pa.Table.from_pylist([{"id": 1, "v": value}, {"id": 2, "v": value}], schema=SCHEMA))
            writer.flush()
    return root


MERGED = [{"id": 1, "v": "b"}, {"id": 2, "v": "b"}, {"id": 9, "v": "base"}]


def read_by_all(root: Path) -> list[list[Json]]:
    """The rows of a table without unmerged ones: as pylance reads its base, and the engine all of it."""
    found = [lance.dataset(str(root)).to_table(), memwal.open(str(root)).scan()]
    return [sorted(rows.to_pylist(), key=lambda row: row["id"]) for rows in found]


def test_the_engine_and_pylance_read_on_and_the_check_of_a_table_finds_nothing(written: Path) -> None:
    known = verified(written)
    assert [one["generation"] for one in asked(written, "merge.run")["merged"]] == ["1", "2"]
    asked(written, "snapshot.run")
    assert read_by_all(written) == [MERGED, MERGED]
    assert verified(written) <= known
    with memwal.open(str(written)) as opened:
        assert opened.merge().merged == ()
    assert read_by_all(written) == [MERGED, MERGED]


def test_a_commit_of_another_in_between_stays_and_the_merge_is_made_on_it(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, others = SuiteTable.create, [{"id": 7, "v": "appended"}]

    def beaten(where: SuiteTable, name: str, data: bytes) -> None:
        if others:
            appended = pa.Table.from_pylist([others.pop()], schema=SCHEMA)
            suite_base.write(where, {"table": where.url, "append": cells.to_rows(appended)})
        honest(where, name, data)

    monkeypatch.setattr(suite_store.SuiteTable, "create", beaten)
    assert len(asked(written, "merge.run")["merged"]) == 2
    assert read_by_all(written) == [sorted([*MERGED, {"id": 7, "v": "appended"}], key=lambda row: row["id"])] * 2


def test_a_commit_whose_answer_is_lost_counts_and_one_that_was_lost_is_made_again(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, made = SuiteTable.create, [0]

    def unheard(where: SuiteTable, name: str, data: bytes) -> None:
        made[0] += 1
        if made[0] != 1:
            honest(where, name, data)
        if made[0] <= 2:
            raise exceptions.GenericError("no answer")

    monkeypatch.setattr(suite_store.SuiteTable, "create", unheard)
    assert [one["generation"] for one in asked(written, "merge.run")["merged"]] == ["1", "2"]
    assert read_by_all(written) == [MERGED, MERGED]
    assert made[0] == 3, "lost, stored without an answer, stored"


def test_a_generation_that_is_neither_merged_nor_listed_ends_the_merge(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SuiteTable.newest_manifest

    def gap(where: SuiteTable, region_id: str) -> Any:
        found = first(where, region_id)
        assert found is not None
        return replace(found[0], generations=found[0].generations[1:]), found[1]

    monkeypatch.setattr(suite_store.SuiteTable, "newest_manifest", gap)
    with pytest.raises(AdapterError, match=r"generation 1 of .* is neither merged nor listed"):
        asked(written, "merge.run")


def test_an_index_that_stays_behind_is_named_and_catches_up(tmp_path: Path) -> None:
    root = tmp_path / "t"
    base = pa.Table.from_pylist([{"id": 1, "v": "base"}], schema=SCHEMA)
    created = memwal.create(str(root), base, primary_key="id")
    lance.dataset(str(root)).create_scalar_index("v", "BTREE", name="by_v")
    created.maintain(["by_v"])
    with memwal.open(str(root)).writer() as writer:
        writer.put(pa.Table.from_pylist([{"id": 2, "v": "a"}], schema=SCHEMA))
        writer.flush()
    (region,) = judged(root, "B").regions
    asked(root, "merge.run")
    assert judged(root, "B").table.memwal[0].catchup == (("by_v", ((region, 0),)),)
    assert table.unindexed_rows(root, "by_v") == 1
    assert asked(root, "catchup.run") == {"indexes": ["by_v"]}
    assert judged(root, "B").table.memwal[0].catchup == (("by_v", ((region, 1),)),)
    assert table.unindexed_rows(root, "by_v") == 0
    assert faults(root, "B") == []


CHANGES: list[tuple[str, Callable[[], Json], list[Json]]] = [
    ("append", lambda: {"append": rows_of(SCHEMA, (3, "new"))}, [*MERGED[:2], {"id": 3, "v": "new"}, MERGED[2]]),
    (
        "update",
        lambda: {"update": rows_of(SCHEMA, (2, "new"), (4, "no"))},
        [MERGED[0], {"id": 2, "v": "new"}, MERGED[2]],
    ),
    ("delete", lambda: {"delete": rows_of(pa.schema([SCHEMA.field("id")]), (1,))}, MERGED[1:]),
    ("compact", lambda: {"compact": True}, MERGED),
]


@pytest.mark.parametrize(("_name", "change", "rows"), CHANGES, ids=[name for name, *_ in CHANGES])
def test_the_base_writer_changes_what_it_is_told_and_the_progress_stays(
    written: Path, _name: str, change: Callable[[], Json], rows: list[Json]
) -> None:
    asked(written, "merge.run")
    merged = judged(written, "B").table.memwal
    asked(written, "base.write", **change())
    assert read_by_all(written) == [rows, rows]
    assert judged(written, "B").table.memwal == merged
    assert faults(written, "B") == []
    if "compact" in change():
        assert judged(written, "B").table.fragments == 1
