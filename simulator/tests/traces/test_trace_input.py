"""Files that are no traces, or nearly are: each is refused with its line, and none ends in a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema_rs import Draft202012Validator
from memwal.errors import ArtifactError
from memwal_sim import places
from memwal_sim.cli import commands
from memwal_sim.traces.references import resolved
from memwal_sim.traces.trace import LINE_BYTES_MAX, Trace, dumps, load, parse
from typer.testing import CliRunner

FIXTURES = Path(__file__).parents[1] / "fixtures" / "traces"
RECORDED = FIXTURES / "format_1.jsonl"
FULL = FIXTURES / "format_3_every_field.jsonl"
SCHEMA = json.loads((places.faults() / "schema" / "trace.schema.json").read_text("utf-8"))


def line(number: int, file: Path = FULL) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text("utf-8").splitlines()[number - 1])
    return found


def with_line(number: int, text: str | bytes, file: Path = FULL) -> bytes:
    lines = file.read_bytes().splitlines()
    lines[number - 1] = text.encode() if isinstance(text, str) else text
    return b"".join(each + b"\n" for each in lines)


def changed(number: int, file: Path = FULL, **fields: Any) -> bytes:
    return with_line(number, json.dumps({**line(number, file), **fields}), file)


def refusal(data: bytes, folder: Path) -> str:
    """What `load`, or else the look at the names, says of ``data``."""
    file = folder / "x.jsonl"
    file.write_bytes(data)
    with pytest.raises(ArtifactError) as caught:
        resolved(load(file), file.name)
    return str(caught.value)


HEADER = FULL.read_bytes().splitlines()[0]
STEP = FULL.read_bytes().splitlines()[1]
DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: not JSON: Expecting value at column 1"),
        (b"\xef\xbb\xbf" + FULL.read_bytes(), "line 1: not JSON: a byte order mark"),
        (FULL.read_text("utf-8").encode("utf-16"), "line 1: not JSON: not UTF-8: byte 1 of the line"),
        (FULL.read_bytes().replace("ä".encode(), b"\xe4"), "line 1: not JSON: not UTF-8: byte 5"),
        (with_line(2, STEP[:-1]), "line 2: not JSON: Expecting ',' delimiter"),
        (with_line(2, STEP + b" {}"), "line 2: not JSON: Extra data"),
        (FULL.read_bytes() + b"that was it\n", "line 5: not JSON: Expecting value at column 1"),
        (FULL.read_bytes() + b"\n", "line 5: not JSON"),
        (with_line(2, b""), "line 2: not JSON"),
        (with_line(2, STEP.replace(b'"index": 1', b'"index": 1, "index": 1')), "line 2: not JSON: the key 'index' is"),
        (
            with_line(1, HEADER.replace(b'{"put"', b'{"put": 1, "put"')),
            "line 1: not JSON: the key 'put' is there twice",
        ),
        (with_line(2, STEP.replace(b'"index": 1', b'"index": NaN')), "line 2: not JSON: NaN is not a number"),
        (
            with_line(2, STEP.replace(b'"index": 1', b'"index": 1e999')),
            "line 2: not JSON: the number 1e999 is too large",
        ),
        (with_line(2, STEP.replace(b'"index": 1', b'"index": ' + b"1" * 5000)), "line 2: not JSON: Exceeds the limit"),
        (
            with_line(2, STEP.replace(b'"hint"', b'"\\ud800"').replace(b"wal/@0", b"\\ud800")),
            "line 2: not JSON: half of",
        ),
        (with_line(2, DEEP), "line 2: not JSON: nested deeper than 64 levels"),
        (with_line(2, b" " * LINE_BYTES_MAX + STEP), f"line 2: longer than {LINE_BYTES_MAX:,} bytes"),
        (b"x" * 3 * LINE_BYTES_MAX, "line 1: longer than"),
        (with_line(2, HEADER), "line 2: no step"),
        (with_line(1, STEP), "line 1: no header"),
        (changed(1, format=4), "line 1: format 4 of traces; this program reads 1, 2, 3"),
        (changed(1, format=[1]), "line 1: format [1] of traces; this program reads 1, 2, 3"),
        (changed(1, seed=7), "line 1: no header: Additional properties are not allowed ('seed' was unexpected)"),
        (changed(1, engine="0123456789abcdef\n"), "line 1: no header: engine:"),
        (changed(2, colour="red"), "line 2: no step: Additional properties are not allowed ('colour' was unexpected)"),
        (changed(2, index=2), "line 2: step 2 where step 1 belongs"),
        (changed(3, index=True), 'line 3: no step: index: true is not of type "integer"'),
        (with_line(2, FULL.read_bytes().splitlines()[2]), "line 2: step 2 where step 1 belongs"),
        (
            changed(3, outcome="lost"),
            'line 3: no step: outcome: "lost" is not one of "normal", "throttled", "stale", "sw',
        ),
        (changed(4, outcome="stale"), "line 4: no step: outcome:"),
        (changed(4, operation="put", outcome="conflict"), "line 4: no step: outcome:"),
        (changed(2, outcome="applied"), "line 4: put_if_absent wal/@0 lands, and writer-1 has none under way"),
        (changed(4, path="wal/@1"), "line 4: put_if_absent wal/@1 lands, and writer-1 has none under way"),
        (changed(1, scenario="nothing"), "line 1: there is no workload 'nothing'; "),
        (changed(1, RECORDED, scenario="nothing"), "line 1: there is no scenario 'nothing'; "),
        (changed(1, RECORDED, revision="C"), 'line 1: no header: revision: "C" is not one of "A", "B", "R"'),
        (changed(1, RECORDED, profile="lax"), "line 1: there is no profile 'lax'; "),
        (changed(1, RECORDED, bugs=["none"]), "line 1: there is no planted bug 'none'; "),
        (changed(1, RECORDED, readings={"none": True}), "line 1: there is no reading 'none'; "),
        (
            changed(1, RECORDED, readings={"claim_barrier": "no"}),
            "the reading claim_barrier is 'no', which is not a bool",
        ),
        (changed(1, RECORDED, readings={"claim_barrier": 0}), "the reading claim_barrier is 0, which is not a bool"),
        (
            changed(1, RECORDED, violation={**line(1)["violation"], "oracle": "Apollo"}),
            "line 1: no oracle 'Apollo'",
        ),
        (
            changed(3, RECORDED, actor="writer-9"),
            "line 3: there is no process 'writer-9'; choose one of writer-1, writer-2",
        ),
        (changed(1, actors=[{**line(1)["actors"][0], "role": "x"}]), "line 1: there is no role of region_life 'x'; "),
        (changed(1, actors=line(1)["actors"] * 2), "line 1: two processes of region_life have one name"),
        (changed(1, actors=[]), "line 1: no header: actors: [] has less than 1 item"),
    ],
)
def test_what_is_no_trace_is_refused_with_file_and_line(data: bytes, message: str, tmp_path: Path) -> None:
    found = refusal(data, tmp_path)
    assert found.startswith("x.jsonl, line ")
    assert message in found
    assert len(found) < 2600


def test_a_text_with_a_line_separator_inside_is_one_line() -> None:
    text = changed(1, title="before\u2028after\x85end").decode()
    assert parse(text, "x.jsonl").header.title == "before\u2028after\x85end"
    trace = parse(text, "x.jsonl")
    assert parse(dumps(trace), "x.jsonl") == trace


def test_a_last_line_needs_no_end() -> None:
    assert parse(FULL.read_text("utf-8").rstrip("\n"), "x.jsonl") == load(FULL)


def test_an_integer_may_be_written_with_a_fraction_of_nothing() -> None:
    # the schema, and JSON itself, have one kind of numbers
    trace = parse(with_line(2, STEP.replace(b'"index": 1,', b'"index": 1.0,')).decode(), "x.jsonl")
    assert trace == load(FULL)
    assert type(trace.steps[0].index) is int


STRANGE: tuple[Any, ...] = (
    None, True, 0, 1, 2, -1, 1.5, 1.0, "", "x", "late", "stale", "conflict", "landed", "get", "put", "put_if_absent",
    "0123456789abcdef", "0123456789ABCDEF", "0123456789abcdef\n", [], ["x"], ["x", "x"], ["late"], [1], {}, {"x": 1},
    {"x": None}, {"x": "y"}, [{"name": "n", "role": "r", "arguments": {}}], [{"name": "n", "role": "r"}],
    {"clause": "c", "oracle": "o", "reason": "r"}, {"clause": "c", "oracle": "o", "reason": ""}, 10**7, 10**30,
)  # fmt: skip


def variants(kind: str, good: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """``good`` without each field, with each field strange, and with a field that it does not have."""
    for name in SCHEMA["$defs"][kind]["properties"]:
        yield {key: value for key, value in good.items() if key != name}
        yield from ({**good, name: value} for value in STRANGE)
    yield {**good, "more": 1}


@pytest.mark.parametrize(("kind", "number"), [("header", 1), ("step", 2), ("step", 3)])
def test_a_line_is_read_just_if_the_schema_has_it(kind: str, number: int) -> None:
    validator = Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]})
    counted = {True: 0, False: 0}
    header = FULL.read_text("utf-8").splitlines()[0]
    for found in variants(kind, {**line(number), **({"index": 1} if kind == "step" else {})}):
        if kind == "step" and (found.get("outcome") == "landed" or found.get("index", 1) not in (0, 1, True)):
            continue  # a later request, or another place in the order: more than one line says
        if kind == "header" and type(found.get("format")) is not bool and found.get("format") in (1, 2):
            continue  # an older format, which is read in the words of the schema's
        text = json.dumps(found)
        try:
            parse(f"{header}\n{text}" if kind == "step" else text, "x")
            accepted, said = True, f"line {min(number, 2)}"
        except ArtifactError as error:
            accepted, said = False, str(error)
        assert f"line {min(number, 2)}" in said
        assert accepted == validator.is_valid(found), text
        counted[accepted] += 1
    assert min(counted.values()) > 25


def damaged(data: bytes, seed: int, many: int) -> Iterator[bytes]:
    """``data`` cut, with a bit flipped, with a byte replaced, taken out or put in, and with lines swapped."""
    chance = random.Random(seed)
    for _ in range(many):
        at, byte = chance.randrange(len(data)), chance.choice(b'{}[]":,\\\n\r 0189-.eEtfnabz\x00\x7f\xc3\xff')
        lines = data.splitlines(keepends=True)
        first, second = chance.sample(range(len(lines)), 2)
        lines[first], lines[second] = lines[second], lines[first]
        yield data[:at]
        yield data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        yield data[:at] + bytes([byte]) + data[at + 1 :]
        yield data[:at] + data[at + 1 :]
        yield data[:at] + bytes([byte]) + data[at:]
        yield b"".join(lines)


def outcome(data: bytes, file: Path) -> Trace | None:
    """The trace that ``data`` is, if it is one; any error but one that names file and line is raised."""
    file.write_bytes(data)
    try:
        return load(file)
    except ArtifactError as error:
        if not str(error).startswith("x.jsonl, line "):
            raise
        return None


@pytest.mark.parametrize("source", [RECORDED, FULL], ids=["recorded", "every field"])
def test_a_damaged_trace_is_a_trace_or_refused_with_its_line(source: Path, tmp_path: Path) -> None:
    found = [outcome(data, tmp_path / "x.jsonl") for data in damaged(source.read_bytes(), seed=1, many=50)]
    refused = found.count(None)
    assert refused > 180
    assert len(found) - refused > 20
    for trace in filter(None, found):
        assert parse(dumps(trace), "x.jsonl") == trace


app = typer.Typer()
commands(app)


@pytest.mark.parametrize("command", [("replay", "--once"), ("shrink",)])
def test_a_command_takes_a_damaged_trace_without_a_traceback(command: tuple[str, ...], tmp_path: Path) -> None:
    file, codes = tmp_path / "x.jsonl", set()
    for data in damaged(RECORDED.read_bytes(), seed=2, many=2):
        file.write_bytes(data)
        done = CliRunner().invoke(app, [*command, str(file)], env={"COLUMNS": "200", "TERM": "dumb"})
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert done.exit_code in (0, 1, 2)
        if done.exit_code == 2:
            assert done.stderr.startswith(("error: x.jsonl", "damaged: x.jsonl")), done.stderr
        codes.add(done.exit_code)
    assert 2 in codes
    assert len(codes) == 2


def test_a_folder_and_a_file_that_is_not_there_are_usage_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.jsonl"):
        done = CliRunner().invoke(app, ["replay", str(path)])
        assert done.exit_code == 2
        assert isinstance(done.exception, SystemExit)
