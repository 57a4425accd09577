"""An answer that is larger than memory is refused with its size, before it is read where that is known then."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from pathlib import Path

import memwal
import pyarrow as pa
import pytest
from memwal.api.memory import available_bytes
from memwal.effects import Get
from memwal.errors import InvalidArgument

from ..kit.ground import Ground

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])


def table_of(ground: Ground, *, rows: int, value: str = "v", fragments: int = 1) -> memwal.Table:
    table = memwal.create("t", SCHEMA, primary_key=["id"], store=ground)
    for number in range(fragments):
        keys = range(number * rows, (number + 1) * rows)
        table.base.append(pa.table([pa.array(keys, pa.int64()), [value] * rows], schema=SCHEMA))
    return table


def data_files_read(ground: Ground, since: int) -> int:
    return len({each.path for each in ground.asked[since:] if isinstance(each, Get) and "/data/" in each.path})


def test_what_the_columns_take_at_least_is_refused_before_any_row_is_read() -> None:
    ground = Ground()
    table = table_of(ground, rows=4096)
    before = len(ground.asked)
    with pytest.raises(InvalidArgument, match=r"at least, and there are 16.0 KiB: read it in parts with batches\(\)"):
        table.scan(["id"], memory_bytes=16 << 10)  # 32 KiB
    assert data_files_read(ground, before) == 0
    assert table.scan(["id"], memory_bytes=64 << 10).num_rows == 4096
    assert table.scan(["id"], limit=10, memory_bytes=16 << 10).num_rows == 10


def test_texts_that_are_larger_than_their_file_are_refused_as_they_come() -> None:
    ground = Ground()
    table = table_of(ground, rows=1000, value="x" * 1000, fragments=4)
    before = len(ground.asked)
    with pytest.raises(InvalidArgument, match=r"takes .* MiB of memory at least, and there are 1.5 MiB"):
        table.scan(["v"], memory_bytes=3 << 19)
    assert 1 <= data_files_read(ground, before) <= 2
    assert table.scan(["v"], memory_bytes=math.inf).num_rows == 4000
    assert sum(batch.num_rows for batch in table.batches(["v"])) == 4000


def test_what_a_filter_leaves_counts_and_not_the_table() -> None:
    table = table_of(Ground(), rows=4096)
    assert table.scan(["id"], "id < 10", memory_bytes=1000).num_rows == 10


@pytest.mark.clause("PLAN-026")
def test_a_scan_with_a_limit_reads_no_further_than_it_needs() -> None:
    ground = Ground()
    table = table_of(ground, rows=100, fragments=5)
    before = len(ground.asked)
    assert table.scan(limit=120).num_rows == 120
    assert data_files_read(ground, before) == 2
    with table.writer(background=False) as writer:
        writer.put(pa.table([[450], ["new"]], schema=SCHEMA))
        writer.flush()
    assert table.scan(limit=1).to_pylist() == [{"id": 450, "v": "new"}]


def test_what_is_free_is_the_least_that_machine_group_and_address_space_leave(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None or resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    for name, text in {
        "proc/meminfo": "MemTotal: 64 kB\nMemAvailable:   32 kB\n",
        "sys/fs/cgroup/memory.max": "20480\n",
        "sys/fs/cgroup/memory.current": "16384\n",
        "sys/fs/cgroup/memory.stat": "active_file 9\ninactive_file 4096\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_bytes(tmp_path) == 20480 - 16384 + 4096
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert available_bytes(tmp_path) == 32 << 10
    assert (available_bytes() or 0) > 1 << 20


PEAK = """
import resource, sys
import memwal
table = memwal.open(sys.argv[1])
rows = sum(batch.num_rows for batch in table.batches())
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


@pytest.mark.long
@pytest.mark.clause("PLAN-026")
def test_the_peak_of_a_stream_does_not_grow_with_the_rows_of_the_base(tmp_path: Path) -> None:
    peaks = {}
    for rows in (50_000, 800_000):
        path = tmp_path / str(rows)
        table = memwal.create(path, SCHEMA, primary_key=["id"])
        for start in range(0, rows, 50_000):
            keys = range(start, start + 50_000)
            texts = [f"{key:0600}" for key in keys]
            table.base.append(pa.table([pa.array(keys, pa.int64()), texts], schema=SCHEMA))
        with table.writer(background=False) as writer:
            writer.put(pa.table([pa.array(range(1000), pa.int64()), ["new"] * 1000], schema=SCHEMA))
            writer.flush()
        done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
        found, peaks[rows] = map(int, done.stdout.split())
        assert found == rows
    assert peaks[800_000] - peaks[50_000] < 200, peaks  # MiB; the rows more take 450
