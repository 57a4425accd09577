from __future__ import annotations

import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from kit import scenes
from kit.commands import call
from kit.toys import watched_counters
from memwal_sim import places
from memwal_sim.outcomes import Fate
from memwal_sim.viewer import lanes, mermaid
from memwal_sim.viewer.addresses import Addresses
from memwal_sim.viewer.film import Film
from memwal_sim.viewer.viewing import print_lanes
from rich.console import Console

NO_NAMES = Addresses(())
NORMAL, LATE = Fate.NORMAL, Fate.LATE
RECORDED = places.faults() / "recorded" / "fencing" / "zombie_append.jsonl"
TALKATIVE = places.faults() / "recorded" / "fencing" / "pending_writes_of_a_fenced_writer.jsonl"


def lost_update() -> Film:
    moves = [("p0", NORMAL), ("p1", NORMAL), ("p0", NORMAL), ("p1", NORMAL)]
    return scenes.filmed(watched_counters(2), *moves)


def text_of(film: Film) -> str:
    return "".join(f"{line.text.rstrip()}\n" for line in lanes.lines(film, NO_NAMES))


def test_lanes_show_who_asks_the_store_for_what() -> None:
    assert (
        text_of(lost_update())
        == """\
   p0  p1  store
1  ○───┼────▷│ get n  1 bytes
2  ┊   ○────▷│ get n  1 bytes
3  ●━━━╋━━━━▶│ put n  done
   ◆   ┊     │ ◆ counted
   ■   ┊     │ ■ p0 ends
4      ○────▷│ put n  done
       ◆     │ ◆ counted
       ■     │ ■ p1 ends
             │ ✗ violates TOY: nothing lost
             │   2 increments ended, and the counter is 1
"""
    )


def test_lanes_show_faults_and_late_landings() -> None:
    world = scenes.two_writers_of_one_object()
    film = scenes.filmed(world, ("p0", LATE), ("p1", Fate.LOST), ("p0", None), ("p0", Fate.APPLIED))
    assert (
        text_of(film)
        == """\
   p0  p1  store
1  ○───┼──⇢  │ put x  outcome unknown  LATE
2  ┊   ○──✗  │ put x  outcome unknown  LOST
   ┊   ■     │ ■ p1 ends with OutcomeUnknown: it is not known whether x was changed: no answer
3  ┊      ⇢━▶│ put x  done  LANDED
4  ●━━━━━━━━▶✗ put y  outcome unknown  APPLIED
   ■         │ ■ p0 ends
"""
    )


def test_many_actors_have_numbers_in_place_of_names() -> None:
    film = scenes.filmed(scenes.busy(12), ("writer-11", NORMAL))
    first, second, *_ = text_of(film).splitlines()
    assert first.startswith("1 writer-0, 2 writer-1, ")
    assert second.split() == [*map(str, range(1, 13)), "store"]
    assert max(line.find("│ ") for line in text_of(film).splitlines()) <= lanes.LANES_MAX + 8


def test_a_terminal_with_ascii_only_gets_ascii() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_lanes(lost_update(), Console(file=out, width=40))
    out.seek(0)
    assert out.read().splitlines()[1:4] == [
        "1  o---+---->| get n  1 bytes",
        "2  :   o---->| get n  1 bytes",
        "3  *===+====>| put n  done",
    ]


def test_a_mermaid_diagram_has_a_message_for_each_request_and_reply() -> None:
    assert mermaid.render(lost_update(), NO_NAMES).splitlines() == [
        "sequenceDiagram",
        "    accTitle: A toy",
        "    participant A1 as p0",
        "    participant A2 as p1",
        "    participant S as store",
        "    A1->>S: 1 get n",
        "    S-->>A1: 1 bytes",
        "    A2->>S: 2 get n",
        "    S-->>A2: 1 bytes",
        "    A1->>S: 3 put n",
        "    S-->>A1: done",
        "    Note over A1: ◆ counted",
        "    Note over A1: ■ p0 ends",
        "    A2->>S: 4 put n",
        "    S-->>A2: done",
        "    Note over A2: ◆ counted",
        "    Note over A2: ■ p1 ends",
        "    rect rgba(200, 40, 30, 0.15)",
        "    Note over A1,S: ✗ violates TOY: nothing lost<br/>2 increments ended, and the counter is 1",
        "    end",
    ]


