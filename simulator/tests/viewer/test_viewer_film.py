from __future__ import annotations

from dataclasses import replace

import pytest
from kit import scenes
from kit.toys import processes, watched_counters
from memwal.effects import Io
from memwal.errors import Outcome
from memwal.revisions import STRICT
from memwal.violations import Violation
from memwal_sim.oracles import INSPECTION, after_crash, inspected
from memwal_sim.outcomes import Fate
from memwal_sim.process import Process
from memwal_sim.store import Contents
from memwal_sim.traces.trace import Found, Trace
from memwal_sim.viewer.addresses import Addresses
from memwal_sim.viewer.film import Film, film_of
from memwal_sim.viewer.remarks import Flight, Gap, Path, Sign, flights, holds, is_fault, path_of, remarks, verdict
from memwal_sim.world import World

NO_NAMES = Addresses(())
NORMAL, LOST, APPLIED, LATE = Fate.NORMAL, Fate.LOST, Fate.APPLIED, Fate.LATE


def lost_update() -> Film:
    moves = [("p0", NORMAL), ("p1", NORMAL), ("p0", NORMAL), ("p1", NORMAL)]
    return scenes.filmed(watched_counters(2), *moves)


def texts(film: Film, sign: Sign) -> list[tuple[int, str]]:
    return [(each.step, each.text) for each in remarks(film, NO_NAMES) if each.sign is sign]


def test_a_film_has_the_world_before_the_first_step_and_after_each() -> None:
    film = lost_update()
    assert [dict(frame.contents.objects) for frame in film.frames] == [
        {"n": b"0"},
        {"n": b"0"},
        {"n": b"0"},
        {"n": b"1"},
        {"n": b"1"},
    ]
    assert [frame.ghosts for frame in film.frames] == [0, 0, 0, 1, 2]
    assert film.steps_of("p1") == [2, 4]


def test_each_oracle_is_asked_at_each_step() -> None:
    film = lost_update()
    assert film.oracles == ("no process breaks", "nothing lost")
    assert [tuple(each is None for each in frame.verdicts) for frame in film.frames] == [(True, True)] * 4 + [
        (True, False)
    ]


def test_a_process_that_breaks_is_a_verdict_of_its_own() -> None:
    async def breaks() -> None:
        await Io(interpretation=STRICT).head("n")

    film = scenes.filmed(World(contents=Contents(), processes=processes(breaks)), ("p0", NORMAL))
    assert film.frames[-1].verdicts == (None,)

    async def fails() -> None:
        try:
            await Io(interpretation=STRICT).head("n")
        except Outcome:
            raise KeyError("n") from None

    film = scenes.filmed(World(contents=Contents(), processes=processes(fails)), ("p0", NORMAL))
    (found,) = film.frames[-1].verdicts
    assert found is not None
    assert (found.clause, found.oracle) == ("ENGINE", "no process breaks")


def test_oracles_of_scenarios_have_names() -> None:
    async def nothing() -> None:
        return None

    looks = Process("reader", nothing)
    oracles = (after_crash(looks, lambda _seen, _ghosts: None), *inspected(looks, ["wal_has_no_hole"]))
    film = scenes.filmed(World(contents=Contents(), processes=(), oracles=oracles))
    assert film.oracles == ("no process breaks", "after a crash: reader", INSPECTION, "wal has no hole")


def test_a_violation_is_told_at_the_step_where_it_first_shows() -> None:
    (broken,) = (each for each in remarks(lost_update(), NO_NAMES) if each.sign is Sign.BROKEN)
    assert (broken.step, broken.text) == (4, "violates TOY: nothing lost")
    assert broken.more == ("2 increments ended, and the counter is 1",)
    assert verdict(lost_update()) == (
        False,
        "violates TOY at step 4: 2 increments ended, and the counter is 1",
    )


def test_an_actor_that_could_go_on_and_does_not_is_told_as_crashed() -> None:
    world = scenes.two_writers_of_one_object()
    film = scenes.filmed(world, ("p0", NORMAL), ("p1", NORMAL))
    assert film.crashed_after("p0") == 1
    assert film.crashed_after("p1") is None
    (crash,) = texts(film, Sign.CRASH)
    assert crash == (1, "p0 makes no further request, as if it had crashed here (next: put y)")
    assert texts(film, Sign.END) == [(2, "p1 ends")]


def test_an_actor_whose_request_is_the_last_of_all_has_not_crashed() -> None:
    film = scenes.filmed(scenes.two_writers_of_one_object(), ("p1", NORMAL), ("p0", NORMAL))
    assert texts(film, Sign.CRASH) == []


def test_an_actor_that_never_moves_is_told_before_the_first_step() -> None:
    film = scenes.filmed(scenes.two_writers_of_one_object(), ("p1", NORMAL))
    assert [step for step, _ in texts(film, Sign.CRASH)] == [0]


def test_gaps_in_which_an_actor_waits_are_told() -> None:
    world = scenes.busy(2)
    film = scenes.filmed(world, *[("writer-0", NORMAL)] * 2, *[("writer-1", NORMAL)] * 6, ("writer-0", NORMAL))
    assert holds(film) == [Gap(0, 2, 9, 6, long=True), Gap(1, 0, 3, 2, long=False)]


