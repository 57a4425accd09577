"""Lives: short programs of one to three actors, as data (``conformance/lives.toml``) and from Hypothesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from memwal.errors import InvalidArgument, check_name
from memwal_sim import data
from memwal_sim.data import DataTable

from ..places import SUITE
from ..protocol import Hello

FILE = SUITE / "lives.toml"
ACTORS_MOST = 3
TEXT_REGIONS = 2
"""Of a table whose regions are buckets of text."""


class Verb(StrEnum):
    """What an actor does in one operation."""

    OPEN = "open"
    PUT = "put"
    AGAIN = "again"
    REPLACE = "replace"
    TWICE = "twice"
    GROUP = "group"
    LATE = "late"
    FINISH = "finish"
    DONE = "done"
    DELETE = "delete"
    FILL = "fill"
    FLUSH = "flush"
    CLOSE = "close"
    SCAN = "scan"
    ASK = "ask"
    MERGE = "merge"
    INDEX = "index"
    COLLECT = "collect"
    SNAPSHOT = "snapshot"
    BASE = "base"
    UPDATE = "update"
    REMOVE = "remove"
    COMPACT = "compact"


WRITES = (Verb.PUT, Verb.AGAIN, Verb.REPLACE, Verb.TWICE, Verb.GROUP, Verb.DELETE, Verb.FILL)
WITH_WRITER = (*WRITES, Verb.LATE, Verb.FINISH, Verb.FLUSH)
"""Those that need a writer, and open the region where there is none."""
READS = (Verb.SCAN, Verb.ASK)
BASE_WRITES = (Verb.BASE, Verb.UPDATE, Verb.REMOVE)
"""Those of a user who knows nothing of MemWAL."""
SENT: Mapping[Verb, tuple[str, ...]] = {
    Verb.OPEN: ("writer.open",),
    Verb.PUT: ("writer.put",),
    Verb.AGAIN: ("writer.put",),
    Verb.REPLACE: ("writer.put",),
    Verb.TWICE: ("writer.put",),
    Verb.GROUP: ("writer.put",),
    Verb.LATE: ("sequence.put",),
    Verb.FINISH: ("task.finish",),
    Verb.DONE: ("task.done",),
    Verb.DELETE: ("writer.delete",),
    Verb.FILL: ("writer.put",),
    Verb.FLUSH: ("writer.flush_memtable",),
    Verb.CLOSE: ("writer.close",),
    Verb.SCAN: ("reader.open", "reader.scan"),
    Verb.ASK: ("reader.open", "reader.scan"),
    Verb.MERGE: ("merge.run",),
    Verb.INDEX: ("catchup.run",),
    Verb.COLLECT: ("gc.run",),
    Verb.SNAPSHOT: ("snapshot.run",),
    Verb.BASE: ("base.write",),
    Verb.UPDATE: ("base.write",),
    Verb.REMOVE: ("base.write",),
    Verb.COMPACT: ("base.write",),
}
"""Messages of the adapter that an operation needs."""
SEQUENCED = {"writer.open": "sequence.open", "writer.put": "sequence.put"}
"""Messages in place of others, where a column orders the rows."""
ORDERED = {Verb.OPEN, Verb.PUT, Verb.AGAIN, Verb.LATE, Verb.FINISH, Verb.DONE, Verb.FLUSH, Verb.CLOSE, Verb.SCAN}
ORDERED |= {Verb.MERGE, Verb.COLLECT}
"""What is done to a table whose rows a column orders."""
KEYLESS = {Verb.OPEN, Verb.PUT, Verb.FILL, Verb.FLUSH, Verb.CLOSE, Verb.COLLECT, Verb.SNAPSHOT}
"""What is done to a table without keys, too."""


@dataclass(frozen=True, slots=True)
class LifeStep:
    """One operation of an actor."""

    actor: str
    verb: Verb
    region: int = 1

    def __str__(self) -> str:
        return f"{self.actor} {self.verb}" + (f" {self.region}" if self.region > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLife:
    """A program, and the table that it runs on."""

    name: str
    about: str
    steps: tuple[LifeStep, ...]
    """In the order in which they run when nothing interferes."""
    append_only: bool = False
    new_region: bool = False
    """The first claim of a region makes it; otherwise it is there, with one claim and nothing else."""
    memtable_rows: int | None = None
    """Limit of the MemTable, for writers and for the one that recovers."""
    regions: int = 1
    """More than one: the table has so many buckets of its key, each a region."""
    indexed: bool = False
    """The table has vectors, and indexes of each column."""
    sequenced: bool = False
    """The table has a column by which its rows are ordered, and late ones are left out."""
    by_text: bool = False
    """The table has a text column, and its regions are buckets of that, and of that and the key."""
    textless: bool = False
    """The text is no part of the key, and no row of the second region has one."""

    @property
    def actors(self) -> tuple[str, ...]:
        """Their names, in order of appearance."""
        return tuple(dict.fromkeys(step.actor for step in self.steps))

    def of(self, actor: str) -> tuple[int, ...]:
        """Indices of an actor's operations."""
        return tuple(number for number, step in enumerate(self.steps) if step.actor == actor)

    def without(self, number: int) -> ForeignLife:
        """The life without its ``number``-th operation."""
        return replace(self, steps=(*self.steps[:number], *self.steps[number + 1 :]))

    def missing(self, hello: Hello, revision: str = "") -> list[str]:
        """What it needs and an implementation does not answer, or a revision does not have."""
        verbs = {step.verb for step in self.steps}
        verbs |= {Verb.OPEN} if verbs & set(WITH_WRITER) else set()
        sent = {message for verb in verbs for message in SENT[verb]}
        needed = {SEQUENCED.get(each, each) if self.sequenced else each for each in sent}
        needed |= {"table.create", "writer.close"}
        if self.new_region and self.regions == 1 and "writer.open new_region_id" in hello.without:
            needed.add("writer.open new_region_id")
        needed |= {name for name, wanted in self._of_tables().items() if wanted and name in hello.without}
        claimed = {name for name in needed if name in _MESSAGES_OF_LIVES and hello.answers(name)}
        storage = [] if "s3" in hello.capabilities else ["s3"]
        of_revision = ["buckets of text as in the revisions A and B"] if self.by_text and revision == "R" else []
        return sorted(needed - claimed) + storage + of_revision

    def _of_tables(self) -> dict[str, bool]:
        """What its table needs of the messages that make and open it -> whether it does."""
        several = self.regions > 1
        return {
            "table.create region_fields": several,
            "writer.open values": several,
            "table.create indexes": self.indexed,
        }

    def to_json(self) -> dict[str, object]:
        """As a finding keeps it."""
        found: dict[str, object] = {"name": self.name, "about": self.about, "steps": written(self.steps)}
        options = {"append_only": self.append_only, "new_region": self.new_region, "memtable_rows": self.memtable_rows}
        options |= {"regions": self.regions if self.regions > 1 else None, "indexed": self.indexed}
        options |= {"sequenced": self.sequenced, "by_text": self.by_text, "textless": self.textless}
        return found | {name: value for name, value in options.items() if value}


