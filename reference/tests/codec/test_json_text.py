"""JSON that is nested too deep is damage like any other, wherever it comes from."""

from __future__ import annotations

import json

import pytest
from memwal.codec import hint, json_text
from memwal.drive import drive
from memwal.effects import Io
from memwal.inspection.files import inspect_file
from memwal.revisions import STRICT

from ..kit.ground import Ground

DEEP = "[" * 2_000 + "]" * 2_000
AS_VALUE = f'{{"version": {DEEP}}}'


@pytest.mark.parametrize("text", [DEEP, DEEP.encode(), '{"a":' * 65 + "1" + "}" * 65, "[" * 100_000])
def test_json_nested_too_deep_is_no_json(text: str | bytes) -> None:
    with pytest.raises(json.JSONDecodeError, match="nested deeper than 64 levels"):
        json_text.parse(text)


def test_wide_json_and_brackets_in_texts_are_json() -> None:
    value = {"many": [[n] for n in range(1_000)], "text": "[" * 2_000 + '"{' * 100}

    assert json_text.parse(json.dumps(value)) == value
    assert json_text.parse("[" * 64 + "]" * 64) == json.loads("[" * 64 + "]" * 64)


def test_a_deep_hint_is_no_hint() -> None:
    assert hint.decode(AS_VALUE.encode(), "hint") is None


def test_a_deep_tag_is_shown_as_damaged() -> None:
    store = Ground({"t/_refs/tags/first.json": AS_VALUE.encode()})
    node = drive(inspect_file(Io("t", interpretation=STRICT), "_refs/tags/first.json", limit=5), store)
    assert [damage for each in node.all() for damage in each.damage]
