"""The version hint: its bytes, and that nothing in it is ever an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.codec.hint import decode, encode
from memwal.ids import ManifestVersion

PATH = "manifest/version_hint.json"


@pytest.mark.clause("MANIFEST-026")
def test_a_hint_is_a_json_object_whose_member_version_is_the_number() -> None:
    assert encode(ManifestVersion(42)) == b'{"version": 42}'
    assert json.loads(encode(ManifestVersion(2**64 - 1))) == {"version": 18446744073709551615}


@pytest.mark.clause("MANIFEST-026")
@pytest.mark.parametrize(
    ("data", "version"),
    [
        (b'{"version":7}', 7),
        (b' {\n  "version" : 7, "later": {"version": 8} }\n', 7),
        (b'{"version": 18446744073709551615}', 2**64 - 1),
        (b'\xef\xbb\xbf{"version": 7}', 7),
    ],
)
def test_a_hint_of_another_writer_is_read(data: bytes, version: int) -> None:
    assert decode(data, PATH) == version


@pytest.mark.clause("MANIFEST-028", "MANIFEST-031", "AMB-31")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"5 and more",
        b"5",
        b"[5]",
        b"null",
        b'"version"',
        b"{}",
        b'{"v": 5}',
        b'{"version": null}',
        b'{"version": true}',
        b'{"version": "5"}',
        b'{"version": 5.5}',
        b'{"version": 5.0}',
        b'{"version": 0}',
        b'{"version": -1}',
        b'{"version": 18446744073709551616}',
        b'{"version": ' + b"9" * 9_999 + b"}",
        b'{"version": NaN}',
        b'{"version": 5',
        b"\xff\xfe",
        b"[" * 200_000,
    ],
    ids=lambda data: repr(data[:32]),
)
def test_what_holds_no_version_is_as_if_there_were_no_hint(data: bytes) -> None:
    assert decode(data, PATH) is None


@given(st.integers(1, 2**64 - 1))
def test_every_version_survives_a_round_trip(version: int) -> None:
    assert decode(encode(ManifestVersion(version)), PATH) == version


@given(st.binary(max_size=40))
def test_arbitrary_bytes_give_a_version_or_none(data: bytes) -> None:
    found = decode(data, PATH)
    assert found is None or 1 <= found < 2**64
