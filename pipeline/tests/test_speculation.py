"""Real speculation on a standalone cluster; `speculation` is the job, and says what a right run is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import speculation

RUN = {
    "way": "drop", "happened": "killed", "failure": "[MEMWAL_ANOTHER_CLAIM] …", "entries": (3, 4), "original": {},
    "copy": None, "differing": 0, "seconds": 1.0,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.time_limit(1800)
@pytest.mark.clause("AMB-148", "AMB-149")
def test_a_copy_that_claims_after_the_original_and_is_killed_changes_no_row(tmp_path: Path) -> None:
    """Under ``drop`` the copy puts no entry; with a mark it claims nothing; under ``keep`` its rows are the newest.

    The mark is that of a batch that the caller named, or that of a call of `memwal_spark.upsert` without one.
    """
    found = tmp_path / "runs.jsonl"
    subprocess.run([sys.executable, speculation.__file__, "--json", str(found)], check=True, timeout=1700)
    runs = [json.loads(line) for line in found.read_text().splitlines()]
    assert [(each["way"], each["right"], each["differing"] > 0) for each in runs] == [
        ("drop", True, False),
        ("mark", True, False),
        ("keep", True, True),
        ("fail", True, False),
        ("call", True, False),
    ]
    dropped, marked, kept, _, called = ([*each["entries"]] for each in runs)
    assert dropped[1] - dropped[0] == 1, "the barrier of the claim, and no entry of rows"
    assert marked[1] == marked[0]
    assert kept[1] - kept[0] == 2
    assert called[1] == called[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"happened": "none"},
        {"happened": "won"},
        {"differing": 1},
        {"failure": ""},
        {"way": "keep"},
        {"way": "mark", "failure": "", "happened": "won", "copy": {"skipped": False}, "entries": (4, 4)},
        {"way": "mark", "failure": "", "happened": "won", "copy": {"skipped": True}, "entries": (4, 5)},
        {"way": "mark", "happened": "won", "copy": {"skipped": True}, "entries": (4, 4)},
    ],
)
def test_a_run_whose_fault_did_not_happen_or_whose_rows_differ_is_not_right(changed: dict[str, Any]) -> None:
    assert speculation.right(speculation.Run(**RUN))
    assert not speculation.right(speculation.Run(**(RUN | changed)))


def test_a_table_whose_rows_differ_by_value_or_by_number_is_told() -> None:
    wanted = {(1, 2, "v2"), (3, 4, "v4")}
    tables = [
        [(1, 2, "v2"), (3, 4, "v4")],
        [(1, 2, "v2")],
        [(1, 2, "v2"), (3, 3, "v3")],
        [(1, 2, "v2")] + [(3, 4, "v4")] * 2,
    ]
    made = [
        speculation.SCHEMA.empty_table().from_pylist(
            [dict(zip(speculation.SCHEMA.names, row, strict=True)) for row in rows]
        )
        for rows in tables
    ]
    assert [speculation.differing(wanted, table) for table in made] == [0, 2, 1, 1]
