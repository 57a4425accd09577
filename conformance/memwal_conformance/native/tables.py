"""Tables of the native package for others to read: ``python -m memwal_conformance.native.tables FOLDER …``.

Runs in the environment of any version, without the engine; `memwal_conformance.native.reading` calls it. A seed gives a
program, as in `memwal_conformance.native.differential`. Its table is left as a crash would leave it, and beside it the
rows that it has to have. Every second table has lost a column before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from memwal_conformance.adapters.native_errors import RAISED
from memwal_conformance.native.differential import Program, Row, carried_out, program

TABLE, ROWS = "t", "rows.json"
GONE = "gone"
"""Name of the column that a table has lost."""


def write(folder: Path, asked: Program, *, lost: bool) -> Any:
    """Carry a program out in ``folder``, with the package of this process; gives the open writer."""
    url = str(folder / TABLE)
    schema = asked.schema
    table = asked.table(asked.base)
    if lost:
        gone = pa.field(GONE, pa.int8())
        table = table.add_column(asked.key_columns, gone, pa.nulls(table.num_rows, gone.type))
        schema = schema.insert(asked.key_columns, gone)
    made = lance.write_dataset(table.cast(schema), url, schema=schema)
    if lost:
        made.drop_columns([GONE])
    lance.dataset(url).initialize_mem_wal()
    writer, rows = carried_out(asked, url)
    (folder / ROWS).write_text(json.dumps(plain(rows)), "utf-8")
    return writer


def plain(rows: Iterable[Row]) -> list[str]:
    """Rows as sorted text; a decimal is the number that it stands for."""
    return sorted(repr([int(v) if isinstance(v, Decimal) else v for v in row]) for row in rows)


def of_seed(seed: int) -> Program:
    """The program of a seed."""
    return program(seed, small_memtables=seed % 3 == 0)


def write_all(folder: Path, seeds: Sequence[int]) -> None:
    """Write the tables of ``seeds``, and end as a crash would."""
    writers = []
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        try:
            writers.append(write(place, of_seed(seed), lost=seed % 2 == 1))
        except RAISED as error:
            sys.stdout.write(f"seed {seed} is left out: {str(error).split(', /')[0]}\n")
    time.sleep(1)  # what is flushed in the background may end, or not: both are tables that have to be read
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m memwal_conformance.native.tables")
    parser.add_argument("folder", type=Path, help="gets a folder for each seed")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--programs", type=int, default=50, metavar="N", help="how many tables")
    asked = parser.parse_args()
    write_all(asked.folder, range(asked.first, asked.first + asked.programs))


if __name__ == "__main__":
    main()
