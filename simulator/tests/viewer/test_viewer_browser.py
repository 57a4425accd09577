from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kit import scenes
from kit.browser import Tab, browsing, installed
from kit.commands import call
from kit.toys import watched_counters
from memwal_sim import places
from memwal_sim.outcomes import Fate
from memwal_sim.traces.trace import Found
from memwal_sim.viewer.film import film_of
from memwal_sim.viewer.page import render

pytestmark = pytest.mark.skipif(installed() is None, reason="no Chromium on this machine to open the page in")
STEPS = 800
NORMAL = Fate.NORMAL


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    program = installed()
    assert program is not None
    with browsing(program, tmp_path_factory.mktemp("browser") / "profile") as found:
        found.size(1680, 1000)
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    moves = [("p0", NORMAL), ("p1", NORMAL), ("p0", NORMAL), ("p1", NORMAL)]
    header = replace(scenes.HEADER, violation=Found(clause="TOY", oracle="nothing lost", reason="lost"))
    lost = scenes.filmed(watched_counters(2), *moves, header=header)
    (folder / "lost.html").write_text(render(lost), "utf-8")
    world = scenes.busy(4)
    long = film_of(world, scenes.at_random(world, STEPS, faults=0.02))
    (folder / "long.html").write_text(render(long), "utf-8")
    recorded = places.faults() / "recorded" / "fencing" / "pending_writes_of_a_fenced_writer.jsonl"
    call("replay", str(recorded), "--html", str(folder / "recorded.html"))
    return folder


@pytest.fixture
def opened(tab: Tab, pages: Path) -> Iterator[Callable[..., Tab]]:
    """Opens a page; fails the test if the page complained or asked for anything else."""
    asked = []

    def open_page(name: str, fragment: str = "") -> Tab:
        tab.scheme("light")
        tab.open(pages / name, fragment)
        asked.append(name)
        return tab

    yield open_page
    tab.run(SETTLED)
    assert tab.complaints == []
    assert [url.partition("#")[0].rpartition("/")[2] for url in tab.requests] == asked


SETTLED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def text(tab: Tab, css: str) -> str:
    tab.run(SETTLED)
    found = tab.run(f"document.querySelector({css!r}).innerText")
    assert isinstance(found, str)
    return found


def at(tab: Tab) -> str:
    return text(tab, "#place").split("/")[0].strip()


def test_keys_step_through_the_trace(opened: Callable[..., Tab]) -> None:
    tab = opened("long.html")
    assert at(tab) == "0"
    for keys, place in (
        (("j", "ArrowRight", "ArrowDown"), "3"),
        (("k", "ArrowLeft"), "1"),
        (("PageDown",), "11"),
        (("End",), "800"),
        (("j",), "800"),
        (("Home",), "0"),
        (("k",), "0"),
    ):
        tab.press(*keys)
        assert at(tab) == place


def test_stepping_changes_the_tree_of_the_store_and_points_at_the_change(opened: Callable[..., Tab]) -> None:
    tab = opened("lost.html")
    assert "n" in text(tab, "#store")
    tab.press("j", "j")
    assert tab.run("document.querySelectorAll('.object.other').length") == 0
    tab.press("j")
    tab.run(SETTLED)
    assert tab.run("document.querySelector('.object.other .what').innerText") == "1"
    assert text(tab, "#step-title") == "Step 3, p0"


def test_objects_that_come_and_go_are_marked(opened: Callable[..., Tab]) -> None:
    tab = opened("long.html")
    deleted = int(
        tab.run(
            "JSON.parse(document.getElementById('facts').textContent).steps.findIndex(NEW) + 1".replace(
                "NEW", "step => step.contents[1] === -1"
            )
        )
    )
    tab.run(f"location.hash = '#{deleted}'")
    assert at(tab) == str(deleted)
    assert tab.run("document.querySelectorAll('.object .gone').length") == 1
    tab.run("location.hash = '#1'")
    tab.run(SETTLED)
    assert tab.run("document.querySelectorAll('.object.new').length") == 1


def test_oracles_change_with_the_steps(opened: Callable[..., Tab]) -> None:
    tab = opened("lost.html")
    assert text(tab, "#oracles-count") == "all 2 hold"
    tab.press("v")
    assert at(tab) == "4"
    assert text(tab, "#oracles-count") == "1 of 2 violated"
    assert "2 increments ended, and the counter is 1" in text(tab, ".oracle.no p")
    assert "TOY" in text(tab, "#step .box.bad")
    assert "ended" in text(tab, "#actors")


def test_the_bytes_of_a_request_are_shown_decoded(opened: Callable[..., Tab]) -> None:
    tab = opened("long.html")
    tab.press("c")
    shown = text(tab, "#step-body")
    assert "Sent: WAL entry" in shown
    assert "writer_epoch" in shown


