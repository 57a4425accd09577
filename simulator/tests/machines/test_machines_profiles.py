from __future__ import annotations

import pytest
from memwal.errors import InvalidArgument
from memwal_sim import machines, workloads
from memwal_sim.scenarios.scenario import setting
from memwal_sim.workloads import Actor


def test_the_default_profile_depends_on_nothing_but_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYPOTHESIS_PROFILE", raising=False)
    assert machines.chosen().derandomize
    assert machines.chosen().database is None


def test_the_environment_chooses_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPOTHESIS_PROFILE", "long")
    assert machines.chosen().max_examples == 2_000
    monkeypatch.setenv("HYPOTHESIS_PROFILE", "no such")
    with pytest.raises(InvalidArgument, match="choose one of short, long"):
        machines.chosen()


def test_a_cast_is_refused_for_unknown_plays_roles_and_names_that_are_there_twice() -> None:
    with pytest.raises(
        InvalidArgument,
        match=r"there is no workload 'x'; choose one of collecting, .*committing, .*merging, .*region_life, .*routing",
    ):
        workloads.find("x")
    workload, reader = workloads.find("region_life"), Actor(name="r", role="reader", arguments={"times": 1})
    with pytest.raises(InvalidArgument, match=r"there is no role of .* 'x'; choose one of reader, writer"):
        workload.world(setting(), [Actor(name="a", role="x")])
    with pytest.raises(InvalidArgument, match="one name"):
        workload.world(setting(), [reader, reader])