_MESSAGES_OF_LIVES = {"table.create", *SEQUENCED.values()}
_MESSAGES_OF_LIVES |= {message for messages in SENT.values() for message in messages}


def written(steps: Sequence[LifeStep]) -> str:
    """A program as text."""
    return ", ".join(map(str, steps))


def steps_of(text: str, where: str) -> tuple[LifeStep, ...]:
    """A program from its text. Raises `InvalidArgument` that begins with ``where``."""
    found = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        actor, verb, region, *more = [*each.split(), "", ""]
        region = region or "1"
        if not actor.isidentifier() or not verb or any(more) or region not in "123456789":
            examples = "write an actor and what it does, such as 'w put', and the region if there are several"
            raise InvalidArgument(f"{where}: {each!r} is not an operation: {examples}")
        try:
            check_name("operation", verb, list(Verb))
        except InvalidArgument as error:
            raise InvalidArgument(f"{where}: {error}") from None
        found.append(LifeStep(actor, Verb(verb), int(region)))
    actors = {step.actor for step in found}
    if not 1 <= len(actors) <= ACTORS_MOST:
        raise InvalidArgument(f"{where}: a life has one to {ACTORS_MOST} actors, this one has {len(actors)}")
    return tuple(found)


def load(file: Path = FILE) -> dict[str, ForeignLife]:
    """Name -> life, of a file. Raises `InvalidArgument`."""
    found = data.load(file)
    return {name: _life(name, found.table(name)) for name in found.fields}


