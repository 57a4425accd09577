"""Reads of a table with generations above its base, beside their peers, in one run.

    python benchmarks/reads.py [--full] [--rows N] [--generations 3 16] [--rounds 5] [--only NAME ...] [--json]
                               [--folder FOLDER] [--minutes M]

The base has 1,000,000 rows, with ``--full`` 10,000,000: a key, two integers and a payload of 96 characters; tables with
vectors of 128 numbers and with texts of 20 words have a fifth of that. Above it are 4 regions with 3 and with 16
generations each, of a 400th of the base's rows each, a tenth of them new keys. Peers: the native scanner and lookup
planner over the same files; pylance on the merged rows with the same index; a window of DuckDB over the same rows,
where it can be imported; and reading all files without merging. Sides take turns; reported are medians of wall and CPU
seconds after one turn that is not counted, and the ratio of CPU seconds to each peer. All sides of a scan, a filter
and a lookup have to find equally many rows. "nothing kept": a table that was opened with ``remember_bytes=0``, which
opens every file anew in each read. The folder is kept if it is named, and what is in it is read again. With
``--minutes`` the program ends after so many, with exit code 75, between two pieces of its work: a table's base, one of
its generations, one measure. The same command continues from there, and prints what was measured before from the
folder.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
from lance.mem_wal import LsmPointLookupPlanner, LsmScanner
from memwal.read.defaults import NPROBES
from reads_tables import Case, Due, Scene

Sides = Mapping[str, Callable[[], int]]
"""Name -> what runs and returns how many rows it found, or what else has to be equal."""

KEYS = 1_000
SINGLE = 50
"""Keys that are asked for one after another."""
QUERIES = 20
K = 10
GROWTH_GENERATIONS = (1, 4, 16, 64)
GROWTH_REGIONS = (10, 100, 1000)


def scan(scene: Scene) -> Sides:
    """All rows and columns."""
    return {
        "memwal": lambda: scene.table.scan().num_rows,
        "memwal, batches": lambda: sum(part.num_rows for part in scene.table.batches()),
        "no merge": lambda: _unmerged(scene),
        "native": lambda: LsmScanner.from_snapshots(scene.dataset, scene.snapshots).to_table().num_rows,
        **_duckdb(scene),
    }


def _unmerged(scene: Scene) -> int:
    return sum(lance.dataset(each).to_table().num_rows for each in (scene.url, *scene.generations))


def _duckdb(scene: Scene) -> Sides:
    with suppress(ImportError):
        import duckdb

        def window() -> int:
            parts = [lance.dataset(scene.url).to_table()]
            names = parts[0].schema.names
            for each in scene.generations:
                parts.append(lance.dataset(each).to_table(columns=names))
            numbered = [
                part.append_column("gen", pa.repeat(np.int32(_generation(each)), part.num_rows))
                for each, part in zip(("", *scene.generations), parts, strict=True)
            ]
            rows = pa.concat_tables(numbered, promote_options="default")  # noqa: F841 - DuckDB finds it by its name
            query = "SELECT * EXCLUDE gen FROM rows QUALIFY row_number() OVER (PARTITION BY id ORDER BY gen DESC) = 1"
            found = duckdb.sql(query).arrow()
            return (found.read_all() if hasattr(found, "read_all") else found).num_rows

        return {"duckdb": window}
    return {}


def _generation(path: str) -> int:
    return int(path.rpartition("_")[2]) if path else 0


def filtered(scene: Scene) -> Sides:
    """``a = 7``, one row of a thousand, without an index."""
    merged = scene.merged
    return {
        "memwal": lambda: scene.table.scan(filter="a = 7").num_rows,
        "native": lambda: LsmScanner.from_snapshots(scene.dataset, scene.snapshots).filter("a = 7").to_table().num_rows,
        "pylance, merged": lambda: merged.to_table(filter="a = 7").num_rows,
    }


def btree(scene: Scene) -> Sides:
    """``n = ...``, about ten rows of a million, by a btree that generations carry too; `QUERIES` of them."""
    merged = scene.merged
    wanted = [f"n = {number}" for number in range(7, 7 + QUERIES)]

    def native() -> int:
        scanner = LsmScanner.from_snapshots
        return sum(scanner(scene.dataset, scene.snapshots).filter(each).to_table().num_rows for each in wanted)

    return {
        "memwal": lambda: sum(scene.table.scan(filter=each).num_rows for each in wanted),
        "memwal, nothing kept": lambda: sum(scene.forgetful.scan(filter=each).num_rows for each in wanted),
        "native": native,
        "pylance, merged": lambda: sum(merged.to_table(filter=each).num_rows for each in wanted),
    }


def vector(scene: Scene) -> Sides:
    """The 10 nearest of each of `QUERIES` vectors, by IVF_PQ; all sides look into as many partitions at first."""
    merged = scene.merged
    queries = _queries(scene)

    def pylance() -> int:
        return sum(merged.to_table(nearest=_nearest(each)).num_rows for each in queries)

    return {
        "memwal": lambda: sum(scene.table.search(each, "v", K, index="index").num_rows for each in queries),
        "memwal, nothing kept": lambda: sum(
            scene.forgetful.search(each, "v", K, index="index").num_rows for each in queries
        ),
        "pylance, merged": pylance,
    }


def _nearest(query: np.ndarray, **more: object) -> dict[str, object]:
    """What pylance is asked for by its index: the rows next to ``query``, among as many partitions as memwal probes."""
    return {"column": "v", "q": query, "k": K, "nprobes": NPROBES, **more}


def _queries(scene: Scene) -> list[np.ndarray]:
    draw = np.random.default_rng(5)
    values = scene.rows(np.arange(QUERIES), 99).column("v").combine_chunks().flatten().to_numpy().reshape(QUERIES, -1)
    return [row + draw.normal(size=row.shape).astype(np.float32) / 4 for row in values]


REFINE = 10
"""How many times as many rows are ranked anew by their vectors, where they are."""


def recall(scene: Scene) -> dict[str, float]:
    """Part of the exact nearest rows that each side finds."""
    queries, merged = _queries(scene), scene.merged
    exact = [_ids(merged.to_table(nearest={"column": "v", "q": each, "k": K, "use_index": False})) for each in queries]
    sides = {
        "memwal": lambda each: scene.table.search(each, "v", K, index="index"),
        "memwal, refined": lambda each: scene.table.search(each, "v", K, index="index", refine_factor=REFINE),
        "pylance, merged": lambda each: merged.to_table(nearest=_nearest(each)),
        "pylance, merged, refined": lambda each: merged.to_table(nearest=_nearest(each, refine_factor=REFINE)),
    }
    pairs = {name: zip(exact, map(side, queries), strict=True) for name, side in sides.items()}
    return {name: sum(len(true & _ids(got)) for true, got in each) / QUERIES / K for name, each in pairs.items()}


def _ids(found: pa.Table) -> set[int]:
    return set(found.column("id").to_pylist())


def text(scene: Scene) -> Sides:
    """The 10 best rows for words from frequent to rare."""
    merged = scene.merged
    words = [f"w{number}" for number in (1, 2, 5, 20, 100, 500, 2000, 10_000)]
    return {
        "memwal": lambda: sum(scene.table.search_text(word, "text", K).num_rows for word in words),
        "memwal, nothing kept": lambda: sum(scene.forgetful.search_text(word, "text", K).num_rows for word in words),
        "pylance, merged": lambda: sum(
            merged.to_table(full_text_query={"query": word, "columns": ["text"]}, limit=K).num_rows for word in words
        ),
    }


def lookup(scene: Scene) -> Sides:
    """`KEYS` keys at once and one after another, nine of ten of which are there; the planner takes one at a time."""
    keys = _keys(scene)
    planner = LsmPointLookupPlanner(scene.dataset, scene.snapshots)

    def one_by_one(table: memwal.Table) -> Callable[[], int]:
        return lambda: sum(table.get(keys.slice(at, 1)).num_rows for at in range(SINGLE))

    def native(count: int) -> Callable[[], int]:
        wanted = keys.column("id").combine_chunks()
        return lambda: sum(planner.plan_lookup(wanted.slice(at, 1)).to_table().num_rows for at in range(count))

    return {
        f"memwal, {KEYS} at once": lambda: scene.table.get(keys).num_rows,
        f"memwal, {SINGLE} one by one": one_by_one(scene.table),
        f"memwal, {SINGLE} one by one, nothing kept": one_by_one(scene.forgetful),
        f"native, {SINGLE} one by one": native(SINGLE),
    } | ({f"native, {KEYS} one by one": native(KEYS)} if scene.case.kind == "key" else {})


def _keys(scene: Scene) -> pa.Table:
    count = scene.case.base_rows
    return pa.table({"id": np.random.default_rng(3).choice(count + count // 9, KEYS, replace=False)})


MEASURES: Mapping[str, tuple[str, Callable[[Scene], Sides]]] = {
    "scan": ("plain", scan),
    "filter": ("plain", filtered),
    "btree": ("btree", btree),
    "vector": ("vector", vector),
    "text": ("text", text),
    "lookup": ("plain", lookup),
    "lookup-key": ("key", lookup),
}
"""Name -> kind of table, and what is run on it."""


def measured(sides: Sides, rounds: int) -> dict[str, Any]:
    """Medians of wall and CPU seconds of each side, and the CPU seconds of the first side by those of each other."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    found: dict[str, int] = {}
    names = list(sides)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                found[name] = sides[name]()
            except Exception as failure:  # noqa: BLE001 - a peer may fail, and the run continues
                print(f"    {name}: {type(failure).__name__}: {str(failure)[:120]}", file=sys.stderr)
                names.remove(name)
                del taken[name]
                break
            if turn:
                taken[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    medians = {
        name: {"wall": statistics.median(w for w, _ in each), "cpu": statistics.median(c for _, c in each)}
        for name, each in taken.items()
        if each
    }
    first = next(iter(medians))
    return {
        name: {key: round(value, 5) for key, value in each.items()}
        | {"found": found[name], f"cpu of {first} by this": round(medians[first]["cpu"] / max(each["cpu"], 1e-9), 2)}
        for name, each in medians.items()
    }


def point(folder: Path, case: Case, rounds: int, due: Due) -> dict[str, Any]:
    """Time and memory of a scan in batches and of lookups of one table, in a process of its own."""
    scene = Scene(folder, case, _quiet, due)
    keys = _keys(scene)
    sides = {
        "1 key": lambda: scene.table.get(keys.slice(0, 1)).num_rows,
        f"{KEYS} keys": lambda: scene.table.get(keys).num_rows,
    }
    found = measured(sides, rounds)
    before = _peak_mib()
    found |= measured({"scan": lambda: sum(part.num_rows for part in scene.table.batches())}, 1)
    taken = {name: {key: each[key] for key in ("wall", "cpu")} for name, each in found.items()}
    return taken | {"peak MiB before the scan, and in it": [before, _peak_mib()]}


def _peak_mib() -> int:
    """The largest resident memory of this program; of Linux, where a parent's does not count as its children's."""
    told = Path("/proc/self/status").read_text().partition("VmHWM:")[2]
    return int(told.split()[0]) >> 10


def growth(folder: Path, rows: int, rounds: int, found: Found) -> None:
    """How a scan and lookups grow with generations, and with regions."""
    cases = {f"4 regions x {count}": (4, count) for count in GROWTH_GENERATIONS}
    cases |= {f"{count} regions x 1": (count, 1) for count in GROWTH_REGIONS}
    for name, (regions, generations) in cases.items():
        title = f"growth, {name}"
        if title not in found.entries:
            case = [str(rows), str(regions), str(generations), str(1000 if generations > 1 or regions == 4 else 100)]
            command = [sys.executable, __file__, "--folder", str(folder), "--rounds", str(rounds), "--point", *case]
            done = subprocess.run(  # noqa: S603 - this program
                [*command, "--minutes", str(found.minutes_left)], stdout=subprocess.PIPE, text=True
            )
            if done.returncode:
                sys.exit(done.returncode)
            found.add(title, json.loads(done.stdout))
        _say(f"{title}\n  {json.dumps(found.entries[title])}")


@dataclass(kw_only=True)
class Found:
    """What was measured, in a file of the folder, and until when the program runs."""

    file: Path
    minutes: float
    began: float = field(default_factory=time.monotonic)
    entries: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file.exists():
            self.entries = json.loads(self.file.read_text())

    @property
    def minutes_left(self) -> float:
        return max(0.0, self.minutes - (time.monotonic() - self.began) / 60)

    def add(self, name: str, entry: Any) -> None:
        """One more measure; the last one if the time is over."""
        self.entries[name] = entry
        self.file.write_text(json.dumps(self.entries, indent=1))
        self.due()

    def due(self) -> None:
        """End the program if its time is over."""
        if not self.minutes_left:
            _say("the time is over: the same command goes on from here")
            sys.exit(75)


def _check(name: str, told: Mapping[str, Any]) -> None:
    """Exit if sides that have to agree do not."""
    groups: dict[str, set[int]] = {}
    for side, each in told.items():
        if name in ("scan", "filter", "btree") and side != "no merge":
            groups.setdefault("", set()).add(each["found"])
        if name.startswith("lookup"):
            groups.setdefault(side.split()[1], set()).add(each["found"])
    if any(len(found) > 1 for found in groups.values()):
        sys.exit(f"{name}: the sides do not find equally many rows: {groups}")


def _quiet(_said: str) -> None:
    """There is not a listener."""


def _say(said: str) -> None:
    print(said, file=sys.stderr, flush=True)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--generations", type=int, nargs="+", default=[3, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*MEASURES, "growth"], metavar="NAME")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--point", type=int, nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.minutes < math.inf and not arguments.folder:
        parser.error("--minutes needs a --folder, in which the next run finds what this one has made")
    rows = arguments.rows or (10_000_000 if arguments.full else 1_000_000)
    with tempfile.TemporaryDirectory(prefix="memwal-reads-") as scratch:
        folder = arguments.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        found = Found(file=folder / f"found-{rows}-{arguments.rounds}.json", minutes=arguments.minutes)
        if arguments.point:
            count, regions, generations, each = arguments.point
            case = Case(kind="plain", rows=count, regions=regions, generations=generations, generation_rows=each)
            print(json.dumps(point(folder, case, arguments.rounds, found.due)))
            return
        run(folder, rows, arguments, found)
    if arguments.json:
        machine = {"rows": rows, "machine": f"{os.cpu_count()} processors"}
        versions = {"versions": {"pylance": lance.__version__, "pyarrow": pa.__version__}}
        print(json.dumps(machine | versions | found.entries, indent=1))


def run(folder: Path, rows: int, arguments: argparse.Namespace, found: Found) -> None:
    """Everything that was asked for; said as it comes."""
    for name, (kind, sides) in MEASURES.items():
        if arguments.only and name not in arguments.only:
            continue
        for generations in arguments.generations:
            title = f"{name}, {rows} rows asked for, 4 regions x {generations} generations"
            if title not in found.entries:
                scene = Scene(folder, Case(kind=kind, rows=rows, regions=4, generations=generations), _say, found.due)
                entry: dict[str, Any] = {"sides": measured(sides(scene), arguments.rounds)}
                if name == "vector":
                    entry["recall"] = recall(scene)
                _shown(title, entry)
                _check(name, entry["sides"])
                found.add(title, entry)
            else:
                _shown(title, found.entries[title])
    if not arguments.only or "growth" in arguments.only:
        growth(folder, rows, min(arguments.rounds, 3), found)


def _shown(title: str, entry: Mapping[str, Any]) -> None:
    _say(title)
    for side, told in entry["sides"].items():
        ratio = next(value for key, value in told.items() if key.startswith("cpu of"))
        times = f"wall {told['wall'] * 1000:10.1f} ms  cpu {told['cpu'] * 1000:10.1f} ms"
        _say(f"  {side:28} {times}  memwal by it {ratio:7.2f}  found {told['found']}")
    if "recall" in entry:
        _say(f"  recall {entry['recall']}")


if __name__ == "__main__":
    main()
