"""What Hypothesis tries: one profile that never depends on luck, and a long one for ``make explore``.

They hold for every property and every machine of the project. A property says how many cases it needs only where it has
a reason; a machine tries `HISTORIES` of `STEPS`.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from memwal.errors import check_name

SHORT, LONG = "short", "long"
VARIABLE = "HYPOTHESIS_PROFILE"
"""Environment variable that names the profile."""
HISTORIES = {SHORT: 40, LONG: 2_000}
STEPS = {SHORT: 4, LONG: 12}

_SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
"""Cases run whole protocols; and how long one takes is no matter of what holds."""
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""What a machine finds is made smaller by `memwal_sim.traces.shrinking`, by requests, a tenth of Hypothesis's costs."""

settings.register_profile(
    SHORT, settings(derandomize=True, database=None, deadline=None, suppress_health_check=_SLOW, print_blob=False)
)
settings.register_profile(
    LONG, settings(derandomize=False, database=None, deadline=None, suppress_health_check=_SLOW, print_blob=True)
)


def named() -> str:
    """The profile that the environment names, `SHORT` if it names none.

    Raises `InvalidArgument` for an unknown name.
    """
    name = os.environ.get(VARIABLE) or SHORT
    check_name(VARIABLE, name, (SHORT, LONG))
    return name


def load() -> None:
    """Let properties that are defined from now on follow the profile that the environment names."""
    settings.load_profile(named())


def chosen() -> settings:
    """The profile that the environment names, for a machine."""
    name = named()
    return settings(
        settings.get_profile(name),
        max_examples=HISTORIES[name],
        stateful_step_count=STEPS[name],
        report_multiple_bugs=False,
        phases=_PHASES,
    )
