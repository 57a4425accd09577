"""Loads the conformance plugin: its options, its cases and its summary."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["memwal_conformance.pytest_plugin"]

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``pytest conformance/`` runs the cases; the suite's own tests run where they are named, as ``make test`` does."""
    if collection_path != HERE / "tests":
        return None
    named = [Path(arg.partition("::")[0]).resolve() for arg in config.args]
    own = any(path.is_relative_to(collection_path) for path in named)
    return True if HERE in named and not own else None
