"""The engine on tables of a native version: ``python -m memwal_conformance.native.reading --help``.

`memwal_conformance.native.tables` writes the tables in the environment of that version, and ends without closing their
writers. The engine then scans each one, merges and scans, recovers the writer's rows, flushes and merges them, and
pylance reads the base table: each time the rows have to be those of a dictionary.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import lance
import memwal
import pyarrow as pa

from ..adapters import versions
from ..adapters.harness import import_path
from .differential import SHARD, Program
from .tables import ROWS, TABLE, of_seed, plain


def wrong(folder: Path, asked: Program) -> Iterator[str]:
    """Where the engine finds other rows than the dictionary has."""
    url = folder / TABLE
    wanted = json.loads((folder / ROWS).read_text("utf-8"))
    names = asked.schema.names
    table = memwal.open(url)

    def seen(when: str, found: pa.Table) -> Iterator[str]:
        got = plain(tuple(row[name] for name in names) for row in found.to_pylist())
        if got != wanted:
            strange, missing = [row for row in got if row not in wanted], [row for row in wanted if row not in got]
            yield f"{when}: {strange} in place of {missing}"

    yield from seen("scan", table.scan())
    table.merge()
    yield from seen("scan after a merge", memwal.open(url).scan())
    with table.writer(SHARD) as writer:
        writer.flush()
    memwal.open(url).merge()
    yield from seen("base table", lance.dataset(str(url)).to_table())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Exit status 1 if the engine found wrong rows."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m memwal_conformance.native.reading")
    parser.add_argument("--native-version", metavar="X", help="pylance==X in an environment of its own")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--programs", type=int, default=50, metavar="N", help="how many tables")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.programs)
    version = asked.native_version
    try:
        python = sys.executable if version is None else str(versions.interpreter(version))
    except versions.NotInstalled as error:
        parser.error(f"--native-version: {error}")
    bad = written = 0
    with tempfile.TemporaryDirectory(prefix="memwal-native-") as scratch:
        numbers = ("--first", str(asked.first), "--programs", str(asked.programs))
        command = [python, "-m", "memwal_conformance.native.tables", scratch, *numbers]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": import_path()}, check=True)
        for seed in seeds:
            place = Path(scratch) / str(seed)
            if not (place / ROWS).exists():
                continue
            written += 1
            try:
                said = next(wrong(place, of_seed(seed)), None)
            except memwal.MemwalError as error:
                said = f"{type(error).__name__}: {error}"
            if said is not None:
                bad += 1
                sys.stdout.write(f"seed {seed}: {said}\n")
    sys.stdout.write(f"pylance {version or lance.__version__}: {bad} of {written} tables read wrong\n")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
