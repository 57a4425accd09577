"""Fixtures of the tests of jobs."""

from __future__ import annotations

import pytest

from ..kit.collector_scene import Clock, clocked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that the test moves, in place of the time of this machine."""
    return clocked(monkeypatch)
