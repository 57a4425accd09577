"""Fixtures shared by the engine's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .kit import maintained_scene
from .kit.folder import Folder
from .kit.ground import Ground


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.fixture(params=["A", "B", "R"])
def revision(request: pytest.FixtureRequest) -> str:
    """Each revision under which there is MemWAL."""
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="session")
def base_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base table with indexes, to be copied."""
    place = tmp_path_factory.mktemp("maintained") / "t"
    maintained_scene.build_base(place)
    return place


@pytest.fixture
def base(tmp_path: Path, base_template: Path) -> maintained_scene.Base:
    """A base table with one index of every kind that MemTables carry."""
    return maintained_scene.Base(tmp_path, base_template)


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "clause(*ids): clauses of the specification that the test is about")
