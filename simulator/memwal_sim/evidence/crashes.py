"""A crash at each step of each workflow: what was stored by then, and whether fresh processes can go on from there.

A crashed process is one that is never scheduled again. Reads leave no trace in the store, so that a crash before or
after a read is one after the last change: for a workflow of n changes there are n + 1 places to crash, and one history
for each. After the crash others recover, finish the work, and read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import plays
from ..cast import Part
from ..names import operation, symbolic
from ..process import Ended
from ..scenarios import scenario as scenarios
from ..stage import Stage
from ..traces.gallery import DANGEROUS
from .directing import Example, Turn, follows


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Work that may end in a crash anywhere."""

    area: str
    name: str
    """Of its folder."""
    play: str
    """What is there when it begins."""
    what: str
    """What is done, as the subject of a sentence goes on: ``a writer …``."""
    why: str
    """What a crash could break, and which clauses say that it does not."""
    worker: Part
    start: str | None = None
    """The request with which the work begins; None: its first."""
    rescue: Sequence[Part]
    """Who goes on after the crash, one after another."""
    state: Mapping[str, Any]
    """What has to be so at the end."""
    unless: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """What has to be so instead after a crash at these places."""
    dangerous: int
    """The place to look at first, in revision B."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place to crash."""

    number: int
    """Changes of the store that were made."""
    last: str | None
    """The last of them; None: there was none."""
    times: int
    """How often that request was made up to here, this time included."""
    following: str | None
    """The next request, which is never made; None: the work is done."""


def places(workflow: Workflow, revision: str = "B") -> Iterator[Place]:
    """All places to crash, in order."""
    stage = begun(workflow, revision)
    yield Place(0, None, 0, _waiting(stage, workflow))
    made: list[str] = []
    number = 0
    while (asked := _waiting(stage, workflow)) is not None:
        before = stage.contents
        stage.play(workflow.worker.name)
        made.append(asked)
        if stage.contents != before:
            number += 1
            yield Place(number, asked, made.count(asked), _waiting(stage, workflow))
    pause = stage.running[workflow.worker.name].pause
    assert isinstance(pause, Ended), pause
    assert pause.failure is None, pause.failure


def begun(workflow: Workflow, revision: str = "B") -> Stage:
    """The workflow's world when its work begins."""
    scenario = plays.staged(plays.find(workflow.play), (workflow.worker, *workflow.rescue))
    stage = Stage(scenario.build(scenarios.setting(revision)))
    while workflow.start is not None and _waiting(stage, workflow) != workflow.start:
        stage.play(workflow.worker.name)
    return stage


def _waiting(stage: Stage, workflow: Workflow) -> str | None:
    request = stage.waiting(workflow.worker.name)
    return None if request is None else f"{operation(request)} {symbolic(request.path)}"


def tell(revision: str = "B") -> Iterator[Example]:
    """All crashes of all workflows."""
    for workflow in WORKFLOWS:
        for place in places(workflow, revision):
            yield example(workflow, place, revision)


def example(workflow: Workflow, place: Place, revision: str = "B") -> Example:
    """The history of a crash at ``place``."""
    worker = workflow.worker.name
    where = "before anything is stored" if place.last is None else f"after {_spoken(place.last)}"
    left = "nothing was left to do" if place.following is None else f"{_spoken(place.following)} would have been next"
    state = {**workflow.state, **workflow.unless.get(place.number, {})}
    title = DANGEROUS if (place.number, revision) == (workflow.dangerous, "B") else "A crash"
    turns = [] if workflow.start is None else [Turn(actor=worker, before=workflow.start)]
    turns += [Turn(actor=worker, after=place.last)] * place.times
    turns.append(
        Turn(
            actor=worker,
            before=place.following,
            says=f"{worker} crashes {where}: {left}",
            state={"ended": {worker: "done" if place.following is None else "has not ended"}},
        )
    )
    turns += [Turn(actor=part.name) for part in workflow.rescue[:-1]]
    turns.append(
        Turn(actor=workflow.rescue[-1].name, says="What was acknowledged is there, and the work is done", state=state)
    )
    return Example(
        path=f"{workflow.area}/crashes/{workflow.name}/{place.number:02d}_{_slug(place.last)}",
        play=workflow.play,
        revision=revision,
        title=f"{title} in {workflow.name.replace('_', ' ')}: {where}",
        description=(
            f"{workflow.what} It crashes {where}, and nobody is told; {left}. {workflow.why}"
            f" {_list(part.name for part in workflow.rescue)} go on from what is stored. The outcome must be that each"
            " acknowledged row is there, and that the work comes to its end."
        ),
        cast=(workflow.worker, *workflow.rescue),
        turns=tuple(turns),
    )


