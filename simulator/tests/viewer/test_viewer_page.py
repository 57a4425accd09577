from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest
from kit import scenes
from kit.toys import watched_counters
from memwal.effects import Io
from memwal.revisions import STRICT, B
from memwal_sim.outcomes import Fate
from memwal_sim.process import Process
from memwal_sim.store import Contents
from memwal_sim.traces.trace import Found, Trace
from memwal_sim.viewer.decoding import decode
from memwal_sim.viewer.film import Film, film_of
from memwal_sim.viewer.page import render
from memwal_sim.world import World

STEPS = 820
NORMAL, LATE = Fate.NORMAL, Fate.LATE
HOSTILE = "</script><script>alert(1)</script>&\"'<b>"


class Elements(HTMLParser):
    """All start tags of a page with their attributes, and the text inside of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def of(self, css: str) -> list[dict[str, str | None]]:
        """Attributes of the elements of a class."""
        return [attributes for _, attributes in self.found if css in (attributes.get("class") or "").split()]


@cache
def long_film() -> Film:
    return film_of(scenes.busy(6), scenes.at_random(scenes.busy(6), STEPS, faults=0.03), "long.jsonl")


@cache
def long_page() -> str:
    return render(long_film())


def facts_of(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Elements(page).scripts[0])
    return found


def lost_update() -> Film:
    moves = [("p0", NORMAL), ("p1", NORMAL), ("p0", NORMAL), ("p1", NORMAL)]
    return scenes.filmed(watched_counters(2), *moves)


def test_a_page_refers_to_nothing_outside_itself() -> None:
    for tag, attributes in Elements(long_page()).found:
        for name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#")), (tag, attributes)
    assert not re.search(r"url\(|@import|https?:(?!//www\.w3\.org/2000/svg)", long_page())


def test_a_page_of_820_steps_is_under_two_megabytes() -> None:
    assert len(long_film().steps) == STEPS
    assert len(long_page().encode()) < 2_000_000


def test_each_step_is_a_row_with_a_label_in_words() -> None:
    rows = Elements(long_page()).of("row")
    assert [row["id"] for row in rows] == [f"s{number}" for number in range(1, STEPS + 1)]
    labels = [row["aria-label"] for row in Elements(render(lost_update())).of("row")]
    assert labels == [
        "Step 1, p0: get n, 1 bytes",
        "Step 2, p1: get n, 1 bytes",
        "Step 3, p0: put n, done",
        "Step 4, p1: put n, done",
    ]


def test_rows_are_drawn_in_order_and_do_not_overlap() -> None:
    facts = facts_of(long_page())
    tops, heights = facts["tops"], facts["heights"]
    assert len(tops) == len(heights) == STEPS + 1
    assert all(top + height == following for top, height, following in zip(tops, heights, tops[1:], strict=False))


def stores(facts: dict[str, Any]) -> Iterator[dict[str, int]]:
    """Path -> number of bytes, for the world before the first step and after each."""
    contents: dict[str, int] = {}
    for frame in (facts["start"], *facts["steps"]):
        changes = frame["contents"]
        for path, blob in zip(changes[::2], changes[1::2], strict=True):
            if blob < 0:
                del contents[facts["paths"][path][0]]
            else:
                contents[facts["paths"][path][0]] = blob
        yield dict(contents)


def test_the_changes_of_steps_add_up_to_the_store_at_each_step() -> None:
    facts = facts_of(long_page())
    for shown, frame in zip(stores(facts), long_film().frames, strict=True):
        assert {path: facts["blobs"][blob][1] for path, blob in shown.items()} == {
            path: len(data) for path, data in frame.contents.objects.items()
        }


def test_the_bytes_of_objects_are_those_that_were_decoded() -> None:
    facts = facts_of(long_page())
    *_, shown = stores(facts)
    for path, data in long_film().frames[-1].contents.objects.items():
        found = decode(path, data, B)
        kind, size, summary, nodes, problem, _ = facts["blobs"][shown[path]]
        assert (kind, size, summary, problem) == (found.kind, len(data), found.summary, found.problem)
        assert [facts["texts"][facts["nodes"][n][0]] for n in nodes] == [node.name for node in found.nodes]


def test_equal_bytes_trees_and_texts_are_there_once() -> None:
    facts = facts_of(long_page())
    for shelf in ("blobs", "nodes", "texts", "paths", "rows", "verdicts", "violations"):
        values = [json.dumps(value) for value in facts[shelf]]
        assert len(set(values)) == len(values), shelf


def test_a_violation_is_shown_with_clause_reason_and_counterexample() -> None:
    header = replace(scenes.HEADER, violation=Found(clause="TOY", oracle="nothing lost", reason="a row is gone"))
    moves = [("p0", NORMAL), ("p1", NORMAL), ("p0", NORMAL), ("p1", NORMAL)]
    page = render(scenes.filmed(watched_counters(2), *moves, header=header))
    facts = facts_of(page)
    assert facts["violationAt"] == 4
    assert facts["violations"] == [["TOY", "nothing lost", "2 increments ended, and the counter is 1", []]]
    assert [facts["verdicts"][frame["verdicts"]] for frame in (facts["start"], *facts["steps"])] == [[-1, -1]] * 4 + [
        [-1, 0]
    ]
    assert "violates TOY at step 4: 2 increments ended, and the counter is 1" in page
    assert len(Elements(page).of("band")) == 1


def test_a_history_without_a_violation_is_shown_too() -> None:
    page = render(scenes.filmed(scenes.two_writers_of_one_object(), ("p0", NORMAL)))
    assert "no violation" in page
    assert facts_of(page)["violationAt"] is None
    assert Elements(page).of("band") == []


def test_a_history_without_steps_is_shown_too() -> None:
    page = render(scenes.filmed(scenes.two_writers_of_one_object()))
    assert Elements(page).of("row") == []
    assert facts_of(page)["steps"] == []


def test_a_world_without_actors_is_shown_too() -> None:
    assert facts_of(render(scenes.filmed(World(contents=Contents(), processes=()))))["actors"] == []


def test_a_divergence_is_shown_with_both_sides() -> None:
    other = replace(watched_counters(2), contents=Contents({"n": b"10"}))
    page = render(film_of(other, Trace(scenes.HEADER, tuple(lost_update().steps))))
    assert "diverges from step 1 of the trace" in page
    assert "recorded: 1 bytes (" in page
    assert "found: 2 bytes (" in page
    assert facts_of(page)["divergedAt"] == 1


@pytest.mark.parametrize("fate", scenes.ALL_FAULTS, ids=lambda fate: fate.label)
def test_a_fault_is_red_and_has_its_name(fate: Fate) -> None:
    page = render(scenes.meeting(fate))
    first, second = Elements(page).of("row")
    assert "fault" in (first["class"] or "").split()
    assert "fault" not in (second["class"] or "").split()
    assert (first["aria-label"] or "").endswith(f", {fate.label}")
    assert f'<tspan class="fate">{fate.label}</tspan>' in page
    assert [step["fault"] for step in facts_of(page)["steps"]] == [fate.label, ""]


def tracks(page: str) -> list[dict[str, str | None]]:
    """Those of the diagram, without the one of the legend."""
    return Elements(page).of("track")[1:]


def test_a_late_landing_is_drawn_from_where_the_request_was_made_to_where_it_lands() -> None:
    world = scenes.two_writers_of_one_object()
    page = render(scenes.filmed(world, ("p0", LATE), ("p1", NORMAL), ("p0", None), ("p0", LATE)))
    landed, open_ = tracks(page)
    facts = facts_of(page)
    middle = [top + 13 for top in facts["tops"]]
    assert re.match(rf"M[\d.]+ {middle[1] - 4}V{middle[3] - 5}q", landed["d"] or "")
    assert "open" in (open_["class"] or "")
    assert "p0: x, made at step 1, lands at step 3" in page
    assert [facts["texts"][text] for text in facts["steps"][1]["flying"]] == ["p0: put x"]


def test_tracks_of_requests_that_are_under_way_at_one_time_are_beside_each_other() -> None:
    world = scenes.two_writers_of_one_object()
    page = render(scenes.filmed(world, ("p0", LATE), ("p0", LATE), ("p1", LATE), ("p0", None)))
    starts = [re.match(r"M([\d.]+) ", track["d"] or "") for track in tracks(page)]
    assert len({start[1] for start in starts if start is not None}) == 3


def test_names_and_bytes_cannot_become_markup() -> None:
    async def writes() -> None:
        await Io(interpretation=STRICT).note(HOSTILE)
        await Io(interpretation=STRICT).put("data", HOSTILE.encode())
        await Io(interpretation=STRICT).put(HOSTILE.replace("/", "|"), b"")

    header = replace(scenes.HEADER, title=HOSTILE, description=HOSTILE)
    world = World(contents=Contents(), processes=(Process(HOSTILE, writes),))
    page = render(scenes.filmed(world, (HOSTILE, NORMAL), (HOSTILE, NORMAL), header=header))
    elements = Elements(page)
    assert len(elements.scripts) == 2
    assert all(tag != "b" or "alert" not in str(attributes) for tag, attributes in elements.found)
    assert "alert(1)</script>" not in page.replace("&lt;", "")
    assert HOSTILE in facts_of(page)["texts"]


def test_a_request_for_a_part_of_an_object_shows_the_part() -> None:
    async def reads() -> None:
        await Io(interpretation=STRICT).get("n", 1, 2)
        await Io(interpretation=STRICT).list()

    world = World(contents=Contents({"n": b"abcd", "m": b""}), processes=(Process("p0", reads),))
    facts = facts_of(render(scenes.filmed(world, ("p0", NORMAL), ("p0", NORMAL))))
    assert facts["blobs"][facts["steps"][0]["got"]["blob"]][:3] == ["part of bytes", 2, "bytes 1 to 3"]
    names = facts["nodes"][facts["steps"][1]["got"]["names"]][2]
    assert [facts["texts"][facts["nodes"][name][0]] for name in names] == ["m", "n"]


def test_where_actors_stand_is_told_after_each_step() -> None:
    facts = facts_of(render(scenes.filmed(scenes.two_writers_of_one_object(), ("p0", NORMAL), ("p1", NORMAL))))
    assert [facts["texts"][state] for state in facts["start"]["states"]] == ["waits with put x", "waits with put x"]
    assert [facts["texts"][step["state"]] for step in facts["steps"]] == ["waits with put y", "ended"]
