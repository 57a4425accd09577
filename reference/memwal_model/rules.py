"""What no step of the machine ever does."""

from __future__ import annotations

from .form import Rule
from .state import *
from .terms import after, forall, variable

RULES = {
    rule.name: rule
    for rule in (
        Rule("epoch_never_falls", "The stored epoch never falls.", epoch <= after(epoch)),
        Rule("pointer_never_falls", "The replay pointer never falls.", pointer <= after(pointer)),
        Rule("generation_never_falls", "The current generation never falls.", current <= after(current)),
        Rule("hint_never_falls", "The last-seen hint never falls.", hint <= after(hint)),
        Rule(
            "progress_never_falls", "Merge progress never falls, but by a Restore.",
            progress(newest) <= after(progress(newest)), but="restore",
        ),
        Rule(
            "snapshot_stays", "The region snapshot of a table version never changes.",
            forall(lambda t: ((t >= 1) & (t <= newest)) >> (after(snap_current(t)) == snap_current(t))),
        ),
        Rule(
            "snapshot_never_falls", "A newer version has no older snapshot, but by a Restore.",
            snap_current(newest) <= after(snap_current(newest)), but="restore",
        ),
        Rule(
            "merged_once_and_in_order", "A merge raises the progress by one generation.",
            after(progress(newest)) == progress(newest) + 1, only="merge",
        ),
        Rule(
            "collected_is_covered", "A generation is collected only if every maintained index covers it.",
            forall(lambda i: variable("g") <= covered(newest, i)), only="doom",
        ),
    )
}  # fmt: skip
