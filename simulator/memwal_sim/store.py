"""The simulated object store: contents as a value, and each request as a pure function of them.

`Contents` is never changed: `perform` returns new contents and a `Reply`. One call is one atomic step of the store, so
that the order of calls is the order of linearization, for the explorer as for a server that puts a protocol in front of
it. Contents with equal objects have equal digests, however they came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from memwal.effects import EXTERNAL_ROOT, PutIfAbsent, RenameIfAbsent, StoreRequest
from memwal.errors import InvalidArgument, StorageError
from memwal.stores.memory import Raised, Reply, Returned, answered

DIGEST_BITS = 128

_MODULUS = 1 << DIGEST_BITS


@lru_cache(maxsize=1 << 16)
def _object_digest(path: str, data: bytes) -> int:
    """Number below 2**128 that stands for one object; the path is length-prefixed so that no two pairs run together."""
    name = path.encode()
    digest = blake2b(len(name).to_bytes(4, "big") + name + data, digest_size=DIGEST_BITS // 8)
    return int.from_bytes(digest.digest(), "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What kind of store it is."""

    puts_if_absent: bool = True
    """It offers put-if-not-exists; without it only an external manifest store does."""
    renames_if_absent: bool = True
    """It offers rename-if-not-exists."""
    reversed_lists: bool = False
    """Lists are in descending order, as any other order is allowed to be."""
    lags: bool = False
    """It remembers its last change, so that `stale` replies can be those from before it."""

    def offers(self, request: StoreRequest[Any]) -> bool:
        """Whether the store carries out requests of this kind."""
        match request:
            case PutIfAbsent(path=path):
                return self.puts_if_absent or path.startswith(f"{EXTERNAL_ROOT}/")
            case RenameIfAbsent():
                return self.renames_if_absent
        return True


USUAL = Traits()
"""A store that offers everything and forgets."""

_Change: TypeAlias = "tuple[str, bytes | None]"
"""An object that was changed, and what it was before."""


class Contents:
    """All objects of a store, immutable. Equal if objects, traits and the remembered change are."""

    __slots__ = ("_digest", "_last", "_objects", "traits")

    def __init__(self, objects: Mapping[str, bytes] | None = None, traits: Traits = USUAL) -> None:
        self._objects: dict[str, bytes] = dict(objects or {})
        self._digest = sum(_object_digest(path, data) for path, data in self._objects.items()) % _MODULUS
        self._last: _Change | None = None
        self.traits = traits

    @property
    def objects(self) -> Mapping[str, bytes]:
        """Path -> bytes, read-only, in no particular order."""
        return MappingProxyType(self._objects)

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that stand for the objects, whatever the order in which they were written."""
        return f"{self._digest:032x}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Contents)
            and self._digest == other._digest
            and self._objects == other._objects
            and self._last == other._last
            and self.traits == other.traits
        )

    def __hash__(self) -> int:
        return hash(self._digest)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, path: object) -> bool:
        return path in self._objects

    def __repr__(self) -> str:
        return f"<Contents {self.digest[:12]}: {len(self)} objects>"

    def below(self, folder: str) -> Iterator[str]:
        """Names of the objects under ``folder`` (all for the empty name), unsorted."""
        if not folder:
            return iter(self._objects)
        prefix = folder + "/"
        return (path for path in self._objects if path.startswith(prefix))

    def get(self, name: str, /) -> bytes | None:
        """Bytes of the object; None if there is none."""
        return self._objects.get(name)

    def listed(self, folder: str, /) -> tuple[str, ...]:
        """Names of the objects under ``folder``, in the store's order."""
        return self._in_order(self.below(folder))

    def folders(self, folder: str, /) -> tuple[str, ...]:
        """Last components of the folders directly under ``folder``, in the store's order."""
        skip = len(folder) + 1 if folder else 0
        rests = (path[skip:].partition("/") for path in self.below(folder))
        return self._in_order({first for first, slash, _ in rests if slash})

    def _in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names, reverse=self.traits.reversed_lists))

    def having(self, path: str, data: bytes) -> Contents:
        """These contents with ``path`` created or replaced."""
        before = self._objects.get(path)
        if before == data:
            return self
        return self._derived({**self._objects, path: data}, path, before, data)

    def without(self, path: str) -> Contents:
        """These contents with ``path`` removed, if it is there."""
        before = self._objects.get(path)
        if before is None:
            return self
        return self._derived({name: data for name, data in self._objects.items() if name != path}, path, before, None)

    def before(self, path: str) -> Contents:
        """These contents without the last change, if it is remembered and was to ``path`` or something below it."""
        if self._last is None or not (self._last[0] == path or not path or self._last[0].startswith(path + "/")):
            return self
        changed, data = self._last
        return self.without(changed) if data is None else self.having(changed, data)

    def _derived(self, objects: dict[str, bytes], path: str, before: bytes | None, after: bytes | None) -> Contents:
        new = Contents.__new__(Contents)
        new.traits = self.traits
        new._last = (path, before) if self.traits.lags else None
        new._objects = objects
        new._digest = (
            self._digest
            - (0 if before is None else _object_digest(path, before))
            + (0 if after is None else _object_digest(path, after))
        ) % _MODULUS
        return new


@dataclass(frozen=True, slots=True)
class GoOn(StoreRequest[None]):
    """In place of a request: one of several coroutines of a process runs that does not wait for the store."""


GO_ON = GoOn("")
"""It touches nothing."""
SWITCHED = Returned(("another coroutine goes on",))
"""In place of a reply: nothing is performed, and another coroutine of the process runs."""

Effect: TypeAlias = tuple[Contents, Reply]


def reply_digest(reply: Reply) -> str:
    """16 hexadecimal digits that stand for a reply: of its bytes, number, names, or kind of failure."""
    match reply:
        case Raised(kind=kind, path=path):
            text = f"raised {kind.__name__} {path}".encode()
        case Returned(value=bytes(value)):
            text = b"bytes " + value
        case Returned(value=value):
            text = f"value {value!r}".encode()
    return blake2b(text, digest_size=8).hexdigest()


def perform(contents: Contents, request: StoreRequest[Any]) -> Effect:
    """The contents after ``request`` and the reply to it. Pure; every request has exactly one effect."""
    if isinstance(request, GoOn):
        return contents, _DONE
    if not contents.traits.offers(request):
        return contents, Raised(StorageError, request.path)
    reply, changes = answered(contents, request)
    for name, data in changes:
        contents = contents.without(name) if data is None else contents.having(name, data)
    return contents, reply


_DONE = Returned(None)


def dump(contents: Contents, folder: Path) -> None:
    """Write every object as a file below ``folder``, which is created and must be empty.

    Raises `InvalidArgument` if the folder has something in it, or if a name is both an object and a folder of others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InvalidArgument(f"{folder} is not empty")
    for path in sorted(contents.objects):
        if any(True for _ in contents.below(path)):
            raise InvalidArgument(f"{path} is an object and a folder of objects: a directory cannot hold both")
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(contents.objects[path])
