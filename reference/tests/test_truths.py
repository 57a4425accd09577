"""Truth values are the same in numpy and in Arrow, wherever they begin in their memory, and NULL is false."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from memwal import truths


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_truths_go_from_numpy_to_arrow_and_back(count: int) -> None:
    drawn = np.random.default_rng(count)
    mask, gone = drawn.random(count) < 0.5, drawn.random(count) < 0.3
    given = truths.to_arrow(mask)
    given.validate(full=True)
    assert given.to_pylist() == mask.tolist()
    stored = pa.array(mask, mask=gone)
    for first in range(count + 1):
        for size in {0, 1, count - first}:
            part = stored.slice(first, size)
            wanted = [value is True for value in part.to_pylist()]
            assert truths.of_arrow(part).tolist() == wanted
            assert truths.of_arrow(pa.chunked_array([part, given])).tolist() == [*wanted, *mask.tolist()]
    assert truths.of_arrow(pa.chunked_array([], pa.bool_())).tolist() == []
    for value in (False, True):
        repeated = truths.repeated(value, count)
        repeated.validate(full=True)
        assert repeated.to_pylist() == [value] * count
