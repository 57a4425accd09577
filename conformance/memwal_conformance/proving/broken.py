"""The reference adapter with something planted in it, which the suite has to judge for what it is.

``python -m memwal_conformance.proving.broken NAME`` plants one of `defects`, which are what any implementation could
get wrong, or of `deviating`, which the texts permit or forbid; ``… --bug NAME`` plants a bug of ``faults/bugs`` in the
engine behind the adapter.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from dataclasses import replace

from memwal.api import place
from memwal.revisions import Interpretation
from memwal_sim import bugs

from memwal_conformance.adapters import reference
from memwal_conformance.adapters.reference_state import ReferenceState
from memwal_conformance.adapters.serve import Handler
from memwal_conformance.protocol import Json
from memwal_conformance.proving.defects import DEFECTS, Defect, Handlers
from memwal_conformance.proving.deviating import PLANTS, Plant


def planted(name: str) -> Defect | Plant:
    """The defect or the deviation called ``name``."""
    return DEFECTS[name] if name in DEFECTS else PLANTS[name]


def handlers(defect: str, state: ReferenceState | None = None) -> Handlers:
    """The reference's handlers with a defect or deviation planted; what it replaces in the engine is not done here."""
    made = reference.handlers(state)
    planted(defect).plant(made)
    made["hello"] = functools.partial(_hello, made["hello"], defect)
    return made


def _hello(honest: Handler, defect: str, params: Json) -> Json:
    return honest(params) | {"implementation": f"broken ({defect})"}


@contextlib.contextmanager
def engine_with(bug: bugs.Bug) -> Iterator[None]:
    """The engine of this process has ``bug``, its readings included, while the context is open.

    Readings are chosen where a table is opened and a profile named: everything below carries what comes out there.
    """
    chosen, honest = bugs.readings([bug]), place.named_profile

    def misread(profile: place.Profile) -> Interpretation:
        return replace(honest(profile), **chosen)  # type: ignore[arg-type]

    with bugs.planted([replace(bug, replaced={**bug.replaced, "memwal.api.place:named_profile": misread})]):
        yield


def serve_with(name: str) -> None:
    """Serve the reference with the planted bug called ``name`` until ``shutdown``.

    Raises `memwal.errors.InvalidArgument` if there is no such bug.
    """
    (bug,) = bugs.choose([name])

    def made(state: ReferenceState) -> Handlers:
        honest = reference.handlers(state)
        return honest | {"hello": functools.partial(_hello, honest["hello"], name)}

    with engine_with(bug):
        reference.main(made)


def main(arguments: list[str]) -> None:
    """Serve what the arguments name."""
    match arguments:
        case ["--bug", name]:
            serve_with(name)
        case [name] if name in DEFECTS or name in PLANTS:
            with bugs.replacing(planted(name).replaced):
                reference.main(functools.partial(handlers, name))
        case _:
            raise SystemExit(f"usage: broken (--bug NAME | {' | '.join([*DEFECTS, *PLANTS])})")


if __name__ == "__main__":
    main(sys.argv[1:])
