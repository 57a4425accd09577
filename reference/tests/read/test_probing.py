"""Vector searches that look at some partitions of an index, and at more until enough rows are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.codec import vector_model
from memwal.effects import Get
from memwal.stores.local import LocalStore
from memwal.table import stored_file

from ..kit.tables import flush

DIMENSION, ROWS, PARTITIONS = 8, 4000, 8
KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        ("even", pa.bool_()),
        ("v", pa.list_(pa.float32(), DIMENSION)),
    ]
)
CENTRES = 100 * np.eye(PARTITIONS, DIMENSION, dtype=np.float32)
"""Far from each other: a row belongs to the centre that its number names."""
WORDS = np.random.default_rng(1).uniform(-1, 1, (4, 256, 2)).astype(np.float32)
KINDS = ("IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ", "IVF_RQ")


def vectors(keys: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A vector of its own for each key, near centre ``key % PARTITIONS``."""
    numbers = np.asarray(keys)
    around = np.cos(np.outer(numbers + 0.5, np.arange(1, DIMENSION + 1)))
    return (CENTRES[numbers % PARTITIONS] + around).astype(np.float32)


def rows(keys: Any, placed: Any = None) -> pa.Table:
    found = vectors(keys) if placed is None else np.asarray(placed, np.float32)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(found.reshape(-1)), DIMENSION)
    return pa.table([pa.array(keys, pa.int64()), pa.array([key % 2 == 0 for key in keys]), flat], schema=SCHEMA)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By kind of index, a table with one that was caught up over a first generation, and a second that was not.

    The nearest rows of centre 0 are superseded by rows far from it, of the index's own partition 1.
    """
    made = {}
    for kind in KINDS:
        place = tmp_path_factory.mktemp("probed") / kind
        base = lance.write_dataset(rows(range(ROWS)), str(place), max_rows_per_file=1500)
        more = {"num_sub_vectors": 4, "pq_codebook": WORDS} if kind.endswith("PQ") else {}
        metric = "cosine" if kind == "IVF_RQ" else "l2"
        base.create_index("v", kind, name="ix", metric=metric, num_partitions=PARTITIONS, ivf_centroids=CENTRES, **more)
        table = memwal.enable(place, revision="R", maintained_indexes=["ix"])
        flush(table, rows(range(ROWS, ROWS + 50)))
        table.merge()
        table.catch_up()
        flush(table, rows(range(ROWS + 40, ROWS + 90)))
        table.merge()
        table.base.append(rows(range(ROWS + 90, ROWS + 100)))
        with table.writer(background=False) as writer:
            writer.put(rows(superseded(), vectors([key + 1 for key in superseded()])))
            writer.put(rows([-8, -16]), indexed=False)
            writer.delete(pa.table([pa.array([8, 16], pa.int64())], schema=pa.schema([SCHEMA.field("id")])))
            writer.flush()
        made[kind] = place
    return made


def superseded() -> list[int]:
    return list(range(80, 1600, 8))


def code_of(table: memwal.Table) -> Any:
    from memwal.drive import drive
    from memwal.effects import Io
    from memwal.maintained.base_index import load
    from memwal.revisions import STRICT
    from memwal.table.state import latest

    store = LocalStore(Path(table._io.location))
    io = Io(interpretation=STRICT)
    (index,) = drive(load(io, drive(latest(io), store), ["ix"]), store)
    return index.code


def ranking(table: memwal.Table, query: Any, kept: Any = None) -> list[tuple[float, int]]:
    """Distance and key of every row, by the index's code, nearest first."""
    code, everything = code_of(table), table.scan(filter=kept)
    encoded = code.encode(everything.column("v"))
    distances = code.distances(encoded, code.query_vector(query))
    ids = everything.column("id").to_numpy()[encoded.offsets]
    return sorted(zip(distances.tolist(), ids.tolist(), strict=True))


def found(table: memwal.Table, query: Any, k: int, **options: Any) -> list[tuple[float, int]]:
    answer = table.search(query, "v", k, **options)
    return list(zip(answer.column("_distance").to_pylist(), answer.column("id").to_pylist(), strict=True))


def same(answer: list[tuple[float, int]], expected: list[tuple[float, int]]) -> None:
    """Equal distances in order; equal rows, but for those as far as the last one."""
    assert [distance for distance, _ in answer] == pytest.approx([d for d, _ in expected], rel=1e-4, abs=1e-3)
    last = expected[-1][0] - 1e-2 if expected else 0.0
    assert {key for distance, key in expected if distance < last} <= {key for _, key in answer}
    assert len({key for _, key in answer}) == len(answer)


@pytest.mark.clause("PLAN-021", "PLAN-022", "PLAN-011")
@pytest.mark.parametrize("kind", KINDS)
def test_a_search_of_all_partitions_ranks_all_rows_by_the_code_of_the_index(places: dict[str, Path], kind: str) -> None:
    table = memwal.open(places[kind])
    plan = table.explain(vector=CENTRES[0], column="v")
    assert "base_table[gen=-1], k=10, via=index+gen=2 index+scan of 1 fragment" in plan
    for query in (vectors([24])[0], CENTRES[3] + 1):
        for k, kept in ((10, None), (200, None), (30, "even = false")):
            expected = ranking(table, query, kept)[:k]
            same(found(table, query, k, nprobes=PARTITIONS, filter=kept), expected)


