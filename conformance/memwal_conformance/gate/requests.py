"""Requests as rules, hooks and logs see them: by actor, class, symbolic name and operation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from memwal import paths
from memwal_sim.names import symbolic

from .calls import GROUP_OF, S3Call, S3Operation

CLASSES = ("wal", "manifest", "hint", "generation", "base", "region")
"""Kinds of objects. ``region`` is the folder of a region, or of all regions, as such; only listings have it."""

_INNER = re.compile(
    rf"(?:.*/)?((?:{paths.VERSIONS}|{paths.TRANSACTIONS}|{paths.DELETIONS}|{paths.INDICES})(?:/.*)?|{paths.DATA}/[^/]+)"
)


@dataclass(slots=True)
class GateRequest:
    """One request of an actor. ``number`` counts arrivals at the gate from 1."""

    actor: str
    number: int
    call: S3Call
    digest: str
    """16 hexadecimal digits of the payload's SHA-256."""
    bytes_: int
    """Size of the payload."""
    agent: str = ""
    """The User-Agent that the client calls itself."""

    @property
    def operation(self) -> S3Operation:
        """What is asked for."""
        return self.call.operation

    @property
    def group(self) -> str:
        """``GET``, ``HEAD``, ``PUT``, ``LIST`` or ``DELETE``."""
        return GROUP_OF[self.call.operation]

    @property
    def name(self) -> str:
        """Symbolic name of the object; of the first one where there are several."""
        return name_of(self.call.names[0])

    @property
    def class_(self) -> str:
        """One of `CLASSES`; of the first object where there are several."""
        return class_of(self.call.names[0])

    def __str__(self) -> str:
        return f"{self.actor} {self.operation} {self.name}"


@lru_cache(maxsize=1 << 16)
def name_of(path: str) -> str:
    """Symbolic name of an object or folder: `memwal_sim.names.symbolic`, without the folder that a table is in."""
    path = path.rstrip("/")
    if f"{paths.MEM_WAL}/" in f"{path}/":
        return symbolic(path[path.index(paths.MEM_WAL) :])
    inner = _INNER.fullmatch(path)
    return symbolic(inner[1] if inner else path)


@lru_cache(maxsize=1 << 16)
def class_of(path: str) -> str:
    """The class of an object or folder: one of `CLASSES`."""
    _, found, inner = f"{path.rstrip('/')}/".partition(f"{paths.MEM_WAL}/")
    if not found:
        return "base"
    _, _, name = inner.rstrip("/").partition("/")
    if name == paths.VERSION_HINT:
        return "hint"
    folder = name.partition("/")[0]
    if folder in ("manifest", "wal"):
        return folder
    return "generation" if paths.generation_number(folder) is not None else "region"


@lru_cache(maxsize=1 << 16)
def region_of(path: str) -> str:
    """Id of the region that an object belongs to, empty for those of the base table."""
    _, _, inner = path.partition(f"{paths.MEM_WAL}/")
    return inner.partition("/")[0]
