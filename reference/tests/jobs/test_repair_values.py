"""WAL entries with values that their types do not have: named by who meets them, and repaired without losing a row."""

from __future__ import annotations

from typing import Any

import memwal
import memwal.region.rows
import numpy as np
import pyarrow as pa
import pytest
from memwal import paths
from memwal.codec import wal
from memwal.effects import StoreRequest
from memwal.errors import ArtifactError, Fenced
from memwal.ids import RegionId, WalPosition
from memwal.revisions import REVISIONS
from memwal.table.fragments import conform

from ..kit.damaged_tables import Killed
from ..kit.ground import Ground

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string()), pa.field("d", pa.date64())])
WHOLE = {1: "a", 2: "b", 4: "d", 5: "e", 7: "g"}
"""Rows that can be read: id and ``v``."""
BAD = "\ufffe\ufffe"
"""Stands for a text that is not UTF-8."""


def rows(*pairs: tuple[int, str]) -> pa.Table:
    texts = [text.encode() if text != BAD else b"\xff\xfe" for _, text in pairs]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    values = pa.Array.from_buffers(
        pa.string(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    )
    return pa.table([pa.array([i for i, _ in pairs]), values, pa.nulls(len(pairs), pa.date64())], schema=SCHEMA)


class Scene:
    """A region whose second and fourth entry hold such values, put by a writer that did not look."""

    def __init__(self, revision: str, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
        self.revision = REVISIONS[revision]
        self.store = Ground()
        self.table = memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, store=self.store)
        with monkeypatch.context() as patch:
            patch.setattr(memwal.region.rows, "admitted", conform)
            with self.table.writer(background=False, **limits) as writer:
                self.region: RegionId = writer.region_id
                first = writer.position_next
                for put in (
                    rows((1, "a")),
                    rows((2, "b"), (3, BAD), (4, "d")),
                    rows((5, "e")),
                    rows((6, BAD)),
                    rows((7, "g")),
                ):
                    writer.put(put)
        self.bad = [self.path(WalPosition(first + at)) for at in (1, 3)]

    def path(self, position: WalPosition) -> str:
        return f"t/{paths.region(self.region)}/{paths.wal(position, self.revision.wal_suffix)}"

    def entry(self, path: str) -> wal.WalEntry:
        return wal.decode(self.store.objects[path], self.revision, path)

    def kept(self) -> list[bytes]:
        return sorted(data for name, data in self.store.objects.items() if "/quarantine/" in name)

    def seen(self) -> dict[int, str]:
        found = memwal.open("t", store=self.store).scan()
        assert len(set(found["id"].to_pylist())) == found.num_rows
        return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))

    def repair(self, **options: Any) -> memwal.RepairReport:
        return memwal.repair("t", store=self.store, **options)


@pytest.fixture(params=["A", "B", "R"])
def scene(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(str(request.param), monkeypatch)


@pytest.mark.clause("AMB-15")
def test_readers_and_writers_name_the_entry_and_the_command_that_helps(scene: Scene) -> None:
    for call in (scene.table.scan, lambda: scene.table.writer(scene.region)):
        with pytest.raises(ArtifactError, match="memwal table repair") as found:
            call()
        assert found.value.clause == "AMB-15"
        assert scene.bad[0].endswith(found.value.path)
    assert {f.path for f in scene.table.verify().findings} == {path.removeprefix("t/") for path in scene.bad}


@pytest.mark.clause("AMB-15", "FENCE-017")
def test_the_entry_is_set_aside_and_its_readable_rows_stay_with_all_before_and_behind(scene: Scene) -> None:
    before = [scene.store.objects[path] for path in scene.bad]
    planned = scene.repair(dry_run=True)
    assert (scene.kept(), [scene.store.objects[path] for path in scene.bad]) == ([], before)
    report = scene.repair()
    assert [step.kind for step in planned.steps] == [step.kind for step in report.steps] == ["entry", "entry"]
    assert [step.path for step in report.steps] == [path.removeprefix("t/") for path in scene.bad]
    assert "values in 1 of its 3 rows" in report.steps[0].reason
    assert "values in 1 of its 1 rows" in report.steps[1].reason
    assert scene.kept() == sorted(before)
    assert [scene.entry(path).rows["id"].to_pylist() for path in scene.bad] == [[2, 4], []]
    assert [scene.entry(path).epoch for path in scene.bad] == [1, 1]
    if scene.revision.entry_generation:
        assert [scene.entry(path).generation for path in scene.bad] == [1, 1]
    assert scene.seen() == WHOLE
    found = [(f.oracle, f.severity) for f in scene.table.verify().findings]
    assert set(found) == {("quarantines_are_empty", "warning")}
    assert scene.repair().steps == ()
    with scene.table.writer(scene.region) as writer:
        assert scene.seen() == WHOLE
        writer.flush()
    scene.table.merge()
    assert scene.seen() == WHOLE


def test_a_writer_that_was_open_is_fenced(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.repair()
    with scene.table.writer(scene.region, background=False) as writer:
        writer.put(rows((8, "h")))
        with monkeypatch.context() as patch:
            patch.setattr(memwal.region.rows, "admitted", conform)
            writer.put(rows((9, BAD)))
        assert [step.kind for step in scene.repair().steps] == ["entry"]
        with pytest.raises(Fenced):
            writer.put(rows((10, "j")))
        with pytest.raises(Fenced):
            writer.close()
    assert scene.seen() == {**WHOLE, 8: "h"}


@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_repair_of_values_that_was_cut_short_anywhere_can_be_run_again(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Scene(revision, monkeypatch)
    before, made = [first.store.objects[path] for path in first.bad], first.store.changes
    first.repair()
    requests = first.store.changes - made
    assert requests >= 6
    for stop in range(1, requests + 1):
        scene = Scene(revision, monkeypatch)
        limit = scene.store.changes + stop

        def kill(_: StoreRequest[Any], store: Ground = scene.store, limit: int = limit) -> None:
            if store.changes == limit:
                raise Killed

        scene.store.after = kill
        with pytest.raises(Killed):
            scene.repair()
        scene.store.after = lambda _: None
        scene.repair()
        assert set(scene.kept()) == set(before)
        assert scene.seen() == WHOLE


def test_a_torn_last_entry_behind_such_an_entry_is_moved_aside_as_well(scene: Scene) -> None:
    last = max(name for name in scene.store.objects if f"/{scene.region}/wal/" in name)
    position = max(
        WalPosition(n)
        for name in scene.store.objects
        if (n := paths.wal_position(name.rpartition("/")[2], scene.revision.wal_suffix)) is not None
    )
    scene.store.objects[scene.path(WalPosition(position + 1))] = scene.store.objects[last][:-3]
    assert [step.kind for step in scene.repair().steps] == ["entry", "entry", "entry"]
    assert scene.seen() == WHOLE


@pytest.mark.parametrize("revision", ["B", "R"])
def test_bad_values_of_any_type_in_any_row_are_found(revision: str) -> None:
    days = pa.Array.from_buffers(pa.date64(), 4, [None, pa.py_buffer(np.array([0, 5, 86_400_000, 7], np.int64))])
    texts = rows((1, "a"), (2, "b"), (3, BAD), (4, "d"))
    both = texts.set_column(2, SCHEMA.field("d"), days)
    nested = pa.array([["x"], ["y", "z"], [], None], pa.list_(pa.string()))
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 3, 3], pa.int32()), rows((1, "x"), (2, BAD), (3, "z"))["v"].chunk(0)
    )
    for table, kept in (
        (both, [1]),
        (texts.append_column("l", lists), [1, 4]),
        (rows((1, "a")).append_column("l", nested.slice(1, 1)), [1]),
    ):
        entry = wal.WalEntry(epoch=memwal.ids.Epoch(3), rows=table)
        found, others = wal.salvage(wal.encode(entry, REVISIONS[revision]), REVISIONS[revision], "p")
        assert found.rows["id"].to_pylist() == kept
        assert others == table.num_rows - len(kept)
        assert found.epoch == 3
        found.rows.validate(full=True)


