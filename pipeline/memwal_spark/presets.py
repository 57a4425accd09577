"""Made-up change logs: YCSB's core workloads A, B and F, events that come late and twice, and regions of unlike size.

A log has ``records`` that are inserted first, and then updates of keys that are drawn by Zipf's law, as YCSB draws
them: the k-th most popular of them with a probability proportional to k to the power of -theta. Which record is how
popular is shuffled. What YCSB reads is left to the readers beside the job. All of it follows from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from memwal.errors import InvalidArgument, check_name

from .change_log import ChangeLog

KEY = ("tenant", "id")
SEQUENCE = "seq"
BATCH = "batch"
"""Column of the job that brings the event; it is not stored."""
ROWS = 1_000_000
TENANTS = 64
THETA = 0.99
"""YCSB's own."""

_GROUP_ROWS = 262_144
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that multiplying by it modulo 2**64 gives each number another one."""

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """How a log is made."""

    text: str
    updates: float
    """Updates for each record that is inserted."""
    counts: bool = False
    """Each update reads its record and adds one, so that a lost or doubled update shows in every later row."""
    batches: int = 1
    """Jobs that bring the events, one after another."""
    late: float = 0.0
    """Share of the events that come with a later job than they should."""
    double: float = 0.0
    """Share of the events that come once more, with a later job or the same one."""
    skew: float = 0.0
    """Theta of the sizes of tenants, whose rows are in one region each; 0: the regions go by the whole key."""


PRESETS: Mapping[str, Preset] = {
    "ycsb-a": Preset(text="half of the operations are updates", updates=2.0),
    "ycsb-b": Preset(text="one operation in twenty is an update", updates=0.2),
    "ycsb-f": Preset(text="half of the operations read a record, change and write it", updates=2.0, counts=True),
    "late": Preset(
        text="four jobs; one event in ten comes with a later job, one in twenty comes twice",
        updates=2.0, batches=4, late=0.10, double=0.05,
    ),
    "skewed": Preset(text="half of all rows are in one region or two", updates=2.0, skew=1.2),
}  # fmt: skip
"""Logs of this kind: name -> how they are made. YCSB has as many operations as four times its records here."""


def schema(preset: Preset) -> pa.Schema:
    """Columns of a log; `BATCH` only where there are several jobs."""
    fields = [
        pa.field("tenant", pa.int32(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field(SEQUENCE, pa.int64(), nullable=False),
        pa.field("writes", pa.int64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("field0", pa.string()),
        pa.field("field1", pa.float64()),
    ]
    return pa.schema([*fields, pa.field(BATCH, pa.int32(), nullable=False)] if preset.batches > 1 else fields)


def make(name: str, rows: int, seed: int, target: Path) -> ChangeLog:
    """Store the log ``name`` with ``rows`` events (double ones come on top) as Parquet, in the order of arrival.

    Raises InvalidArgument for an unknown name, or too few rows.
    """
    check_name("preset", name, PRESETS)
    preset = PRESETS[name]
    if rows < 100:
        raise InvalidArgument(f"[MEMWAL_ROWS] a preset needs at least 100 rows, not {rows}")
    target.parent.mkdir(parents=True, exist_ok=True)
    stored = 0
    with pq.ParquetWriter(target, schema(preset)) as writer:
        for piece in _pieces(preset, rows, seed):
            writer.write_table(piece)
            stored += piece.num_rows
    return ChangeLog(
        name=f"{name}: {preset.text}",
        key=KEY,
        sequence=SEQUENCE,
        batch=BATCH if preset.batches > 1 else None,
        region_by=("tenant",) if preset.skew else KEY[::-1],
        schema=pa.schema([field for field in schema(preset) if field.name != BATCH]),
        rows=stored,
    )


def _pieces(preset: Preset, rows: int, seed: int) -> Iterator[pa.Table]:
    chance = np.random.default_rng(seed)
    records = max(1, int(rows / (1 + preset.updates)))
    popular = chance.permutation(records)[_zipf(chance, records, rows - records, THETA)]
    record = np.concatenate([np.arange(records), popular])
    tenants = _zipf(chance, TENANTS, records, preset.skew) if preset.skew else chance.integers(0, TENANTS, records)
    writes = _earlier_of_same(record) if preset.counts else chance.integers(0, 1 << 40, rows)
    event, batch = np.arange(rows), np.arange(rows) * preset.batches // rows
    late = chance.random(rows) < preset.late
    batch[late] = chance.integers(batch[late], preset.batches)
    again = np.flatnonzero(chance.random(rows) < preset.double)
    event, batch = (
        np.concatenate([event, again]),
        np.concatenate([batch, chance.integers(batch[again], preset.batches)]),
    )
    order = np.argsort(batch, kind="stable")
    for start in range(0, len(order), _GROUP_ROWS):
        arrived = order[start : start + _GROUP_ROWS]
        of = event[arrived]
        yield _table(preset, seed, of, record[of], tenants[record[of]], writes[of], batch[arrived])


def _table(
    preset: Preset, seed: int, event: _Numbers, record: _Numbers, tenant: _Numbers, writes: _Numbers, batch: _Numbers
) -> pa.Table:
    """The rows of the events with these numbers. What is in them depends on event and seed alone."""
    with np.errstate(over="ignore"):
        names = (record.astype(np.uint64) + np.uint64(1)) * _GOLDEN
        noise = (event.astype(np.uint64) + np.uint64(seed % 1009 + 1)) * _GOLDEN
    columns = {
        "tenant": pa.array(tenant, pa.int32()),
        "id": pa.array([f"user{name}" for name in names.tolist()]),
        SEQUENCE: pa.array(event + 1, pa.int64()),
        "writes": pa.array(writes, pa.int64()),
        "at": pa.array(1_700_000_000_000_000 + event * 1_009, pa.timestamp("us", tz="UTC")),
        "field0": pa.array(noise).cast(pa.string()),
        "field1": pa.array((noise >> np.uint64(11)).astype(np.float64) / 2**53, mask=noise % np.uint64(16) == 0),
        BATCH: pa.array(batch, pa.int32()),
    }
    return pa.table({name: columns[name] for name in schema(preset).names}, schema=schema(preset))


def _zipf(chance: np.random.Generator, of: int, count: int, theta: float) -> _Numbers:
    """``count`` numbers from 0 to below ``of``; smaller ones are drawn more often."""
    grown = np.cumsum(1.0 / np.arange(1, of + 1) ** theta)
    found: _Numbers = np.searchsorted(grown, chance.random(count) * grown[-1]).astype(np.int64)
    return np.minimum(found, of - 1)


def _earlier_of_same(record: _Numbers) -> _Numbers:
    """How many earlier events each event's record has."""
    order = np.argsort(record, kind="stable")
    ordered = record[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counted = np.arange(len(record)) - np.repeat(starts, np.diff(np.r_[starts, len(record)]))
    found = np.empty_like(counted)
    found[order] = counted
    return found