@pytest.mark.parametrize(
    ("fate", "path"),
    [
        (Fate.NORMAL, Path.WHOLE),
        (Fate.LOST, Path.LOST),
        (Fate.APPLIED, Path.UNANSWERED),
        (Fate.LATE, Path.FLYING),
        (Fate.THROTTLED, Path.WHOLE),
    ],
)
def test_how_far_a_request_gets_follows_from_its_fate(fate: Fate, path: Path) -> None:
    film = scenes.filmed(scenes.two_writers_of_one_object(), ("p0", fate))
    assert path_of(film, 1) is path
    assert is_fault(film.at(1)) is (fate is not Fate.NORMAL)


def test_a_late_request_flies_until_it_lands() -> None:
    world = scenes.two_writers_of_one_object()
    film = scenes.filmed(world, ("p0", LATE), ("p0", LATE), ("p1", NORMAL), ("p0", None))
    assert flights(film) == [Flight(0, 1, 4), Flight(0, 2, None)]
    assert path_of(film, 4) is Path.LANDED
    assert film.frames[4].contents.objects["x"] == b"0"
    assert texts(film, Sign.UNDER_WAY) == [(4, "still under way since step 2: put y of p0")]


def test_equal_requests_that_are_under_way_land_one_after_another() -> None:
    async def twice() -> None:
        for _ in range(2):
            try:
                await Io(interpretation=STRICT).put("x", b"0")
            except Outcome:
                continue

    world = World(contents=Contents(), processes=processes(twice))
    film = scenes.filmed(world, ("p0", LATE), ("p0", LATE), ("p0", None), ("p0", None))
    assert flights(film) == [Flight(0, 1, 3), Flight(0, 2, 4)]


def test_a_divergence_is_told_where_it_shows() -> None:
    film = lost_update()
    other = replace(watched_counters(2), contents=Contents({"n": b"10"}))
    again = film_of(other, Trace(scenes.HEADER, tuple(film.steps)))
    (told,) = (each for each in remarks(again, NO_NAMES) if each.sign is Sign.DIVERGED)
    assert (told.step, told.text) == (1, "diverges from step 1 of the trace: the reply is another one")
    assert told.more[0].startswith("recorded: 1 bytes (")
    assert again.replayed.diverged_at == 1


def test_a_request_that_the_trace_does_not_have_diverges_before_it_is_played() -> None:
    async def looks_first() -> None:
        await Io(interpretation=STRICT).head("n")
        await Io(interpretation=STRICT).get("n")

    film = scenes.filmed(watched_counters(1), ("p0", NORMAL))
    world = World(contents=Contents({"n": b"0"}), processes=processes(looks_first))
    again = film_of(world, Trace(scenes.HEADER, tuple(film.steps)))
    assert again.replayed.diverged_at == 0
    assert [step.operation for step in again.steps] == ["head", "get"]


def test_a_replay_that_was_stopped_has_a_film_up_to_there() -> None:
    film = lost_update()
    again = film_of(watched_counters(2), Trace(scenes.HEADER, tuple(film.steps)), until=3)
    assert len(again.frames) == 4
    assert texts(again, Sign.CRASH) == []
    assert verdict(again) == (True, "no violation")


def test_a_violation_that_is_gone_is_told_as_not_reproduced() -> None:
    film = lost_update()
    header = replace(scenes.HEADER, violation=Found(clause="TOY", oracle="nothing lost", reason="gone"))
    again = film_of(replace(watched_counters(2), oracles=()), Trace(header, tuple(film.steps)))
    assert verdict(again) == (False, "not reproduced: the engine no longer does what the trace records")


def test_one_region_needs_no_name_and_several_have_short_ones() -> None:
    one, two = (f"_mem_wal/{region}/manifest/version_hint.json" for region in scenes.REGIONS)
    assert Addresses([one])(one) == "hint"
    both = Addresses([one, two])
    assert (both(one), both(two)) == ("…0001/hint", "…0002/hint")
    assert both.short(f"claimed region={scenes.REGIONS[1]}") == "claimed region=…0002"


def test_regions_of_several_tables_have_the_table_in_front() -> None:
    paths = [f"{table}/_mem_wal/{scenes.REGIONS[0]}/wal" for table in ("left", "right")]
    both = Addresses(paths)
    assert [both(path) for path in paths] == ["left/…0001/wal", "right/…0001/wal"]
    assert both("left/_versions/18446744073709551614.manifest") == "left/versions/@1"


def test_regions_whose_names_end_alike_are_told_apart() -> None:
    paths = ["_mem_wal/a-12345/wal", "_mem_wal/b-12345/wal"]
    assert [Addresses(paths)(path) for path in paths] == ["a-12345/wal", "b-12345/wal"]


def test_the_folder_of_everything_has_a_name() -> None:
    assert Addresses([])("") == "/"


def _violated(_contents: Contents, _ghosts: object) -> Violation:
    return Violation("TOY", "always", "it is")


def test_an_oracle_that_says_no_from_the_beginning_is_told_before_the_first_step() -> None:
    world = replace(scenes.two_writers_of_one_object(), oracles=(_violated,))
    assert texts(scenes.filmed(world, ("p0", NORMAL)), Sign.BROKEN) == [(0, "violates TOY: always")]
