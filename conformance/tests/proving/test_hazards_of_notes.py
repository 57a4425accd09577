"""The planted bugs under the notes of SPEC_NOTES.md, each with its recorded history."""

from __future__ import annotations

from pathlib import Path

import pytest
from memwal.errors import InvalidArgument
from memwal_conformance.generated import notes
from memwal_sim.evidence import recorded


def test_a_bug_without_a_history_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"plain_wal_put": tmp_path / "none.jsonl"}
    monkeypatch.setattr(recorded, "wanted", lambda folder, about: missing)
    with pytest.raises(
        InvalidArgument, match="bug plain_wal_put has no recorded history yet: run `memwal docs gallery`"
    ):
        notes.hazards()
