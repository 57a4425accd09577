"""Several runs side by side: implementations and versions across, areas and cases down.

Reads ``summary.json`` of a report, and the short form that `memwal_conformance.native.record` keeps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from memwal.errors import InvalidArgument, check_name
from memwal.words import counted

from ..verdicts import MEANING, Verdict
from .markdown import cell as escaped
from .markdown import table
from .page import templates

CALM = (Verdict.PASS, Verdict.UNSUPPORTED)
"""Verdicts that need no explanation."""


@dataclass(frozen=True, slots=True)
class CaseCell:
    """What one run says about one case."""

    verdict: Verdict
    why: str
    """The explanation in one line; empty for `CALM` verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One run."""

    label: str
    """Implementation and version."""
    says: tuple[str, ...]
    """The sentences at the end of the run."""
    cases: dict[str, CaseCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRow:
    """One case, or one area, in all runs."""

    name: str
    cells: tuple[CaseCell | None, ...]
    """None: the run does not have it."""

    @property
    def calm(self) -> bool:
        """Whether the runs agree, and nothing needs an explanation."""
        verdicts = {None if cell is None else cell.verdict for cell in self.cells}
        return len(verdicts) == 1 and verdicts <= set(CALM)


def load(path: Path) -> Column:
    """One run from its summary. Raises `InvalidArgument` for a file that is none."""
    try:
        read: Any = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InvalidArgument(f"{path} is not JSON: {error}") from error
    try:
        label = f"{read['implementation']} {read['version']}"
        if isinstance(read["cases"], list):
            says = [revision["sentence"] for revision in read["revisions"].values()]
            cells = {case["case"]: _cell(case) for case in read["cases"]}
        else:
            says = read["says"]
            cells = {name: _cell(case) for name, case in read["cases"].items()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidArgument(f"{path} is not a summary of a conformance run: {error!r}") from error
    return Column(label=label, says=tuple(map(str, says)), cases=dict(sorted(cells.items())))


def _cell(case: Any) -> CaseCell:
    if isinstance(case, str):
        return CaseCell(Verdict(case), "")
    verdict = Verdict(case["verdict"])
    return CaseCell(verdict, "" if verdict in CALM else _why(str(case["text"]), verdict.value))


def _why(text: str, verdict: str) -> str:
    """The first line that gives the verdict, without it; the first line if none does."""
    lines = text.splitlines() or [""]
    said = next((line for line in lines if line.startswith(f"{verdict} ")), lines[0])
    return said.removeprefix(f"{verdict} ")


def load_all(paths: Sequence[Path]) -> list[Column]:
    """Several runs; where two have one label, the folder's name tells them apart. Raises `InvalidArgument`."""
    columns = [load(path) for path in paths]
    counts = Counter(column.label for column in columns)
    return [
        replace(column, label=f"{column.label} ({path.resolve().parent.name})") if counts[column.label] > 1 else column
        for column, path in zip(columns, paths, strict=True)
    ]


def rows(columns: Sequence[Column]) -> list[CaseRow]:
    """All cases that some run has, by name."""
    names = sorted({name for column in columns for name in column.cases})
    return [CaseRow(name=name, cells=tuple(column.cases.get(name) for column in columns)) for name in names]


def place(case: str) -> tuple[str, str]:
    """Revision and area of a case, from its name."""
    file, _, what = case.partition("::")
    parts = file.split("/")
    return (parts[1], parts[2]) if parts[0] == "vectors" else (what, "scenario")


def areas(columns: Sequence[Column]) -> list[tuple[str, str, list[Counter[Verdict]]]]:
    """Revision, area, and for each run how many cases came to which verdict."""
    found = sorted({place(name) for column in columns for name in column.cases})
    return [
        (*where, [Counter(c.verdict for name, c in column.cases.items() if place(name) == where) for column in columns])
        for where in found
    ]


def markdown(columns: Sequence[Column], *, every: bool = False) -> str:
    """The tables as Markdown; ``every``: also cases of which nothing needs to be said."""
    labels = [escaped(column.label) for column in columns]
    lines = ["## What each run says", ""]
    lines += [f"- {escaped(says)}" for column in columns for says in column.says]
    lines += ["", "## Areas", ""]
    lines += table(("Revision", "Area", *labels), [(r, a, *map(_counted, counts)) for r, a, counts in areas(columns)])
    found = rows(columns)
    shown = [row for row in found if every or not row.calm]
    lines += ["", "## Cases", "", _left_out(found, shown), ""]
    if shown:
        lines += table(("Case", *labels), [(f"`{row.name}`", *map(_verdict, row.cells)) for row in shown])
    notes = [
        f"- {label}, `{row.name}`: {_verdict(cell)}: {escaped(cell.why)}"
        for row in found
        for label, cell in zip(labels, row.cells, strict=True)
        if cell is not None and cell.verdict not in CALM
    ]
    if notes:
        lines += ["", "## What is neither PASS nor UNSUPPORTED", "", *notes]
    return "\n".join(lines) + "\n"


def _counted(counts: Counter[Verdict]) -> str:
    told = [f"{counts[verdict]} {_named(verdict)}" for verdict in Verdict if counts[verdict]]
    return ", ".join(told) or "–"


def _named(verdict: Verdict) -> str:
    return verdict.value if verdict in CALM else f"**{verdict.value.replace('_', ' ')}**"


def _verdict(cell: CaseCell | None) -> str:
    return "–" if cell is None else _named(cell.verdict)


def _left_out(found: Sequence[CaseRow], shown: Sequence[CaseRow]) -> str:
    if len(found) == len(shown):
        return f"{counted(len(found), 'case')}."
    alike = [row for row in found if row.calm]
    passed = sum(1 for row in alike if row.cells[0] is not None and row.cells[0].verdict is Verdict.PASS)
    return (
        f"{len(shown)} of {len(found)} cases; of the others {passed} are PASS in all runs, "
        f"{len(alike) - passed} UNSUPPORTED."
    )


def as_json(columns: Sequence[Column]) -> str:
    """All of it as JSON: runs, and for each case its verdicts in the order of the runs."""
    told = {
        "runs": [{"label": column.label, "says": list(column.says)} for column in columns],
        "cases": {
            row.name: [None if c is None else {"verdict": c.verdict.value, "why": c.why} for c in row.cells]
            for row in rows(columns)
        },
    }
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def html(columns: Sequence[Column]) -> str:
    """All of it as one page that refers to nothing outside itself."""
    return (
        templates()
        .get_template("side_by_side.html.j2")
        .render(
            columns=columns,
            areas=areas(columns),
            rows=rows(columns),
            verdicts=list(Verdict),
            meaning=MEANING,
            style=(resources.files(__package__ or "") / "templates" / "report.css").read_text("utf-8"),
        )
    )


FORMATS: dict[str, Callable[[Sequence[Column]], str]] = {"md": markdown, "html": html, "json": as_json}
"""Name of a format -> what writes it."""


def written(columns: Iterable[Column], format_: str) -> str:
    """The matrix in a format of `FORMATS`. Raises `InvalidArgument` for another one."""
    check_name("format", format_, FORMATS)
    return FORMATS[format_](list(columns))
