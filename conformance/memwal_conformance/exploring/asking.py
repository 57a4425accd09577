"""A reader that asks a table in every way: lookups, filters, limits, columns and searches, beside a scan of all of it.

What a scan finds says what every other question has to find: a newer row hides older ones of its key whatever is
asked. The table is scanned once more at the end; where both scans differ, something was written in between, and nothing
is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import cells
from ..judge import table
from ..protocol import AdapterError, Hello, Json
from .lives import WITH_WRITER, WRITES, ForeignLife, Verb
from .tables import FIRST_VALUE, keys_sent

Row = dict[str, Any]
Call = Callable[[str, Json], Json]
"""Sends a message about a reader, with its parameters, and gives the answer."""
ABSENT = -1
"""A key that no life has."""
READS = ("READ-001", "READ-002")
"""An answer merges all sources, and has the newest version of each key."""
RANKED = ("PLAN-023", "PLAN-024")
"""Text is scored by statistics of all sources, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongAnswer:
    """An answer that does not fit what a scan of the same table found."""

    words: str
    """What was asked, without keys and values."""
    detail: str
    clauses: tuple[str, ...]
    oracle: str = "answer"
    """Or ``error``: it is one that was not due there."""
    note: str | None = None
    """The note of SPEC_NOTES by which the texts leave it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeQuestion:
    """One way to ask."""

    words: str
    message: str
    asked: Json
    right: Callable[[list[Row]], bool]
    """Whether an answer fits."""
    open: Callable[[list[Row]], bool] = lambda _: False
    """Whether the texts leave it open that an answer does not: by `FEWER`."""
    clauses: tuple[str, ...] = READS


FEWER = "AMB-107"
"""The note about fewer than k results: a search that drops older rows of a key last may give them."""
NOT_DUE = ("corrupt", "already_exists", "invalid_argument")
"""Kinds of errors that tell a writer of what is not so: nothing is damaged, and each write is a right and new one."""


def not_due(verb: Verb, error: AdapterError) -> list[WrongAnswer]:
    """What is wrong with an error in which an operation of a life ended: deletes may be refused, for one."""
    refused = error.kind == "invalid_argument" and (verb is Verb.DELETE or verb not in WRITES)
    writes = verb in (*WITH_WRITER, Verb.CLOSE) or error.kind == "corrupt"
    if error.kind not in NOT_DUE or refused or not writes:
        return []
    words = f"{verb} ends in an error that is not due there: {error.kind}"
    return [WrongAnswer(words=words, detail=f"{words}: {error}", clauses=(), oracle="error")]


def claimed(opened: Json, region_id: str, epochs: set[str]) -> list[WrongAnswer]:
    """What is wrong with the answer of a claim of a region, whose earlier ones were told ``epochs``; one is added."""
    wrong = []
    if opened["region_id"] != region_id:
        words = "an open by the value of a region got another region"
        detail = f"{words}: {opened['region_id']}, not {region_id}"
        wrong.append(WrongAnswer(words=words, detail=detail, clauses=("REGION-002",)))
    elif (epoch := opened.get("epoch")) in epochs:
        words = "two claims of a region have one epoch"
        wrong.append(WrongAnswer(words=words, detail=f"{words}: {epoch}", clauses=("FENCE-008",)))
    epochs |= {opened["epoch"]} if "epoch" in opened else set()
    return wrong


def counted_late(put: Json, late: int) -> list[WrongAnswer]:
    """What is wrong with the answer of a put, so many of whose rows are late."""
    if int(put["late"]) == late:
        return []
    words = "late rows are not left out" if late else "rows that are not late are left out"
    return [WrongAnswer(words=words, detail=f"{words}: {put['late']} of them, and not {late}", clauses=())]


def asked(
    call: Call,
    hello: Hello,
    life: ForeignLife,
    keys: Collection[int],
    values: Counter[str],
    own: Json,
    revision: str,
) -> list[WrongAnswer]:
    """Ask a reader everything about these keys and values, of which some are no longer there.

    ``values``: each with how many rows were written with it. ``own``: the writers that the reader takes part in. Where
    searches take none, they have to find what a scan finds without. Under R a vector search finds any rows that are
    there, and not the nearest ones; under A a text search ranks the rows of all sources alike.
    """
    exact = revision != "R"
    search_own = {} if "reader.search writers" in hello.without else own
    views = {"reader.search": search_own}
    seen = _rows(call("reader.scan", own))
    found = seen if search_own == own or not life.indexed else _rows(call("reader.scan", search_own))
    questions = [*_questions(seen, sorted(keys), _chosen(seen, values))]
    if life.indexed:
        every = len(keys) * len(values) + 1
        questions += _searches(found, _chosen(found, values), every, exact=exact)
        questions += _by_rarity(found, values) if revision == "A" else ()
        if hidden := _hidden(found, values):
            gone: Json = {"column": "v", "text": " ".join(hidden), "k": len(found) + 1}
            questions.append(_search("a text search for what is hidden", gone, [], 0))
    wrong = []
    for question in questions:
        params = question.asked | views.get(question.message, own)
        needed = [f"{question.message} {name}" for name in params]
        if not hello.answers(question.message) or set(needed) & set(hello.without):
            continue
        answer = _rows(call(question.message, params))
        if not question.right(answer) and question.open(answer):
            words = f"{question.words} finds fewer rows than it is asked for"
            wrong.append(WrongAnswer(words=words, detail=f"{words}: {answer}", clauses=("PLAN-021",), note=FEWER))
        elif not question.right(answer):
            words = f"{question.words} does not find what a scan finds"
            beside = found if question.message in views else seen
            detail = f"{words}: asked {question.asked}, it found {answer}, and the scan {beside}"
            wrong.append(WrongAnswer(words=words, detail=detail, clauses=question.clauses))
    return wrong if wrong and _same(_rows(call("reader.scan", own)), seen) else []


def _chosen(seen: list[Row], values: Collection[str]) -> list[str]:
    """The value that most rows have, that of rows that a table begins with, and of those that are hidden the last."""
    (most, _), *_ = Counter(row["v"] for row in seen).most_common(1) or [(FIRST_VALUE, 0)]
    return list(dict.fromkeys([most, FIRST_VALUE, *_hidden(seen, values)[-1:]]))


def _hidden(seen: list[Row], values: Collection[str]) -> list[str]:
    """Values that no row has any more."""
    return sorted(set(values) - {row["v"] for row in seen})


def _questions(seen: list[Row], keys: Sequence[int], values: Sequence[str]) -> Iterator[LifeQuestion]:
    yield LifeQuestion(
        words="a lookup of all keys",
        message="reader.get",
        asked={"keys": keys_sent([*keys, ABSENT])},
        right=lambda found: _same(found, [row for row in seen if row["id"] in keys]),
    )
    for value in values:
        here = [row for row in seen if row["v"] == value]
        filtered: Json = {"filter": [{"column": "v", "op": "=", "value": cells.cell("utf8", value)}]}
        yield _scan("a filter by value", filtered, here, len(here))
        if here:
            yield _scan("a filter by value with a limit", filtered | {"limit": 1}, here, 1)
    for key in keys[:1]:
        here = [row for row in seen if row["id"] >= key]
        filtered = {"filter": [{"column": "id", "op": ">=", "value": cells.cell("int64", key)}]}
        yield _scan("a filter by key", filtered, here, len(here))
    for limit in sorted({1, max(1, len(seen) - 1)}):
        yield _scan("a limit", {"limit": limit}, seen, limit)
    yield LifeQuestion(
        words="one column",
        message="reader.scan",
        asked={"columns": ["v"]},
        right=lambda found: sorted(str(row["v"]) for row in found) == sorted(str(row["v"]) for row in seen),
    )


def _scan(words: str, asked: Json, rows: list[Row], limit: int) -> LifeQuestion:
    return LifeQuestion(words=f"a scan with {words}", message="reader.scan", asked=asked, right=_some_of(rows, limit))


def _searches(seen: list[Row], values: Sequence[str], every: int, *, exact: bool) -> Iterator[LifeQuestion]:
    """``exact``: a vector search finds the nearest ones. Otherwise an index may be approximate, and it finds some.

    ``every``: more rows than there are versions of all keys. Asked for so many, a search has no older ones that could
    take the place of those that count.
    """
    near = sorted((row for row in seen if row["vec"] is not None), key=lambda row: row["vec"][0])
    origin: Json = {"column": "vec", "vector": ["0.0", "0.0"]}
    for k in sorted({2, max(1, len(near) - 1), every}):
        found = near if not exact else near[:k]
        whole = _search("a vector search", origin | {"k": k}, found, k)
        yield replace(whole, open=_fewer(found)) if k < every else whole
    for value in values:
        here = [row for row in seen if row["v"] == value]
        only: Json = {"filter": [{"column": "v", "op": "=", "value": cells.cell("utf8", value)}]}
        mine = [row for row in near if row["v"] == value]
        for k in (2, every):
            nearest = mine if not exact else mine[:k]
            filtered = _search("a filtered vector search", origin | only | {"k": k}, nearest, k)
            yield replace(filtered, open=_fewer(nearest)) if k < every else filtered
        yield _search("a text search", {"column": "v", "text": value, "k": len(seen) + 1}, here, len(here))


def _by_rarity(seen: list[Row], values: Counter[str]) -> Iterator[LifeQuestion]:
    """A text search for two words: rows of the one that fewer of all rows have come first.

    Each row is one word, so that nothing else counts. Rows that newer ones hide may count (AMB-110, global BM25): it is
    asked of a word that was written less often than rows still have the other one.
    """
    here = Counter(row["v"] for row in seen)
    common = max(here, key=here.__getitem__, default="")
    rarer = [row["v"] for row in seen if values[row["v"]] < here[common]]
    if rarer:
        rare = rarer[-1]
        yield LifeQuestion(
            words="a text search for two words, the rarer first,",
            message="reader.search",
            asked={"column": "v", "text": f"{common} {rare}", "k": here[common] + here[rare]},
            right=lambda found: [row["v"] for row in found] == [rare] * here[rare] + [common] * here[common],
            clauses=RANKED,
        )


def _search(words: str, asked: Json, rows: list[Row], most: int) -> LifeQuestion:
    return LifeQuestion(words=words, message="reader.search", asked=asked, right=_some_of(rows, most))


def _some_of(rows: list[Row], most: int) -> Callable[[list[Row]], bool]:
    """Whether an answer has so many of these rows, or all if they are fewer, and each once."""

    def right(found: list[Row]) -> bool:
        return len(found) == min(most, len(rows)) and all(row in rows for row in found) and _distinct(found)

    return right


def _fewer(rows: list[Row]) -> Callable[[list[Row]], bool]:
    """Whether an answer has nothing but these rows, and each once, though not so many as there are."""
    return lambda found: len(found) < len(rows) and all(row in rows for row in found) and _distinct(found)


def _rows(answer: Json) -> list[Row]:
    return table.plain(cells.to_table(answer["rows"]))


def _same(one: list[Row], other: list[Row]) -> bool:
    return len(one) == len(other) and all(row in other for row in one) and _distinct(one)


def _distinct(rows: list[Row]) -> bool:
    return len({row["id"] for row in rows}) == len(rows)
