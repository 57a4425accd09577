"""What a stream leaves behind in a day: fragments and versions, against an append to a plain Lance table per trigger.

``python benchmarks/stream_fragments.py`` lets the tasks of the streaming sink write the 8,640 batches of a day with a
trigger every 10 seconds, one after the other and without waiting, merges and collects once an hour, appends the same
batches to a plain table, and counts. ``--folder FOLDER --minutes 8`` runs it in parts, each of which continues where
the last one ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace

import lance
import memwal
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from memwal.codec.marks import Mark
from memwal_spark import write
from memwal_spark.options import FLUSH_ENTRIES, for_writing_streams
from memwal_spark.write import RegionTask

DAY = 8640
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
    ]
)


def batches(count: int, rows: int, keys: int) -> list[pa.Table]:
    """``rows`` upserts of ``keys`` keys for each trigger, with sequences that count on."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, keys, (count, rows))
    names = [pa.array(each).cast(pa.string()) for each in ids]
    return [pa.table([ids[n], np.arange(n * rows, (n + 1) * rows), names[n]], schema=SCHEMA) for n in range(count)]


@dataclass(slots=True)
class SinkProgress:
    """How far the streaming sink is with the triggers of a run; kept beside the table."""

    triggers: int = 0
    generations: int = 0
    entries: int = 0
    """In the WALs, as far as was counted at the last merge."""
    merges: int = 0
    cpu_s: float = 0.0

    @classmethod
    def of(cls, file: Path) -> SinkProgress:
        """What an earlier part of the run has left in ``file``."""
        return cls(**json.loads(file.read_text())) if file.exists() else cls()

    def keep(self, file: Path) -> None:
        """For the next part."""
        file.write_text(json.dumps(asdict(self)))


def ours(path: Path, given: list[pa.Table], chosen: argparse.Namespace, ends: float) -> dict[str, float] | None:
    """What the sink's tasks leave, merged and collected every so many triggers; None if time ended before they did."""
    file = path.with_suffix(".json")
    done = SinkProgress.of(file)
    if not path.exists():
        spec = memwal.bucket("b", "id", chosen.regions)
        memwal.create(path, SCHEMA, primary_key=["id"], spec=spec, wal_collection=True)
    table = memwal.open(path)
    options = for_writing_streams(
        {"path": str(path), "sequenceBy": "seq", "flushEveryEntries": str(chosen.flush_every)}
    )
    while done.triggers < len(given) and time.monotonic() < ends:
        started, rows = time.process_time(), given[done.triggers]
        buckets = table.region_values(rows)["b"]
        for bucket in range(chosen.regions):
            mark = Mark(application="query", batch=done.triggers, partitions=(bucket,))
            share = rows.filter(pc.equal(buckets, bucket))
            done.generations += RegionTask(options).write(memwal.open(path), share, mark).generations
        done.cpu_s += time.process_time() - started
        done.triggers += 1
        if done.triggers % chosen.merge_every == 0 or done.triggers == len(given):
            table.merge()
            done.merges += 1
            # What is counted is what was made: the collector takes older versions away, and WAL entries.
            done.entries = sum(table.log_ends().values())
            table.gc(retain_versions=5)
            fragments = len(lance.dataset(str(path)).get_fragments())
            told = f"{done.triggers} triggers: {fragments} fragments, version {table.version}"
            print(told, file=sys.stderr, flush=True)
        done.keep(file)
    if done.triggers < len(given):
        print(f"memwal: {done.triggers} of {len(given)} triggers", file=sys.stderr)
        return None
    stored = lance.dataset(str(path))
    return {
        "fragments": len(stored.get_fragments()),
        "versions": stored.version,
        "generations": done.generations,
        "merges": done.merges,
        "WAL entries": done.entries,
        "files that are left": sum(each.is_file() for each in path.rglob("*")),
        "CPU seconds of a trigger": done.cpu_s / done.triggers,
    }


def plain(path: Path, given: list[pa.Table], ends: float) -> dict[str, float] | None:
    """What an append per trigger leaves; None if time ended before they did. Its versions say how many are done."""
    file = path.with_suffix(".json")
    spent = json.loads(file.read_text())["cpu_s"] if file.exists() else 0.0
    started = time.process_time()
    done = lance.dataset(str(path)).version if path.exists() else 0
    while done < len(given) and time.monotonic() < ends:
        lance.write_dataset(given[done], str(path), mode="append" if path.exists() else "create")
        done += 1
    spent += time.process_time() - started
    file.write_text(json.dumps({"cpu_s": spent}))
    if done < len(given):
        print(f"plain append: {done} of {len(given)} triggers", file=sys.stderr)
        return None
    table = lance.dataset(str(path))
    return {
        "fragments": len(table.get_fragments()),
        "versions": table.version,
        "files that are left": sum(each.is_file() for each in path.rglob("*")),
        "CPU seconds of a trigger": spent / len(given),
    }


def main() -> int:
    """Entry point; exit code 3 if time ended before the triggers did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--triggers", type=int, default=DAY)
    parser.add_argument("--rows", type=int, default=200, help="of a trigger")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--regions", type=int, default=2)
    parser.add_argument("--merge-every", type=int, default=360, help="triggers; 360 are an hour")
    parser.add_argument("--flush-every", type=int, default=FLUSH_ENTRIES, help="flushEveryEntries of the sink")
    parser.add_argument("--folder", type=Path, help="where the tables are; a run that was ended goes on there")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which the run ends, for now")
    chosen = parser.parse_args()
    # The tasks of the sink ask Spark for their numbers; here they have none.
    task = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0, taskAttemptId=lambda: 0)
    write.context = lambda: task  # type: ignore[assignment, return-value]
    given = batches(chosen.triggers, chosen.rows, chosen.keys)
    ends = time.monotonic() + 60 * chosen.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = chosen.folder or Path(name)
        folder.mkdir(exist_ok=True)
        mine = ours(folder / "memwal", given, chosen, ends)
        theirs = plain(folder / "plain", given, ends)
    if mine is None or theirs is None:
        return 3
    for kind, counts in {"plain append": theirs, "memwal": mine}.items():
        print(f"{kind:14}", ", ".join(f"{name} {round(value, 3):,}" for name, value in counts.items()))
    for what in ("fragments", "versions"):
        ratio = f", 1/{theirs[what] / mine[what]:.0f}" if mine[what] else ""
        print(f"{what}: {mine[what]:,.0f} against {theirs[what]:,.0f}{ratio}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
