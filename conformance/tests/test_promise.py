"""An adapter for version 1 of the protocol stays right with each later suite that speaks version 1."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from kit.promise import broken, current, promised
from memwal_conformance import protocol

Schemas = dict[str, Any]


def test_the_schemas_keep_what_version_1_promises() -> None:
    assert protocol.VERSION == "1"
    assert broken(promised(), current()) == []
    assert promised() == current(), "what was added is promised from now on: python -m conformance.tests.kit.promise"


def params(schemas: Schemas, message: str) -> Schemas:
    found: Schemas = schemas[message]["$defs"]["params"]
    return found


def result(schemas: Schemas, message: str) -> Schemas:
    found: Schemas = schemas[message]["$defs"]["result"]
    return found


BREAKS: list[tuple[Callable[[Schemas], object], str]] = [
    (lambda s: s.pop("inspect"), "inspect is gone"),
    (lambda s: s.update({"writer.pause": s["writer.close"]}), "writer.pause: a new message of a role"),
    (lambda s: s["inspect"].update({"x-role": "reader"}), "inspect: has another role"),
    (lambda s: params(s, "writer.put")["properties"].pop("durable"), "writer.put params durable is gone"),
    (lambda s: params(s, "writer.put")["required"].remove("durable"), "durable is no longer sent always"),
    (lambda s: params(s, "reader.scan")["required"].append("limit"), "reader.scan params limit is required now"),
    (lambda s: params(s, "writer.open")["oneOf"].pop(2), "writer.open params: form 3 is no longer taken"),
    (lambda s: result(s, "hello")["required"].append("helped"), "hello result helped is required now"),
    (lambda s: result(s, "inspect")["properties"]["version"].update({"$ref": "x"}), "inspect result version: $ref was"),
    (lambda s: s["envelope"]["$defs"]["error"]["properties"]["kind"]["enum"].remove("fenced"), "fenced is no longer"),
]


@pytest.mark.parametrize(("change", "said"), BREAKS)
def test_a_change_that_breaks_an_adapter_needs_version_2(change: Callable[[Schemas], object], said: str) -> None:
    changed = copy.deepcopy(current())
    change(changed)
    assert any(said in line for line in broken(current(), changed)), broken(current(), changed)


def test_an_addition_that_has_to_be_asked_for_breaks_no_adapter() -> None:
    changed = copy.deepcopy(current())
    changed["sequence.forget"] = copy.deepcopy(changed["sequence.put"])
    result(changed, "hello")["properties"]["capabilities"]["items"]["enum"].append("sequence.forget")
    params(changed, "reader.scan")["properties"]["descending"] = {"type": "boolean"}
    result(changed, "reader.open")["required"].remove("version")
    assert broken(current(), changed) == []
