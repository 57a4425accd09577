"""The timeline of a run as shapes: where each attempt, claim, flush and merge stands in a picture of some width."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.words import counted

from .report import JobReport, region_label
from .timeline import Timeline

LANES_MOST = 24
"""Regions that are shown."""
_NARROW = 600
_SIDE = 10.0
_LABELS = 120.0
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_HEIGHT = 110.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """An attempt (with a width), or the mark of an event."""

    kind: str
    x: float
    y: float
    width: float = 0.0
    text: str
    """What is shown to a reader that points at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark of the axis of time."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionLane:
    """One region."""

    label: str
    label_y: float
    x: float
    y: float
    """Its middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesPicture:
    """All regions, one below the other."""

    width: int
    height: float
    bottom: float
    """Where the axis of time is."""
    left: float
    right: float
    lanes: tuple[RegionLane, ...]
    shapes: tuple[Shape, ...]
    ticks: tuple[Tick, ...]
    hidden: int
    """Regions that are not shown."""
    narrow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LagPicture:
    """A curve of rows over time."""

    width: int
    height: float
    bottom: float
    left: float
    right: float
    line: str
    """Points of the curve."""
    area: str
    most: str
    most_at: Tick
    ticks: tuple[Tick, ...]
    narrow: bool


def lanes_of(report: JobReport, width: int) -> LanesPicture:
    """The picture of the regions of a report that has a timeline."""
    told = report.timeline
    assert told is not None, "asked for reports with a timeline only"
    narrow = width < _NARROW
    left, right = _SIDE if narrow else _LABELS, width - _SIDE
    high, lead = (44.0, 16.0) if narrow else (34.0, 0.0)
    shown = report.regions[:LANES_MOST]
    lanes = {
        region.region_id: RegionLane(
            label=region_label(region.values),
            label_y=number * high + (12.0 if narrow else high / 2 + 4),
            x=left if narrow else left - 8,
            y=number * high + lead + (high - lead) / 2,
        )
        for number, region in enumerate(shown)
    }

    def x(at: float) -> float:
        return left + (right - left) * at / (told.seconds or 1.0)

    shapes = [
        Shape(
            kind="failed" if span.failed else "attempt",
            x=x(span.begun),
            y=lanes[span.region].y,
            width=max(1.0, x(span.ended) - x(span.begun)),
            text=f"job {span.job}, task {span.task}, attempt {span.attempt}, {span.begun:.1f} to {span.ended:.1f} s"
            + (f": {span.reason}" if span.failed else ""),
        )
        for span in told.attempts
        if span.region in lanes
    ]
    shapes += [
        Shape(kind="fault", x=x(span.ended), y=lanes[span.region].y, text=f"{span.ended:.1f} s: {span.reason}")
        for span in told.attempts
        if span.failed and span.region in lanes
    ]
    words = {"claim": "claim of epoch", "flush": "flush of generation", "merge": "merge of generation"}
    shapes += [
        Shape(kind=e.kind, x=x(e.at), y=lanes[e.region].y, text=f"{e.at:.1f} s: {words[e.kind]} {e.number}")
        for e in told.events
        if e.region in lanes
    ]
    bottom = len(lanes) * high + 4
    return LanesPicture(
        width=width,
        height=bottom + 22,
        bottom=bottom,
        left=left,
        right=right,
        lanes=tuple(lanes.values()),
        shapes=tuple(shapes),
        ticks=_ticks(told.seconds, left, right),
        hidden=len(report.regions) - len(shown),
        narrow=narrow,
    )


def lag_of(told: Timeline, width: int) -> LagPicture:
    """The curve of the rows that are acknowledged and not merged."""
    left, right = _SIDE if width < _NARROW else _LABELS, width - _SIDE
    top, bottom = 20.0, _HEIGHT
    peak = max(told.lag, key=lambda point: point.rows)

    def x(at: float) -> float:
        return left + (right - left) * at / (told.seconds or 1.0)

    def y(rows: int) -> float:
        return bottom - (bottom - top) * max(rows, 0) / (peak.rows or 1)

    steps: list[str] = []
    before = 0
    for point in told.lag:
        steps += [f"{x(point.at):.1f},{y(before):.1f}", f"{x(point.at):.1f},{y(point.rows):.1f}"]
        before = point.rows
    line = " ".join(steps)
    return LagPicture(
        width=width,
        height=bottom + 22,
        bottom=bottom,
        left=left,
        right=right,
        line=line,
        area=f"{left:.1f},{bottom:.1f} {line} {right:.1f},{bottom:.1f}",
        most=counted(peak.rows, "row"),
        most_at=Tick(x=min(max(x(peak.at), left + 40), right - 40), text=f"{peak.at:.1f} s"),
        ticks=_ticks(told.seconds, left, right),
        narrow=width < _NARROW,
    )


def _ticks(seconds: float, left: float, right: float) -> tuple[Tick, ...]:
    most = (right - left) / 60
    step = next((each for each in _TICKS if seconds / each <= most), _TICKS[-1])
    count = int(seconds / step) if seconds else 0
    return tuple(
        Tick(x=left + (right - left) * number * step / seconds, text=f"{number * step:g} s")
        for number in range(count + 1)
        if seconds
    )
