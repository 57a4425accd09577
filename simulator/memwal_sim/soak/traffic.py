"""What went over the wire: requests and bytes by kind and by role, the last requests, and a digest of all of them."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from memwal import paths
from memwal.effects import Put, PutIfAbsent, StoreRequest
from memwal.stores.memory import Raised, Reply, Returned

from ..outcomes import Fate

KINDS = ("Get", "GetRanges", "Head", "List", "ListFolders", "PutIfAbsent", "Put", "Delete", "Copy", "RenameIfAbsent")
"""Kinds of requests, as traffic is counted by them."""

Recorded = tuple[float, str, str, str, str, str]
"""Time in ms, actor, kind, path, fate, answer."""


def size_up(request: StoreRequest[Any]) -> int:
    """Bytes that go to the store with ``request``."""
    return len(request.data) if isinstance(request, (Put, PutIfAbsent)) else 0


def size_down(reply: Reply) -> int:
    """Bytes of objects that come back with ``reply``."""
    return len(reply.value) if isinstance(reply, Returned) and isinstance(reply.value, bytes) else 0


@dataclass(slots=True)
class Traffic:
    """Counters that only grow. Requests are counted when the store sees them, refused ones too."""

    kept: int
    requests: Counter[str] = field(default_factory=Counter)
    by_role: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Role and kind -> requests."""
    bytes_by_role: Counter[str] = field(default_factory=Counter)
    """Role -> bytes of objects that it was given."""
    bytes_up: int = 0
    bytes_down: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    """Label of each fate that was not normal -> requests."""
    last: deque[Recorded] = field(default_factory=deque)
    _digest: Any = field(default_factory=lambda: blake2b(digest_size=16))

    def record(
        self, now_ms: float, actor: str, role: str, request: StoreRequest[Any], fate: Fate, reply: Reply
    ) -> None:
        """One request at the moment at which the store sees it; for a lost one, at which its client gives up."""
        kind = type(request).__name__
        up, down = size_up(request), size_down(reply)
        self.requests[kind] += 1
        self.by_role[role, kind] += 1
        self.bytes_by_role[role] += down
        self.bytes_up += up
        self.bytes_down += down
        if fate is not Fate.NORMAL:
            self.fates[fate.label] += 1
        answer = _answer(reply)
        recorded = (round(now_ms, 3), actor, kind, request.path, fate.label, answer)
        self.last.append(recorded)
        if len(self.last) > self.kept:
            self.last.popleft()
        self._digest.update(repr((now_ms, *recorded)).encode())
        if isinstance(request, (Put, PutIfAbsent)):
            self._digest.update(_told(request))

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that stand for all requests so far: when, who, what, with which bytes, and replies."""
        return str(self._digest.hexdigest())

    @property
    def total(self) -> int:
        """All requests."""
        return self.requests.total()


def _told(request: Put | PutIfAbsent) -> bytes:
    """The bytes of ``request``; those of index files sorted, since the native package orders metadata at random."""
    return bytes(sorted(request.data)) if f"/{paths.INDICES}/" in request.path else request.data


def _answer(reply: Reply) -> str:
    match reply:
        case Raised(kind=kind):
            return kind.__name__
        case Returned(value=bytes(value)):
            return f"{len(value)} bytes"
        case Returned(value=tuple(value)):
            return f"{len(value)} names"
        case Returned(value=value):
            return "done" if value is None else str(value)
