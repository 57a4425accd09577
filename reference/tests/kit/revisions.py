"""The revisions under which a costly test runs: B in each run of the tests, A and R in the long ones."""

from __future__ import annotations

import pytest

B_FIRST = pytest.mark.parametrize("revision", [*(pytest.param(each, marks=pytest.mark.long) for each in "AR"), "B"])
