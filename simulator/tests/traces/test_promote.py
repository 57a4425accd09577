"""From a find to a recorded fault: what is stored, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kit.commands import call
from memwal.errors import ArtifactError, InvalidArgument
from memwal_sim.traces import gallery, promoting
from memwal_sim.traces.promoting import AREAS, promote
from memwal_sim.traces.replay import replay
from memwal_sim.traces.trace import Trace, dumps, load

FIXTURE = Path(__file__).parents[1] / "fixtures" / "traces" / "format_1.jsonl"
DESCRIPTION = (
    "Both writers put the same manifest with the same epoch. The second is refused, reads what is there, finds its own "
    "bytes and takes the claim for its own (AMB-28). Both hold one epoch; the second overwrites the row of the first."
)


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    """An empty folder of faults."""
    (tmp_path / "faults" / "bugs").mkdir(parents=True)
    return tmp_path / "faults"


def promoted(file: Path, faults: Path, **more: Any) -> Path:
    told = {"area": "fencing", "name": "two_winners", "title": "Two winners", "description": DESCRIPTION, **more}
    return promote(file, folder=faults, **told).path


def test_a_find_is_stored_with_title_and_description_and_is_in_the_gallery(faults: Path) -> None:
    path = promoted(FIXTURE, faults)
    assert path == faults / "recorded" / "fencing" / "two_winners.jsonl"
    header = load(path).header
    assert (header.title, header.description) == ("Two winners", DESCRIPTION)
    assert header.violation is not None
    assert (header.violation.clause, header.violation.oracle) == ("WAL-001", "acknowledged writes survive")
    assert "### Two winners" in (faults / gallery.INDEX).read_text("utf-8")
    assert (faults / gallery.INDEX).read_text("utf-8") == gallery.render(faults)
    assert [each.name for each in path.parent.iterdir()] == ["two_winners.jsonl"]


def test_what_is_stored_replays_exactly_and_ends_in_its_violation(faults: Path) -> None:
    replayed = replay(promoted(FIXTURE, faults), twice=True)
    assert (replayed.reproduced, replayed.divergence, replayed.unstable_at) == (True, None, None)
    assert replayed.violation_at == len(replayed.steps) == 13
    assert not replayed.engine_changed


def test_areas_are_those_of_the_project() -> None:
    assert " ".join(AREAS) == "fencing wal manifest flush merge index collect read region table"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"area": "moon"}, "there is no area 'moon'; choose one of fencing, wal, manifest, flush"),
        ({"name": "Two winners"}, "the name 'Two winners' must be 3 to 64 characters of a-z"),
        ({"name": "../up"}, "the name '../up' must be"),
        ({"title": " "}, "a title must be one line of 1 to 100 characters"),
        ({"title": "one\ntwo"}, "a title must be one line"),
        ({"title": "x" * 101}, "a title must be one line"),
        ({"description": "It is wrong."}, "the description has 12 characters and needs at least 200"),
        ({"description": " " * 300}, "the description has 0 characters"),
        ({"description": DESCRIPTION + "\nmore"}, "one line without control characters"),
    ],
)
def test_names_titles_and_descriptions_that_do_not_do_are_refused(
    told: dict[str, str], message: str, faults: Path
) -> None:
    with pytest.raises(InvalidArgument, match=message.replace("(", r"\(")):
        promoted(FIXTURE, faults, **told)
    assert not (faults / "recorded").exists()


def test_a_name_that_is_taken_is_refused_in_every_area_and_replaced_by_force_in_its_own(faults: Path) -> None:
    path = promoted(FIXTURE, faults)
    before = path.read_text("utf-8")
    with pytest.raises(InvalidArgument, match=r"there is recorded/fencing/two_winners.jsonl already; --force replaces"):
        promoted(FIXTURE, faults, title="Other")
    with pytest.raises(InvalidArgument, match=r"there is recorded/fencing/two_winners.jsonl already$"):
        promoted(FIXTURE, faults, area="wal", force=True)
    assert path.read_text("utf-8") == before
    promoted(FIXTURE, faults, title="Other", force=True)
    assert load(path).header.title == "Other"


def test_what_is_not_reproduced_is_refused(faults: Path, tmp_path: Path) -> None:
    trace, file = load(FIXTURE), tmp_path / "x.jsonl"
    file.write_text(dumps(Trace(trace.header, trace.steps[:-1])), "utf-8")
    with pytest.raises(InvalidArgument, match=r"x\.jsonl is not reproduced"):
        promoted(file, faults)
    file.write_text("{}", "utf-8")
    with pytest.raises(ArtifactError, match=r"x\.jsonl, line 1"):
        promoted(file, faults)
    assert not (faults / "recorded").exists()


def test_what_is_reproduced_one_time_out_of_two_is_refused(faults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def unstable(file: Path, *, twice: bool) -> Any:
        asked.append(twice)
        replayed = replay(file, twice=twice)
        return type(replayed)(**{name: getattr(replayed, name) for name in replayed.__slots__} | {"unstable_at": 7})

    monkeypatch.setattr(promoting, "replay", unstable)
    with pytest.raises(InvalidArgument, match=r"format_1\.jsonl: a second replay differs at step 7"):
        promoted(FIXTURE, faults)
    assert asked == [True]


def test_the_commands_shrink_and_promote(faults: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.jsonl"
    code, out, _ = call("shrink", str(FIXTURE), "--out", str(small))
    assert (code, f"recorded in {small}" in out) == (0, True)
    assert replay(small).reproduced
    told = ("--area", "fencing", "--title", "Two winners", "--description", DESCRIPTION, "--into", str(faults))
    code, out, _ = call("promote", str(small), "--name", "two_winners", *told, "--json")
    found = json.loads(out)
    assert (code, found["path"]) == (0, "recorded/fencing/two_winners.jsonl")
    assert found["before"]["steps"] == found["after"]["steps"] == 13
    code, _, err = call("promote", str(small), "--name", "two_winners", *told)
    assert (code, "already; --force replaces it" in err) == (2, True)


def test_figures_of_shrinking_are_json() -> None:
    code, out, _ = call("shrink", str(FIXTURE), "--json")
    found = json.loads(out)
    assert code == 0
    assert found["after"] == {"steps": 13, "faults": 0, "late": 0, "changes": 2}
    assert (found["shortest"], found["limits"], found["file"]) == (False, [], "format_1.jsonl")
    assert found["seconds"] > 0
