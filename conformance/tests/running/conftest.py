"""What runs scenarios in the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from memwal_conformance.proving import broken_survey
from memwal_conformance.registry.levels import levels_of
from memwal_conformance.running.cases import CaseRunner


@pytest.fixture
def cases(tmp_path: Path) -> CaseRunner:
    """Runs scenarios against the reference's adapter in this process, under revision B."""
    return CaseRunner(
        revision="B",
        folder=tmp_path,
        start=lambda _: broken_survey.actor("B"),
        finish=lambda _: None,
        levels=levels_of("B"),
        settings={},
        case="test",
        keep=tmp_path / "kept",
    )
