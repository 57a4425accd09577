"""Every hazard that the texts contain is shown: a planted bug that does what they say, and an engine that does not.

That each of these bugs is found, and that its scenario passes without it, is tested in `test_faults`.
"""

from __future__ import annotations

import pytest
from memwal_sim.bugs import load
from memwal_sim.scenarios.scenario import known

CRITICAL = (
    7, 9, 13, 14, 19, 21, 24, 25, 26, 28, 29, 30, 31, 33, 41, 46, 52, 54, 55, 59, 60, 66, 69, 70, 71, 76, 81, 84, 86,
    87, 88, 91, 92, 94, 99, 100, 101, 109, 113, 140, 142,
)  # fmt: skip
"""Numbers of the ambiguities that are called critical: acknowledged data lost, or wrong results."""
NAMED = {
    "H1": "no_barrier",
    "H2": "no_check_after_put",
    "H3": "stale_copy_counts",
    "H4": "missing_hint_means_new",
    "H5": "base_read_first",
    "H6": "merged_generation_wins",
    "H7": "flush_listed_again",
    "H8": "cut_wal_tail",
    "H9": "skip_newer_epoch",
    "H10": "out_of_order",
}
"""The hazards that the design names, and the planted bug that shows each."""
BUGS = load()


def test_there_are_41_critical_ambiguities() -> None:
    assert len(CRITICAL) == 41


@pytest.mark.parametrize("number", CRITICAL)
def test_each_critical_ambiguity_has_a_planted_bug_that_reads_it_the_dangerous_way(number: int) -> None:
    assert [bug.name for bug in BUGS.values() if bug.clause == f"AMB-{number:02}"]


@pytest.mark.parametrize("name", NAMED.values(), ids=NAMED)
def test_each_named_hazard_has_a_planted_bug(name: str) -> None:
    assert name in BUGS


def test_scenarios_name_only_hazards_that_there_are() -> None:
    for scenario in known().values():
        for hazard in scenario.hazards:
            assert hazard.startswith("AMB-"), scenario.name
            assert 1 <= int(hazard.removeprefix("AMB-")) <= 150, scenario.name


def test_there_are_at_least_sixty_planted_bugs_over_all_groups() -> None:
    assert len(BUGS) >= 60
    groups = {"wal", "fencing", "manifest", "flush", "merge", "index", "collect", "read", "search", "spec", "table"}
    assert groups <= {bug.group for bug in BUGS.values()}
