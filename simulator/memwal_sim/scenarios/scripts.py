"""Scripts: what processes do, as data. A step is one word of a table and its argument, a JSON value.

``[{"rows": {"k": "v1"}}, "flush"]`` writes a row and flushes; a word that takes no argument may stand alone. What a
word does is made from its argument when the process starts. Scenarios, workloads, examples and recorded faults have
the same words; a table of another kind has a few of its own on top of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from memwal.effects import Protocol
from memwal.errors import InvalidArgument, check_name
from memwal.jobs.collector import Policy
from memwal.region.limits import Limits
from memwal.revisions import Revision

from ..process import Process
from . import actors
from .actors import EAGER, Action, Workplace

Entry: TypeAlias = str | Mapping[str, Any]
"""A step as it is written: a word, or one word and its argument."""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One thing that a process does."""

    word: str
    argument: Any = None
    """JSON value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a word does its work with."""

    argument: Any
    """JSON value."""
    value: str
    """For rows to which the script gives none: named after process and step, so that each is written once."""
    revision: Revision
    words: Words
    """Those of the script, for steps within a step."""


Words: TypeAlias = Mapping[str, Callable[[Given], Action]]
"""What a script may say, and what is done then."""


def steps(script: Iterable[Entry], words: Words) -> tuple[ScriptStep, ...]:
    """The steps of ``script``; raises `InvalidArgument` for an entry that is none, and for an unknown word."""
    return tuple(_step(entry, words) for entry in script)


def written(entry: Entry) -> Mapping[str, Any]:
    """A step as traces have it: a word and its argument, which is null if there is none."""
    return {entry: None} if isinstance(entry, str) else entry


def _step(entry: Entry, words: Words) -> ScriptStep:
    told = written(entry)
    if not isinstance(told, Mapping) or len(told) != 1:
        raise InvalidArgument(f"a step of a script must be one word, or one word with an argument, not {entry!r}")
    ((word, argument),) = told.items()
    check_name("word of a script", word, words)
    return ScriptStep(word, argument)


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How a process starts that follows a script."""

    place: Workplace
    name: str
    words: Words
    first: Sequence[ScriptStep] = ()
    """What it does before the script."""
    script: Sequence[ScriptStep]
    insists: bool = False
    """It continues with the next step where one fails, as a client may."""

    def __call__(self) -> Protocol[None]:
        """The protocol, from the beginning."""
        made = [self._made(0, step) for step in self.first]
        made += (self._made(number, step) for number, step in enumerate(self.script, 1))
        return actors.act(self.place, self.name, tuple(made), insists=self.insists)

    def _made(self, number: int, step: ScriptStep) -> Action:
        return action(step, f"{self.name}.{number}", self.place.region.revision, self.words)


def action(step: ScriptStep, value: str, revision: Revision, words: Words) -> Action:
    """What is done for ``step``; see `Given` for the others."""
    return words[step.word](Given(argument=step.argument, value=value, revision=revision, words=words))


def _put(given: Given) -> Action:
    """Argument: keys, which get the step's value in one write."""
    return actors.put(dict.fromkeys(given.argument, given.value))


def _delete(given: Given) -> Action:
    """Argument: keys. Where the revision has no deletes (A, B) they are put, with the values that a mapping names."""
    if given.revision.tombstones:
        return _tombstone(given)
    return actors.put(given.argument) if isinstance(given.argument, Mapping) else _put(given)


def _tombstone(given: Given) -> Action:
    """Argument: keys. Refused where the revision has no deletes (A, B)."""
    return actors.put(dict.fromkeys(given.argument))


def _open(given: Given) -> Action:
    """Argument: null, or ``limits``, fields of `Limits`; ``unlimited``, those that do not count; ``background``."""
    if given.argument is None:
        return actors.opened
    told: dict[str, Any] = {**given.argument.get("limits", {}), **dict.fromkeys(given.argument.get("unlimited", ()))}
    limits = Limits(**told)
    return actors.opened_with(limits, background=given.argument.get("background", False))


def policy(argument: Mapping[str, Any] | None) -> Policy:
    """What ``collect`` is told: null for `EAGER`, or fields of `Policy` on top of few region manifests."""
    return EAGER if argument is None else Policy(**{"retain_manifests": 2, **argument})


def _together(given: Given) -> Action:
    """Argument: scripts, which are followed at once, each by a coroutine of its own."""
    return actors.together(
        *(
            [action(step, given.value, given.revision, given.words) for step in steps(branch, given.words)]
            for branch in given.argument
        )
    )


WORDS: Words = {
    "open": _open,
    "rows": lambda given: actors.put(given.argument),
    "put": _put,
    "buffered": lambda given: actors.put(given.argument, durable=False),
    "delete": _delete,
    "tombstone": _tombstone,
    "stored": lambda _: actors.stored,
    "close": lambda _: actors.closed,
    "flush": lambda _: actors.flush,
    "freeze": lambda _: actors.freeze,
    "flush_frozen": lambda _: actors.flush_frozen,
    "merge": lambda _: actors.merge,
    "snapshot": lambda _: actors.snapshot,
    "index": lambda given: actors.index(given.argument),
    "collect": lambda given: actors.collect(policy(given.argument)),
    "restore": lambda given: actors.restore(given.argument),
    "tag": lambda _: actors.tag,
    "lose_hint": lambda _: actors.lose_hint,
    "delete_from_base": lambda given: actors.delete_from_base(given.argument),
    "read": lambda _: actors.read,
    "read_with_memory": lambda _: actors.read_with_memory,
    "read_eventually": lambda _: actors.read_eventually,
    "read_again": lambda _: actors.read_again,
    "read_while_retained": lambda _: actors.read_while_retained,
    "together": _together,
}
"""What a client of one region may do. ``rows`` and ``buffered`` write key -> value, and only the first durably."""


def process(place: Workplace, name: str, *script: Entry, words: Words = WORDS, insists: bool = False) -> Process:
    """A process called ``name`` that follows ``script``; see `Following`. Raises `InvalidArgument` as `steps` does."""
    return Process(name, Following(place=place, name=name, words=words, script=steps(script, words), insists=insists))
