"""The tables that `reads.py` reads: an indexed base that pylance wrote, generations above it, and the merged rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import memwal
import numpy as np
import pyarrow as pa
from lance.mem_wal import ShardSnapshot

KEY = {"lance-schema:unenforced-primary-key": "true"}
DIMENSION = 128
CENTRES = 256
BATCH_ROWS = 1 << 18
WORDS = 20_000
GENERATION_PART = 400
"""A generation has one row for so many of the base."""

Values = Callable[[np.ndarray, np.random.Generator], dict[str, pa.Array]]

Due = Callable[[], None]
"""Called between pieces of work; it may end the program, and the next run continues from there."""


def _plain(keys: np.ndarray, draw: np.random.Generator) -> dict[str, pa.Array]:
    payloads = pa.array([f"{number:08x}" * 12 for number in draw.integers(0, 1 << 32, 1 << 12)])
    return {
        "a": pa.array(draw.integers(0, 1000, len(keys)), pa.int32()),
        "n": pa.array(draw.integers(0, 100_000, len(keys))),
        "payload": payloads.take(pa.array(draw.integers(0, len(payloads), len(keys)))),
    }


def _vectors(keys: np.ndarray, draw: np.random.Generator) -> dict[str, pa.Array]:
    centres = np.random.default_rng(7).normal(size=(CENTRES, DIMENSION)).astype(np.float32) * 2
    found = centres[draw.integers(0, CENTRES, len(keys))] + draw.normal(size=(len(keys), DIMENSION))
    flat = pa.array(found.astype(np.float32).ravel())
    return {"v": pa.FixedSizeListArray.from_arrays(flat, DIMENSION)}


def _texts(keys: np.ndarray, draw: np.random.Generator) -> dict[str, pa.Array]:
    words = np.minimum(draw.zipf(1.3, (len(keys), 20)), WORDS).tolist()
    return {"text": pa.array([" ".join(map("w{}".format, row)) for row in words])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is in a table besides its key."""

    values: Values
    index: str = ""
    """The indexed column."""
    index_type: str = ""
    options: tuple[tuple[str, object], ...] = ()
    maintained: bool = True
    part: int = 1
    """The base has one row for so many that were asked for."""


KINDS = {
    "plain": Kind(values=_plain),
    "key": Kind(values=_plain, index="id", index_type="BTREE", maintained=False),
    "btree": Kind(values=_plain, index="n", index_type="BTREE"),
    "vector": Kind(
        values=_vectors,
        index="v",
        index_type="IVF_PQ",
        options=(("num_partitions", 64), ("num_sub_vectors", 16)),
        part=5,
    ),
    "text": Kind(values=_texts, index="text", index_type="INVERTED", part=5),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One table."""

    kind: str
    rows: int
    regions: int
    generations: int
    """Of each region."""
    generation_rows: int = 0
    """0: as many as `GENERATION_PART` says."""

    @property
    def base_rows(self) -> int:
        return self.rows // KINDS[self.kind].part


class Scene:
    """A case on disk: ``table`` is the engine's, ``merged`` pylance's table of the same rows, with the same index."""

    def __init__(self, folder: Path, case: Case, say: Callable[[str], None], due: Due) -> None:
        self.case, self._due = case, due
        name = f"{case.kind}-{case.rows}-{case.regions}x{case.generations}-{case.generation_rows}"
        self.place = folder / name
        if not (self.place / "done").exists():
            say(f"making {name}")
            self._make()
            (self.place / "done").touch()
            due()
        self.url = str(self.place / "table")
        self.table = memwal.open(self.url)
        self.forgetful = memwal.open(self.url, remember_bytes=0)
        self.dataset = lance.dataset(self.url)
        self.snapshots = [*self._snapshots()]
        self.generations = sorted(map(str, self.place.glob("table/_mem_wal/*/*_gen_*")))

    @property
    def merged(self) -> lance.LanceDataset:
        """The merged rows as a table of pylance; made when it is first asked for."""
        place, kind = self.place / "merged", KINDS[self.case.kind]
        if not (place / "done").exists():
            shutil.rmtree(place, ignore_errors=True)
            made = lance.write_dataset(
                pa.RecordBatchReader.from_batches(self.table.schema, self._merged_batches()), str(place)
            )
            _index(made, kind)
            (place / "done").touch()
            self._due()
        return lance.dataset(str(place))

    def _merged_batches(self) -> Iterator[pa.RecordBatch]:
        for part in self.table.batches():
            yield from part.to_batches(BATCH_ROWS)

    def rows(self, keys: np.ndarray, seed: int) -> pa.Table:
        values = KINDS[self.case.kind].values(keys, np.random.default_rng(seed))
        fields = [pa.field("id", pa.int64(), nullable=False, metadata=KEY)]
        fields += [pa.field(name, column.type) for name, column in values.items()]
        return pa.table([pa.array(keys), *values.values()], schema=pa.schema(fields))

    def _make(self) -> None:
        """The base, and generation after generation; those that an earlier run has made stay."""
        case, place, made = self.case, str(self.place / "table"), self.place / "made"
        if not made.exists():
            shutil.rmtree(self.place, ignore_errors=True)
            self._make_base(place)
            made.write_text("0")
            self._due()
        table, count = memwal.open(place), case.base_rows
        draw = np.random.default_rng(1)
        each = case.generation_rows or max(1, count // GENERATION_PART)
        for generation in range(case.generations):
            many = case.regions * each
            again = np.concatenate(
                [draw.integers(0, count, many - many // 10), count + draw.integers(0, count, many // 10)]
            )
            if generation < int(made.read_text()):
                continue
            rows = self.rows(np.unique(again), 1000 + generation)
            buckets = table.region_values(rows).column("b").to_numpy()
            for bucket in range(case.regions):
                with table.writer(values={"b": bucket}, background=False) as writer:
                    writer.put(rows.filter(pa.array(buckets == bucket)))
                    writer.flush()
            made.write_text(str(generation + 1))
            self._due()

    def _make_base(self, place: str) -> None:
        case, kind, count = self.case, KINDS[self.case.kind], self.case.base_rows
        keys = np.random.default_rng(0).permutation(count)
        parts = [keys[at : at + BATCH_ROWS] for at in range(0, count, BATCH_ROWS)]
        batches = (batch for number, part in enumerate(parts) for batch in self.rows(part, number).to_batches())
        reader = pa.RecordBatchReader.from_batches(self.rows(keys[:1], 0).schema, batches)
        _index(lance.write_dataset(reader, place, data_storage_version="2.1"), kind)
        maintained = ["index"] if kind.index and kind.maintained else []
        spec = memwal.bucket("b", "id", case.regions)
        memwal.enable(place, revision="R", spec=spec, maintained_indexes=maintained)

    def _snapshots(self) -> Iterator[ShardSnapshot]:
        for region in self.table.regions():
            if region.manifest is not None:
                found = ShardSnapshot(region.region_id).with_current_generation(region.manifest.generation_current)
                for listed in region.manifest.flushed:
                    found.with_sstable(listed.generation, listed.path)
                yield found


def _index(dataset: lance.LanceDataset, kind: Kind) -> None:
    options = dict(kind.options)
    if kind.index_type.startswith("IVF"):
        dataset.create_index(kind.index, kind.index_type, name="index", metric="l2", **options)
    elif kind.index:
        dataset.create_scalar_index(kind.index, kind.index_type, name="index", **options)