def _life(name: str, table: DataTable) -> ForeignLife:
    rows = table.maybe("memtable_rows", int)
    life = ForeignLife(
        name=name,
        about=table.exact("about"),
        steps=steps_of(table.exact("steps"), table.where),
        append_only=table.take("append_only", bool, default=False),
        new_region=table.take("new_region", bool, default=False),
        memtable_rows=rows,
        regions=table.take("regions", int, default=1),
        indexed=table.take("indexed", bool, default=False),
        sequenced=table.take("sequenced", bool, default=False),
        by_text=table.take("by_text", bool, default=False),
        textless=table.take("textless", bool, default=False),
    )
    table.close()
    if wrong := _wrong(life):
        raise table.wrong(wrong)
    return life


def drawn(count: int, seed: int) -> tuple[ForeignLife, ...]:
    """``count`` lives that Hypothesis makes up from ``seed``; raises `InvalidArgument` where it is not installed."""
    try:
        import hypothesis
        from hypothesis import strategies as some
    except ImportError as error:
        raise InvalidArgument("drawing lives needs Hypothesis: pip install 'memwal[machines]'") from error
    verbs = some.sampled_from([Verb.PUT, Verb.AGAIN, Verb.FLUSH, Verb.CLOSE, Verb.OPEN, Verb.FILL, Verb.SCAN])
    actors = some.sampled_from(["a", "a", "b"])
    found: list[ForeignLife] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(some.lists(some.builds(LifeStep, actors, verbs), min_size=4, max_size=9))
    def draw(steps: list[LifeStep]) -> None:
        about = f"Drawn by Hypothesis from the seed {seed}."
        life = ForeignLife(name=f"drawn_{seed}_{len(found) + 1}", about=about, steps=tuple(steps), memtable_rows=3)
        found.append(life)

    draw()
    return tuple(found[:count])


def _wrong(life: ForeignLife) -> str:
    verbs = {step.verb for step in life.steps}
    if life.append_only and verbs - KEYLESS:
        return f"an append-only table has no keys for {', '.join(sorted(verbs - KEYLESS))}"
    if life.sequenced and verbs - ORDERED:
        return f"a table with sequences has no {', '.join(sorted(verbs - ORDERED))} here"
    if not life.sequenced and verbs & {Verb.LATE, Verb.FINISH}:
        return "late and finish need a table with sequences: sequenced = true"
    if life.by_text and life.regions != TEXT_REGIONS:
        return f"a table with regions by text has {TEXT_REGIONS} of them"
    if life.textless and not life.by_text:
        return "textless needs regions by text: by_text = true"
    if life.sequenced and life.regions > 1:
        return "a table with sequences has one region here"
    if (most := max(step.region for step in life.steps)) > life.regions:
        return f"there is no region {most}: regions is {life.regions}"
    if life.regions > 1 and life.append_only:
        return "a table of several regions is not append_only"
    if Verb.FILL in verbs and life.memtable_rows is None:
        return "fill needs memtable_rows"
    return ""
