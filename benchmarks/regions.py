"""A pass of the merger over many regions of one generation each: commits, fragments and CPU by number of regions.

``python benchmarks/regions.py --regions 10 100 1000`` fills a table of a million rows, writes one small generation in
each region, and merges them once in groups and once one by one, on copies of the same table in the same run. Then it
times a lookup of one key, and opening and listing the regions. ``--after 700`` merges so many generations of one row
instead, one after the other, with and without rewriting small fragments, and says what the last ones took.
``--metadata 10000`` makes so many regions with a manifest and nothing else, and says what opening, listing, pruning, a
snapshot and eventual reads take. ``--tasks 1 2 4`` merges 24 regions by so many Spark tasks at a time (needs Java).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import lance
import memwal
import numpy as np
import pyarrow as pa

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
T = TypeVar("T")
SPREAD = 24
"""Regions that ``--tasks`` merges."""
LAST = 10
"""Merges of which ``--after`` gives the median."""


def rows(keys: np.ndarray, value: str) -> pa.Table:
    return pa.table([pa.array(keys, pa.int64()), pa.array([value] * len(keys))], schema=SCHEMA)


def filled(path: Path, regions: int, base: int, each: int) -> dict[str, float]:
    """A table of ``base`` rows and a generation of ``each`` rows in every region; CPU seconds of its parts."""
    spec = memwal.bucket("b", "id", regions)
    table = memwal.create(path, rows(np.arange(base), "base"), primary_key=["id"], spec=spec)
    _, registering = timed(lambda: table.register_regions([{"b": number} for number in range(regions)]))
    keys = np.random.default_rng(0).permutation(base)[: regions * each * 4]
    buckets = table.region_values(rows(keys, ""))["b"].to_numpy()

    def write() -> None:
        for number in range(regions):
            with table.writer(values={"b": number}, background=False) as writer:
                writer.put(rows(keys[buckets == number][:each], "new"))
                writer.flush()

    return {"register": registering, "write": timed(write)[1]}


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What ``work`` returns, and the CPU seconds of this process, all threads."""
    started = time.process_time()
    done = work()
    return done, time.process_time() - started


def merged(path: Path, commit_every: int) -> dict[str, float]:
    table = memwal.open(path)
    before = table.version
    report, cpu = timed(lambda: table.merge(commit_every=commit_every))
    return {
        "generations": len(report.merged),
        "commits": report.commits,
        "versions": table.version - before,
        "fragments": len(lance.dataset(str(path)).get_fragments()) - 1,
        "cpu_s": cpu,
        "cpu_ms_per_region": 1000 * cpu / max(1, len(report.merged)),
    }


def measured(regions: int, base: int, each: int, commit_every: int, singles: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="memwal-regions-") as folder:
        first, second = Path(folder) / "grouped", Path(folder) / "single"
        found: dict[str, object] = {"regions": regions, **filled(first, regions, base, each)}
        found["opening_s"] = timed(lambda: memwal.open(first).regions)[1]
        table = memwal.open(first)
        found["get_s"] = min(timed(lambda: table.get(pa.table({"id": [7]})))[1] for _ in range(3))
        if singles:
            shutil.copytree(first, second)
            found["one by one"] = merged(second, 1)
        found["grouped"] = merged(first, commit_every)
        return found


def after(merges: int, base: int, compact_over: int) -> dict[str, object]:
    """What a generation of one row costs when so many have been merged, each by itself."""
    with tempfile.TemporaryDirectory(prefix="memwal-regions-") as folder:
        table = memwal.create(Path(folder) / "t", rows(np.arange(base), "base"), primary_key=["id"])
        took: list[float] = []
        rewritten: list[float] = []
        region = None
        for number in range(merges + LAST):
            with table.writer(region, background=False) as writer:
                region = writer.region_id
                writer.put(rows(np.array([number * 97 % base]), "new"))
                writer.flush()
            report, cpu = timed(lambda: table.merge(compact_over=compact_over))
            took.append(cpu)
            rewritten += [cpu] if report.compacted else []
        return {
            "compact_over": compact_over,
            "fragments": len(lance.dataset(str(Path(folder) / "t")).get_fragments()),
            "last_ms": 1000 * float(np.median(took[-LAST:])),
            "all_s": sum(took),
            "rewrites": len(rewritten),
            "rewrites_s": sum(rewritten),
        }


