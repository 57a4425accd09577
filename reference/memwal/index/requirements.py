"""The requirements on region expressions, tried on a corpus of values when a spec is created.

Determinism, type promotion and the rest cannot be proved by reading an expression; here each is refuted by a value
if the corpus has one, and the smallest such value is named. Statelessness is the grammar's (AMB-65): what reads a clock
or a session cannot be written down.

Source: MemWAL revision A, section "Region Expression", requirements 1 to 6; AMB-58, 64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ..clauses import implements
from ..errors import InvalidArgument
from . import corpus
from .region_values import normal

Compute = Callable[[Sequence[pa.Array]], pa.Array]
"""Values of a region field from its source columns, one per row, in whatever type they come out.

A column of the null type stands for a missing one. Raises `InvalidArgument` where a row has no value.
"""

_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS = (pa.float16(), pa.float32(), pa.float64())


@implements("REGION-019", "REGION-021", "REGION-022", "REGION-023", "REGION-024", "AMB-58", "AMB-64")
def check(name: str, compute: Compute, kinds: Sequence[pa.DataType], result: pa.DataType, *, promoted: bool) -> None:
    """Raise `InvalidArgument`, with clause and smallest counterexample, unless the field ``name`` meets them all.

    ``kinds``: types of the source columns. ``promoted``: whether a value has to keep its region value when its column
    is promoted, which revision R does not promise.
    """
    if not kinds:
        return
    rows = corpus.rows(kinds)
    if not len(rows[0]):
        return
    found = _everywhere(name, compute, rows)
    _deterministic(name, compute, rows, found)
    _typed(name, found, rows, result)
    _without_column(name, compute, kinds, rows, result)
    if promoted:
        _promoted(name, compute, kinds, rows, found)


def _everywhere(name: str, compute: Compute, rows: Sequence[pa.Array]) -> pa.Array:
    """Values of all rows; a row without one is a counterexample."""
    try:
        return compute(rows)
    except InvalidArgument as refused:
        for at in range(len(rows[0])):
            try:
                compute([column.slice(at, 1) for column in rows])
            except InvalidArgument as error:
                null = any(not column[at].is_valid for column in rows)
                clause = "REGION-023" if null else "REGION-019"
                raise _refuted(name, rows, at, clause, f"it has no value: {error}") from error
        reason = f"region field {name!r} has a value for each row alone, and none for all together: {refused}"
        raise InvalidArgument(reason, clause="REGION-019") from refused


def _deterministic(name: str, compute: Compute, rows: Sequence[pa.Array], found: pa.Array) -> None:
    """The same rows again, and once more in reverse: a value may depend on nothing but its own row."""
    backwards = pa.array(range(len(found) - 1, -1, -1), pa.int64())
    again = compute(rows)
    reversed_ = compute([column.take(backwards) for column in rows]).take(backwards)
    for other in (again, reversed_):
        at = _first_difference(found, other)
        if at is not None:
            reason = f"it is {found[at].as_py()!r} once and {other[at].as_py()!r} another time"
            raise _refuted(name, rows, at, "REGION-019", reason)


def _typed(name: str, found: pa.Array, rows: Sequence[pa.Array], result: pa.DataType) -> None:
    if not _alike(found.type, result):
        at = next((i for i in range(len(found)) if found[i].is_valid), 0)
        raise _refuted(name, rows, at, "REGION-024", f"it is {found.type}, and {result} is declared")


def _alike(found: pa.DataType, result: pa.DataType) -> bool:
    """Whether two types have the same values: how text and bytes are laid out is no part of a region value."""
    text = (pa.string(), pa.large_string(), pa.string_view())
    data = (pa.binary(), pa.large_binary(), pa.binary_view())
    if pa.types.is_fixed_size_binary(result) and found in data:
        return True
    return found == result or any(found in group and result in group for group in (text, data))


def _without_column(
    name: str, compute: Compute, kinds: Sequence[pa.DataType], rows: Sequence[pa.Array], result: pa.DataType
) -> None:
    """A source that the schema no longer has counts as a column of NULLs."""
    for which, kind in enumerate(kinds):
        null = [pa.nulls(len(c), kind) if i == which else c for i, c in enumerate(rows)]
        gone = [pa.nulls(len(c)) if i == which else c for i, c in enumerate(rows)]
        try:
            expected, found = compute(null), compute(gone).cast(result)
        except (InvalidArgument, pa.ArrowException) as error:
            raise _refuted(name, gone, 0, "REGION-022", f"it has no value without col{which}: {error}") from error
        at = _first_difference(expected, found)
        if at is not None:
            reason = f"it is {found[at].as_py()!r} without col{which}, and {expected[at].as_py()!r} where that is NULL"
            raise _refuted(name, gone, at, "REGION-022", reason)


def _promoted(
    name: str, compute: Compute, kinds: Sequence[pa.DataType], rows: Sequence[pa.Array], found: pa.Array
) -> None:
    for which, kind in enumerate(kinds):
        for other in _related(kind):
            fits = _that_fit(rows[which], other)
            kept = [column.take(fits) for column in rows]
            safe = not pa.types.is_floating(other)
            cast = [c.cast(other, safe=safe) if i == which else c for i, c in enumerate(kept)]
            expected = found.take(fits)
            try:
                promoted = compute(cast).cast(found.type)
            except (InvalidArgument, pa.ArrowException):
                promoted = _one_by_one(name, compute, cast, other, found.type)
            at = _first_difference(expected, promoted)
            if at is not None:
                reason = f"it is {expected[at].as_py()!r}, and {promoted[at].as_py()!r} where col{which} is {other}"
                raise _refuted(name, kept, at, "REGION-021", reason)


def _one_by_one(
    name: str, compute: Compute, rows: Sequence[pa.Array], kind: pa.DataType, result: pa.DataType
) -> pa.Array:
    """Values of rows that have none all together; raises for the first that has none alone either."""
    found = []
    for at in range(len(rows[0])):
        try:
            found.append(compute([column.slice(at, 1) for column in rows]).cast(result)[0])
        except (InvalidArgument, pa.ArrowException) as error:
            reason = f"it has no {result} value where a column is {kind}: {error}"
            raise _refuted(name, rows, at, "REGION-021", reason) from error
    return pa.array([value.as_py() for value in found], result)


def _related(kind: pa.DataType) -> list[pa.DataType]:
    """The types that columns of ``kind`` are promoted to or from without losing a value."""
    if pa.types.is_floating(kind):
        return [other for other in _FLOATS if other != kind]
    if not pa.types.is_integer(kind):
        return []
    low, high = corpus.integer_range(kind)
    related = []
    for other in (*_SIGNED, *_UNSIGNED):
        least, most = corpus.integer_range(other)
        if other != kind and ((least <= low and high <= most) or (low <= least and most <= high)):
            related.append(other)
    return sorted(related, key=lambda other: other.bit_width < kind.bit_width)


def _that_fit(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Places of the values that ``kind`` has too, NULL included."""
    if pa.types.is_floating(kind):
        back = column.cast(kind, safe=False).cast(column.type, safe=False)
        same = pc.or_(pc.equal(column, back), pc.is_nan(column)).fill_null(True)
    else:
        low, high = corpus.integer_range(kind)
        same = pa.array([value is None or low <= value <= high for value in column.to_pylist()])
    return pc.indices_nonzero(same)


def _first_difference(a: pa.Array, b: pa.Array) -> int | None:
    if len(a) != len(b):
        return 0
    pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
    return next((at for at, (x, y) in enumerate(pairs) if normal(x) != normal(y)), None)


def _refuted(name: str, rows: Sequence[pa.Array], at: int, clause: str, reason: str) -> InvalidArgument:
    row = ", ".join(f"col{i}={column[at].as_py()!r} ({column.type})" for i, column in enumerate(rows))
    return InvalidArgument(f"region field {name!r} for {row}: {reason}", clause=clause)