@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_of_what_is_no_whole_entry_nothing_is_taken(revision: str) -> None:
    kind = REVISIONS[revision]
    data = wal.encode(wal.WalEntry(epoch=memwal.ids.Epoch(3), rows=rows((1, "a"), (2, "b"))), kind)
    for cut in (data[:-1], data[:40], b"", b"no entry"):
        with pytest.raises(ArtifactError):
            wal.salvage(cut, kind, "p")


NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("s", pa.list_(pa.struct([pa.field("x", pa.int64(), nullable=False)]))),
    ]
)


def nested(*pairs: tuple[int, list[int | None]]) -> pa.Table:
    cells = [[{"x": x} for x in each] for _, each in pairs]
    return pa.table([pa.array([i for i, _ in pairs]), pa.array(cells, NESTED.field("s").type)], schema=NESTED)


@pytest.mark.clause("AMB-15")
@pytest.mark.parametrize("revision", ["B", "R"])
def test_null_where_a_nested_type_has_none_is_repaired_like_any_other_value(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Ground()
    table = memwal.create("t", NESTED, primary_key=["id"], revision=revision, store=store)
    with monkeypatch.context() as patch:
        patch.setattr(memwal.region.rows, "admitted", conform)
        with table.writer(background=False) as writer:
            writer.put(nested((1, [1])))
            writer.put(nested((2, [2, 3]), (3, [4, None]), (4, [])))
            writer.put(nested((5, [5])))
    with pytest.raises(ArtifactError, match=r"NULL in 'x' in 'item' in 's'.*memwal table repair"):
        table.scan()
    (step,) = memwal.repair("t", store=store).steps
    assert (step.kind, "values in 1 of its 3 rows" in step.reason) == ("entry", True)
    with memwal.open("t", store=store).writer() as writer:
        writer.flush()
    table.merge()
    found = {row["id"]: [each["x"] for each in row["s"]] for row in table.scan().to_pylist()}
    assert found == {1: [1], 2: [2, 3], 4: [], 5: [5]}


@pytest.mark.clause("AMB-15")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_date_that_is_no_day_is_repaired_like_any_other_value(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Ground()
    table = memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, store=store)
    dates = pa.array([0, 86_400_001, None], pa.int64()).view(pa.date64())
    with monkeypatch.context() as patch:
        patch.setattr(memwal.region.rows, "admitted", conform)
        with table.writer(background=False) as writer:
            writer.put(pa.table([[1, 2, 3], ["a", "b", "c"], dates], schema=SCHEMA))
    with pytest.raises(ArtifactError, match=r"memwal table repair"):
        table.scan()
    (step,) = memwal.repair("t", store=store).steps
    assert "values in 1 of its 3 rows" in step.reason
    assert sorted(memwal.open("t", store=store).scan()["id"].to_pylist()) == [1, 3]
