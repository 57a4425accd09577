"""Plots of a soak as SVG that takes its colours from the page around it, in the light and in the dark."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memwal.errors import InvalidArgument

Series = Mapping[str, Sequence[float | None]]

_INK = "#0a0b0c"
"""Stands for the colour of the page's text while matplotlib draws."""
_COLOURS = ("#2a78d6", "#eb6834", "#1baf7a", "#a05fd0", "#eda100", "#7d8590")
"""Lines; each can be told from the page in both themes."""
_STYLES = ("-", "--", ":", "-.", "-", "--")


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot: lines over virtual time."""

    title: str
    unit: str
    lines: Mapping[str, str]
    """Label -> name of the series."""


PLOTS = (
    Plot("Merge lag", "generations", {"listed": "generations listed", "unmerged": "generations unmerged"}),
    Plot("Rows that are not merged", "rows", {"in generations": "rows unmerged"}),
    Plot("WAL tail", "entries", {"entries that no generation covers": "WAL tail entries"}),
    Plot("Objects", "objects", {"objects on the store": "objects"}),
    Plot(
        "Bytes",
        "bytes",
        {
            "WAL": "bytes of WAL",
            "generations": "bytes of generations",
            "region manifests": "bytes of region manifests",
            "base data": "bytes of base data",
            "base indexes": "bytes of base indexes",
            "table versions": "bytes of table versions",
        },
    ),
    Plot("Write amplification", "bytes put / bytes of rows", {"since the beginning": "write amplification"}),
    Plot(
        "Requests that change or list",
        "requests/h",
        {
            "put if absent": "PutIfAbsent requests/h",
            "put": "Put requests/h",
            "delete": "Delete requests/h",
            "list": "List requests/h",
            "list folders": "ListFolders requests/h",
        },
    ),
    Plot("Requests that read", "requests/h", {"get": "Get requests/h", "head": "Head requests/h"}),
    Plot(
        "Requests of one read",
        "requests",
        {"strong": "strong reader: requests per read", "eventual": "eventual reader: requests per read"},
    ),
    Plot(
        "Bytes of one read",
        "bytes",
        {"strong": "strong reader: bytes per read", "eventual": "eventual reader: bytes per read"},
    ),
    Plot(
        "Owners, fences, conflicts",
        "per hour",
        {"claims": "claims/h", "fenced": "fenced/h", "conflicts": "conflicts/h", "faults": "faults/h"},
    ),
    Plot("Fragments of the base table", "fragments", {"fragments": "fragments", "with deletions": "deletion files"}),
    Plot("Cost so far", "money", {"requests and storage": "cost"}),
)


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise InvalidArgument("plots need matplotlib: pip install 'memwal[plots]'") from missing
    mpl.rcParams["svg.hashsalt"] = "memwal"
    mpl.rcParams["svg.fonttype"] = "none"
    return Figure


def draw(plot: Plot, series: Series) -> str:
    """``plot`` as an SVG element. Equal series give equal text. Raises `InvalidArgument` without matplotlib."""
    figure = _matplotlib()(figsize=(5.6, 2.9), layout="constrained")
    axes = figure.add_subplot()
    hours = [hour or 0.0 for hour in series["hours"]]
    days = hours[-1] > 72 if hours else False
    moments = [hour / 24 if days else hour for hour in hours]
    for place, (label, name) in enumerate(plot.lines.items()):
        points = [(t, v) for t, v in zip(moments, series.get(name, ()), strict=False) if v is not None]
        # What a run begins with, such as tables that are made and nothing amortised, would set the scale of all.
        points = points[1:] if len(points) > 2 else points
        if points:
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, _STYLES[place], color=_COLOURS[place], label=label, linewidth=1.4)
    axes.set_xlabel("days" if days else "hours", color=_INK)
    axes.set_ylabel(plot.unit, color=_INK)
    axes.tick_params(colors=_INK)
    axes.grid(color=_INK, alpha=0.15, linewidth=0.6)
    axes.set_ylim(bottom=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_INK)
    axes.patch.set_alpha(0)
    if len(plot.lines) > 1:
        axes.legend(frameon=False, labelcolor=_INK, fontsize="small")
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _on_page(out.getvalue(), plot.title)


def _on_page(svg: str, title: str) -> str:
    """The element alone, named for screen readers, in the colour of the text around it."""
    element = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r' (width|height)="[\d.]+pt"', "", element, count=2)
    return element.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1).strip()


def draw_all(series: Series) -> list[tuple[str, str]]:
    """Title and SVG of each plot that has anything to show."""
    shown = [plot for plot in PLOTS if any(any(v is not None for v in series.get(n, ())) for n in plot.lines.values())]
    return [(plot.title, draw(plot, series)) for plot in shown]
