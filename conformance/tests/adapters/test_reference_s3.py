"""What the reference adapter claims depends on what is installed beside it."""

from __future__ import annotations

import importlib.util

import pytest
from memwal_conformance.adapters import reference


def test_the_reference_claims_s3_only_where_its_client_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    state = reference.ReferenceState()
    assert "s3" in reference.hello(state, {})["capabilities"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "s3" not in reference.hello(state, {})["capabilities"]
