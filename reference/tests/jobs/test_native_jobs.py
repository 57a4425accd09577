"""The engine's jobs on tables that the native writer made: after every step all readers see the rows that they should.

What they should see is folded here, in dictionaries, from what was written and from what pylance reads of each
generation alone; no code of the engine takes part.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from lance.mem_wal import LsmPointLookupPlanner, LsmScanner, ShardSnapshot, evaluate_sharding_spec
from memwal import paths
from memwal.codec import region_manifest
from memwal.effects import PutIfAbsent, StoreRequest
from memwal.ids import WalPosition
from memwal.region.rows import TOMBSTONE
from memwal.revisions import R
from memwal.stores.local import LocalStore

PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
Key = tuple[Any, ...]
Row = tuple[Any, ...]
State = dict[Key, Row]


def schema_of(*key: tuple[str, pa.DataType]) -> pa.Schema:
    """Columns ``key``, marked as key, then ``name`` and ``value``."""
    columns = [pa.field(name, kind, nullable=False, metadata=PRIMARY_KEY) for name, kind in key]
    return pa.schema([*columns, pa.field("name", pa.string()), pa.field("value", pa.int32())])


@dataclass
class Native:
    """A table that pylance made and writes, and the fold of everything that was acknowledged."""

    root: Path
    schema: pa.Schema
    key: tuple[str, ...]
    shards: list[str]
    written: State = field(default_factory=dict)
    """What was written, tails included."""
    generations: dict[tuple[str, int], list[tuple[Row, bool]]] = field(default_factory=dict)
    """Visible rows of each generation as pylance reads it, and whether each is a tombstone."""
    base: State = field(default_factory=dict)
    """Rows that were put into the base table directly, less those that were deleted there."""

    @classmethod
    def create(cls, root: Path, schema: pa.Schema, shards: int = 1, rows: Sequence[Row] = (), **options: Any) -> Native:
        key = tuple(f.name for f in schema if f.metadata)
        dataset = lance.write_dataset(_table(schema, rows), str(root), max_rows_per_file=3)
        dataset.initialize_mem_wal(**options)
        made = cls(root, schema, key, sorted(str(uuid.uuid4()) for _ in range(shards)))
        made.base = {row[: len(key)]: row for row in rows}
        made.written = dict(made.base)
        return made

    @contextlib.contextmanager
    def writer(self, shard: int = 0) -> Iterator[Writing]:
        """An open native writer; closing it flushes its MemTable.

        No put fills that: what pylance flushes while it is busy may lack keys in its index (docs/native.md).
        """
        opened = lance.dataset(str(self.root)).mem_wal_writer(
            self.shards[shard], durable_write=True, max_memtable_rows=100
        )
        with opened as raw:
            yield Writing(self, raw)

    @property
    def table(self) -> memwal.Table:
        return memwal.open(self.root)

    def listed(self) -> dict[tuple[str, int], str]:
        """Folder of each listed generation."""
        found = {}
        for region in self.table.regions():
            for listed in region.manifest.flushed if region.manifest else ():
                found[region.region_id, listed.generation] = listed.path
        return found

    def remember(self) -> None:
        """Read the generations that are listed and were not read before."""
        for (shard, number), folder in self.listed().items():
            if (shard, number) not in self.generations:
                opened = lance.dataset(str(self.root / "_mem_wal" / shard / folder)).to_table()
                names = self.schema.names
                self.generations[shard, number] = [
                    (tuple(row[n] for n in names), row[TOMBSTONE]) for row in opened.to_pylist()
                ]

    def folded(self, upto: Callable[[str], int]) -> State:
        """The base rows with the generations of each shard up to a number on top, in order."""
        state = dict(self.base)
        for (shard, number), rows in sorted(self.generations.items()):
            if number <= upto(shard):
                for row, deleted in rows:
                    key = row[: len(self.key)]
                    state.pop(key, None)
                    if not deleted:
                        state[key] = row
        return state

    def snapshots(self) -> list[ShardSnapshot]:
        """Every shard as its newest manifest says."""
        found = []
        for region in self.table.regions():
            if region.manifest is None:
                continue
            snapshot = ShardSnapshot(region.region_id).with_current_generation(region.manifest.generation_current)
            for listed in region.manifest.flushed:
                snapshot.with_sstable(listed.generation, listed.path)
            found.append(snapshot)
        return found

    def check(self) -> None:
        """Every reader sees what it should, and the table is whole."""
        self.remember()
        progress = {region.region_id: region.merged for region in self.table.regions()}
        dataset = lance.dataset(str(self.root))
        assert self.state(dataset.to_table()) == self.folded(lambda shard: progress.get(shard, 0))
        flushed = self.folded(lambda shard: 10**9)
        assert self.state(LsmScanner.from_snapshots(dataset, self.snapshots()).to_table()) == flushed
        planner = LsmPointLookupPlanner(dataset, self.snapshots())
        for key in {*self.written, *flushed}:
            found = planner.plan_lookup(self.key_array(key)).to_table()
            assert self.state(found) == ({key: flushed[key]} if key in flushed else {}), key
        assert self.state(self.table.scan()) == self.written
        report = self.table.verify()
        assert report.findings == ()
        assert not report.moved

    def key_array(self, key: Key) -> pa.Array:
        arrays = [pa.array([v], self.schema.field(n).type) for n, v in zip(self.key, key, strict=True)]
        return arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, names=list(self.key))

    def state(self, found: pa.Table) -> State:
        """Rows by key, each once."""
        rows = [tuple(row[n] for n in self.schema.names) for row in found.to_pylist()]
        state = {row[: len(self.key)]: row for row in rows}
        assert len(state) == len(rows)
        return state


@dataclass
class Writing:
    """An open native writer."""

    native: Native
    raw: Any

    def put(self, *rows: Row) -> None:
        self.raw.put(_table(self.native.schema, rows))
        for row in rows:
            self.native.written[row[: len(self.native.key)]] = row

    def delete(self, *keys: Key) -> None:
        names = self.native.key
        columns = {n: pa.array([key[i] for key in keys], self.native.schema.field(n).type) for i, n in enumerate(names)}
        self.raw.delete(pa.table(columns))
        for key in keys:
            self.native.written.pop(key, None)


def _table(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


NUMBER = schema_of(("id", pa.int64()))
TEXT = schema_of(("id", pa.string()))
COMPOSITE = schema_of(("tenant", pa.string()), ("id", pa.int32()))
KEYS: dict[str, tuple[pa.Schema, Callable[[int], Key]]] = {
    "numbers": (NUMBER, lambda i: (i,)),
    "text": (TEXT, lambda i: ("ключ" * (i % 3) + f"k{i}",)),
    "composite": (COMPOSITE, lambda i: ("ab"[i % 2] * i, i - 4)),
}


def made(root: Path, kind: str, **options: Any) -> tuple[Native, Callable[[int], Key]]:
    """A table with five sessions of a native writer: updates, deletes, a generation of each, a key twice in one."""
    schema, key = KEYS[kind]
    native = Native.create(root, schema, rows=[(*key(i), "base", 0) for i in range(6)], **options)
    with native.writer() as writer:
        writer.put((*key(1), "a", 1), (*key(6), "a", 1))
        writer.put((*key(1), "b", 2), (*key(1), "c", 3))
    with native.writer() as writer:
        writer.put((*key(7), None, 1), (*key(2), "a", None))
        writer.delete(key(3), key(6))
    with native.writer() as writer:
        writer.put((*key(8), "a", 1))
    with native.writer() as writer:
        writer.put((*key(3), "again", 5))
        writer.delete(key(8))
    with native.writer() as writer:
        writer.put((*key(9), "z", 9), (*key(7), "later", 9))
    return native, key


def after_each_merge(native: Native, look: Callable[[], None]) -> int:
    """Merge generation by generation, by mergers that die after each; how many there were."""

    class Killed(Exception):
        pass

    def kill(event: str, fields: dict[str, object]) -> None:
        if event == "merged":
            raise Killed

    times = 0
    while True:
        try:
            memwal.open(native.root, listener=kill).merge()
            return times
        except Killed:
            times += 1
            look()


@pytest.mark.parametrize("sharding", [{}, {"unsharded": True}], ids=["manual", "unsharded"])
@pytest.mark.parametrize(
    "kind", [each if each == "composite" else pytest.param(each, marks=pytest.mark.long) for each in KEYS]
)
@pytest.mark.clause("MERGE-004", "MERGE-014", "MERGE-015", "MERGE-019", "GEN-007", "READ-011")
def test_merging_collecting_and_the_native_readers_agree_after_every_step(
    kind: str, sharding: dict[str, Any], tmp_path: Path
) -> None:
    native, key = made(tmp_path / "t", kind, **sharding)
    native.check()
    with native.writer() as writer:
        writer.put((*key(5), "tail", 7), (*key(10), "tail", 7))
        native.check()
        assert native.table.snapshot() == 1
        native.check()
        assert after_each_merge(native, native.check) >= 3
        assert native.table.gc().collected == ()
        native.check()
        collected = native.table.gc(retain_versions=1).collected
        assert len([d for d in collected if d.kind == "generation"]) >= 3
        native.check()
        writer.put((*key(5), "after", 8))
        writer.delete(key(1))
        writer.put((*key(11), "after", 8), (*key(12), "after", 8))
        native.check()
    with native.writer() as writer:
        writer.put((*key(12), "last", 9))
        native.check()
    native.table.merge()
    native.check()
    assert native.state(lance.dataset(str(native.root)).to_table()) == native.written
    assert native.listed()


@pytest.mark.parametrize("mode", ["bucket", "identity"])
@pytest.mark.clause("REGION-004", "READ-014", "AMB-150")
def test_shards_of_a_spec_are_merged_in_any_order_to_the_same_rows(mode: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"bucket_column": "id", "num_buckets": 3} if mode == "bucket" else {}
    options = options or {"identity_column": "id"}
    keys = range(3) if mode == "identity" else range(18)
    shards = len(set(keys)) if mode == "identity" else 3
    found = []
    for turn in ("up", "down", "together"):
        root = tmp_path / turn
        native = Native.create(root, NUMBER, shards, [(i, "base", 0) for i in range(3)], **options)
        spec = lance.dataset(str(root)).mem_wal_index_details()["sharding_specs"][0]
        routed = _routed(native, spec, [(i, f"{i}", i) for i in keys])
        for shard, rows in enumerate(routed.values()):
            for at in range(0, len(rows), 3):
                with native.writer(shard) as writer:
                    writer.put(*rows[at : at + 3])
            with native.writer(shard) as writer:
                writer.delete(rows[0][:1])
        order = sorted(native.shards, reverse=turn == "down")
        for shard_id in order if turn != "together" else ():
            native.table.merge(shard_id)
            native.check()
        if turn == "together":  # the native readers take a version with the progress of several shards
            report = native.table.merge()
            assert report.commits * 2 < len(report.merged)
            native.check()
        native.table.snapshot()
        native.table.gc(retain_versions=1)
        native.check()
        found.append(native.state(lance.dataset(str(root)).to_table()))
    assert found == [native.written] * 3


def _routed(native: Native, spec: dict[str, Any], rows: list[Row]) -> dict[Any, list[Row]]:
    """Rows by region value, as pylance computes it."""
    (batch,) = _table(native.schema, rows).to_batches()
    values = evaluate_sharding_spec(batch, spec, lance.dataset(str(native.root)).lance_schema).column(0).to_pylist()
    routed: dict[Any, list[Row]] = {}
    for row, value in zip(rows, values, strict=True):
        routed.setdefault(value, []).append(row)
    return routed


def test_rows_in_the_wrong_shard_are_a_finding_of_theirs_and_not_of_the_writer(tmp_path: Path) -> None:
    native = Native.create(tmp_path / "t", NUMBER, 2, bucket_column="id", num_buckets=2)
    spec = lance.dataset(str(native.root)).mem_wal_index_details()["sharding_specs"][0]
    first, second = _routed(native, spec, [(i, "x", i) for i in range(10)]).values()
    with native.writer(0) as writer:
        writer.put(*first)
    with native.writer(1) as writer:
        writer.put(*second)
    assert native.table.verify().clean
    with native.writer(1) as writer:
        writer.put(first[0])
    found = {f.oracle for f in native.table.verify().findings}
    assert found == {"rows_belong_to_their_region", "keys_are_in_one_region"}


# Catch-up


@pytest.mark.clause("CATCHUP-003", "CATCHUP-013", "GC-002", "GC-011")
def test_indexes_catch_up_with_merged_native_generations_and_then_they_are_collected(tmp_path: Path) -> None:
    schema, key = KEYS["numbers"]
    native = Native.create(tmp_path / "t", schema, rows=[(*key(i), "base", 0) for i in range(6)])
    lance.dataset(str(native.root)).create_scalar_index("value", "BTREE")
    with native.writer() as writer:
        writer.put((*key(1), "a", 1), (*key(6), "a", 1))
        writer.put((*key(1), "b", 2), (*key(7), "c", 2))
    native.check()
    native.table.merge()
    native.check()
    report = native.table.catch_up()
    assert [done.index_name for done in report.committed] == ["value_idx"]
    native.check()
    scanner = lance.dataset(str(native.root)).scanner(filter="value = 2")
    assert "ScalarIndexQuery" in scanner.explain_plan()
    assert native.state(scanner.to_table()) == {k: v for k, v in native.written.items() if v[-1] == 2}
    collected = native.table.gc(retain_versions=1).collected
    assert [d.kind for d in collected].count("generation") == 1
    native.check()
    with native.writer() as writer:
        writer.put((*key(1), "later", 3))
    native.check()


# Commits of pylance between our steps, and in the middle of them


def compact(native: Native) -> None:
    lance.dataset(str(native.root)).optimize.compact_files()


def index(native: Native) -> None:
    lance.dataset(str(native.root)).create_scalar_index("value", "BTREE", replace=True)


def append(native: Native) -> None:
    row = (100 + len(native.base), "appended", 1)
    lance.write_dataset(_table(native.schema, [row]), str(native.root), mode="append")
    native.base[row[:1]] = native.written[row[:1]] = row


def delete(native: Native) -> None:
    lance.dataset(str(native.root)).delete("id = 0")
    native.base.pop((0,), None)
    native.written.pop((0,), None)


def clean_up(native: Native) -> None:
    from datetime import timedelta

    lance.dataset(str(native.root)).cleanup_old_versions(older_than=timedelta(0))


OTHERS = {"compaction": compact, "index": index, "append": append, "delete": delete, "cleanup": clean_up}


@pytest.mark.long
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.clause("MERGE-009")
def test_commits_of_pylance_between_merges_change_nothing_that_they_should_not(other: str, tmp_path: Path) -> None:
    native, key = made(tmp_path / "t", "numbers")
    native.remember()
    OTHERS[other](native)
    native.check()

    def between() -> None:
        OTHERS[other](native)
        native.check()

    assert after_each_merge(native, between) >= 3
    native.table.snapshot()
    native.table.gc(retain_versions=2)
    native.check()
    with native.writer() as writer:
        writer.put((*key(4), "on", 1))
        native.check()
    native.table.merge()
    native.check()


class Interrupted:
    """A local store that lets another process commit just before our commit is stored."""

    def __init__(self, root: Path, others: list[Callable[[], None]]) -> None:
        self._store, self._others = LocalStore(root), others

    def perform(self, request: StoreRequest[Any]) -> Any:
        if isinstance(request, PutIfAbsent) and request.path.startswith("t/_versions/") and self._others:
            self._others.pop(0)()
        return self._store.perform(request)

    def describe(self) -> str:
        return self._store.describe()

    def close(self) -> None:
        self._store.close()


@pytest.mark.parametrize("other", [o for o in OTHERS if o != "cleanup"])
@pytest.mark.clause("MERGE-007", "MERGE-012", "TXN-012", "TXN-048", "TXN-061")
def test_a_commit_of_pylance_between_our_read_and_our_commit_is_not_undone(other: str, tmp_path: Path) -> None:
    native, _ = made(tmp_path / "t", "numbers")
    native.remember()
    others = [lambda: OTHERS[other](native), lambda: OTHERS["append"](native)]
    versions = lance.dataset(str(native.root)).version
    store = Interrupted(tmp_path, others)
    merged = memwal.open("t", store=store).merge().merged
    assert others == []
    assert len(merged) == len(native.generations)
    assert lance.dataset(str(native.root)).version >= versions + len(merged) + 2
    native.check()
    assert native.state(lance.dataset(str(native.root)).to_table()) == native.written


@pytest.mark.clause("MERGE-010", "MERGE-011", "MERGE-014", "MERGE-018")
def test_a_native_merge_between_our_read_and_our_commit_is_not_repeated(tmp_path: Path) -> None:
    from lance.mem_wal import CompactedSsTable

    native, _ = made(tmp_path / "t", "numbers")
    native.remember()
    (shard,) = native.shards

    def merge_natively() -> None:
        rows = [row for row, deleted in native.generations[shard, 1] if not deleted]
        dataset = lance.dataset(str(native.root))
        builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        builder.mark_sstables_as_compacted([CompactedSsTable(shard, 1)]).execute(_table(native.schema, rows))

    store = Interrupted(tmp_path, [merge_natively])
    assert not any(deleted for _, deleted in native.generations[shard, 1])
    merged = memwal.open("t", store=store).merge().merged
    assert [generation for _, generation in merged] == sorted(n for _, n in native.generations if n > 1)
    native.check()
    assert native.state(lance.dataset(str(native.root)).to_table()) == native.written


# The pointer of the native writer


def _left_behind(root: Path, region: memwal.RegionInfo, position: WalPosition) -> None:
    """Set the replay pointer back in every manifest that has it higher.

    The native writer leaves it behind when a put is under way while it seals a MemTable: how far is a matter of time.
    """
    folder = root / paths.region(region.region_id)
    for path in sorted(folder.glob("manifest/*.binpb")):
        manifest = region_manifest.decode(path.read_bytes(), R, str(path))
        pointer = min(manifest.position_replay_after, position)
        path.write_bytes(region_manifest.encode(replace(manifest, position_replay_after=pointer), R))


@pytest.mark.clause("WAL-018")
def test_rows_of_a_table_that_only_grows_are_there_once(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("name", pa.string()), pa.field("value", pa.int32())])
    root = tmp_path / "t"
    dataset = lance.write_dataset(_table(schema, [("base", 0)]), str(root))
    dataset.initialize_mem_wal()
    shard = str(uuid.uuid4())
    with lance.dataset(str(root)).mem_wal_writer(shard, durable_write=True, max_memtable_rows=2) as writer:
        for i in range(3):
            writer.put(_table(schema, [("same", 1), (f"row {i}", i)]))
    expected = sorted([("base", 0), *[("same", 1)] * 3, *((f"row {i}", i) for i in range(3))])
    table = memwal.open(root)

    def rows() -> list[Row]:
        return sorted((row["name"], row["value"]) for row in table.scan().to_pylist())

    (region,) = table.regions()
    assert region.manifest is not None
    assert region.manifest.generation_current > 1
    _left_behind(root, region, WalPosition(0))
    assert rows() == expected
    assert table.verify().findings == ()
    table.merge()
    assert rows() == expected
    assert table.verify().findings == ()
    base = lance.dataset(str(root)).to_table().to_pylist()
    assert sorted((row["name"], row["value"]) for row in base) == expected


@pytest.mark.clause("WAL-018")
def test_entries_of_a_flushed_generation_above_the_pointer_bring_nothing_back(tmp_path: Path) -> None:
    native, key = made(tmp_path / "t", "numbers")
    native.table.merge()
    native.check()
    (region,) = native.table.regions()
    _left_behind(native.root, region, WalPosition(1))
    lance.dataset(str(native.root)).delete("id = 7 or id = 9")
    for gone in (7, 9):
        assert native.written.pop(key(gone)) is not None
    assert native.state(native.table.scan()) == native.written
    with native.table.writer(region.region_id) as writer:
        assert writer.rows == 0
        writer.put(_table(native.schema, [(*key(20), "ours", 1)]))
        native.written[key(20)] = (*key(20), "ours", 1)
        writer.flush()
    native.table.merge()
    assert native.state(lance.dataset(str(native.root)).to_table()) == native.written
    with native.writer() as writing:
        writing.put((*key(21), "native", 1))
    assert native.state(native.table.scan()) == native.written
