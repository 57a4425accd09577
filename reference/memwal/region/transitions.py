"""Who may change which field of a region's manifest: one table, which steps assert and the verifier judges by.

Each version differs from the one before by the fields of exactly one trigger. The list of fields is closed for all of
them but the last-seen hint, which any update may raise (AMB-34).

Source: MemWAL revisions A and B, "Region Manifest Updates".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from types import MappingProxyType
from typing import Any

from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..errors import EngineBug
from ..ids import ManifestVersion, WalPosition
from ..revisions import Revision


class Change(Enum):
    """How a field changes: in words, and as a judgement of the value before and the value after."""

    NONE = "stays as it is", lambda a, b: a == b
    NEXT = "becomes the next number", lambda a, b: b == a + 1
    MAY_RISE = "stays or rises", lambda a, b: b >= a
    RISES = "rises", lambda a, b: b > a
    ONE_MORE = "gets one entry more, behind the others", lambda a, b: b[:-1] == a and len(b) == len(a) + 1
    FEWER = "loses entries", lambda a, b: len(b) < len(a) and b == tuple(each for each in a if each in b)
    TURNS = "turns", lambda a, b: a != b

    def __init__(self, words: str, holds: Callable[[Any, Any], bool]) -> None:
        self.words = words
        self.holds = holds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trigger:
    """What makes a new manifest version."""

    name: str
    clause: str
    changes: Mapping[str, Change]
    """Field -> how it changes. All others stay but the version, which is the next one; a generation that is listed is
    the current one."""

    def misfit(self, a: RegionManifest, b: RegionManifest, free: Collection[str] = ()) -> str:
        """The first field by which the step from ``a`` to ``b`` is not this trigger's; empty if it is.

        ``free``: fields that are not judged.
        """
        for name in _FIELDS:
            change = self.changes.get(name, Change.NONE)
            if name not in free and not change.holds(getattr(a, name), getattr(b, name)):
                return name
        lists = self.changes.get("flushed") is Change.ONE_MORE
        return "flushed" if lists and b.flushed[-1].generation != a.generation_current else ""


_FIELDS = tuple(field.name for field in fields(RegionManifest))

CLAIM = Trigger(name="claim", clause="MANIFEST-034", changes=MappingProxyType({"epoch": Change.NEXT}))
FLUSH = Trigger(
    name="MemTable flush",
    clause="MANIFEST-035",
    changes=MappingProxyType({
        "position_replay_after": Change.MAY_RISE,
        "position_last_seen": Change.MAY_RISE,
        "generation_current": Change.NEXT,
        "flushed": Change.ONE_MORE,
    }),
)  # fmt: skip
INDEX_BUILDER = Trigger(
    name="MemWAL index builder",
    clause="MANIFEST-036",
    changes=MappingProxyType({"position_last_seen": Change.RISES}),
)
COLLECTOR = Trigger(
    name="garbage collector", clause="MANIFEST-037", changes=MappingProxyType({"flushed": Change.FEWER})
)
SEALING = Trigger(name="sealing (R)", clause="MANIFEST-040", changes=MappingProxyType({"sealed": Change.TURNS}))
"""Only R has a status that can be sealed, and nothing here seals a region."""

TRIGGERS = (CLAIM, FLUSH, INDEX_BUILDER, COLLECTOR, SEALING)
_ANYWHERE = frozenset({"version", "position_last_seen"})
"""What others judge in every step: the number, and the hint (AMB-34)."""
_JUDGED = tuple((trigger, _ANYWHERE | ({"position_replay_after"} & trigger.changes.keys())) for trigger in TRIGGERS)
"""Each trigger, and the fields that `explained` leaves to other invariants."""


@implements("MANIFEST-040", "AMB-34")
def explained(a: RegionManifest, b: RegionManifest) -> bool:
    """Whether the step from ``a`` to ``b``, the next version, is that of some trigger, by any process.

    What other invariants judge is left to them: density of versions, and a replay pointer that goes back.
    """
    return any(not trigger.misfit(a, b, free) for trigger, free in _JUDGED)


@implements("MANIFEST-034", "MANIFEST-035", "MANIFEST-036", "MANIFEST-037", "MANIFEST-040", "AMB-34", "AMB-35")
def check(trigger: Trigger, a: RegionManifest | None, b: RegionManifest, revision: Revision) -> None:
    """Assert that a step of the engine's own is the trigger's; raises `EngineBug`. None: a claim creates the region."""
    if a is not None:
        wrong = trigger.misfit(a, b, ("version",)) or ("" if b.version == a.version + 1 else "version")
        wrong = wrong and f"by {trigger.name} {wrong} does not go from {getattr(a, wrong)!r} to {getattr(b, wrong)!r}"
    elif trigger is not CLAIM:
        wrong = f"{trigger.name} creates no region"
    else:
        fields_wrong = {name: getattr(b, name) for name, value in fresh(revision).items() if getattr(b, name) != value}
        wrong = f"a region that is just created has {fields_wrong}" if fields_wrong else ""
    if wrong:
        raise EngineBug(f"a step of the region manifest that is none: {wrong}")


@implements("AMB-35")
def fresh(revision: Revision) -> Mapping[str, Any]:
    """Fields of the manifest that creates a region, but those that say which region it is."""
    return {
        "version": ManifestVersion(1),
        "epoch": revision.epoch_first,
        "position_replay_after": WalPosition(0),
        "position_last_seen": WalPosition(0),
        "generation_current": revision.generation_first,
        "flushed": (),
        "sealed": False,
    }
