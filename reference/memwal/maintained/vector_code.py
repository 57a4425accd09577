"""How a trained vector index encodes vectors, and distances between a query and encoded vectors.

The arithmetic is the native package's, so that codes and distances of MemTables, generations and the base agree:
a vector belongs to the nearest centroid; product quantisation encodes its difference from that centroid (under the dot
product the vector itself) by the nearest codeword of each slice; scalar quantisation rounds each number down to one of
256 steps between two bounds. Under the cosine metric all of that is done to vectors of length one.
Source: MemWAL revision A, "Vector Index Configuration".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..cellwise import numbers
from ..clauses import implements
from ..codec.canonical import Mask
from ..codec.vector_model import VectorModel, tensor
from ..errors import ArtifactError, InvalidArgument

VectorKind = Literal["IVF_FLAT", "IVF_PQ", "IVF_SQ"]
STORED_AS: dict[str, VectorKind] = {
    "IVF_FLAT": "IVF_FLAT",
    "IVF_PQ": "IVF_PQ",
    "IVF_SQ": "IVF_SQ",
    "IVF_HNSW_FLAT": "IVF_FLAT",
    "IVF_HNSW_PQ": "IVF_PQ",
    "IVF_HNSW_SQ": "IVF_SQ",
    "IVF_RQ": "IVF_FLAT",
}
"""Kinds of base indexes, and how MemTables and generations encode vectors that follow one. An HNSW index has a graph
over the vectors of each partition, which are stored as without one. Bits of rotated vectors (RQ) are followed by
partition only: distances are those of the vectors themselves."""
METRICS = ("l2", "cosine", "dot")

Numbers = npt.NDArray[np.float64]
Sums = npt.NDArray[np.float32]
"""Distances, and parts of them."""
Codes = npt.NDArray[Any]
"""Shape (rows, width): numbers of the column's own type (IVF_FLAT), else uint8, or uint16 where `Encoded.paired`."""

_CODEWORDS = 256
_FEW_CODES = 1 << 11
"""The codes of so few rows are looked up all at once; those of more in a table of pairs, which takes time to make."""
_MANY_CODES = 1 << 14
_PAIR = np.dtype("<u2")
_TOP = 255
_BATCH_NUMBERS = 1 << 22
"""Most numbers in an intermediate array."""
_CODEBOOK = "codebook_position"


@dataclass(frozen=True, slots=True)
class Encoded:
    """Encoded vectors. Rows without a usable vector are not among them."""

    offsets: npt.NDArray[np.int64]
    """Row offsets, ascending. Shape (rows,)."""
    partitions: npt.NDArray[np.int64]
    """Partition of each row; the same number again and again (`in_one`) where all are in one. Shape (rows,)."""
    codes: Codes
    fixed: Sums | None = None
    """IVF_PQ, but for dot: the part of each distance that is the same for every query. Shape (rows,)."""

    def paired(self) -> Encoded:
        """The same with the codes of each two slices as one number, for IVF_PQ: many are looked up in half the time."""
        return replace(self, codes=_paired(self.codes))

    def at(self, chosen: npt.NDArray[Any]) -> Encoded:
        """Those that a mask or places choose."""
        places = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        fixed = None if self.fixed is None else self.fixed[places]
        # Transposed, so that codes stay in the order of their slices where they are.
        codes = self.codes.T.take(places, axis=1).T
        return Encoded(self.offsets[places], self.partitions[places], codes, fixed)

    def between(self, rows: slice) -> Encoded:
        """Those of ``rows``, without a copy."""
        fixed = None if self.fixed is None else self.fixed[rows]
        return Encoded(self.offsets[rows], self.partitions[rows], self.codes[rows], fixed)

    @staticmethod
    def joined(parts: Sequence[Encoded]) -> Encoded:
        """All of ``parts``, at least one, which one code made. Numbers are of the type of the last part's."""
        kind = parts[-1].codes.dtype
        fixed = [each.fixed for each in parts if each.fixed is not None]
        return Encoded(
            np.concatenate([each.offsets for each in parts]),
            np.concatenate([each.partitions for each in parts]),
            np.concatenate([each.codes.astype(kind, copy=False) for each in parts]),
            np.concatenate(fixed) if fixed else None,
        )

    def size_bytes(self) -> int:
        """Bytes in memory."""
        fixed = 0 if self.fixed is None else self.fixed.nbytes
        partitions = 0 if self.partitions.strides == (0,) else self.partitions.nbytes
        return self.offsets.nbytes + partitions + self.codes.nbytes + fixed


