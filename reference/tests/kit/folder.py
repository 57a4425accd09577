"""A store in a folder of this machine, whose files a test can look at and pylance can open."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from memwal.drive import drive
from memwal.effects import Protocol
from memwal.stores.local import LocalStore

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