def test_a_mermaid_diagram_shows_faults_in_red() -> None:
    world = scenes.two_writers_of_one_object()
    film = scenes.filmed(world, ("p0", LATE), ("p1", Fate.LOST), ("p0", None), ("p0", Fate.APPLIED))
    found = mermaid.render(film, NO_NAMES).splitlines()
    assert "    A1-)S: 1 put x (late), still under way" in found
    assert "    A2-xS: 2 put x (lost)" in found
    assert "    A1-)S: 3 put x (landed) of step 1: done" in found
    at = found.index("    A1->>S: 4 put y (applied)")
    assert found[at - 1 : at + 3] == [
        "    rect rgba(200, 40, 30, 0.15)",
        "    A1->>S: 4 put y (applied)",
        "    S--xA1: outcome unknown",
        "    end",
    ]


def test_names_cannot_become_mermaid() -> None:
    world = scenes.two_writers_of_one_object()
    header = replace(scenes.HEADER, title="a; b # c\nd <e>")
    found = mermaid.render(scenes.filmed(world, ("p0", NORMAL), header=header), NO_NAMES)
    assert "accTitle: a#59; b #35; c d #lt;e#gt;\n" in found


@pytest.mark.parametrize("fate", scenes.ALL_FAULTS, ids=lambda fate: fate.label)
def test_every_fault_has_its_name_in_both_forms(fate: Fate) -> None:
    film = scenes.meeting(fate)
    assert fate.label.upper() in text_of(film)
    assert f"({fate.label})" in mermaid.render(film, NO_NAMES)


def test_replay_writes_the_page_and_the_diagram_and_prints_lanes(tmp_path: Path) -> None:
    page, diagram = tmp_path / "x.html", tmp_path / "x.mmd"
    code, out, _ = call("replay", str(RECORDED), "--lanes", "--html", str(page), "--mermaid", str(diagram))
    assert code == 1
    assert "writer-1  writer-2  store" in out
    assert "put_if_absent wal/@0" in out
    assert out.splitlines()[-2:] == [f"written: {page}", f"written: {diagram}"]
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert "A zombie stores" in page.read_text("utf-8")
    assert diagram.read_text("utf-8").startswith("sequenceDiagram\n")


def test_replay_stops_where_it_is_asked_to_in_all_forms(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    code, out, _ = call("replay", str(RECORDED), "--until", "3", "--lanes", "--html", str(page))
    assert code in (0, 1)
    assert "stopped before the end" in out
    assert 'id="s3"' in page.read_text("utf-8")
    assert 'id="s4"' not in page.read_text("utf-8")


def test_lanes_and_json_exclude_each_other() -> None:
    code, _, err = call("replay", str(RECORDED), "--lanes", "--json")
    assert code == 2
    assert "give either --lanes or --json, not both" in " ".join(err.replace("│", " ").split())


def test_a_page_that_cannot_be_written_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    code, _, err = call("replay", str(RECORDED), "--html", str(tmp_path / "nowhere" / "x.html"))
    assert code == 2
    assert "nowhere" in err.replace("\n", "")


WINDOW, REM, CHARACTER, SCROLLBAR = 1280, 16, 0.61 * 11.5, 15
"""Pixels; a character of a remark in the widest of the fonts that the page names."""
SPACE = re.compile(r"\.space \{[^}]*; width: clamp\((\d+)vw, calc\(var\(--words\) \+ (\d+)rem\), (\d+)vw\);")


def test_the_space_for_the_diagram_has_room_for_whole_remarks_in_a_window_of_1280_pixels(tmp_path: Path) -> None:
    """By arithmetic: `test_viewer_browser` asks a browser, where there is one."""
    call("replay", str(TALKATIVE), "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text("utf-8")
    least, beside, most = map(int, SPACE.findall(page)[0])
    words = float(re.findall(r'class="space" style="--words: ([\d.]+)px"', page)[0])
    room = min(max(WINDOW * least / 100, words + beside * REM), WINDOW * most / 100) - SCROLLBAR
    remarks = re.findall(r'<text class="say [^>]* x="([\d.]+)"[^>]*>(.*?)</text>', page)
    ends = [float(x) + 16 + CHARACTER * len(unescape(re.sub("<[^>]*>", "", text))) for x, text in remarks]
    assert len(ends) > 15
    assert max(ends) <= room