def in_one(partition: int, rows: int) -> npt.NDArray[np.int64]:
    """`Encoded.partitions` of rows of one partition, which take no memory, and whose centroid is looked up once."""
    return np.broadcast_to(np.int64(partition), rows)


@dataclass(frozen=True)
class QueryVector:
    """A vector that encoded ones are measured by, and what is worked out of it once for all of them."""

    numbers: Numbers
    """Shape (dimension,)."""
    centroids: Sums
    """Distance to each centroid, squared; for dot less the product. Shape (partitions,)."""
    words: Sums | None
    """IVF_PQ: what each codeword of each slice adds to a distance. Shape (slices, 256)."""

    @cached_property
    def pairs(self) -> Sums:
        """The same of each two slices, by their codes as one number. Shape ((slices + 1) // 2, 65,536)."""
        assert self.words is not None
        even, odd = self.words[::2], self.words[1::2]
        if len(odd) < len(even):
            odd = np.concatenate([odd, np.zeros((1, _CODEWORDS), np.float32)])
        found: Sums = (odd[:, :, None] + even[:, None, :]).reshape(len(even), -1)
        return found

    def nearest(self, count: int) -> npt.NDArray[np.int64]:
        """The ``count`` nearest partitions, nearest first. Shape (count,)."""
        return np.argsort(self.centroids, kind="stable")[:count]


