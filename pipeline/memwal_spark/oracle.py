"""Spark's own answer to "what is the last row of each key", and the comparison of a table with it, row by row.

Nothing here is shared with the engine: the answer is one aggregation, the comparison a null-safe full outer join. The
fingerprint beside it (count, sum and exclusive or of a 64-bit hash) takes another way to the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any

from memwal.words import counted
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf

EXAMPLES = 20
"""Differing rows that are named with their history."""

Places = Callable[[Sequence[dict[str, Any]]], Sequence[Sequence[str]]]

_LEFT, _RIGHT = "expected", "actual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Order-free summary of a set of rows."""

    rows: int
    keys: int
    """Distinct keys; equal to ``rows`` unless a key is there twice."""
    hash_sum: int
    hash_xor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row that differs."""

    kind: str
    """``missing``, ``extra``, ``changed`` or ``duplicate``."""
    key: dict[str, str]
    columns: tuple[str, ...]
    """Columns that differ (changed rows only)."""
    expected: dict[str, str | None] | None
    actual: dict[str, str | None] | None
    history: tuple[dict[str, str | None], ...]
    """Every event of this key in the change log, in order."""
    places: tuple[str, ...] = ()
    """Where the table has, or had, rows of this key; a line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleComparison:
    """What differs between one reading of the table and the oracle."""

    name: str
    expected: Fingerprint
    actual: Fingerprint
    missing: int
    extra: int
    changed: int
    duplicates: int
    """Keys that the reading has more than once."""
    differences: tuple[Difference, ...] = field(default=())
    """The first `EXAMPLES` of them, in key order."""

    @property
    def ok(self) -> bool:
        """Whether both ways of comparing found nothing."""
        return self.expected == self.actual and not (self.missing or self.extra or self.changed or self.duplicates)

    @property
    def summary(self) -> str:
        """One sentence."""
        if self.ok:
            return f"{self.name}: {counted(self.actual.rows, 'row')}, equal"
        if not (self.missing or self.extra or self.changed or self.duplicates):
            return f"{self.name}: fingerprints differ"
        return (
            f"{self.name}: {self.missing:,} missing, {self.extra:,} extra, {self.changed:,} changed, "
            f"{self.duplicates:,} duplicated"
        )


def last_rows(
    log: DataFrame, key: Sequence[str], sequence: str, *, delete: str | None = None, beside: Sequence[str] = ()
) -> DataFrame:
    """The row with the highest ``sequence`` of each key; columns in the order of ``log``, without those ``beside``.

    ``delete``: a column of booleans. A key whose last row has true there is gone. It is one of ``beside``.
    """
    rest = [name for name in log.columns if name not in key and name != sequence]
    last = log.groupBy(*key).agg(sf.max(sf.struct(sequence, *rest)).alias("last")).select(*key, "last.*")
    if delete is not None:
        last = last.where(~sf.coalesce(sf.col(delete), sf.lit(False)))
    return last.select(*(name for name in log.columns if name not in beside))


def fingerprint(rows: DataFrame, key: Sequence[str]) -> Fingerprint:
    """Count, distinct keys, sum and exclusive or of a hash over all columns (with their NULL marks)."""
    marks = [sf.col(name).isNull() for name in rows.columns]
    hashed = rows.select(*key, sf.xxhash64(*rows.columns, *marks).alias("hash"))
    of_key = hashed.groupBy(*key).agg(
        sf.count(sf.lit(1)).alias("rows"),
        sf.sum(sf.col("hash").cast("decimal(38,0)")).alias("sum"),
        sf.bit_xor("hash").alias("xor"),
    )
    found = of_key.agg(
        sf.coalesce(sf.sum("rows"), sf.lit(0)).alias("rows"),
        sf.count(sf.lit(1)).alias("keys"),
        sf.coalesce(sf.sum("sum"), sf.lit(0)).alias("sum"),
        sf.coalesce(sf.bit_xor("xor"), sf.lit(0)).alias("xor"),
    ).first()
    assert found is not None, "an aggregation without groups has one row"
    return Fingerprint(rows=found["rows"], keys=found["keys"], hash_sum=int(found["sum"]), hash_xor=found["xor"])


