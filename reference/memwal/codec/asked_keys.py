"""Keys that several filters are asked for: each way of hashing is done once, however many filters hash that way."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import cellwise

T = TypeVar("T")


@dataclass(frozen=True)
class AskedKeys:
    """Some rows of a table of key columns."""

    all: pa.Table
    """The key columns only, in the order of the key and in the types of the table's schema."""
    rows: npt.NDArray[np.intp] | None = None
    """Positions of the rows that are asked for; None: all."""
    _hashed: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, keys: pa.Table | AskedKeys) -> AskedKeys:
        """A table's keys; those that are asked for already as they are."""
        return keys if isinstance(keys, AskedKeys) else cls(keys)

    def __len__(self) -> int:
        return self.all.num_rows if self.rows is None else len(self.rows)

    @cached_property
    def table(self) -> pa.Table:
        """The rows that are asked for."""
        return self.all if self.rows is None else cellwise.at(self.all, self.rows)

    def at(self, positions: npt.NDArray[np.intp]) -> AskedKeys:
        """Those of the rows at ``positions``."""
        return AskedKeys(self.all, positions if self.rows is None else self.rows[positions], self._hashed)

    def hashed(self, how: Hashable, make: Callable[[pa.Table], T]) -> T:
        """What ``make`` gives for all rows, chosen or not; ``how`` names it."""
        if how not in self._hashed:
            self._hashed[how] = make(self.all)
        found: T = self._hashed[how]
        return found
