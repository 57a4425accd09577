from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from kit.machine_bugs import found, planted_bug
from memwal.effects import Io
from memwal.table.state import TableState
from memwal.table.write import append
from memwal_sim import bugs, machines
from memwal_sim.machines import Committing
from memwal_sim.traces.replay import replay


def test_no_history_of_concurrent_commits_breaks_anything() -> None:
    machines.run(Committing, settings(machines.chosen(), max_examples=15))


async def _twice(io: Io, rows: pa.Table) -> TableState:
    await append(io, rows)
    return await append(io, rows)


def test_an_append_that_is_applied_twice_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(Committing, tmp_path, monkeypatch, planted_bug(memwal__table__write___append=_twice))
    assert broken.violation.clause == "TXN-002"
    assert len(broken.trace.header.actors) == 1


def test_a_version_that_replaces_another_is_found_and_replayed_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = found(Committing, tmp_path, monkeypatch, *bugs.choose(["canary_commits"]))
    assert broken.violation.clause == "TXN-002"
    assert replay(broken.path).reproduced
    header = json.loads(broken.path.read_text("utf-8").partition("\n")[0])
    assert [actor["role"] for actor in header["actors"]].count("committer") >= 1
