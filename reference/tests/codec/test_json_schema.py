"""Values that a schema refuses: what is told of them, and where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from memwal.codec.json_schema import problem

PUT = {"type": "object", "properties": {"put": {"type": "array", "items": {"type": "integer"}}}, "required": ["put"]}
WAIT = {"type": "object", "properties": {"wait": {"enum": ["a", "b", "c", "d"]}}, "required": ["wait"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "items": {"oneOf": [{**each, "additionalProperties": False} for each in (PUT, WAIT)]},
        },
        "name": {"type": "string"},
    },
    "required": ["steps"],
}


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"steps": [{"put": [1]}, {"wait": "c"}]}, None, ""),
        ({}, (), '"steps" is a required property'),
        ({"steps": [], "name": None}, ("name",), 'null is not of type "string"'),
        (
            {"steps": [{"put": [1], "at": 2}]},
            ("steps", 0),
            "Additional properties are not allowed ('at' was unexpected)",
        ),
        ({"steps": [{"put": [1, "x"]}]}, ("steps", 0, "put", 1), '"x" is not of type "integer"'),
        ({"steps": [{"put": ["x", "y", "z"]}]}, ("steps", 0, "put", 0), '"x" is not of type "integer"'),
        ({"steps": [{"wait": "e"}]}, ("steps", 0, "wait"), '"e" is not one of "a", "b", "c", "d"'),
        ({"steps": [{"wait": "\ud800"}]}, (), "half of a surrogate pair"),
    ],
)
def test_what_is_wrong_is_told_of_the_shape_that_a_value_comes_closest_to(
    value: Any, path: tuple[str | int, ...] | None, reason: str
) -> None:
    found = problem(Draft202012Validator(SCHEMA), value)
    assert found == (None if path is None else (path, reason))


def test_what_is_wrong_too_deep_inside_is_refused_without_a_place() -> None:
    validator = Draft202012Validator({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "integer"}]})
    deepest = 900  # `json.loads` gives nothing that is deeper
    assert problem(validator, json.loads("[" * deepest + "1" + "]" * deepest)) is None
    assert problem(validator, json.loads("[" * deepest + "1.5" + "]" * deepest)) == ((), "nested too deep")
