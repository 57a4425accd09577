"""An immutable sequence that grows at its end in constant time: what a MemTable keeps its writes in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Log(Sequence[T], Generic[T]):
    """A value, like a tuple. Successive values share one list, of which each sees a first part.

    The longest value appends in place, which no shorter one can see; appending to a shorter one copies its part.
    Reading is safe while another thread appends; two threads may not append to one value at the same time.
    """

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = list(items)
        self._length = len(self._items)

    def appended(self, item: T) -> Log[T]:
        """A sequence with ``item`` behind this one's."""
        longer: Log[T] = Log.__new__(Log)
        longer._items = self._items if len(self._items) == self._length else self._items[: self._length]
        longer._items.append(item)
        longer._length = self._length + 1
        return longer

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(iter(self._items), self._length)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return tuple(self._items[start:stop:step])
        return self._items[range(self._length)[index]]

    def __repr__(self) -> str:
        return f"Log({self[:]!r})"