@dataclass(frozen=True, kw_only=True)
class VectorCode:
    """A trained code. Two are equal if their stored models are."""

    model: VectorModel
    """What was trained; its kind is the base index's."""
    kind: VectorKind
    centroids: Numbers = field(compare=False, repr=False)
    """Shape (partitions, dimension)."""
    codebook: Numbers | None = field(compare=False, repr=False)
    """IVF_PQ: shape (slices, 256, dimension / slices)."""
    bounds: tuple[float, float]
    """IVF_SQ: least and greatest number; (0, 0) otherwise."""

    @property
    def metric(self) -> str:
        return self.model.metric

    @property
    def dimension(self) -> int:
        return int(self.centroids.shape[1])

    @cached_property
    def middle(self) -> Numbers:
        """Of all centroids: where vectors lie far from zero, what is said of them from there keeps its digits."""
        found: Numbers = self.centroids.mean(axis=0)
        return found

    @property
    def transposed(self) -> bool:
        """Whether the codes of a stored partition are in the order of their slices, not of their rows."""
        return self.codebook is not None and dict(self.model.exact).get("transposed") == "true"

    def fits(self, column: pa.DataType) -> bool:
        """Whether vectors of a fixed-size list type can be encoded."""
        return bool(pa.types.is_floating(column.value_type) and column.list_size == self.dimension)

    @implements("WRITER-021", "WRITER-025")
    def encode(self, column: pa.ChunkedArray, start: int = 0) -> Encoded:
        """Encode ``column``, fixed-size lists; its first row has offset ``start``.

        NULL, vectors with a NULL, NaN or infinite number in them and, under the cosine metric, zero vectors are left
        out, as the native package does.
        """
        vectors, present = _vectors(column)
        wide = vectors.astype(np.float64)
        if self.metric == "cosine":
            lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
            present &= lengths > 0
            lengths[~present] = 1
            wide = (wide / lengths[:, None]).astype(vectors.dtype).astype(np.float64)
        offsets = np.flatnonzero(present)
        wide, vectors = wide[offsets], vectors[offsets]
        partitions = self._nearest_partition(wide)
        codes = wide.astype(vectors.dtype) if self.kind == "IVF_FLAT" else self._codes(wide, partitions)
        return self.encoded(offsets + start, partitions, codes)

    def encoded(self, offsets: npt.NDArray[np.int64], partitions: npt.NDArray[np.int64], codes: Codes) -> Encoded:
        """Vectors that this encoded."""
        if self.codebook is None or self.metric == "dot":
            return Encoded(offsets, partitions, codes)
        # |q - c - w|^2, for query, centroid and codewords, is |q - c|^2 + (|w|^2 - 2 (q - m) w) + 2 (c - m) w.
        fixed, width = np.zeros(len(codes)), self.codebook.shape[2]
        for number, words in enumerate(self.codebook):
            here = slice(number * width, (number + 1) * width)
            own = self.centroids[partitions, here] - self.middle[here]
            fixed += 2 * np.einsum("ij,ij->i", own, words[codes[:, number]])
        return Encoded(offsets, partitions, codes, fixed.astype(np.float32))

    def _nearest_partition(self, vectors: Numbers) -> npt.NDArray[np.int64]:
        """The nearest partition of each vector. Shape (rows,)."""
        own = 0 if self.metric == "dot" else np.einsum("ij,ij->i", self.centroids, self.centroids) / 2
        parts = _batches(vectors, len(self.centroids))
        found = [np.argmin(own - part @ self.centroids.T, axis=1) for part in parts]
        return np.concatenate([np.empty(0, np.int64), *found])

    def _codes(self, vectors: Numbers, partitions: npt.NDArray[np.int64]) -> Codes:
        if self.codebook is None:
            low, high = self.bounds
            steps = np.floor((vectors - low) * _TOP / (high - low))
            return np.clip(steps, 0, _TOP).astype(np.uint8)
        if self.metric != "dot":
            vectors = vectors - self.centroids[partitions]
        slices, _, width = self.codebook.shape
        codes = np.empty((len(vectors), slices), np.uint8)
        for number, words in enumerate(self.codebook):
            own = np.einsum("ij,ij->i", words, words)
            parts = _batches(vectors[:, number * width : (number + 1) * width], _CODEWORDS)
            nearest = [np.argmin(own - 2 * (part @ words.T), axis=1) for part in parts]
            codes[:, number] = np.concatenate([np.empty(0, np.int64), *nearest])
        return codes

    def distances(self, encoded: Encoded, query: QueryVector) -> Sums:
        """Distance of each encoded vector to ``query``. Shape (rows,). See `distances_of`."""
        return self.distances_of([encoded], query)[0]

    @implements("WRITER-025")
    def distances_of(self, parts: Sequence[Encoded], query: QueryVector) -> Sequence[Sums]:
        """Distance of each encoded vector to ``query``, as the native package computes it. Of each part shape (rows,).

        ``query``: as `query_vector` gives it. L2 is the squared distance; dot is one less the product; cosine is one
        less the cosine for IVF_FLAT, and the squared distance of vectors of length one for the quantised kinds.
        """
        if self.codebook is not None:
            return [*map(partial(self._quantised, query), parts, _summed([part.codes for part in parts], query))]
        return [self._measured(part, query) for part in parts]

    def _measured(self, encoded: Encoded, query: QueryVector) -> Sums:
        decoded, asked = self._decoded(encoded), query.numbers
        if self.metric == "dot" or (self.metric == "cosine" and self.kind == "IVF_FLAT"):
            return (1 - decoded @ asked).astype(np.float32)
        if self.kind == "IVF_SQ":
            low, high = self.bounds
            asked = low + self._codes(asked[None, :], np.zeros(1, np.int64))[0] * ((high - low) / _TOP)
        difference = decoded - asked
        squared: Numbers = np.einsum("ij,ij->i", difference, difference)
        return squared.astype(np.float32)

    def _decoded(self, encoded: Encoded) -> Numbers:
        if self.kind == "IVF_FLAT":
            return encoded.codes.astype(np.float64)
        low, high = self.bounds
        return low + encoded.codes.astype(np.float64) * ((high - low) / _TOP)

    def _quantised(self, query: QueryVector, encoded: Encoded, sums: Sums) -> Sums:
        """Distances under product quantisation, by what all slices together add to each."""
        if encoded.fixed is None:
            return 1 + sums
        sums += encoded.fixed
        near = encoded.partitions
        sums += query.centroids[near[0]] if len(near) and near.strides == (0,) else query.centroids.take(near)
        return np.maximum(sums, 0, out=sums)

    def query_vector(self, query: npt.ArrayLike) -> QueryVector:
        """``query`` as `distances` takes it; raises `InvalidArgument` for one that has no distance to anything."""
        try:
            vector = np.asarray(query, np.float64)
        except (ValueError, TypeError) as error:
            raise InvalidArgument(f"the query is not a vector of numbers: {error}") from error
        if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
            raise InvalidArgument(f"the query is not a vector of {self.dimension} finite numbers")
        if self.metric == "cosine":
            length = float(np.sqrt(vector @ vector))
            if not length:
                raise InvalidArgument("a zero vector has no direction to compare: search with another vector")
            vector = vector / length
        if self.metric == "dot":
            return QueryVector(vector, -(self.centroids @ vector).astype(np.float32), self._words(-vector))
        difference = self.centroids - vector
        centroids = np.einsum("ij,ij->i", difference, difference)
        return QueryVector(vector, centroids, self._words(2 * (self.middle - vector)))

    def _words(self, factors: Numbers) -> Sums | None:
        """The products of all codewords with their part of ``factors``; but for dot with their own added."""
        if self.codebook is None:
            return None
        found: Numbers = np.einsum("swd,sd->sw", self.codebook, factors.reshape(len(self.codebook), -1))
        if self.metric != "dot":
            found += np.einsum("swd,swd->sw", self.codebook, self.codebook)
        return found.astype(np.float32)