def compare(
    name: str,
    expected: DataFrame,
    actual: DataFrame,
    *,
    log: DataFrame,
    key: Sequence[str],
    sequence: str,
    expected_fingerprint: Fingerprint | None = None,
    places: Places | None = None,
) -> OracleComparison:
    """Compare ``actual`` with ``expected``: both have the same columns, in any order; ``log`` may have more.

    ``expected_fingerprint``: of ``expected``, if the caller has it already. Neither frame is cached here; give frames
    that are cheap to read again. ``places``: tells for each of some keys where the table has rows of it.
    """
    columns = expected.columns
    actual = actual.select(*columns)
    summary = fingerprint(actual, key)
    joined = _joined(expected.select(*columns), actual, key)
    counts = {row["kind"]: row["count"] for row in joined.groupBy("kind").count().collect()}
    twice = actual.groupBy(*key).count().where("count > 1")
    duplicates = twice.count() if summary.keys != summary.rows else 0
    differences: tuple[Difference, ...] = ()
    if duplicates or any(kind != "same" for kind in counts):
        differences = _differences(joined, twice, log, key, sequence, places)
    return OracleComparison(
        name=name,
        expected=expected_fingerprint or fingerprint(expected.select(*columns), key),
        actual=summary,
        missing=counts.get("missing", 0),
        extra=counts.get("extra", 0),
        changed=counts.get("changed", 0),
        duplicates=duplicates,
        differences=differences,
    )


def _joined(expected: DataFrame, actual: DataFrame, key: Sequence[str]) -> DataFrame:
    """One row per key (more if it is there twice): key, expected row, actual row, kind."""
    left = expected.select(sf.struct(*key).alias("key_left"), sf.struct(*expected.columns).alias(_LEFT))
    right = actual.select(sf.struct(*key).alias("key_right"), sf.struct(*actual.columns).alias(_RIGHT))
    kind = (
        sf.when(sf.col(_RIGHT).isNull(), "missing")
        .when(sf.col(_LEFT).isNull(), "extra")
        .when(sf.col(_LEFT).eqNullSafe(sf.col(_RIGHT)), "same")
        .otherwise("changed")
    )
    both = left.join(right, sf.col("key_left").eqNullSafe(sf.col("key_right")), "full_outer")
    return both.select(sf.coalesce("key_left", "key_right").alias("key"), _LEFT, _RIGHT, kind.alias("kind")).select(
        "key.*", _LEFT, _RIGHT, "kind"
    )


def _differences(
    joined: DataFrame, twice: DataFrame, log: DataFrame, key: Sequence[str], sequence: str, places: Places | None
) -> tuple[Difference, ...]:
    changed = joined.where("kind <> 'same'").orderBy(*key).limit(EXAMPLES).collect()
    doubled = twice.orderBy(*key).limit(EXAMPLES - len(changed)).collect() if len(changed) < EXAMPLES else []
    found = [(row["kind"], row, row[_LEFT], row[_RIGHT]) for row in changed]
    found += [("duplicate", row, None, None) for row in doubled]
    told = [()] * len(found) if places is None else places([{n: row[n] for n in key} for _, row, _, _ in found])
    return tuple(
        Difference(
            kind=kind,
            key={name: str(row[name]) for name in key},
            columns=tuple(n for n in left.asDict() if left[n] != right[n]) if kind == "changed" else (),
            expected=_texts(left),
            actual=_texts(right),
            history=tuple(
                _texts(event) or {} for event in log.where(_is(row, key)).orderBy(sequence).limit(EXAMPLES).collect()
            ),
            places=tuple(of_key),
        )
        for (kind, row, left, right), of_key in zip(found, told, strict=True)
    )


def _is(row: Row, key: Sequence[str]) -> Column:
    return reduce(and_, (sf.col(name).eqNullSafe(sf.lit(row[name])) for name in key))


def _texts(row: Row | None) -> dict[str, str | None] | None:
    if row is None:
        return None
    return {name: None if value is None else str(value) for name, value in row.asDict().items()}
