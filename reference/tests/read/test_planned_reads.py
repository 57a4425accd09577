"""Reads that are planned once and done in parts: all splits together are one scan, of the moment of the plan."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path

import memwal
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.errors import ArtifactError, InvalidArgument
from memwal.read.cut import CutGone, Split
from memwal.read.merging import Hiding
from memwal.stores.memory import MemoryStore
from memwal.table import read

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
REGIONS = 3
Rows = dict[int, str]


def rows(values: Rows) -> pa.Table:
    return pa.table([list(values), list(values.values())], schema=SCHEMA)


def seen(parts: Iterable[pa.Table]) -> list[tuple[object, ...]]:
    """All rows, each as often as it came."""
    return sorted(tuple(row.values()) for part in parts for row in part.to_pylist())


def of_splits(table: memwal.Table, splits: Sequence[Split]) -> list[tuple[object, ...]]:
    """The rows of all splits, each of which went through bytes to the reader, which keeps the keys that hide rows."""
    hiding = Hiding()
    return seen(part for split in splits for part in table.batches_of(pickle.loads(pickle.dumps(split)), hiding))


class History:
    """A table with three regions, and what a dictionary says of it."""

    def __init__(self, revision: str, profile: str, kind: str) -> None:
        self.store = MemoryStore()
        spec = memwal.bucket("b", "id", REGIONS) if kind == "bucket" else None
        self.table = memwal.create(
            "t", SCHEMA, primary_key=["id"], revision=revision, spec=spec, store=self.store, profile=profile
        )
        self.manual = [] if spec is not None else [self.table.register_region() for _ in range(REGIONS)]
        self.newest: Rows = {}
        self.steps = 0

    def opened(self, key: int) -> memwal.Writer:
        if self.manual:
            return self.table.writer(self.manual[key % REGIONS], background=False)
        return self.table.writer(values=self.region_value(key), background=False)

    def region_value(self, key: int) -> dict[str, object]:
        (values,) = self.table.region_values(rows({key: ""})).to_pylist()
        return values

    def shares(self, keys: Iterable[int]) -> list[list[int]]:
        found: dict[object, list[int]] = {}
        for key in keys:
            where = key % REGIONS if self.manual else self.region_value(key)["b"]
            found.setdefault(where, []).append(key)
        return list(found.values())

    def put(self, keys: Sequence[int], *, flush: bool) -> None:
        self.steps += 1
        for share in self.shares(keys):
            with self.opened(share[0]) as writer:
                writer.put(rows(dict.fromkeys(share, "an older one of the same put")))
                writer.put(rows(dict.fromkeys(share, f"step {self.steps}")))
                if flush:
                    writer.flush()
        self.newest |= dict.fromkeys(keys, f"step {self.steps}")

    def delete(self, keys: Sequence[int], *, flush: bool) -> None:
        for share in self.shares(keys):
            with self.opened(share[0]) as writer:
                writer.delete(pa.table({"id": pa.array(share, pa.int64())}))
                if flush:
                    writer.flush()
        self.newest = {key: value for key, value in self.newest.items() if key not in keys}

    def step(self, name: str, keys: Sequence[int], flush: bool) -> None:
        if name == "put":
            self.put(keys, flush=flush)
        elif name == "delete" and self.table.revision.tombstones:
            self.delete(keys, flush=flush)
        elif name == "merge":
            self.table.merge()
        elif name == "collect":
            self.table.gc(retain_versions=1)
        elif name == "compact":
            memwal.base_table("t", store=self.store).compact()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete", "merge", "collect", "compact"]),
        st.lists(st.integers(0, 23), min_size=1, max_size=12, unique=True),
        st.booleans(),
    ),
    min_size=1,
    max_size=7,
)
CONDITIONS = [None, "id % 2 = 0", "v = 'step 2'", pc.field("id").isin([1, 2, 5])]


@settings(max_examples=20)
@given(
    revision=st.sampled_from("ABR"),
    profile=st.sampled_from(["strict", "strict", "literal"]),
    kind=st.sampled_from(["bucket", "manual"]),
    steps=STEPS,
    count=st.integers(1, 7),
    condition=st.integers(0, len(CONDITIONS) - 1),
    columns=st.sampled_from([None, ["v"], ["v", "id"]]),
    fetched=st.sampled_from([0, read.FETCH_BYTES]),
)
def test_the_splits_of_a_read_are_one_scan_and_that_is_the_fold_of_all_writes(
    revision: str,
    profile: str,
    kind: str,
    steps: list[tuple[str, list[int], bool]],
    count: int,
    condition: int,
    columns: list[str] | None,
    fetched: int,
) -> None:
    history = History(revision, profile, kind)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(read, "FIRST_ROWS", 2)
        small.setattr(read, "BATCH_ROWS", 3)
        small.setattr(read, "FETCH_BYTES", fetched)
        for step in steps:
            history.step(*step)
        table, asked = history.table, CONDITIONS[condition]
        splits = table.plan_read(columns, asked, splits=count)
        assert 1 <= len(splits) <= count
        scanned = seen([table.scan(columns, asked)])
        assert of_splits(table, splits) == scanned
        if profile == "strict":
            assert of_splits(table, table.plan_read()) == sorted(history.newest.items())


def told(table: memwal.Table, count: int) -> list[tuple[object, ...]]:
    return of_splits(table, table.plan_read(splits=count))


@pytest.fixture
def table(tmp_path: Path) -> memwal.Table:
    """Keys 0 to 8 in three fragments of the base, 3 to 5 in a generation, 6 to 8 in the WAL; one region."""
    made = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], wal_collection=True)
    for first in (0, 3, 6):
        made.base.append(rows(dict.fromkeys(range(first, first + 3), "base")))
    with made.writer(background=False) as writer:
        writer.put(rows(dict.fromkeys((3, 4, 5), "generation")))
        writer.flush()
        writer.put(rows(dict.fromkeys((6, 7, 8), "memory")))
    return made


EXPECTED = [*((key, "base") for key in (0, 1, 2)), *((key, "generation") for key in (3, 4, 5))] + [
    (key, "memory") for key in (6, 7, 8)
]


def test_each_fragment_and_each_region_is_in_one_split(table: memwal.Table) -> None:
    splits = table.plan_read(splits=9)
    assert [(len(split.fragments), len(split.regions)) for split in splits] == [(1, 0), (1, 0), (1, 0), (0, 1)]
    assert [seen(table.batches_of(split)) for split in splits] == [EXPECTED[:3], [], [], EXPECTED[3:]]
    assert sorted(len(split.fragments) for split in table.plan_read(splits=2)) == [1, 2]
    assert told(table, 3) == EXPECTED


def test_a_split_shows_the_moment_of_the_plan_whatever_was_written_and_merged_since(table: memwal.Table) -> None:
    splits = table.plan_read(splits=4)
    with table.writer(background=False) as writer:
        writer.put(rows({0: "later", 6: "later", 9: "later"}))
        writer.flush()
        writer.put(rows({1: "later still"}))
    table.merge()
    assert of_splits(table, splits) == EXPECTED
    assert (0, "later") in told(table, 4)


@pytest.mark.parametrize("kind", ["generation", "WAL", "version"])
def test_a_split_whose_sources_were_collected_says_so_and_what_to_do(tmp_path: Path, kind: str) -> None:
    made = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], wal_collection=True)
    made.base.append(rows({0: "base"}))
    made.base.append(rows({1: "base"}))
    with made.writer(background=False) as writer:
        if kind != "version":
            writer.put(rows({2: "above"}))
        if kind == "generation":
            writer.flush()
        # The barrier of the claim is an entry without rows: that split has nothing to lose with the version.
        splits = [split for split in made.plan_read(splits=3) if split.fragments or kind != "version"]
        writer.flush()
    made.merge()
    memwal.base_table(tmp_path / "t").compact()
    knows_the_version = memwal.open(tmp_path / "t", version=splits[0].cut.version)
    made.gc(retain_versions=1)
    for split in splits:
        for reader in (made, knows_the_version):
            with pytest.raises(CutGone, match=r"plan the read again; gc with a longer grace_ms") as ended:
                list(reader.batches_of(split))
            assert ended.value.version == splits[0].cut.version
            expected = "version" if reader is made else kind
            assert {"generation": "_gen_1", "WAL": "wal", "version": "_versions"}[expected] in ended.value.path


def test_damage_is_said_as_damage_and_not_as_collected(table: memwal.Table, tmp_path: Path) -> None:
    (split, *_) = table.plan_read(splits=4)
    (folder,) = {path.parents[1] for path in (tmp_path / "t").rglob("_mem_wal/**/_versions/*.manifest")}
    for file in (folder / "data").iterdir():
        file.unlink()
    with pytest.raises(ArtifactError, match="FORMAT-018"):
        list(table.batches_of(split))


def test_keys_that_hide_rows_of_the_base_are_read_once_for_all_splits_of_one_cut(
    table: memwal.Table, tmp_path: Path
) -> None:
    hiding, older = Hiding(), table.plan_read(splits=4)
    assert seen(row for split in older for row in table.batches_of(split, hiding)) == EXPECTED
    with table.writer(background=False) as writer:
        writer.put(rows({0: "later"}))
    splits = table.plan_read(splits=4)
    newer = [(0, "later"), *EXPECTED[1:]]
    assert seen(row for split in splits for row in table.batches_of(split, hiding)) == newer
    for file in tmp_path.rglob("_mem_wal/*/wal/*"):
        file.unlink()
    assert seen(table.batches_of(splits[0], hiding)) == EXPECTED[1:3]
    with pytest.raises((CutGone, ArtifactError)):
        list(table.batches_of(splits[0]))


def test_a_read_has_at_least_one_split(table: memwal.Table) -> None:
    with pytest.raises(InvalidArgument, match="splits=0"):
        table.plan_read(splits=0)


def test_columns_that_are_not_there_are_refused_when_the_read_is_planned(table: memwal.Table) -> None:
    with pytest.raises(InvalidArgument, match="'words'"):
        table.plan_read(["words"])


def test_an_eventual_plan_reads_the_snapshot_of_its_version(table: memwal.Table) -> None:
    table.snapshot()
    old = memwal.open(table._place.io.location, version=table.version)
    with table.writer(background=False) as writer:
        writer.put(rows({0: "later"}))
        writer.flush()
    table.merge()
    without_wal = [*EXPECTED[:6], *((key, "base") for key in (6, 7, 8))]
    assert of_splits(old, old.plan_read(splits=3)) == without_wal


def test_where_nobody_says_how_many_a_small_table_is_one_split(table: memwal.Table) -> None:
    assert len(table.plan_read()) == 1
