"""The protocol: what its schemas accept and refuse, and how values cross it."""

import json
from typing import Any

import pyarrow as pa
import pytest
from memwal_conformance import cells, protocol
from memwal_conformance.adapters.aided import BASE_WRITER
from memwal_conformance.cells import CellError
from memwal_conformance.protocol import AdapterError, Hello, ProtocolViolation

ROWS = {
    "columns": [{"name": "id", "type": "int64", "nullable": False}],
    "rows": [[{"t": "int64", "v": "-9223372036854775808"}], [{"t": "int64", "v": "9223372036854775807"}]],
}


def test_every_role_has_messages_and_every_message_has_both_parts() -> None:
    roles = {message.role for message in protocol.messages().values()}
    assert roles == {"all", "capability", BASE_WRITER, *protocol.ROLES}
    for message in protocol.messages().values():
        assert set(message.schema["$defs"]) == {"params", "result"}, message.name
        assert message.description.endswith("."), message.name


def test_the_extremes_of_int64_cross_the_protocol() -> None:
    assert cells.to_table(ROWS)["id"].to_pylist() == [-(2**63), 2**63 - 1]
    assert cells.to_rows(cells.to_table(ROWS)) == ROWS


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("uint64", 2**64 - 1, "18446744073709551615"),
        ("float64", 0.1, "0.1"),
        ("float32", 1.25, "1.25"),
        ("float64", float("inf"), "Infinity"),
        ("utf8", "Zürich\n", "Zürich\n"),
        ("binary", b"\x00\xff", "AP8="),
        ("bool", True, True),
        ("date32", -1, "-1"),
        ("timestamp_us", 1, "1"),
        ("int32", None, None),
        ("float32[2]", [0.5, float("inf")], ["0.5", "Infinity"]),
        ("float32[2]", None, None),
    ],
)
def test_a_cell_keeps_its_value(kind: str, value: object, text: object) -> None:
    assert cells.cell(kind, value) == {"t": kind, "v": text}
    assert cells.value({"t": kind, "v": text}) == value
    column = {"name": "c", "type": kind, "nullable": True}
    rows = {"columns": [column], "rows": [[{"t": kind, "v": text}]]}
    assert cells.to_rows(cells.to_table(rows)) == rows


@pytest.mark.parametrize("text", ["1.7014118e+38", "1.7014118346046923e+38", "170141183460469231731687303715884105728"])
def test_any_text_of_a_float32_is_its_value(text: str) -> None:
    assert cells.value({"t": "float32", "v": text}) == 2.0**127
    assert cells.value({"t": "float32[1]", "v": [text]}) == [2.0**127]


@pytest.mark.parametrize(
    ("value", "told"),
    [("0", '$.hash: "0" is not of type "null" or "integer"'), (1 << 40, "$.hash: 1099511627776 is greater than")],
)
def test_of_a_value_of_several_types_all_are_told_or_what_is_wrong_within_its_own(value: object, told: str) -> None:
    assert (protocol.problem("urn:memwal:eval.hash#/$defs/result", {"hash": value}) or "").startswith(told)


@pytest.mark.parametrize(
    "tagged",
    [
        {"t": "int8", "v": "128"},
        {"t": "float32", "v": "1e39"},
        {"t": "float32[1]", "v": ["-1e39"]},
        {"t": "uint64", "v": "-1"},
        {"t": "int64", "v": "1.0"},
        {"t": "bool", "v": "true"},
        {"t": "binary", "v": "A"},
        {"t": "null", "v": "x"},
        {"t": "float32[2]", "v": ["0.5"]},
        {"t": "float32[2]", "v": "0.5"},
        {"t": "float32[2]", "v": ["0.5", "far"]},
        {"t": "int64", "v": ["1"]},
    ],
)
def test_a_cell_whose_value_does_not_fit_its_type_is_refused(tagged: dict[str, Any]) -> None:
    with pytest.raises(CellError):
        cells.value(tagged)


def test_a_column_whose_type_the_protocol_lacks_is_refused() -> None:
    with pytest.raises(CellError, match="duration"):
        cells.to_rows(pa.table({"c": pa.array([1], pa.duration("s"))}))


@pytest.mark.parametrize("value", [[0.5], 0.5, "ab"])
def test_a_vector_of_another_length_is_refused(value: object) -> None:
    with pytest.raises(CellError, match=r"not a value of type float32\[2\]"):
        cells.cell("float32[2]", value)


