"""Where a table is, and how coroutines run on its store; and the names by which callers pick revision and profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..drive import Listener, _no_listener, drive
from ..effects import Io, Protocol
from ..errors import InvalidArgument, NotFound
from ..revisions import PROFILES, REVISIONS, Interpretation, Revision
from ..stores import open_store
from ..stores.base import Store
from ..table.state import TableState

T = TypeVar("T")


def named_revision(name: str | Revision) -> Revision:
    if isinstance(name, Revision):
        return name
    if name not in REVISIONS:
        raise InvalidArgument(f"unknown revision {name!r}; known are {', '.join(REVISIONS)}", clause="AMB-01")
    return REVISIONS[name]


def named_profile(name: str | Interpretation) -> Interpretation:
    if isinstance(name, Interpretation):
        return name
    if name not in PROFILES:
        raise InvalidArgument(f"unknown profile {name!r}; known are {', '.join(PROFILES)}")
    return PROFILES[name]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is."""

    store: Store
    io: Io
    location: str
    """Absolute name of the table for readers outside the engine; empty if there is none."""
    listener: Listener = _no_listener

    def run(self, coroutine: Protocol[T]) -> T:
        return drive(coroutine, self.store, self.listener)


def find(url: str | Path, storage_options: Mapping[str, str] | None, store: Store | None, listener: Listener) -> Place:
    if store is not None:
        return Place(store, Io(str(url)), "", listener)
    text = str(url)
    opened, root = open_store(text, storage_options)
    local = "://" not in text or text.startswith("file://")
    location = str(Path(text.removeprefix("file://")).absolute()) if local else text.rstrip("/")
    named = "" if text.startswith("memory://") else location
    return Place(opened, Io(root, location=named), named, listener)


def found(place: Place, loading: Protocol[TableState]) -> TableState:
    """Load a version; where there is none, the error names the whole place and not only the object in it."""
    try:
        return place.run(loading)
    except NotFound as missing:
        raise NotFound(f"{place.location}/{missing.path}" if place.location else missing.path) from None