def metadata(regions: int) -> dict[str, object]:
    """Wall and CPU seconds of what looks at regions, of which none holds a row."""
    with tempfile.TemporaryDirectory(prefix="memwal-regions-") as folder:
        path = Path(folder) / "t"
        table = memwal.create(path, rows(np.arange(100_000), "base"), primary_key=["id"],
                              spec=memwal.bucket("b", "id", regions))  # fmt: skip
        named = table.register_regions([{"b": number} for number in range(regions)])
        found: dict[str, object] = {"regions": regions}

        def measure(name: str, work: Callable[[], T]) -> T:
            wall = time.perf_counter()
            done, cpu = timed(work)
            found[name] = [round(time.perf_counter() - wall, 3), round(cpu, 3)]
            return done

        def claim() -> None:
            for region in named:
                table.writer(region, background=False).close()

        measure("claim all", claim)
        fresh = measure("open", lambda: memwal.open(path))
        measure("list", fresh.regions)
        measure("get", lambda: fresh.get(pa.table({"id": [7]})))
        measure("pruned scan", lambda: fresh.scan(filter="id = 7"))
        measure("strong scan", lambda: fresh.scan())
        measure("snapshot", fresh.snapshot)
        key = np.array([7])
        value = fresh.region_values(rows(key, "")).column("b")[0].as_py()
        with fresh.writer(values={"b": value}, background=False) as writer:
            writer.put(rows(key, "new"))
            writer.flush()
        measure("snapshot, one region changed", fresh.snapshot)
        fresh = memwal.open(path)
        measure("eventual scan", lambda: fresh.scan(consistency="eventual"))
        measure("eventual pruned scan", lambda: fresh.scan(filter="id = 7", consistency="eventual"))
        return found


def by_tasks(counts: list[int], base: int, each: int) -> list[dict[str, object]]:
    """A merge of `SPREAD` regions by so many tasks at a time, on copies of one table."""
    from memwal_spark import jobs, runtime

    told: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="memwal-regions-") as folder:
        first = Path(folder) / "t"
        filled(first, SPREAD, base, each)
        for count in counts:
            path = Path(folder) / f"by-{count}"
            shutil.copytree(first, path)
            before = memwal.open(path).version
            with runtime.running("regions", count) as spark:
                started = time.perf_counter()
                done = jobs.merge(spark, str(path), compact_over=0)
                wall = time.perf_counter() - started
            stored = {file.name for file in (path / "data").iterdir()}
            used = {Path(file.path).name for fragment in lance.dataset(str(path)).get_fragments()
                    for file in fragment.data_files()}  # fmt: skip
            told.append(
                {
                    "tasks": count,
                    "regions merged": len(done.tasks) - len(done.failed),
                    "versions": memwal.open(path).version - before,
                    "files stored": len(stored),
                    "files stored and not used": len(stored - used),
                    "wall_s": round(wall, 2),
                }
            )
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regions", type=int, nargs="+", default=[10, 100, 1000], metavar="N")
    parser.add_argument("--base", type=int, default=1_000_000, help="rows of the base table (default %(default)s)")
    parser.add_argument("--rows", type=int, default=100, help="rows of each generation (default %(default)s)")
    parser.add_argument("--commit-every", type=int, default=100, help="regions in a commit (default %(default)s)")
    parser.add_argument("--no-singles", action="store_true", help="leave out the merge of one by one")
    parser.add_argument("--after", type=int, metavar="N", help="merge N generations of one row instead")
    parser.add_argument("--metadata", type=int, metavar="N", help="look at N regions without rows instead")
    parser.add_argument("--tasks", type=int, nargs="+", metavar="N", help="merge by N Spark tasks at a time instead")
    parser.add_argument("--json", action="store_true", help="print one object a line")
    given = parser.parse_args()
    if given.after is not None:
        for over in (0, 32):
            print(json.dumps(after(given.after, given.base, over)), flush=True)
        return 0
    if given.metadata is not None:
        print(json.dumps(metadata(given.metadata)), flush=True)
        return 0
    if given.tasks:
        for one in by_tasks(given.tasks, given.base, given.rows):
            print(json.dumps(one), flush=True)
        return 0
    for regions in given.regions:
        found = measured(regions, given.base, given.rows, given.commit_every, not given.no_singles)
        if given.json:
            print(json.dumps(found), flush=True)
            continue
        print(f"{regions} regions: register {found['register']:.2f} s, list {found['opening_s']:.2f} s, "
              f"get of one key {1000 * float(str(found['get_s'])):.0f} ms", flush=True)  # fmt: skip
        for name in ("one by one", "grouped"):
            if name in found:
                print(f"  {name}: {found[name]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
