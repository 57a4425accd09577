from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from kit.machine_bugs import found, planted_bug
from memwal.effects import Io
from memwal_sim import bugs, machines
from memwal_sim.machines import Collecting


def test_no_history_of_collectors_and_readers_breaks_anything() -> None:
    machines.run(Collecting, settings(machines.chosen(), max_examples=12))


async def _whole_wal(region: Io, *_: object) -> None:
    for name in await region.list("wal"):
        await region.delete(name)


def test_a_collector_that_takes_the_whole_wal_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = planted_bug(memwal__jobs__collector__wal___collect_wal=_whole_wal)
    broken = found(Collecting, tmp_path, monkeypatch, bug)
    assert "collector" in {actor.role for actor in broken.trace.header.actors}


async def _all_manifests(region: Io, *_: object) -> None:
    for name in await region.list("manifest"):
        await region.delete(name)


def test_a_collector_that_takes_all_region_manifests_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = planted_bug(memwal__jobs__collector__manifests___collect_manifests=_all_manifests)
    broken = found(Collecting, tmp_path, monkeypatch, bug)
    assert "collector" in {actor.role for actor in broken.trace.header.actors}


@pytest.mark.long
def test_a_collector_of_what_nobody_lists_yet_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(Collecting, tmp_path, monkeypatch, readings={"orphans_by_generation": False})
    assert {actor.role for actor in broken.trace.header.actors} == {"collector", "writer"}


def test_a_collector_that_forgets_retained_versions_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(Collecting, tmp_path, monkeypatch, *bugs.choose(["time_travel_forgotten"]))
    assert broken.violation.oracle == "retained versions are readable"
