"""Chance, decided by a seed: the same seed draws the same numbers, in every version of Python."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from hashlib import shake_128
from itertools import count
from typing import TypeVar

BITS = 32
"""Of each number drawn."""

_BLOCK_BYTES = 512

T = TypeVar("T")


class Draws:
    """An endless row of numbers that look random."""

    __slots__ = ("take",)

    def __init__(self, seed: int) -> None:
        self.take: Callable[[], int] = _numbers(seed).__next__
        """The next number, from 0 to 2**32 - 1."""

    def below(self, limit: int) -> int:
        """A number from 0 to ``limit`` - 1, each with the same probability but for one part in 2**32."""
        return self.take() * limit >> BITS

    def one_of(self, options: Sequence[T]) -> T:
        """One of ``options``."""
        return options[self.take() * len(options) >> BITS]

    def one_in(self, number: int) -> bool:
        """True with probability 1 / ``number``."""
        return self.below(number) == 0

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """``items`` in an order of which each has the same probability."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed


def _numbers(seed: int) -> Iterator[int]:
    for block in count():
        numbers = array("I", shake_128(f"{seed}/{block}".encode()).digest(_BLOCK_BYTES))
        if sys.byteorder == "big":
            numbers.byteswap()
        yield from numbers
