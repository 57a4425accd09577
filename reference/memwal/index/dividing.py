"""Rows by the region that they belong to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..cellwise import at
from ..clauses import implements
from .region_values import RegionKey, values_key


@implements("REGION-003", "REGION-006")
def divided(rows: pa.Table, values: pa.Table) -> Mapping[RegionKey, tuple[Mapping[str, object], pa.Table]]:
    """The rows of each region in their order, and its region values by field id.

    ``values``: region value of each row, as `memwal.index.transforms.evaluate` finds them. Rows whose values name one
    region, such as both zeros, are together.
    """
    region_of_row, first = _numbered(values)
    order = np.argsort(region_of_row, kind="stable")
    bounds = np.searchsorted(region_of_row[order], np.arange(len(first) + 1))
    named: dict[RegionKey, tuple[Mapping[str, object], list[npt.NDArray[np.int64]]]] = {}
    for number, row in enumerate(values.take(pa.array(first)).to_pylist()):
        _, places = named.setdefault(values_key(row), (row, []))
        places.append(order[bounds[number] : bounds[number + 1]])
    return {key: (row, at(rows, np.sort(np.concatenate(places)))) for key, (row, places) in named.items()}


def _numbered(values: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A number from 0 for the values of each row, and the first row of each number."""
    number = np.zeros(values.num_rows, np.int64)
    first = np.arange(min(1, values.num_rows))
    for column in values.columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy().astype(np.int64)
        _, first, number = np.unique(number * len(encoded.dictionary) + codes, return_index=True, return_inverse=True)
    return number, first