_SPOKEN = {
    "put_if_absent": "creating",
    "put": "writing",
    "delete": "deleting",
    "copy": "copying",
    "rename_if_absent": "renaming",
    "get": "reading",
    "head": "looking for",
    "list": "listing",
    "list_folders": "listing",
}


def _spoken(request: str) -> str:
    verb, _, path = request.partition(" ")
    return f"{_SPOKEN[verb]} {_LONG.sub('*', path)}"


def _slug(request: str | None) -> str:
    """The object of ``request`` as part of a file name, without random parts; what is deleted or renamed says so."""
    if request is None:
        return "before_the_first"
    verb, _, path = request.partition(" ")
    known = _LONG.sub("", path.partition(".")[0])
    words = [] if verb.startswith("put") else [verb.partition("_")[0]]
    return "_".join([*words, *_WORD.findall(known)])


_LONG = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{20,}|[0-9a-f]{8,}(?=_gen_)")
"""What is random in a name, or too long for one."""
_WORD = re.compile(r"[a-z0-9]+")


def _list(names: Iterator[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


_READER = follows("reader", "reader", {"read": None})
_SUCCESSOR = follows("writer-2", "writer", {"flush": None})
_MERGER = follows("merger", "merger", {"merge": None})

WORKFLOWS: tuple[Workflow, ...] = (
    Workflow(
        area="fencing",
        name="first_claim",
        play="worked_examples",
        what="writer-1 claims a region that does not exist yet, and puts a row.",
        why="A region without a hint, or without its first entry, looks neither lost nor new (MANIFEST-031, AMB-07).",
        worker=follows("writer-1", "writer", {"open": None}),
        rescue=(follows("writer-2", "writer", {"rows": {"k": "v"}}, {"flush": None}), _MERGER, _READER),
        state={"reads": {"reader/1": {"k": "v"}}, "base rows": {"k": "v"}, "merged": 1},
        dangerous=1,
    ),
    Workflow(
        area="fencing",
        name="claim",
        play="one_row_in_the_wal",
        what="writer-1 claims a region whose WAL holds an acknowledged row, replays it, and puts its barrier.",
        why="Half a claim may neither hide the row nor keep others out (FENCE-004 to 008, FENCE-015, AMB-24).",
        worker=follows("writer-1", "writer", {"open": None}),
        rescue=(_SUCCESSOR, _MERGER, _READER),
        state={"reads": {"reader/1": {"k": "old"}}, "base rows": {"k": "old"}, "merged": 1},
        dangerous=1,
    ),
    Workflow(
        area="wal",
        name="put",
        play="one_row_in_the_wal",
        what="writer-1 owns a region and puts a row.",
        why="A row that is stored and not acknowledged may appear, whole, and one that is not stored may not (AMB-22).",
        worker=follows("writer-1", "writer", {"open": None}, {"rows": {"l": "new"}}),
        start="put_if_absent wal/@3",
        rescue=(_SUCCESSOR, _MERGER, _READER),
        state={"reads": {"reader/1": {"k": "old", "l": "new"}}, "base rows": {"k": "old", "l": "new"}, "merged": 1},
        unless={0: {"reads": {"reader/1": {"k": "old"}}, "base rows": {"k": "old"}}},
        dangerous=1,
    ),
    Workflow(
        area="flush",
        name="flush",
        play="one_row_in_the_wal",
        what="writer-1 flushes its MemTable: a generation is written, and then listed in the region manifest.",
        why="A half-written folder may not count, and no row be in none or in two generations (FLUSH-013, FLUSH-024).",
        worker=follows("writer-1", "writer", {"rows": {"l": "new"}}, {"flush": None}),
        start="put_if_absent gen/@1/bloom_filter.bin",
        rescue=(_SUCCESSOR, _MERGER, follows("collector", "collector", {"collect": {"retain_versions": 1}}), _READER),
        state={
            "reads": {"reader/1": {"k": "old", "l": "new"}},
            "base rows": {"k": "old", "l": "new"},
            "merged": 1,
            "generation folders": [],
        },
        dangerous=4,
    ),
    Workflow(
        area="merge",
        name="merge",
        play="two_generations",
        what="merger-1 merges two generations, one table version each.",
        why="Rows and progress are in one version: nothing is merged twice or left out (MERGE-006, MERGE-014).",
        worker=follows("merger-1", "merger", {"merge": None}),
        rescue=(follows("merger-2", "merger", {"merge": None}), _READER),
        state={
            "reads": {"reader/1": {"k": "new", "l": "old", "m": "new"}},
            "base rows": {"k": "new", "l": "old", "m": "new"},
            "merged": 2,
        },
        dangerous=3,
    ),
    Workflow(
        area="index",
        name="snapshot",
        play="two_generations",
        what="builder-1 looks at the region, raises its hint, and writes a new snapshot, a file, to the index.",
        why="Readers must see the old snapshot or the new one, and the hint is a hint (SNAP-013 to 024, AMB-76).",
        worker=follows("builder-1", "snapshotter", {"snapshot": None}),
        rescue=(
            follows("builder-2", "snapshotter", {"snapshot": None}),
            follows("reader", "reader", {"read_eventually": None}, {"read": None}),
        ),
        state={
            "reads": {
                "reader/1": {"k": "new", "l": "old", "m": "new"},
                "reader/2": {"k": "new", "l": "old", "m": "new"},
            },
            "snapshot": {"flushed": [1, 2]},
        },
        dangerous=1,
    ),
    Workflow(
        area="index",
        name="catch_up",
        play="merged_beyond_the_index",
        what="builder-1 extends the index of the base table over a merged generation, and records its catch-up.",
        why="No index may be credited with what it does not cover, and a search finds each row (CATCHUP-007 to 012).",
        worker=follows("builder-1", "indexer", {"index": "by_value"}),
        rescue=(
            follows("builder-2", "indexer", {"index": "by_value"}),
            follows("collector", "collector", {"collect": {"retain_versions": 1}}),
            _READER,
        ),
        state={
            "reads": {"reader/1": {"base": "v0", "k": "old", "l": "old"}},
            "catch-up": {"by_value": 1},
            "found by index": {"v0": ["base"], "old": ["k", "l"]},
            "generation folders": [],
        },
        dangerous=3,
    ),
    Workflow(
        area="collect",
        name="collect",
        play="merged_generation",
        what="collector-1 takes a merged generation from the manifest, then its files, WAL entries, and old versions.",
        why="What is listed must be there, and what is left over must go with the next run (GC-001 to 010, AMB-93).",
        worker=follows("collector-1", "collector", {"collect": {"retain_versions": 1}}),
        rescue=(
            follows("collector-2", "collector", {"collect": {"retain_versions": 1}}),
            follows("writer-2", "writer", {"rows": {"n": "newer"}}),
            _READER,
        ),
        state={
            "reads": {"reader/1": {"k": "new", "l": "old", "m": "new", "n": "newer"}},
            "region": {"flushed": [2]},
            "generation folders": ["gen_2"],
        },
        dangerous=7,
    ),
    Workflow(
        area="region",
        name="register",
        play="one_spec",
        what="writer-1 finds no region for its key, registers one, creates it, and puts a row.",
        why="A region that is registered and not created, or the other way round, must not split the key (AMB-52).",
        worker=follows("writer-1", "writer", {"put": "k"}),
        rescue=(follows("writer-2", "writer", {"put": "k"}, {"flush": None}), _READER),
        state={"region values": [{"buckets_1": 0}], "reads": {"reader/1": {"k": "writer-2.1"}}, "specs": [1]},
        dangerous=2,
    ),
    Workflow(
        area="region",
        name="add_spec",
        play="one_drained_region",
        what="operator-1 makes another region spec the active one, which fences the writers of the old one's regions.",
        why="Half a change may neither leave a key in two regions nor stop writers for ever (AMB-54, AMB-142).",
        worker=follows("operator-1", "operator", {"add_spec": 2}),
        rescue=(
            follows("operator-2", "operator", {"add_spec": 2}),
            follows("writer-2", "writer", {"put": "k"}, {"flush": None}),
            _READER,
        ),
        state={"reads": {"reader/1": {"k": "writer-2.1"}}, "specs": [1, 2]},
        unless={7: {"specs": [1, 2, 3]}},
        dangerous=5,
    ),
    Workflow(
        area="table",
        name="drop_column",
        play="one_region",
        what="operator-1 drops a column: it fences all writers, flushes what their WAL holds, and commits.",
        why="No row may be lost that was written with other columns, and nobody may stay held off (AMB-50, AMB-142).",
        worker=follows("operator-1", "operator", {"drop_columns": ["group"]}),
        rescue=(
            follows("operator-2", "operator", {"drop_columns": ["group"]}),
            _READER,
            follows("writer-2", "writer", {"put": "l"}, {"flush": None}, {"merge": None}, {"read": None}),
        ),
        state={
            "columns": ["id", "part", "value"],
            "reads": {"reader/1": {"k": "writer-0.1"}, "writer-2/1": {"k": "writer-0.1", "l": "writer-2.1"}},
            "base rows": {"k": "writer-0.1", "l": "writer-2.1"},
        },
        dangerous=13,
    ),
    *(
        Workflow(
            area="table",
            name=f"commit_by_{name}",
            play=f"commits_by_{name}",
            what=f"committer-1 appends a row to a table whose versions are created by {words}.",
            why=f"The commit is there as a whole or not at all, and the next one goes on from it ({clauses}).",
            worker=follows("committer-1", "writer", {"append": {"k1": "v1"}}),
            rescue=(
                follows("committer-2", "writer", {"append": {"k2": "v2"}}),
                follows("reader", "reader", {"read": None}),
            ),
            state={"reads": {"reader/1": {"k1": "v1", "k2": "v2"}}},
            unless={number: {"reads": {"reader/1": {"k2": "v2"}}} for number in range(committed)},
            dangerous=dangerous,
        )
        for name, words, clauses, committed, dangerous in (
            ("put", "put-if-not-exists", "TXN-002 to 006", 3, 2),
            ("rename", "a rename to a name that must not exist", "TXN-002 to 007", 4, 3),
            ("external", "an external manifest store", "EXT-001 to 011", 4, 4),
        )
    ),
    Workflow(
        area="wal",
        name="repair",
        play="half_an_entry",
        what="operator-1 repairs a WAL that ends in half an entry: it is moved aside for an empty one.",
        why="Its bytes must be kept somewhere, and nothing behind the replay pointer may be passed over (AMB-15).",
        worker=follows("operator-1", "operator", {"repair": None}),
        rescue=(follows("operator-2", "operator", {"repair": None}), _SUCCESSOR, _READER),
        state={"reads": {"reader/1": {"k": "old"}}, "generations": {"1": {"k": "old"}}},
        dangerous=4,
    ),
)  # fmt: skip
