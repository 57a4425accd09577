"""How much a machine tries: a short profile that never depends on luck, and a long one for ``make explore``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import InvalidArgument as NoSuchProfile
from memwal.errors import InvalidArgument

SHORT, LONG = "short", "long"
VARIABLE = "HYPOTHESIS_PROFILE"
"""Environment variable that names the profile."""

_SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
"""Rules run whole protocols: what is slow for a property is not for a machine."""
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""What is found is made smaller by `memwal_sim.traces.shrinking`, by requests, a tenth of Hypothesis's costs."""

settings.register_profile(
    SHORT,
    settings(
        max_examples=40,
        stateful_step_count=4,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=_PHASES,
        suppress_health_check=_SLOW,
    ),
)
settings.register_profile(
    LONG,
    settings(
        max_examples=2_000,
        stateful_step_count=12,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        print_blob=True,
        phases=_PHASES,
        suppress_health_check=_SLOW,
    ),
)


def chosen() -> settings:
    """The settings of the profile that the environment names, `SHORT` if it names none.

    Raises `InvalidArgument` for a name that there is not.
    """
    name = os.environ.get(VARIABLE) or SHORT
    try:
        return settings.get_profile(name)
    except NoSuchProfile:
        raise InvalidArgument(f"{VARIABLE}={name}: there is no such profile; there are {SHORT} and {LONG}") from None
