"""The critical notes of SPEC_NOTES: which assumption of the machine is about each, or why the machine cannot say it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from .histories import HAZARDS
from .machine import ASSUMPTIONS

NOTES = Path("conformance") / "clauses" / "ambiguities.toml"
TEST = "test_histories.py::test_without_it_the_last_step_breaks_a_statement"
"""What sees each history break its statement."""

ALSO = {"AMB-86": "rebase_index_fields", "AMB-92": "skip_only_merged"}
"""Notes whose hazard is that of another note's assumption."""

_ONE_REGION = "The machine is one region, and a key belongs to it: {}."
_ROWS = "A row of the machine has a key and a position, and no values: {}."
BEYOND = {
    "AMB-19": "It is about row offsets inside the files of a generation: the machine has positions of whole entries.",
    "AMB-21": "No step answers that a write has failed: a put is acknowledged or its outcome stays unknown. Going on "
    "behind it is `resolve_unknown_put`.",
    "AMB-52": _ONE_REGION.format("two regions of one value need two"),
    "AMB-54": _ONE_REGION.format("which of several specs places a row is decided before its first step"),
    "AMB-55": _ONE_REGION.format("what a region is computed from is decided before its first step"),
    "AMB-59": _ONE_REGION.format("hashing is about bytes"),
    "AMB-60": _ONE_REGION.format("hashing is about bytes"),
    "AMB-66": _ONE_REGION.format("a column that is dropped changes which region a row goes to"),
    "AMB-88": "Only merges change its base table: no other commit changes rows there. Its readers take generations "
    "above the progress only.",
    "AMB-99": _ROWS.format("a filter needs values"),
    "AMB-109": _ROWS.format("a search ranks values"),
    "AMB-113": "Its readers use no index: what an index covers is said of collection only (`collected_is_covered`).",
    "AMB-142": _ONE_REGION.format("a change of specs moves keys between two"),
}
"""Critical notes of which the machine says nothing, and why."""

FINDINGS = (
    "- A claimer that skips entries of a newer epoch puts its barrier behind its successor's entries",
    "  (AMB-26, an entry of a newer epoch): induction fails until replay stops there.",
    "- If entries are collected, a claimer must verify its barrier as a writer verifies its put (AMB-25, a stalled",
    "  append and WAL collection).",
    "- In three schedules, versions of the native package make a change that no step makes",
    "  ([native.md](native.md#as-histories-of-the-abstract-machine)).",
)
"""What came of the proofs and of following runs."""


def critical(root: Path) -> dict[str, str]:
    """Number -> title of each critical note, from the registry of notes in the checkout ``root``."""
    found = tomllib.loads((root / NOTES).read_text(encoding="utf-8"))["ambiguity"]
    return {f"AMB-{each['number']:02}": each["title"] for each in found if each["severity"] == "critical"}


def named(note: str) -> list[str]:
    """The assumptions that are about a note."""
    found = [name for name, each in ASSUMPTIONS.items() if each.note == note]
    return found or [ALSO[note]] if found or note in ALSO else []


def rows(root: Path) -> Iterator[str]:
    """The rows of the table: note, what it is about, assumption and broken statement, or why there is none."""
    breaks = {next(iter(each.setting.without)): each.breaks for each in HAZARDS}
    for note, title in critical(root).items():
        said = "; ".join(f"`{name}`: without it `{breaks[name]}` breaks" for name in named(note))
        yield f"| {note} | {title} | {said or BEYOND[note]} |"
