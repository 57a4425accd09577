"""Fixtures of the tests of regions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..kit.writer_scene import Scene, scene


@pytest.fixture
def there(tmp_path: Path, revision: str) -> Scene:
    """A new region in a store of its own."""
    return scene(tmp_path, revision)
