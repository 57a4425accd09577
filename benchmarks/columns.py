"""Two rows in tables of more and more columns: what each step costs beside the narrowest table.

    python benchmarks/columns.py [--columns 250,500,1000,2000] [--nested] [--json]

Processor time, since that is what the number of columns costs. Each ratio is that of a step's time to its time in the
narrowest table; where the cost of a column does not depend on the others, it grows as the number of columns does, or
less.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import memwal
import pyarrow as pa

ID = pa.field("id", pa.int64(), nullable=False)


def schema_of(columns: int, *, nested: bool) -> pa.Schema:
    """A key and ``columns`` further columns, or as many fields of one struct."""
    fields = [pa.field(f"c{number}", pa.int64()) for number in range(columns)]
    return pa.schema([ID, pa.field("s", pa.struct(fields))] if nested else [ID, *fields])


def seconds(step: Callable[[], object]) -> float:
    """Processor time of ``step``."""
    begin = time.process_time()
    step()
    return time.process_time() - begin


def measured(folder: Path, columns: int, *, nested: bool) -> dict[str, float]:
    """Seconds of each step with two rows."""
    schema = schema_of(columns, nested=nested)
    rows = pa.table([pa.array([1, 2]), *[pa.nulls(2, field.type) for field in list(schema)[1:]]], schema=schema)
    table = memwal.create(folder / str(columns), rows, primary_key=["id"])
    writer = table.writer(background=False)
    return {
        "put": seconds(lambda: writer.put(rows)),
        "scan of the WAL": seconds(table.scan),
        "flush": seconds(writer.flush),
        "scan of a generation": seconds(table.scan),
        "merge": seconds(table.merge),
        "scan of the base": seconds(table.scan),
    }


def main() -> None:
    """Measure each width and print a line for each step, or all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", default="250,500,1000,2000", help="widths, ascending")
    parser.add_argument("--nested", action="store_true", help="fields of one struct instead of columns")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    widths = [int(text) for text in chosen.columns.split(",")]
    with TemporaryDirectory() as folder:
        measured(Path(folder), 2, nested=chosen.nested)  # loads what is loaded on first use
        taken = {width: measured(Path(folder), width, nested=chosen.nested) for width in widths}
    if chosen.json:
        print(json.dumps(taken))
        return
    first = taken[widths[0]]
    for step in first:
        cells = [f"{taken[width][step]:.3f} s ({taken[width][step] / first[step]:.1f}x)" for width in widths]
        print(f"{step:22}" + "".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main()
