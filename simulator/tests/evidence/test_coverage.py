from __future__ import annotations

from memwal_sim.evidence.coverage import Matrix, covered, possible, render
from memwal_sim.exploring.exploration import Site
from memwal_sim.outcomes import Fate

READ = Site("region.manifest.hinted", "get", changes=False)
CREATE = Site("region.manifest.advance", "put_if_absent", changes=True)
DELETE = Site("confirm.delete", "delete", changes=True)


def test_what_can_become_of_a_request() -> None:
    assert [fate.label for fate in Fate if possible(READ, fate)] == ["normal", "throttled", "stale"]
    assert [fate.label for fate in Fate if possible(DELETE, fate)] == [
        "normal", "lost", "applied", "late", "throttled",
    ]  # fmt: skip
    assert possible(CREATE, Fate.CONFLICT)


def test_a_cell_that_is_possible_and_was_never_met_is_dark() -> None:
    found = Matrix({READ: {Fate.NORMAL: ("one_writer",)}})
    assert list(found.dark()) == [(READ, Fate.THROTTLED)]
    text = render(found)
    assert "1 places, 1 dark cells." in text
    assert "| `region.manifest.hinted` | get | 1 | · | · | · | **dark** | · |" in text


def test_an_exploration_with_a_fault_gives_every_outcome_to_a_claim() -> None:
    sites = covered("one_writer")
    claims = [site for site in sites if site.function == "region.manifest.advance"]
    assert [site.operation for site in claims] == ["put_if_absent"]
    assert sites[claims[0]] == {
        Fate.NORMAL, Fate.LOST, Fate.APPLIED, Fate.LATE, Fate.THROTTLED, Fate.CONFLICT,
    }  # fmt: skip
