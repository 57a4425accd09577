"""Vectors are encoded, stored and compared in memory exactly as the native package does it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader
from memwal.codec import table_manifest
from memwal.codec.pb.lance import index_pb2
from memwal.drive import drive
from memwal.effects import Io
from memwal.maintained import vector_code
from memwal.maintained.base_index import load
from memwal.maintained.vector_code import VectorCode, in_one
from memwal.maintained.vector_index import VectorIndex, files
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.table.state import latest

from ..kit.maintained_scene import CENTROIDS, CODEBOOK, DIMENSION, PARTITIONS, create_vectors, neighbours

UNIT_CENTROIDS = CENTROIDS / np.float32(4)
"""Centroids near vectors of length one."""
KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ")
METRICS = ("l2", "cosine", "dot")
ROWS = 400


def column(numbers: Any, dtype: Any = np.float32, unusable: bool = False) -> pa.Array:
    """Fixed-size lists of ``numbers``; with ``unusable`` rows 3 to 7 have no direction, no number, or no value."""
    values = np.asarray(numbers, dtype).copy()
    if unusable:
        values[3], values[4, 2], values[5, 1], values[6, 0] = 0, np.nan, np.inf, -np.inf
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    if unusable:
        mask = np.arange(len(values)) == 7
        lists = pa.FixedSizeListArray.from_arrays(lists.values, values.shape[1], mask=pa.array(mask))
    return lists


def some(seed: int = 1, count: int = ROWS) -> Any:
    return np.random.default_rng(seed).normal(size=(count, DIMENSION)) * 2


class Native:
    """An index that pylance built over vectors, with the code that the engine reads from it."""

    def __init__(self, place: Path, kind: str, metric: str, vectors: pa.Array, dtype: Any = np.float32) -> None:
        self.dataset = lance.write_dataset(pa.table({"v": vectors}), str(place), mode="overwrite")
        centroids = UNIT_CENTROIDS if metric == "cosine" else CENTROIDS
        create_vectors(self.dataset, "v", kind, "i", centroids.astype(dtype), metric)
        store = LocalStore(place)
        (index,) = drive(load(Io(interpretation=STRICT), drive(latest(Io(interpretation=STRICT)), store), ["i"]), store)
        assert index.code is not None
        self.code: VectorCode = index.code
        self.place = place
        self.folder = place / "_indices" / index.uuid

    def with_files(self, own: Path) -> Any:
        """The table as pylance opens it once the index has the files in ``own``."""
        for file in ("index.idx", "auxiliary.idx"):
            (self.folder / file).write_bytes((own / file).read_bytes())
        state = drive(latest(Io(interpretation=STRICT)), LocalStore(self.place))
        for entry in state.manifest.indices:
            entry.DiscardUnknownFields()  # sizes of the files that were there
        (self.place / state.path).write_bytes(table_manifest.encode(state.manifest))
        return lance.dataset(str(self.place))


def opened(folder: Path) -> tuple[pa.Table, list[int]]:
    """Rows and partition sizes of a stored index."""
    reader = LanceFileReader(str(folder / "auxiliary.idx"))
    ivf = index_pb2.IVF.FromString(reader.read_global_buffer(1))
    return reader.read_all().to_table(), list(ivf.lengths)


def written(folder: Path, code: VectorCode, vectors: pa.Array) -> Path:
    """A folder with the files of an index over ``vectors``, whose rows are their own addresses."""
    folder.mkdir()
    addresses = np.arange(len(vectors), dtype=np.uint64)
    for name, data in files(code, code.encode(pa.chunked_array([vectors])), addresses).items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.clause("WRITER-021", "WRITER-025", "GEN-009")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_codes_and_partitions_are_those_that_pylance_computes(
    tmp_path: Path, kind: str, metric: str, dtype: Any
) -> None:
    vectors = column(some(), dtype, unusable=True)
    native = Native(tmp_path / "t", kind, metric, vectors, dtype)
    expected, lengths = opened(native.folder)
    found, own = opened(written(tmp_path / "own", native.code, vectors))
    assert own == lengths
    assert found.column("_rowid").equals(expected.column("_rowid"))
    assert found.schema.names == expected.schema.names
    missing = {3, 4, 5, 6, 7} if metric == "cosine" else {4, 5, 6, 7}
    assert set(range(ROWS)) - set(found.column("_rowid").to_pylist()) == missing
    name = found.schema.names[1]
    ours, theirs = (np.array(t.column(name).to_pylist(), np.float64) for t in (found, expected))
    if metric != "cosine":
        assert np.array_equal(ours, theirs)
        return
    # Lengths are computed in another order of additions, so that a number may fall into the next step.
    step = {"IVF_FLAT": 2e-3 if dtype is np.float16 else 1e-6, "IVF_SQ": 1.0, "IVF_PQ": 255.0}[kind]
    assert np.abs(ours - theirs).max() <= step
    assert (np.abs(ours - theirs) <= 1e-6).mean() > (0.9 if dtype is np.float16 else 0.99)


@pytest.mark.clause("WRITER-025", "AMB-51")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_distances_in_memory_are_those_of_the_stored_index(tmp_path: Path, kind: str, metric: str) -> None:
    vectors = column(some(), unusable=True)
    native = Native(tmp_path / "t", kind, metric, vectors)
    memory = VectorIndex(native.code)
    memory.insert(pa.chunked_array([vectors[:150]]), 0)
    memory.insert(pa.chunked_array([vectors[150:150], vectors[150:]]), 150)
    for seed in (11, 12, 13):
        query = some(seed, 1)[0].astype(np.float32)
        stored = neighbours(native.dataset, "v", query.tolist(), ROWS, metric=metric)
        found = memory.nearest(query, ROWS, np.ones(ROWS, bool))
        assert set(found.offsets.tolist()) == set(stored)
        expected = [stored[offset] for offset in found.offsets.tolist()]
        assert found.values.tolist() == pytest.approx(expected, abs=1e-4 if metric != "cosine" else 2e-2, rel=1e-4)
        assert found.values.tolist() == sorted(found.values.tolist())


@pytest.mark.clause("WRITER-025")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_pylance_searches_files_that_the_engine_wrote(tmp_path: Path, kind: str, metric: str) -> None:
    vectors = column(some(), unusable=True)
    native = Native(tmp_path / "t", kind, metric, vectors)
    query = some(21, 1)[0].astype(np.float32).tolist()
    before = neighbours(native.dataset, "v", query, ROWS, metric=metric)
    replaced = native.with_files(written(tmp_path / "own", native.code, vectors))
    after = neighbours(replaced, "v", query, ROWS, metric=metric)
    assert after == pytest.approx(before, abs=2e-2 if metric == "cosine" else 1e-5)
    assert after != {}


@pytest.mark.clause("WRITER-025")
@pytest.mark.parametrize("metric", METRICS)
def test_a_search_of_fewer_partitions_looks_where_pylance_looks(tmp_path: Path, metric: str) -> None:
    vectors = column(some())
    native = Native(tmp_path / "t", "IVF_FLAT", metric, vectors)
    memory = VectorIndex(native.code)
    memory.insert(pa.chunked_array([vectors]), 0)
    sizes = set()
    for seed in range(30, 36):
        query = some(seed, 1)[0].astype(np.float32)
        for partitions in (1, 2, PARTITIONS):
            stored = neighbours(native.dataset, "v", query.tolist(), ROWS, metric=metric, nprobes=partitions)
            found = memory.nearest(query, ROWS, np.ones(ROWS, bool), partitions)
            assert set(found.offsets.tolist()) == set(stored)
            sizes.add(len(stored))
    assert len(sizes) > 2


@pytest.mark.clause("AMB-109")
def test_a_superseded_vector_is_never_a_neighbour_however_near(tmp_path: Path) -> None:
    native = Native(tmp_path / "t", "IVF_FLAT", "l2", column(some()))
    memory = VectorIndex(native.code)
    memory.insert(pa.chunked_array([column([[0, 0, 0, 0], [1, 0, 0, 0], [5, 0, 0, 0]])]), 0)
    found = memory.nearest([0, 0, 0, 0], 2, np.array([False, True, True]))
    assert (found.offsets.tolist(), found.values.tolist()) == ([1, 2], [1.0, 25.0])


def test_of_equally_near_rows_the_one_written_first_is_taken(tmp_path: Path) -> None:
    native = Native(tmp_path / "t", "IVF_FLAT", "l2", column(some()))
    memory = VectorIndex(native.code)
    memory.insert(pa.chunked_array([column([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])]), 5)
    assert memory.nearest([0, 0, 0, 0], 2, np.ones(8, bool)).offsets.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ([1, 2, 3], "vector of 4 finite numbers"),
        ([1, 2, 3, np.nan], "vector of 4 finite numbers"),
        ([[1, 2, 3, 4]], "vector of 4 finite numbers"),
        ("near", "is not a vector"),
        ([0, 0, 0, 0], "no direction"),
    ],
)
def test_a_query_that_is_no_vector_is_refused(tmp_path: Path, query: Any, reason: str) -> None:
    native = Native(tmp_path / "t", "IVF_PQ", "cosine", column(some()))
    with pytest.raises(memwal.InvalidArgument, match=reason):
        VectorIndex(native.code).nearest(query, 1, np.ones(0, bool))
    with pytest.raises(memwal.InvalidArgument, match="must be at least 1"):
        VectorIndex(native.code).nearest([1, 1, 1, 1], 0, np.ones(0, bool))


@given(
    cuts=st.lists(st.integers(0, 60), max_size=4),
    kind=st.sampled_from(KINDS),
    start=st.integers(0, 1000),
    skipped=st.integers(0, 20),
)
@settings(max_examples=40)
def test_vectors_are_encoded_alike_however_they_are_cut(
    cuts: list[int], kind: str, start: int, skipped: int, codes: dict[str, VectorCode]
) -> None:
    vectors = column(some(3, 80), unusable=True)[skipped:]
    whole = codes[kind].encode(pa.chunked_array([vectors]), start)
    pieces = VectorIndex(codes[kind])
    bounds = sorted({0, len(vectors), *(min(cut, len(vectors)) for cut in cuts)})
    for low, high in zip(bounds, bounds[1:], strict=False):
        pieces.insert(pa.chunked_array([vectors[low:high]]), start + low)
    joined = pieces.encoded()
    assert np.array_equal(joined.offsets, whole.offsets)
    assert np.array_equal(joined.partitions, whole.partitions)
    assert np.array_equal(joined.codes, whole.codes)


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, VectorCode]:
    folder = tmp_path_factory.mktemp("codes")
    return {kind: Native(folder / kind, kind, "l2", column(some())).code for kind in KINDS}


def test_scalar_quantisation_clips_what_lies_outside_the_bounds_of_the_base(codes: dict[str, VectorCode]) -> None:
    low, high = codes["IVF_SQ"].bounds
    found = codes["IVF_SQ"].encode(pa.chunked_array([column([[low - 9, low, high, high + 9]])]))
    assert found.codes.tolist() == [[0, 0, 255, 255]]


def test_product_quantisation_takes_the_nearest_word_of_each_half(codes: dict[str, VectorCode]) -> None:
    vectors = CENTROIDS[1] + np.concatenate([CODEBOOK[0, 17], CODEBOOK[1, 203]])
    found = codes["IVF_PQ"].encode(pa.chunked_array([column([vectors])]))
    words = [CODEBOOK[0], CODEBOOK[1]]
    residual = vectors - CENTROIDS[found.partitions[0]]
    expected = [int(((w - r) ** 2).sum(axis=1).argmin()) for w, r in zip(words, np.split(residual, 2), strict=True)]
    assert found.codes.tolist() == [expected]


@pytest.mark.clause("WRITER-025")
def test_distances_of_many_codes_are_those_of_the_vectors_that_they_stand_for(codes: dict[str, VectorCode]) -> None:
    draw, many = np.random.default_rng(4), 20_000
    partitions, numbers = draw.integers(0, PARTITIONS, many), draw.integers(0, 256, (many, 2)).astype(np.uint8)
    asked = draw.normal(size=DIMENSION)
    words = np.hstack([CODEBOOK[0][numbers[:, 0]], CODEBOOK[1][numbers[:, 1]]])
    expected = ((CENTROIDS[partitions] + words - asked) ** 2).sum(axis=1)
    code = codes["IVF_PQ"]
    found = code.distances(code.encoded(np.arange(many), partitions, numbers), code.query_vector(asked))
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.clause("WRITER-025")
@pytest.mark.parametrize("slices", [1, 2, 5, 16])
def test_equal_codes_have_equal_distances_however_many_are_looked_up_and_however_their_partition_is_told(
    slices: int, codes: dict[str, VectorCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, many = np.random.default_rng(slices), 6_000
    code = replace(
        codes["IVF_PQ"],
        centroids=draw.normal(size=(PARTITIONS, 2 * slices)),
        codebook=draw.normal(size=(slices, 256, 2)),
    )
    query = code.query_vector(draw.normal(size=2 * slices))
    partitions, numbers = np.full(many, 1), draw.integers(0, 256, (many, slices)).astype(np.uint8)
    every = code.encoded(np.arange(many), partitions, numbers)
    few = np.concatenate([code.distances(every.between(slice(at, at + 1_000)), query) for at in range(0, many, 1_000)])
    for worth_an_array in (0, many + 1):
        monkeypatch.setattr(vector_code, "_MANY_CODES", worth_an_array)
        for parts in ([every], [every.paired()], [every.between(slice(0, 10)), every.between(slice(10, many))]):
            for told in (parts, [replace(part, partitions=in_one(1, len(part.offsets))) for part in parts]):
                assert np.array_equal(np.concatenate(code.distances_of(told, query)), few)
    told = replace(every, partitions=in_one(1, many))
    assert every.size_bytes() - told.size_bytes() == partitions.nbytes
    nothing = replace(every.between(slice(0, 0)), partitions=in_one(1, 0))
    assert len(code.distances(nothing, query)) == nothing.size_bytes() == 0


def test_an_index_over_no_usable_vector_has_two_files_that_pylance_opens(tmp_path: Path) -> None:
    native = Native(tmp_path / "t", "IVF_PQ", "l2", column(some()))
    own = written(tmp_path / "own", native.code, pa.array([None, None], pa.list_(pa.float32(), DIMENSION)))
    table, lengths = opened(own)
    assert (table.num_rows, lengths) == (0, [0] * PARTITIONS)
    assert neighbours(native.with_files(own), "v", [0, 0, 0, 0], 5) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_equal_vectors_give_equal_files(tmp_path: Path, kind: str, codes: dict[str, VectorCode]) -> None:
    first, second = (written(tmp_path / name, codes[kind], column(some(9))) for name in "ab")
    for file in ("index.idx", "auxiliary.idx"):
        assert (first / file).read_bytes() == (second / file).read_bytes()
