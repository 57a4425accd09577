from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from kit.machine_bugs import found, planted_bug
from memwal_sim import machines
from memwal_sim.machines import Routing


def test_no_history_of_spec_changes_and_writers_breaks_anything() -> None:
    machines.run(Routing, settings(machines.chosen(), max_examples=10))


def test_spec_ids_that_are_used_again_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = planted_bug(memwal__jobs__spec_change___next_id=lambda *_: 1)
    broken = found(Routing, tmp_path, monkeypatch, bug)
    assert len(broken.trace.header.actors) <= 2


def test_a_value_that_gets_a_second_region_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = planted_bug(**{"memwal.index.registration:_by_values": lambda *_: {}})
    broken = found(Routing, tmp_path, monkeypatch, bug)
    assert [actor.role for actor in broken.trace.header.actors].count("writer") >= 1


@pytest.mark.long
@pytest.mark.parametrize("reading", ["drained_before_new_spec", "fence_before_new_spec"])
def test_a_spec_that_governs_too_early_is_found(reading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(Routing, tmp_path, monkeypatch, readings={reading: False})
    assert broken.violation.oracle in ("a key is in one region", "acknowledged writes survive")
    assert len(broken.trace.header.actors) <= 3
