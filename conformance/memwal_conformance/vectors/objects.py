"""Vectors about one object or one function: names, hashes, filters, and bytes that are decoded or encoded."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from memwal_conformance import cells
from memwal_conformance.judge import artifacts, bloom, legacy, wal
from memwal_conformance.judge.store import LAYOUTS
from memwal_conformance.judge.wire import DamagedBytes
from memwal_conformance.protocol import AdapterError, Json

from .case import BadCase, Vector
from .comparing import difference, not_refused, refusal, refused_as, short

Call = Callable[[str, Json], Json]
PATHLESS = ("index_details", "legacy")
"""Kinds of objects that have no file of their own."""


def asked_of(vector: Vector) -> list[Json]:
    """The questions of an eval case."""
    asked: list[Json] = json.loads((vector.folder / "input" / "questions.json").read_text("utf-8"))
    return asked


def evaluate(vector: Vector, call: Call) -> str | None:
    """Ask every question and compare the answers."""
    asked, kinds = asked_of(vector), refusal(vector.expected)
    try:
        answers = [call(f"eval.{vector.kind}", question) for question in asked]
    except AdapterError as error:
        if not kinds:
            raise
        return refused_as(error, kinds)
    if kinds:
        return not_refused(answers, kinds)
    if vector.compare == "all_equal":
        different = [i for i, answer in enumerate(answers) if answer != answers[0]]
        if not different:
            return None
        one, other = (f"{short(asked[i])} gives {short(answers[i])}" for i in (0, different[0]))
        return f"{one}, {other}"
    if len(answers) != len(vector.expected):
        raise BadCase(f"{vector.folder}: {len(asked)} questions, {len(vector.expected)} answers")
    for question, answer, expected in zip(asked, answers, vector.expected, strict=True):
        if not COMPARISONS[vector.compare](answer, expected):
            return f"{short(question)} gives {short(answer)}, expected {short(expected)}"
    return None


def _equal(answer: Json, expected: Json) -> bool:
    return difference(expected, answer) is None and difference(answer, expected) is None


def _stem(answer: Json, expected: Json) -> bool:
    return bool(answer["name"].partition(".")[0] == expected["name"].partition(".")[0])


def _below(answer: Json, expected: Json) -> bool:
    bound = int(expected["values"][0][0]["v"])
    return all(cell["v"] is None or 0 <= int(cell["v"]) < bound for row in answer["values"] for cell in row)


def _nulls(answer: Json, expected: Json) -> bool:
    if "hash" in expected:
        return (answer.get("hash") is None) == (expected["hash"] is None)
    ours, theirs = ([[cell["v"] is None for cell in row] for row in each["values"]] for each in (expected, answer))
    return ours == theirs


COMPARISONS: dict[str, Callable[[Json, Json], bool]] = {
    "equal": _equal,
    "stem": _stem,
    "below": _below,
    "nulls": _nulls,
    "answered": lambda answer, expected: set(expected) <= set(answer),
}
"""How one answer is held against the expected one (``all_equal`` compares answers with each other)."""


def decode(vector: Vector, call: Call) -> str | None:
    """Have the one file of ``input/`` decoded."""
    files = [p for p in sorted((vector.folder / "input").rglob("*")) if p.is_file()]
    if len(files) != 1:
        raise BadCase(f"{vector.folder}: input/ holds {len(files)} files instead of one")
    data = base64.b64encode(files[0].read_bytes()).decode()
    params: Json = {"data": data} if vector.kind == "legacy" else {"kind": vector.kind, "data": data}
    if vector.kind not in PATHLESS:
        params["path"] = files[0].relative_to(vector.folder / "input").as_posix()
    kinds = refusal(vector.expected)
    try:
        answer = call("eval.legacy" if vector.kind == "legacy" else "eval.decode", params)
    except AdapterError as error:
        if not kinds:
            raise
        return refused_as(error, kinds)
    return not_refused(answer, kinds) if kinds else difference(vector.expected, answer)


def encode(vector: Vector, call: Call) -> str | None:
    """Have the expected object encoded, and decode what was written."""
    if vector.kind == "bloom":
        return _filter(vector, call)
    data = base64.b64decode(written(vector, call))
    try:
        found = DECODERS[vector.kind](data, vector)
    except DamagedBytes as error:
        return f"what was written does not decode: {error}"
    return difference(vector.expected, found)


def written(vector: Vector, call: Call) -> str:
    """What the implementation writes for the expected object, as base64."""
    if vector.kind == "bloom":
        (asked,) = asked_of(vector)
        return str(call("eval.bloom", asked)["data"])
    return str(call("eval.legacy" if vector.kind == "legacy" else "eval.encode", vector.expected)["data"])


def _filter(vector: Vector, call: Call) -> str | None:
    data = written(vector, call)
    present, others = vector.expected["present"], vector.expected["others"]
    denied = call("eval.bloom", {"data": data, "keys": present})["perhaps"].count(False)
    if denied:
        return f"the filter denies {denied} of the {len(present['rows'])} keys that it was built from"
    if all(call("eval.bloom", {"data": data, "keys": others})["perhaps"]):
        return f"the filter denies none of {len(others['rows'])} other keys"
    if vector.revision != "R":
        return None
    try:
        missing = bloom.denied(base64.b64decode(data), [int(row[0]["v"]) for row in present["rows"]])
    except DamagedBytes as error:
        return f"what was written is no filter of revision R: {error}"
    return f"the judge finds no bits of the keys {missing}" if missing else None


def _manifest_view(data: bytes, _: Vector) -> Json:
    return {"manifest": artifacts.manifest(data).view()}


def _hint_view(data: bytes, _: Vector) -> Json:
    return {"hint": {"version": str(artifacts.hint(data))}}


def _details_view(data: bytes, _: Vector) -> Json:
    return {"index_details": artifacts.index_details(data).view()}


def _legacy_view(data: bytes, _: Vector) -> Json:
    return {"records": legacy.records(data)}


def _wal_view(data: bytes, vector: Vector) -> Json:
    entry = wal.decode(data, LAYOUTS[vector.revision].container)
    if entry.forms and vector.compare != "readable":
        raise DamagedBytes(entry.forms[0][0])
    view: Json = {"writer_epoch": str(entry.epoch), "rows": cells.to_rows(entry.rows)}
    if entry.generation is not None:
        view["generation"] = str(entry.generation)
    return {"wal": view}


DECODERS: dict[str, Callable[[bytes, Vector], Json]] = {
    "manifest": _manifest_view,
    "hint": _hint_view,
    "index_details": _details_view,
    "legacy": _legacy_view,
    "wal": _wal_view,
}
"""Kind -> the judge's own view of bytes that an implementation wrote."""

DIRECTIONS: dict[str, Callable[[Vector, Call], Any]] = {"eval": evaluate, "decode": decode, "encode": encode}
"""Direction -> how it is asked; gives what is wrong, or None."""
