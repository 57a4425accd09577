"""Digests of many values at once."""

from __future__ import annotations

import hashlib
import random

import pyarrow as pa
import pytest
from memwal.codec.digests import MANY, digests, latin_text

DRAWN = random.Random(7)
VALUES = [DRAWN.randbytes(DRAWN.choice([0, 1, 12, 23, 24, 40, 90])) for _ in range(MANY + 3)]


@pytest.mark.parametrize("count", [0, MANY - 1, MANY])
def test_many_digests_are_those_of_each_value(count: int) -> None:
    values = pa.array(VALUES, pa.large_binary()).slice(3, count)
    expected = [hashlib.sha256(b"salt" + value).digest() for value in VALUES[3 : 3 + count]]
    assert digests(hashlib.sha256, b"salt", values) == b"".join(expected)


def test_a_byte_becomes_the_character_of_its_number() -> None:
    values = pa.array([bytes(range(256)), b"", b"\xff", b"plain"], pa.large_binary())
    told = [text.decode() for text in latin_text(values.slice(1)).to_pylist()]
    assert told == ["", "\xff", "plain"]
    assert latin_text(values)[0].as_py().decode() == "".join(map(chr, range(256)))
