"""The blocking interface to a Lance table as such."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import memwal
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal.errors import AlreadyExists, ArtifactError, InvalidArgument, NotFound

from ..kit.table_scene import SCHEMA, rows
from ..kit.tables import by_id


@pytest.fixture
def place(tmp_path: Path) -> str:
    found = str(tmp_path / "lake" / "t")
    lance.write_dataset(rows(1, 2, 3), found)
    return found


def native(place: str) -> dict[int, object]:
    return by_id(lance.dataset(place).to_table(["id", "v"]))


def test_every_change_is_a_method_and_pylance_sees_it(place: str) -> None:
    table = memwal.base_table(place)
    table.append(rows(4)).delete("id = 1").delete(pc.field("id") == 2)
    assert by_id(table.scan()) == native(place) == {3: "x", 4: "x"}
    table.update("id = 4", lambda t: rows(4, v="y")).compact()
    assert native(place) == {3: "x", 4: "y"}
    table.tag("kept", 4)
    assert table.tags == {"kept": 4}
    table.add_columns(pa.schema([("w", pa.int64())]), lambda t: pa.table({"w": t.column("id")}))
    table.recompute(["v"], lambda t: pa.table({"v": ["z"] * t.num_rows}))
    (fragment,) = lance.dataset(place).get_fragments()
    table.replace_data({fragment.fragment_id: pa.table({"w": pa.array([30, 40], pa.int64())})})
    assert lance.dataset(place).to_table().to_pydict() == {"id": [3, 4], "v": ["z", "z"], "w": [30, 40]}
    table.drop_columns(["w"]).update_metadata(config={"a": "1"}, fields={1: {"f": "2"}})
    assert lance.dataset(place).config() == {"a": "1"}
    lance.dataset(place).create_scalar_index("id", "BTREE", name="by_id")
    table.refresh().drop_index("by_id")
    assert lance.dataset(place).describe_indices() == []
    table.overwrite(rows(9)).restore(4)
    assert by_id(table.scan()) == native(place) == by_id(table.scan(version=4)) == {3: "x", 4: "x"}
    assert table.versions == tuple(range(1, table.version + 1))
    table.untag("kept")
    assert table.tags == {}
    assert table.add_bases({"b": "/elsewhere"}).schema.names == ["id", "v"]
    assert repr(table) == f"<memwal.BaseTable {place!r} version {table.version}>"


@pytest.mark.parametrize("shallow", [True, False])
def test_a_clone_is_opened_beside_its_source(place: str, tmp_path: Path, shallow: bool) -> None:
    target = str(tmp_path / "lake" / "deep" / "c")
    copy = memwal.clone(place, target, shallow=shallow)
    copy.append(rows(7))
    assert by_id(copy.scan()) == native(target) == {1: "x", 2: "x", 3: "x", 7: "x"}
    assert native(place) == {1: "x", 2: "x", 3: "x"}
    again = memwal.base_table(target, within=tmp_path / "lake")
    assert by_id(again.scan()) == native(target)
    if shallow:
        with pytest.raises(ArtifactError, match="outside the table's store"):
            memwal.base_table(target).scan()
    with pytest.raises(AlreadyExists):
        memwal.clone(place, target, shallow=shallow)


def test_places_that_do_not_fit_are_refused_by_name(place: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no folder in common"):
        memwal.clone(place, "memory://other", shallow=False)
    with pytest.raises(InvalidArgument, match="is not below"):
        memwal.base_table(place, within=tmp_path / "elsewhere")
    with pytest.raises(NotFound):
        memwal.base_table(tmp_path / "none")
    with pytest.raises(InvalidArgument, match="filter"):
        memwal.base_table(place).delete("no_such = 1")
    assert native(place) == {1: "x", 2: "x", 3: "x"}


def test_regions_are_looked_at_before_a_table_with_mem_wal_changes_as_a_whole(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    table = memwal.create(place, rows(1, 2), primary_key=["id"])
    region = table.register_region()
    with table.writer(region, background=False) as writer:
        writer.put(rows(3))
    base = memwal.base_table(place)
    with pytest.raises(InvalidArgument, match="AMB-87"):
        base.overwrite(rows(9))
    strict = pa.schema([pa.field("w", pa.int64(), nullable=False)])
    with pytest.raises(InvalidArgument, match="AMB-50"):
        base.add_columns(strict, lambda all_rows: pa.table({"w": all_rows.column("id")}))
    table.drain(region)
    base.add_columns(pa.schema([("w", pa.int64())]))
    assert base.drop_columns(["w"]).schema.names == SCHEMA.names
    assert native(place) == {1: "x", 2: "x", 3: "x"}


OTHER_THINGS = [5, None, [1], "rows"]


@pytest.mark.parametrize("thing", OTHER_THINGS, ids=lambda thing: type(thing).__name__)
def test_what_is_no_arrow_table_is_refused_and_changes_nothing(thing: object, place: str, tmp_path: Path) -> None:
    base = memwal.base_table(place)
    table = memwal.create(str(tmp_path / "m"), rows(1, 2), primary_key=["id"], revision="R")
    with table.writer("0b8e4d7a-9a3f-4c11-8a57-1d3f5b2c7e90") as writer:
        taking: list[Callable[[object], object]] = [
            base.append,
            base.overwrite,
            table.base.append,
            table.upsert,
            table.delete,
            table.get,
        ]
        taking += [writer.put, writer.delete, lambda it: base.update("id = 1", lambda _: it)]
        taking += [lambda it: base.recompute(["v"], lambda _: it), lambda it: base.replace_data({0: it})]
        for take in taking:
            with pytest.raises(InvalidArgument, match=f"not as {type(thing).__name__}$"):
                take(thing)
        with pytest.raises(InvalidArgument, match=f"not as {type(thing).__name__}$"):
            memwal.create(str(tmp_path / "n"), thing, primary_key=["id"])
        assert not (tmp_path / "n").exists()
        assert writer.rows == 0
    assert by_id(base.scan()) == {1: "x", 2: "x", 3: "x"}
    assert by_id(table.scan()) == {1: "x", 2: "x"}


def test_a_record_batch_is_taken_wherever_rows_or_keys_are(place: str, tmp_path: Path) -> None:
    (batch,) = rows(4).to_batches()
    assert by_id(memwal.base_table(place).append(batch).scan()) == {1: "x", 2: "x", 3: "x", 4: "x"}
    table = memwal.create(str(tmp_path / "m"), rows(1), primary_key=["id"], revision="R")
    with table.writer("0b8e4d7a-9a3f-4c11-8a57-1d3f5b2c7e90") as writer:
        writer.put(batch)
        assert by_id(table.get(batch.select(["id"]), writers=[writer])) == {4: "x"}
        writer.delete(batch.select(["id"]))
    assert by_id(table.scan()) == {1: "x"}


def test_what_a_table_tells_of_regions_backlog_and_history_prints_as_a_short_table(place: str) -> None:
    table = memwal.create(f"{place}_2", SCHEMA, primary_key=["id"], spec=memwal.bucket("b", "id", 1))
    assert repr(table.backlog()) == "nothing"
    table.upsert(rows(1, 2))
    table.close()
    (region,) = table.regions()
    assert repr(table.regions()).split() == (
        ["region", "values", "epoch", "generations", "merged", region.region_id, "b=0", "1", "0", "0"]
    )
    lines = repr(table.backlog()).splitlines()
    assert lines[0].split("  ")[0] == "region"
    assert [*lines[1].split()[:4], lines[1].split()[-1]] == [region.region_id, "0", "0", "2", "0"]
    table.drain()
    head, newest, *_ = repr(table.history()).splitlines()
    assert head.split() == ["version", "committed", "operation", "rows"]
    assert newest.split()[-2:] == ["update", "2"]
    assert isinstance(table.history(), tuple)
