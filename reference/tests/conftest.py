"""Fixtures shared by the engine's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import pytest
from memwal.drive import drive
from memwal.effects import Protocol
from memwal.stores.local import LocalStore

from .kit import maintained_scene

T = TypeVar("T")


class Folder:
    """A local store with a way to run protocol code on it and to look at its bytes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = LocalStore(root)

    def run(self, coroutine: Protocol[T]) -> T:
        return drive(coroutine, self.store)

    def files(self) -> dict[str, bytes]:
        """Every object: name -> bytes."""
        found = sorted(p for p in self.root.rglob("*") if p.is_file())
        return {str(p.relative_to(self.root)): p.read_bytes() for p in found}


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
