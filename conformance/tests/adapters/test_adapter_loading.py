"""What the reference behind the adapter protocol loads: a run of the suite starts it a thousand times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from memwal_conformance import cells

PROGRAM = """
import atexit, runpy, sys
atexit.register(lambda: print(" ".join(sys.modules), file=sys.stderr))
runpy.run_module("memwal_conformance.adapters.reference", run_name="__main__")
"""


def test_the_reference_serves_a_table_without_frames_without_the_gate_and_without_all_of_pylance(
    tmp_path: Path,
) -> None:
    rows = cells.to_rows(pa.table({"id": [1]}, pa.schema([pa.field("id", pa.int64(), nullable=False)])))
    table = {"table": str(tmp_path / "t"), "rows": rows, "primary_key": ["id"]}
    requests = [("hello", {}), ("configure", {"revision": "B", "settings": {}}), ("table.create", table)]
    lines = [json.dumps({"id": n, "message": name, "params": params}) for n, (name, params) in enumerate(requests)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [set(each) for each in replies] == [{"id", "result"}] * 3, replies
    loaded = set(done.stderr.split())
    assert "lance.file" in loaded
    assert loaded & {"lance.dataset", "pandas", "jsonschema_rs", "memwal_conformance.gate.server"} == set()