@pytest.mark.clause("PLAN-021")
@settings(max_examples=20)
@given(st.sampled_from(KINDS), st.integers(0, PARTITIONS - 1), st.integers(1, 5), st.sampled_from([1, 9, 700, 5000]))
def test_k_live_rows_are_found_however_few_partitions_are_looked_at_first(
    places: dict[str, Path], kind: str, centre: int, nprobes: int, k: int
) -> None:
    table = memwal.open(places[kind])
    live = table.scan(columns=["id"]).num_rows
    answer = found(table, CENTRES[centre] + 0.25, k, nprobes=nprobes)
    assert len(answer) == min(k, live)
    assert len({key for _, key in answer}) == len(answer)
    assert not {key for _, key in answer} & {8, 16}, "deleted"
    if k == 5000:
        same(answer, ranking(table, CENTRES[centre] + 0.25))


@pytest.mark.clause("PLAN-021")
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_HNSW_SQ", "IVF_RQ"])
def test_superseded_and_filtered_rows_of_the_nearest_partition_make_a_search_look_further(
    places: dict[str, Path], kind: str
) -> None:
    table = memwal.open(places[kind])
    near = [(d, key) for d, key in ranking(table, CENTRES[0]) if key % PARTITIONS == 0 and key not in superseded()]
    assert len(near) == 323, "513 of centre 0, 190 superseded, two deleted, two written since"
    answer = found(table, CENTRES[0], len(near), nprobes=1)
    same(answer, near)
    assert len(found(table, CENTRES[0], len(near) + 1, nprobes=1)) == len(near) + 1
    odd = found(table, CENTRES[0], 3, nprobes=1, filter="even = false")
    assert len(odd) == 3, "no row of centre 0 is odd"


def test_rows_that_are_ranked_anew_have_the_distances_of_their_vectors(places: dict[str, Path]) -> None:
    table = memwal.open(places["IVF_PQ"])
    query = vectors([9])[0] + 0.125
    by_vector = found(table, query, 10, exact=True)
    by_code = found(table, query, 10, nprobes=PARTITIONS)
    assert [key for _, key in by_code] != [key for _, key in by_vector]
    same(found(table, query, 10, nprobes=PARTITIONS, refine_factor=60), by_vector)
    answer = table.search(query, "v", 3, refine_factor=2, columns=["even"])
    assert answer.schema.names == ["even", "_distance"]


def test_equally_near_rows_come_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    place = tmp_path / "t"
    base = lance.write_dataset(rows(range(600), [CENTRES[0]] * 600), str(place), max_rows_per_file=250)
    base.create_index("v", "IVF_PQ", name="ix", num_partitions=8, ivf_centroids=CENTRES, num_sub_vectors=4)
    table = memwal.enable(place, revision="B", maintained_indexes=["ix"])
    assert [key for _, key in found(table, CENTRES[0], 7, nprobes=1)] == list(range(7))


class Bytes(LocalStore):
    """Counts the bytes of index files that are read."""

    read = 0

    def perform(self, request: Any) -> Any:
        reply = super().perform(request)
        if isinstance(request, Get) and request.path.endswith(vector_model.AUXILIARY_FILE):
            self.read += len(reply)
        return reply


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_only_the_partitions_that_are_looked_at_are_read(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 1 << 14)
    base = lance.write_dataset(rows(range(60_000)), str(tmp_path / "t"))
    more = {"num_sub_vectors": 4, "pq_codebook": WORDS} if kind.endswith("PQ") else {}
    base.create_index("v", kind, name="ix", num_partitions=PARTITIONS, ivf_centroids=CENTRES, **more)
    memwal.enable(tmp_path / "t", revision="B", maintained_indexes=["ix"])
    (file,) = (tmp_path / "t" / "_indices").glob(f"*/{vector_model.AUXILIARY_FILE}")
    read = {}
    for nprobes in (1, PARTITIONS):
        store = Bytes(tmp_path)
        answer = memwal.open("t", store=store).search(vectors([3])[0], "v", 5, nprobes=nprobes)
        assert 3 in answer.column("id").to_pylist()
        read[nprobes] = store.read
    assert read[1] < 0.45 * file.stat().st_size < read[PARTITIONS]


@pytest.mark.parametrize(("nprobes", "factor"), [(0, None), (-1, None), (1, 0)])
def test_a_search_of_no_partition_or_of_no_row_to_rank_anew_is_refused(
    places: dict[str, Path], nprobes: int, factor: int | None
) -> None:
    with pytest.raises(memwal.InvalidArgument, match="nprobes must be at least 1"):
        memwal.open(places["IVF_PQ"]).search(CENTRES[0], "v", nprobes=nprobes, refine_factor=factor)
