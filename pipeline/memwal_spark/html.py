"""The validation report as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from .pictures import lag_of, lanes_of
from .report import JobReport, region_label, to_json

WIDTHS = (360, 960)
"""Of the pictures: one is shown on a telephone, one elsewhere."""
AMPLIFIED = {"wal": "WAL", "generations": "Generations", "base": "Base table", "beside": "Manifests, indexes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a chart: a label, a value, its text, and its length as a share of the longest one."""

    label: str
    text: str
    share: float


def write_html(report: JobReport, path: Path) -> None:
    """Render the report to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(report), encoding="utf-8")


def render(report: JobReport) -> str:
    """The page as text; it refers to nothing outside itself."""
    environment = Environment(
        loader=PackageLoader("memwal_spark"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        report=report,
        region_label=region_label,
        phase_bars=_bars([(p.name, p.seconds, f"{p.seconds:.1f} s") for p in report.phases]),
        region_bars=_bars([(region_label(r.values), float(r.rows), f"{r.rows:,}") for r in report.regions]),
        lanes=[lanes_of(report, width) for width in WIDTHS] if report.timeline else [],
        lag=[lag_of(report.timeline, width) for width in WIDTHS] if report.timeline else [],
        amplification=_amplification(report),
        facts=_facts(report),
        json=to_json(report),
    )


def _amplification(report: JobReport) -> list[Bar]:
    if report.timeline is None:
        return []
    found = report.timeline.bytes
    return _bars(
        [
            (
                text,
                float(getattr(found, name)),
                f"{found.times(name):.2f} times, {getattr(found, name) / 2**20:,.1f} MiB",
            )
            for name, text in AMPLIFIED.items()
        ]
    )


def _facts(report: JobReport) -> list[tuple[str, str]]:
    facts = [("Events", f"{report.events:,}"), ("Keys", f"{report.keys:,}")]
    if report.regions:
        facts += [("Regions", f"{len(report.regions)}"), ("Generations", f"{report.generations:,}")]
    facts += [(name.capitalize(), f"{rate:,.0f} rows/s") for name, rate in report.rates]
    facts += [("Time", f"{report.seconds:,.0f} s"), ("Peak memory", f"{report.peak_memory_bytes / 2**30:.1f} GiB")]
    return facts


def _bars(values: Sequence[tuple[str, float, str]]) -> list[Bar]:
    longest = max((value for _, value, _ in values), default=0.0)
    return [Bar(label=name, text=text, share=value / longest if longest else 0.0) for name, value, text in values]