@pytest.mark.parametrize("name", ["int9", "float32[0]", "float32[]", "float64[2]"])
def test_a_type_that_the_protocol_lacks_is_refused(name: str) -> None:
    with pytest.raises(CellError, match="has no type"):
        cells.to_table({"columns": [{"name": "c", "type": name, "nullable": True}], "rows": []})


def test_a_row_of_another_type_than_its_column_is_refused() -> None:
    with pytest.raises(CellError, match="holds int32"):
        cells.to_table({"columns": ROWS["columns"], "rows": [[{"t": "int32", "v": "1"}]]})


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"writer": "w", "rows": ROWS, "durable": "yes"}, "$.durable"),
        ({"writer": "w", "rows": {"columns": [], "rows": [[{"t": "int64", "v": 5}]]}, "durable": True}, "$.rows"),
        ({"writer": "w", "rows": ROWS}, "durable"),
        ({"writer": "w", "rows": ROWS, "durable": True, "more": 1}, "more"),
    ],
)
def test_the_harness_cannot_send_what_the_schema_forbids(params: dict[str, Any], place: str) -> None:
    with pytest.raises(ProtocolViolation, match=r"params of writer\.put") as caught:
        protocol.request(1, "writer.put", params)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello there\n", 'not JSON: "hello there"; standard output is for replies only$'),
        (b'\xff"\n', r'not JSON: "\\\\xff\\""; '),
        (b"[]\n", "not a reply"),
        (b'{"id": "1"}\n', "not a reply"),
        (b'{"id": "1", "result": {}, "error": {"kind": "fenced", "message": ""}}\n', "not a reply"),
        (b'{"id": "1", "error": {"kind": "oops", "message": ""}}\n', "not a reply"),
        (b'{"id": "2", "result": {"version": "1"}}\n', "has id 2, expected 1"),
        (b'{"id": "1", "result": {"version": 1}}\n', "result of table.create"),
        (b'{"id": "1", "result": {"version": "01"}}\n', "result of table.create"),
        (b'{"id": "1", "result": {"version": "-1"}}\n', "result of table.create"),
    ],
)
def test_a_reply_that_breaks_the_protocol_is_named(line: bytes, reason: str) -> None:
    with pytest.raises(ProtocolViolation, match=reason):
        protocol.reply(line, 1, "table.create")


def test_a_reply_nested_as_deep_as_the_stack_or_deeper_breaks_the_protocol() -> None:
    for deep in (500, *range(850, 1000, 3), 100_000):
        with pytest.raises(ProtocolViolation):
            protocol.reply(b'{"id": "1", "result": %s%s}' % (b"[" * deep, b"]" * deep), 1, "table.create")


def test_an_error_reply_keeps_the_native_text_word_for_word() -> None:
    line = json.dumps({"id": "1", "error": {"kind": "fenced", "message": "Writer «7» fenced\n\tby 8"}}).encode()
    with pytest.raises(AdapterError) as caught:
        protocol.reply(line, 1, "writer.put")
    assert (caught.value.kind, caught.value.native) == ("fenced", "Writer «7» fenced\n\tby 8")


def test_what_hello_claims_in_part_or_does_without_is_known_or_told() -> None:
    claims = {"implementation": "x", "version": "1", "revisions": ["B"], "roles": [], "capabilities": ["eval.decode"]}
    known = ("eval.decode wal", "eval.encode hint", "reader.search filter", "writer.open new_region_id")
    strange = ("eval.decode wall", "eval.guess wal", "reader.search filters")
    hello = Hello.of({**claims, "without": [*known, *strange], "partial": ["reader.get", "reader.guess"]})
    assert hello.unknown == ("reader.guess", *strange)
    assert hello.partial == ("reader.get",)


def test_a_role_stands_for_all_its_messages_and_a_capability_for_one() -> None:
    hello = Hello.of(
        {
            "implementation": "x",
            "version": "1",
            "revisions": ["R", "A"],
            "roles": ["reader"],
            "capabilities": ["eval.name"],
        }
    )
    answered = [name for name in protocol.messages() if hello.answers(name)]
    assert answered == [
        *("hello", "configure", "shutdown"),
        "eval.name",
        *("reader.open", "reader.scan", "reader.get", "reader.search"),
    ]
    assert hello.revisions == ("A", "R")
