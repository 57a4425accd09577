"""How damage is planted: a registry of what breaks which invariant, and the simplest ways to break an object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memwal.invariants import INVARIANTS

from .damaged_tables import Scene, damages

Plant = Callable[[Scene], Iterator[tuple[Scene, str]]]
"""A whole table -> damaged copies of it, and the object or folder that is to be named in each."""

REVISIONS = {"table": ("B",), "index": ("B", "R"), "snapshot": ("B", "R")}
"""Revisions under which damage to these is planted where the plant names none; all for the rest."""


@dataclass(frozen=True)
class Planted:
    """One plant."""

    plant: Plant
    revisions: tuple[str, ...]


PLANTED: dict[str, Planted] = {}
"""Plants by the name of the invariant that they break."""


def plants(invariant: str, *revisions: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        assert invariant not in PLANTED
        default = REVISIONS.get(INVARIANTS[invariant].about, ("A", "B", "R"))
        PLANTED[invariant] = Planted(plant, revisions or default)
        return plant

    return register


def put_or_drop(scene: Scene, path: str, data: bytes | None) -> Scene:
    if data is None:
        del scene.objects[path]
    else:
        scene.objects[path] = data
    return scene


def cuts(scene: Scene, path: str) -> Iterator[tuple[Scene, str]]:
    """``path`` cut in every way, but not gone."""
    for data in damages(scene.objects[path]):
        if data is not None:
            yield put_or_drop(scene.copy(), path, data), path