def _paired(codes: Codes) -> Codes:
    """Codes of slices, shape (rows, slices), as those of pairs: the first of each two is the low byte."""
    rows, slices = codes.shape
    found = np.empty((rows, (slices + 1) // 2), _PAIR, order="F")
    found[:] = codes[:, ::2]
    found[:, : slices // 2] |= codes[:, 1::2].astype(_PAIR) << 8
    return found


def _summed(parts: Sequence[Codes], query: QueryVector) -> Sequence[Sums]:
    """Of each row of each part the sum, pair after pair of slices, of what its codes stand for.

    Few rows and many are added up in the same order, so that equal codes have equal sums. The table of a pair is as
    large as a processor's cache, and is looked into for all rows before the next one.
    """
    if sum(map(len, parts)) <= _FEW_CODES:
        return [_summed_few(codes, query) for codes in parts]
    paired = [codes if codes.dtype == _PAIR else _paired(codes) for codes in parts]
    found = [_looked_up(query.pairs[0], codes[:, 0]).copy() for codes in paired]
    for number, pairs in enumerate(query.pairs[1:], 1):
        for sums, codes in zip(found, paired, strict=True):
            sums += _looked_up(pairs, codes[:, number])
    return found


def _looked_up(table: Sums, codes: npt.NDArray[np.uint16]) -> Sums:
    """What ``codes`` stand for, none of which is too large."""
    # numpy makes large numbers of them first, so that many take it twice as long as Arrow, and few half as long.
    few = len(codes) < _MANY_CODES
    return table.take(codes, mode="clip") if few else numbers(table).take(numbers(codes)).to_numpy()


def _summed_few(codes: Codes, query: QueryVector) -> Sums:
    assert query.words is not None
    slices, codewords = query.words.shape
    if codes.dtype == _PAIR:
        codes = np.ascontiguousarray(codes).view(np.uint8)[:, :slices]
    each: Sums = query.words.ravel().take(codes.T + codewords * np.arange(slices)[:, None])
    each[: slices // 2 * 2 : 2] += each[1::2]
    together: Sums = np.add.accumulate(each[::2])[-1]
    return together


@implements("WRITER-025", "AMB-51")
def vector_code(model: VectorModel, name: str) -> VectorCode:
    """The code of a stored model of one of `STORED_AS`, for the index ``name``.

    Raises `InvalidArgument` for a model that MemTables cannot follow, `ArtifactError` for one that contradicts itself.
    """
    if model.metric not in METRICS:
        reason = f"index {name!r} has the metric {model.metric!r}; MemTables have {', '.join(METRICS)}"
        raise InvalidArgument(reason, clause="AMB-48")
    storage = {key: json.loads(value) for key, value in model.exact}
    kind = STORED_AS[model.kind]
    if kind != "IVF_FLAT" and (storage.get("num_bits", 8) != 8 or storage.get("nbits", 8) != 8):
        raise InvalidArgument(f"index {name!r} has codes of other than 8 bits", clause="AMB-48")
    centroids = tensor(model.centroids, name)
    if centroids.ndim != 2 or not centroids.size:
        raise ArtifactError("AMB-51", name, f"the centroids have the shape {centroids.shape}")
    codebook = _codebook(model, storage, centroids.shape[1], name) if kind == "IVF_PQ" else None
    bounds = _bounds(storage, name) if kind == "IVF_SQ" else (0.0, 0.0)
    return VectorCode(model=model, kind=kind, centroids=centroids, codebook=codebook, bounds=bounds)


def _codebook(model: VectorModel, storage: dict[str, Any], dimension: int, name: str) -> Numbers:
    slices, buffers = storage.get("num_sub_vectors"), dict(model.buffers)
    if _CODEBOOK not in buffers:
        raise InvalidArgument(f"index {name!r} keeps its codebook where MemTables do not look", clause="AMB-48")
    numbers = tensor(buffers[_CODEBOOK], name)
    if not isinstance(slices, int) or slices < 1 or dimension % slices or numbers.size != _CODEWORDS * dimension:
        reason = f"a codebook of {numbers.size} numbers for {slices} slices of {dimension} dimensions"
        raise ArtifactError("AMB-51", name, reason)
    return numbers.reshape(slices, _CODEWORDS, dimension // slices)


def _bounds(storage: dict[str, Any], name: str) -> tuple[float, float]:
    stored: Any = storage.get("bounds")
    try:
        low, high = float(stored["start"]), float(stored["end"])
    except (LookupError, TypeError, ValueError) as error:
        raise ArtifactError("AMB-51", name, f"the bounds are {stored!r}") from error
    if not low < high:
        raise InvalidArgument(f"index {name!r} was trained on vectors of one number {low}", clause="AMB-48")
    return low, high


def _vectors(column: pa.ChunkedArray) -> tuple[npt.NDArray[Any], Mask]:
    """The numbers of fixed-size lists, shape (rows, size), 0 in unusable rows; and which rows are usable."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    size = array.type.list_size
    values = array.values.slice(array.offset * size, len(array) * size)
    numbers = values.to_numpy(zero_copy_only=False).reshape(len(array), size)
    present: Mask = array.is_valid().to_numpy(zero_copy_only=False) & np.isfinite(numbers).all(axis=1)
    return np.where(present[:, None], numbers, numbers.dtype.type(0)), present


def _batches(vectors: Numbers, width: int) -> Iterator[Numbers]:
    rows = max(1, _BATCH_NUMBERS // width)
    for start in range(0, len(vectors), rows):
        yield vectors[start : start + rows]
