"""A base table with one index of every kind that MemTables carry, built by pylance with literal parameters."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
from memwal.drive import drive
from memwal.effects import Io
from memwal.maintained import stored_text
from memwal.maintained.base_index import MaintainedIndex, load
from memwal.maintained.bm25 import Corpus, CorpusStatistics
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.table.coverage import segments
from memwal.table.state import TableState, latest

DIMENSION = 4
PARTITIONS = 3
KEY = {"lance-schema:unenforced-primary-key": "true"}
VECTOR = pa.list_(pa.float32(), DIMENSION)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        ("price", pa.float64()),
        ("tag", pa.string()),
        ("text", pa.string()),
        ("vf", VECTOR),
        ("vp", VECTOR),
        ("vs", VECTOR),
    ]
)
CENTROIDS = np.array([[0, 0, 0, 0], [2, 2, 0, 0], [-2, 0, 2, 1]], np.float32)
CODEBOOK = np.stack(
    [
        np.array([[math.cos(37 * i) * 2, math.sin(53 * i) * 2] for i in range(256)], np.float32),
        np.array([[math.sin(29 * i) * 3, math.cos(71 * i)] for i in range(256)], np.float32),
    ]
)
VECTOR_COLUMNS = {"flat": "vf", "pq": "vp", "sq": "vs"}
NAMES = ("btree", "bitmap", "inverted", "flat", "pq", "sq")
"""Names of the indexes; each says its kind."""


def vector(number: int) -> list[float]:
    """A vector of its own for each number, with each component in [-3, 3]."""
    return [3 * math.cos(number), 2 * math.sin(number), 3 * math.cos(3 * number), 2 * math.sin(5 * number)]


def rows(
    keys: Sequence[int],
    *,
    prices: Sequence[float | None] | None = None,
    tags: Sequence[str | None] | None = None,
    texts: Sequence[str | None] | None = None,
    vectors: Sequence[Sequence[float] | None] | None = None,
) -> pa.Table:
    """One row per key; columns that are not given follow from it."""
    placed = [vector(key) for key in keys] if vectors is None else vectors
    return pa.table(
        [
            pa.array(keys, pa.int64()),
            pa.array([key / 2 for key in keys] if prices is None else prices, pa.float64()),
            pa.array([f"t{key % 3}" for key in keys] if tags is None else tags, pa.string()),
            pa.array([f"word{key} fox" for key in keys] if texts is None else texts, pa.string()),
            *(pa.array(placed, VECTOR) for _ in range(3)),
        ],
        schema=SCHEMA,
    )


def build_base(place: Path) -> None:
    """A table of 300 rows that pylance wrote, with all indexes, and MemWAL not enabled."""
    base = lance.write_dataset(rows(range(-300, 0)), str(place), data_storage_version="2.1")
    base.create_scalar_index("price", "BTREE", name="btree")
    base.create_scalar_index("tag", "BITMAP", name="bitmap")
    base.create_scalar_index("text", "INVERTED", name="inverted")
    create_vectors(base, "vf", "IVF_FLAT", "flat")
    create_vectors(base, "vp", "IVF_PQ", "pq")
    create_vectors(base, "vs", "IVF_SQ", "sq")


def create_vectors(
    dataset: Any, column: str, kind: str, name: str, centroids: Any = CENTROIDS, metric: str = "l2", **options: Any
) -> None:
    """Let pylance build a vector index with the given centroids, and for IVF_PQ with `CODEBOOK`."""
    if kind == "IVF_PQ":
        options = {"pq_codebook": CODEBOOK.astype(centroids.dtype), "num_sub_vectors": 2} | options
    dataset.create_index(
        column, kind, name=name, metric=metric, num_partitions=len(centroids), ivf_centroids=centroids, **options
    )


class Base:
    """A base table of its own for one test, copied from the one that is built once."""

    def __init__(self, folder: Path, template: Path) -> None:
        self.place = folder / "t"
        shutil.copytree(template, self.place)
        self.store = LocalStore(self.place)

    def enable(self, revision: str = "B", maintained: Sequence[str] = NAMES) -> memwal.Table:
        return memwal.enable(self.place, revision=revision, maintained_indexes=maintained)

    def native(self) -> Any:
        """The base table as pylance opens it."""
        return lance.dataset(str(self.place))

    def state(self) -> TableState:
        return drive(latest(Io(interpretation=STRICT)), self.store)

    def load(self, *names: str) -> tuple[MaintainedIndex, ...]:
        return drive(load(Io(interpretation=STRICT), self.state(), names), self.store)

    def index(self, name: str) -> MaintainedIndex:
        (found,) = self.load(name)
        return found

    def generation(self, table: memwal.Table, number: int = 1) -> Path:
        """Folder of a listed generation of the only region."""
        (region,) = table.regions()
        assert region.manifest is not None
        listed = next(g for g in region.manifest.flushed if g.generation == number)
        return self.place / "_mem_wal" / region.region_id / listed.path


def hits(dataset: Any, condition: str, *, by_index: bool = True) -> list[int]:
    """Row addresses that pylance finds for a condition, by the index of the column or by a scan, ascending."""
    scanner = dataset.scanner(filter=condition, with_row_address=True, use_scalar_index=by_index)
    assert ("ScalarIndexQuery" in scanner.explain_plan()) == by_index
    return sorted(scanner.to_table().column("_rowaddr").to_pylist())


def neighbours(dataset: Any, column: str, query: Sequence[float], k: int, **options: Any) -> dict[int, float]:
    """Distance by row address of the rows that pylance finds through the index of ``column``; all partitions."""
    nearest = {"column": column, "q": pa.array(query, pa.float32()), "k": k, "nprobes": PARTITIONS} | options
    scanner = dataset.scanner(nearest=nearest, columns=["_distance"], with_row_address=True)
    assert "ANNIvf" in scanner.explain_plan()
    found = scanner.to_table()
    return dict(zip(found.column("_rowaddr").to_pylist(), found.column("_distance").to_pylist(), strict=True))


def texts_found(dataset: Any, query: Any, column: str = "text") -> dict[int, float]:
    """Score by row address of the rows that pylance finds through the full-text index."""
    from lance.query import MatchQuery

    asked = MatchQuery(query, column) if isinstance(query, str) else query
    scanner = dataset.scanner(full_text_query=asked, columns=["_score"], with_row_address=True, limit=10_000)
    found = scanner.to_table()
    return dict(zip(found.column("_rowaddr").to_pylist(), found.column("_score").to_pylist(), strict=True))


async def stored_statistics(
    io: Io, state: TableState, name: str, terms: Sequence[str] | None = None
) -> CorpusStatistics:
    """What the files of a stored full-text index say of all documents that they hold."""
    total = CorpusStatistics()
    for entry in segments(state, name):
        for part in await stored_text.parts(io, entry):
            everything = np.ones(len(part.lengths), np.bool_)
            total += Corpus(lengths=part.lengths, live=everything, postings=await part.postings(terms)).statistics()
    return total
