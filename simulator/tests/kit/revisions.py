"""The revisions under which a costly test runs: B in each run of the tests, A and R in the long ones.

The same scenarios are explored under A and R by ``memwal docs certify --check`` in ``make explore``, and in each run
of the tests where that is cheap (`test_certificates`).
"""

from __future__ import annotations

import pytest

B_FIRST = [*(pytest.param(each, marks=pytest.mark.long) for each in "AR"), "B"]
"""Values of ``revision``."""
