"""What every store is: something that performs store requests, one at a time or many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from ..effects import Copy, Get, GetRanges, List, ListFolders, RenameIfAbsent, StoreRequest
from ..errors import InvalidArgument

S_contra = TypeVar("S_contra", contravariant=True)

Handlers = Mapping[type[StoreRequest[Any]], Callable[[S_contra, Any], Any]]
"""How a store of type ``S_contra`` performs each kind of request."""


_NAMES = 1 << 12
"""So many names are not looked at anew where they are asked for again."""


_OF_FOLDERS = (List, ListFolders)
"""The requests whose path may be empty: the folder of everything."""


_WITH_TARGET = (Copy, RenameIfAbsent)


class Store(Protocol):
    """An object store. Safe to use from many threads; several stores over the same place see each other's objects."""

    def perform(self, request: StoreRequest[Any]) -> Any:
        """Perform ``request`` and return its reply.

        Raises the outcomes that the request's class names, and besides them `Throttled` (not applied, may be repeated)
        and `StorageError` (not applied, repeating is pointless). `OutcomeUnknown` is raised for every request that
        changes the store and whose fate could not be learned, and for requests that only read as `Unreachable` alone:
        there was no answer. Raises
        `InvalidArgument` for a name that is not an object name, and for a request of an unknown kind.
        """

    def describe(self) -> str:
        """Where this store keeps its objects, in words for people; never contains credentials."""

    def close(self) -> None:
        """Release what the store holds. It performs no request afterwards."""


def handler(handlers: Handlers[S_contra], request: StoreRequest[Any]) -> Callable[[S_contra, Any], Any]:
    """The entry of ``handlers`` for ``request``, whose names are checked first; raises `InvalidArgument`."""
    kind = type(request)
    found = handlers.get(kind)
    if found is None:
        raise InvalidArgument(f"stores cannot perform the request {kind.__name__}")
    if request.path or kind not in _OF_FOLDERS:
        check_name(request.path)
    if isinstance(request, _WITH_TARGET):
        check_name(request.target)
    return found


@lru_cache(maxsize=_NAMES)
def check_name(name: str) -> None:
    """Raise `InvalidArgument` unless ``name`` is an object name.

    An object name is not empty, is relative, has no empty, ``.`` or ``..`` component and no NUL, and is encodable as
    UTF-8.
    """
    framed = f"/{name}/"
    if "//" in framed or "/./" in framed or "/../" in framed or "\0" in framed:
        raise InvalidArgument(
            f"not an object name: {name!r}; use a relative path without empty, '.' or '..' parts and without NUL"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"not an object name: {name!r} (not encodable as UTF-8)") from error


def slice_of(size: int, offset: int, length: int | None) -> tuple[int, int]:
    """First byte and end (exclusive) of the part of an object of ``size`` bytes that a `Get` asks for.

    A negative ``offset`` counts from the end and stops at the beginning; ``length`` counts from there. What lies beyond
    the end is left out, so that the result may be empty (first byte = end). Raises `InvalidArgument` for a negative
    length.
    """
    if length is not None and length < 0:
        raise InvalidArgument(f"a range of {length} bytes")
    first = min(offset, size) if offset >= 0 else max(0, size + offset)
    return first, size if length is None else min(size, first + length)


def spans_of(request: Get, size: int) -> list[tuple[int, int]]:
    """First byte and end (exclusive) of each part of an object of ``size`` bytes that ``request`` asks for."""
    ranges = request.ranges if isinstance(request, GetRanges) else ((request.offset, request.length),)
    return [slice_of(size, offset, length) for offset, length in ranges]