def test_pointing_at_a_request_shows_its_bytes_and_a_click_goes_there(opened: Callable[..., Tab]) -> None:
    tab = opened("lost.html")
    box = tab.run("(r => [r.x, r.y])(document.querySelector('#s3 .words').getBoundingClientRect())")
    tab.move(box[0] + 4, box[1] + 4)
    tab.wait("!document.getElementById('peek').hidden")
    assert "Sent" in text(tab, "#peek")
    tab.click(box[0] + 4, box[1] + 4)
    assert at(tab) == "3"
    assert tab.run("document.getElementById('peek').hidden") is True
    assert tab.run("document.getElementById('s3').getAttribute('aria-selected')") == "true"


def test_buttons_and_the_slider_move_too(opened: Callable[..., Tab]) -> None:
    tab = opened("long.html")
    tab.run("document.querySelector('[data-go=on]').click()")
    assert at(tab) == "1"
    tab.run("document.querySelector('[data-go=last]').click()")
    assert at(tab) == "800"
    tab.run("{const s = document.getElementById('slider'); s.value = 400; s.dispatchEvent(new Event('input'))}")
    assert at(tab) == "400"
    tab.run("document.querySelector('[data-go=fault]').click()")
    tab.run(SETTLED)
    assert tab.run("document.querySelector('#step .tag.fault') !== null") is True


def test_the_step_that_is_looked_at_is_in_sight_and_in_the_address(opened: Callable[..., Tab]) -> None:
    tab = opened("long.html", "#512")
    assert at(tab) == "512"
    seen = "(r => r.top > 100 && r.bottom < innerHeight)(document.getElementById('s512').getBoundingClientRect())"
    assert tab.run(seen) is True
    tab.press("j")
    tab.run(SETTLED)
    assert tab.run("location.hash") == "#513"


def test_dark_follows_the_system_and_the_button_turns_it_round(opened: Callable[..., Tab]) -> None:
    tab = opened("lost.html")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert tab.run(ground) == "rgb(255, 255, 255)"
    tab.scheme("dark")
    assert tab.run(ground) == "rgb(20, 24, 28)"
    tab.press("t")
    assert tab.run(ground) == "rgb(255, 255, 255)"
    tab.run("document.getElementById('theme').click()")
    assert tab.run(ground) == "rgb(20, 24, 28)"


def test_long_folders_are_cut_and_can_be_shown_whole(opened: Callable[..., Tab]) -> None:
    tab = opened("long.html", "#700")
    tab.run(SETTLED)
    shown = "document.querySelectorAll('#store .object').length"
    there = int(text(tab, "#store-count").split()[0])
    assert there > 150
    while tab.run("document.querySelector('#store .more') !== null"):
        before = tab.run(shown)
        tab.run("document.querySelector('#store .more').click()")
        assert tab.run(shown) > before
    assert tab.run(shown) == there


def test_everything_that_can_be_pressed_has_a_name(opened: Callable[..., Tab]) -> None:
    tab = opened("lost.html")
    nameless = (
        "[...document.querySelectorAll('button, input')].filter(e => !(e.getAttribute('aria-label') || e.innerText))"
    )
    assert tab.run(f"{nameless}.length") == 0
    active = tab.run("document.getElementById('scroll').getAttribute('aria-activedescendant')")
    assert tab.run(f"document.getElementById({active!r}).getAttribute('role')") == "option"


def test_help_opens_and_closes(opened: Callable[..., Tab]) -> None:
    tab = opened("lost.html")
    tab.press("?")
    assert "next fault" in text(tab, "#help")
    tab.press("?")
    assert tab.run("document.getElementById('help').hidden") is True


def test_a_window_of_1280_pixels_shows_whole_remarks_beside_the_panels(opened: Callable[..., Tab]) -> None:
    page = opened("recorded.html")
    try:
        page.size(1280, 800)
        page.run(SETTLED)
        right = "each.getBoundingClientRect().right"
        remarks = page.run(f"[...document.querySelectorAll('#diagram .say')].map(each => {right})")
        space = "document.querySelector('#scroll')"
        seen = page.run(f"{space}.getBoundingClientRect().left + {space}.clientWidth")
        assert len(remarks) > 15
        assert max(remarks) <= seen < 900, "the panels have room, too"
    finally:
        page.size(1680, 1000)
        page.run(SETTLED)


def test_on_a_narrow_screen_the_words_of_each_step_are_seen_without_scrolling_to_the_side(
    opened: Callable[..., Tab],
) -> None:
    page = opened("long.html")
    try:
        page.size(420, 900)
        page.run(SETTLED)
        cut = page.run(
            "(right => [...document.querySelectorAll('#diagram .words, #diagram .say')]"
            ".map(each => each.getBoundingClientRect()).filter(box => box.width && (box.right > right || box.left < 0))"
            ".length)(document.querySelector('#scroll').getBoundingClientRect().right)"
        )
        assert page.run("document.querySelectorAll('#diagram .words').length") >= STEPS
        assert cut == 0
    finally:
        page.size(1680, 1000)
        page.run(SETTLED)
