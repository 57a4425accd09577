"""Which row of a key a query gives when it is in the base, in several generations and in memory: results and plans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import memwal
import pyarrow as pa
import pytest

from ..kit.plan_scene import unmeasured

VECTORS = pa.list_(pa.float32(), 2)
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("e", VECTORS)])


def rows(*pairs: tuple[int, str], at: float | None = None) -> pa.Table:
    """Rows of key and value; the vector is where the key is, or at ``at``."""
    ids, values = zip(*pairs, strict=True)
    vectors = pa.array([[float(key) if at is None else at, 0.0] for key in ids], VECTORS)
    return pa.table([pa.array(ids, pa.int64()), pa.array(values), vectors], schema=SCHEMA)


class Scene:
    """Base with keys 1 to 6; region A with generation 1 flushed and 2 in memory; B with 1 and 2, and 3 in memory.

    Odd keys belong to A and even ones to B. 5 and 6 are in the base only, 3 and 4 in the first generation besides.
    """

    def __init__(self, place: Path) -> None:
        spec = memwal.expression("odd", "abs(col0 % 2)", "id")
        self.table = memwal.create(
            place, rows(*((key, "base") for key in range(1, 7))), primary_key=["id"], revision="A", spec=spec
        )
        self.a = self.table.writer(values={"odd": 1}, background=False)
        self.b = self.table.writer(values={"odd": 0}, background=False)
        self.a.put(rows((1, "early"), (3, "early")))
        self.a.put(rows((1, "a1"), (3, "a1")))
        self.a.flush()
        self.a.put(rows((1, "early")))
        self.a.put(rows((1, "a2")))
        self.b.put(rows((2, "b1"), (4, "early"), (4, "b1")))
        self.b.flush()
        self.b.put(rows((2, "b2")))
        self.b.flush()
        self.b.put(rows((2, "early"), (2, "b3")))
        self.writers = (self.a, self.b)

    def plan(self, **query: object) -> str:
        """A plan as it ran, with the regions called A and B."""
        told = unmeasured(self.table.explain(analyse=True, writers=self.writers, **query))
        for writer, name in ((self.a, "A"), (self.b, "B")):
            told = told.replace(f"region {writer.region_id[:8]}", name)
        return told

    def branches(self, node: str, **query: object) -> list[str]:
        return re.findall(rf"{node}: (\w+\[gen=-?\d+\])", self.plan(**query))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path / "t")
    yield made
    for writer in made.writers:
        writer.close()


def one(*keys: int) -> pa.Table:
    return pa.table({"id": pa.array(keys, pa.int64())})


def values(table: pa.Table) -> dict[int, str]:
    assert len(set(table.column("id").to_pylist())) == table.num_rows
    return dict(sorted(zip(table.column("id").to_pylist(), table.column("v").to_pylist(), strict=True)))


NEWEST = {1: "a2", 2: "b3", 3: "a1", 4: "b1", 5: "base", 6: "base"}
SIX = ["A[gen=1]", "A[gen=2]", "B[gen=1]", "B[gen=2]", "B[gen=3]", "base_table[gen=-1]"]


@pytest.mark.clause("PLAN-014", "PLAN-025", "PLAN-034")
def test_a_scan_of_six_sources_gives_each_keys_row_of_the_highest_generation_and_there_the_last(scene: Scene) -> None:
    assert sorted(scene.branches("ScanExec")) == SIX
    assert sorted(scene.branches("KNNExec", vector=[1.0, 0.0], column="e")) == SIX
    assert values(scene.table.scan(writers=scene.writers)) == NEWEST
    assert values(scene.table.scan()) == NEWEST  # from the WAL, as long as all was durable
    parts = list(scene.table.batches(writers=scene.writers))
    assert values(pa.concat_tables(parts)) == NEWEST
    scene.a.flush()
    assert values(scene.table.scan(filter="id = 1")) == {1: "a2"}


@pytest.mark.clause("PLAN-019", "PLAN-027", "PLAN-034")
def test_a_lookup_takes_the_last_row_of_the_newest_source_that_has_one(scene: Scene) -> None:
    for key, newest in NEWEST.items():
        assert values(scene.table.get(one(key), writers=scene.writers)) == {key: newest}
    assert scene.branches("TakeLastExec", keys=one(2)) == ["B[gen=3]", "B[gen=2]", "B[gen=1]", "base_table[gen=-1]"]
    assert scene.branches("TakeLastExec", keys=one(1)) == ["A[gen=2]", "A[gen=1]", "base_table[gen=-1]"]
    scene.table.base.append(rows(*((key, "base") for key in range(7, 2007))))
    told = scene.plan(keys=one(*range(7, 2007)))  # some of them look as if they were in a generation
    assert "[positive]" in told
    found = scene.table.get(one(*range(7, 2007)), writers=scene.writers)
    assert values(found) == dict.fromkeys(range(7, 2007), "base")


@pytest.mark.clause("PLAN-030")
@pytest.mark.parametrize("approximate", [False, True])
def test_a_search_gives_no_row_that_a_newer_generation_has_moved(scene: Scene, approximate: bool) -> None:
    scene.b.put(rows((2, "far"), at=50.0))
    scene.b.flush()
    scene.b.put(rows((4, "far"), at=60.0))
    found = scene.table.search([2.0, 0.0], "e", k=6, writers=scene.writers, approximate=approximate)
    assert dict(zip(found.column("id").to_pylist(), found.column("v").to_pylist(), strict=True)) == {
        **NEWEST,
        2: "far",
        4: "far",
    }
    assert found.column("id").to_pylist()[-2:] == [2, 4]
