"""What a soak is: everything that its course depends on. Equal settings give equal runs, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from memwal.effects import Io
from memwal.errors import InvalidArgument, check_name
from memwal.ids import Milliseconds
from memwal.jobs.collector import Policy
from memwal.jobs.defaults import COMMIT_EVERY
from memwal.revisions import Interpretation, Revision
from memwal.words import counted

from .. import bugs as planting
from ..bugs import Bug
from ..scenarios.scenario import setting
from .views import ROOT

RegionsBy = Literal["manual", "bucket"]

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_FAULTS = ("lost", "applied", "late", "throttled")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakSettings:
    """One soak. Times are virtual, in milliseconds; ``…_every_ms`` of 0 means never."""

    seed: int = 0
    duration_ms: int = HOUR
    """How long clients write; the drain after that is not counted."""
    revision: str = "B"
    profile: str = "strict"
    bugs: tuple[str, ...] = ()
    """Planted bugs, by name."""
    readings: tuple[str, ...] = ()
    """Single readings on top of the profile, such as ``claim_barrier=false``."""

    regions: int = 4
    regions_by: RegionsBy = "manual"
    """Manual regions with keys of their own, or the buckets of a region spec over the key."""
    keys: int = 160
    """Keys of the whole table."""
    rows_per_put: int = 2
    value_bytes: int = 16
    """Length of each row's value."""
    put_every_ms: int = 30 * SECOND
    """Mean pause between two puts of a region's client, exponential."""
    flush_entries: int = 20
    """WAL entries at which a MemTable is flushed."""
    merge_every_ms: int = 10 * MINUTE
    mergers: int = 2
    """Mergers that look at all regions, each in its own time."""
    commit_every: int = COMMIT_EVERY
    """Most regions that share a commit of a merger."""
    snapshot_every_ms: int = 15 * MINUTE
    index_every_ms: int = 0
    """How often the index builder runs; with 0 the table has no index."""
    collect_every_ms: int = 30 * MINUTE
    strong_read_every_ms: int = 5 * MINUTE
    eventual_read_every_ms: int = 5 * MINUTE

    retain_versions: int = 3
    grace_ms: int = 10 * MINUTE
    """How long the collector assumes that anything but a writer may be under way. Late requests come sooner."""
    retain_manifests: int = 4
    wal_collection: bool = True
    manifest_collection: bool = True

    crash_every_ms: int = 0
    """Mean life of a writer, exponential. Jobs crash in one of 20 runs where this is not 0."""
    stall_every_ms: int = 0
    """Mean time until a writer stops answering, exponential; it continues after `stall_ms`, when it has a successor."""
    stall_ms: int = 10 * MINUTE
    """Mean length of a stall, exponential."""
    failover_ms: int = 20 * SECOND
    """From a writer's crash, stall or failure to the claim of its successor."""

    latency_ms: float = 20.0
    """Median latency of a read or head; puts, lists and deletes take a multiple: see `network.SHAPES`."""
    latency_sigma: float = 0.5
    """Spread of the lognormal latency."""
    bandwidth_bytes_per_ms: float = 50_000.0
    timeout_ms: int = 5 * SECOND
    """After this a client gives up on a request that is not answered."""
    lost: float = 0.0
    """Probability that a request that changes something is neither applied nor answered."""
    applied: float = 0.0
    """… is applied and not answered."""
    late: float = 0.0
    """… is not answered, and applied later."""
    late_ms: int = 20 * SECOND
    """Mean of that delay, exponential, cut off at half of the grace time."""
    throttled: float = 0.0
    """Probability that the store refuses any request for now."""
    prefix_writes_per_s: float = 3500.0
    """Requests that change or list, per prefix, above which the store refuses."""
    prefix_reads_per_s: float = 5500.0
    """Gets and heads, per prefix."""

    sample_every_ms: int = 5 * MINUTE
    check_every_ms: int = 30 * MINUTE
    requests_kept: int = 200
    """Last requests that a failure shows."""

    def __post_init__(self) -> None:
        positive = (
            "duration_ms",
            "regions",
            "keys",
            "rows_per_put",
            "put_every_ms",
            "flush_entries",
            "sample_every_ms",
        )
        for name in (*positive, "mergers", "value_bytes", "timeout_ms", "requests_kept", "bandwidth_bytes_per_ms"):
            if getattr(self, name) <= 0:
                raise InvalidArgument(f"{name} is {getattr(self, name)}, and must be above 0")
        for one in fields(self):
            if one.type in ("int", "float") and getattr(self, one.name) < 0:
                raise InvalidArgument(f"{one.name} is {getattr(self, one.name)}, and must not be negative")
        if sum(getattr(self, name) for name in _FAULTS) > 0.5:
            raise InvalidArgument("lost, applied, late and throttled together are more than half of all requests")
        check_name("way to tell regions", self.regions_by, get_args(RegionsBy))
        if self.keys < self.regions * self.rows_per_put:
            raise InvalidArgument(
                f"{counted(self.keys, 'key')} for {counted(self.regions, 'region')}: some regions would have none"
            )
        if (self.late or self.crash_every_ms or self.stall_every_ms) and self.grace_ms < 4 * self.timeout_ms:
            raise InvalidArgument(f"a grace time of {self.grace_ms} ms is too short for faults: see docs/soak.md")
        self.policy()
        self.interpretation()

    def revision_(self) -> Revision:
        """The revision; raises `InvalidArgument` for an unknown name."""
        return setting(self.revision, self.profile).revision

    def table(self) -> Io:
        """The folder of the table, as every process in the soak works there."""
        return Io(ROOT, interpretation=self.interpretation())

    def planted(self) -> tuple[Bug, ...]:
        """The planted bugs; raises `InvalidArgument` for an unknown name."""
        return planting.choose(self.bugs) if self.bugs else ()

    def interpretation(self) -> Interpretation:
        """The profile with the readings of the planted bugs, and with `readings`."""
        chosen: dict[str, object] = {}
        for text in self.readings:
            name, _, value = text.partition("=")
            if value not in ("true", "false"):
                raise InvalidArgument(f"{text!r} must be NAME=true or NAME=false")
            chosen[name] = value == "true"
        return setting(self.revision, self.profile, {**planting.readings(self.planted()), **chosen}).interpretation

    def policy(self) -> Policy:
        """What the collector keeps."""
        return Policy(
            retain_versions=self.retain_versions,
            grace_ms=Milliseconds(self.grace_ms),
            retain_manifests=self.retain_manifests,
            orphan_age_ms=Milliseconds(self.grace_ms),
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON object with all fields."""
        return asdict(self)


def from_dict(values: Mapping[str, Any]) -> SoakSettings:
    """The inverse of `SoakSettings.as_dict`; fields may be left out. Raises `InvalidArgument`."""
    return changed(SoakSettings(), values)


def changed(settings: SoakSettings, values: Mapping[str, Any]) -> SoakSettings:
    """``settings`` with other values, which may be text as a command line has it. Raises `InvalidArgument`."""
    types = {one.name: str(one.type) for one in fields(SoakSettings)}
    for name in values:
        check_name("setting", name, sorted(types))
    return replace(settings, **{name: _value(name, types[name], value) for name, value in values.items()})


def _value(name: str, kind: str, value: Any) -> Any:
    if kind == "bool" and value in (True, False, "true", "false"):
        return value in (True, "true")
    if kind.startswith("tuple") and not isinstance(value, str):
        return tuple(map(str, value))
    if kind.startswith("tuple"):
        return tuple(part for part in value.split(",") if part)
    try:
        return {"int": int, "float": float}.get(kind, str)(value)
    except (ValueError, KeyError):
        raise InvalidArgument(f"setting {name} takes a value of type {kind}, not {value!r}") from None


_FAULTY = SoakSettings(
    crash_every_ms=4 * HOUR,
    stall_every_ms=6 * HOUR,
    lost=0.001,
    applied=0.001,
    late=0.0005,
    throttled=0.002,
)

PRESETS: dict[str, SoakSettings] = {
    "smoke": replace(
        _FAULTY,
        duration_ms=2 * HOUR,
        crash_every_ms=20 * MINUTE,
        stall_every_ms=30 * MINUTE,
        lost=0.004,
        applied=0.004,
        late=0.002,
        throttled=0.01,
        put_every_ms=30 * SECOND,
    ),
    "storm": replace(
        _FAULTY,
        duration_ms=40 * MINUTE,
        regions=3,
        keys=60,
        put_every_ms=2 * SECOND,
        flush_entries=8,
        merge_every_ms=40 * SECOND,
        mergers=3,
        snapshot_every_ms=MINUTE,
        index_every_ms=2 * MINUTE,
        collect_every_ms=MINUTE,
        strong_read_every_ms=10 * SECOND,
        eventual_read_every_ms=30 * SECOND,
        retain_versions=1,
        grace_ms=8 * SECOND,
        crash_every_ms=20 * MINUTE,
        stall_every_ms=30 * MINUTE,
        lost=0.004,
        applied=0.004,
        late=0.002,
        throttled=0.01,
        latency_ms=400.0,
        timeout_ms=2 * SECOND,
        late_ms=2 * SECOND,
        sample_every_ms=MINUTE,
        check_every_ms=5 * MINUTE,
    ),
    "day": replace(
        _FAULTY,
        duration_ms=DAY,
        regions=8,
        regions_by="bucket",
        keys=320,
        put_every_ms=20 * SECOND,
        flush_entries=60,
        merge_every_ms=20 * MINUTE,
        index_every_ms=HOUR,
        collect_every_ms=HOUR,
        check_every_ms=2 * HOUR,
    ),
    "month": replace(
        _FAULTY,
        duration_ms=30 * DAY,
        regions_by="bucket",
        put_every_ms=2 * MINUTE,
        flush_entries=60,
        merge_every_ms=2 * HOUR,
        snapshot_every_ms=2 * HOUR,
        index_every_ms=6 * HOUR,
        collect_every_ms=4 * HOUR,
        strong_read_every_ms=HOUR,
        eventual_read_every_ms=HOUR,
        sample_every_ms=HOUR,
        check_every_ms=12 * HOUR,
        crash_every_ms=12 * HOUR,
        stall_every_ms=DAY,
    ),
}


def preset(name: str) -> SoakSettings:
    """The preset ``name``; raises `InvalidArgument` with the names that there are."""
    check_name("preset", name, PRESETS)
    return PRESETS[name]
