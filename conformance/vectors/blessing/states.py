"""Tables with regions, and the state that is recovered from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .case import Case
from .messages import uuid_text
from .objects import OTHER, REGION
from .tables import Row, base, entries, generation, hint, manifests
from .whole import FIRST, FOLDERS, NEW, case, inspected, manifest_view, recovered, rows_view


def _refused(*directions: str, kinds: list[str]) -> dict[str, Any]:
    """The outcome that these directions end in an error of one of ``kinds``."""
    return {"expected": {direction: {"error": kinds} for direction in directions}}


def _states(revision: str) -> list[Case]:
    p = FIRST[revision]
    start = (("WAL-005",) if revision == "B" else ("WAL-004",)) + ("WAL-019", "WAL-022")
    tail: dict[int, tuple[int, Sequence[Row]]] = {
        p: (1, [(1, "a"), (2, "a")]),
        p + 1: (1, [(2, "b")]),
        p + 2: (2, [(3, "c"), (1, "c")]),
    }
    claimed_twice = manifests(NEW, "writer_epoch: 2 current_generation: 1")
    replayed = [(1, "c"), (2, "b"), (3, "c")]
    at_two = manifest_view(REGION, 2, 2, 0, 1, [])
    merged = f'merged {{ region_id {{ uuid: "{uuid_text(REGION)}" }} generation: 4 }} num_regions: 0'
    third = [NEW, "writer_epoch: 2 current_generation: 1", "writer_epoch: 3 current_generation: 1"]
    made = [
        case(
            revision,
            "state",
            "new_region",
            "A region without a write is recovered empty.",
            base(revision, []) | manifests(NEW) | hint(1),
            {
                "inspect": inspected({REGION: (manifest_view(REGION, 1, 1, 0, 1, []), 0)}),
                **recovered(2, p, 1, []),
            },
            ("MANIFEST-001", "GEN-002", "FENCE-005"),
        ),
        case(
            revision,
            "state",
            "wal_of_two_writers",
            "The entries of two writers are replayed in the order of their positions; the last row of a key counts.",
            base(revision, []) | claimed_twice | hint(2) | entries(revision, tail),
            {"inspect": inspected({REGION: (at_two, 0)}), **recovered(3, p + 3, 1, replayed)},
            (*start, "FENCE-015", "FENCE-016", "READ-002"),
        ),
        case(
            revision,
            "state",
            "last_seen_lags_behind",
            "Entries beyond the last-seen hint are replayed.",
            base(revision, [])
            | manifests(NEW, f"writer_epoch: 2 current_generation: 1 last_seen: {p + 1}")
            | entries(revision, tail),
            recovered(3, p + 3, 1, replayed),
            ("MANIFEST-011", "WAL-022"),
        ),
        case(
            revision,
            "state",
            "rows_over_the_base",
            "A replayed row hides the base table's row of its key.",
            base(revision, [(1, "base"), (9, "base")]) | claimed_twice | hint(2) | entries(revision, tail),
            recovered(3, p + 3, 1, [*replayed, (9, "base")]),
            ("READ-001", "READ-004", "READ-006"),
        ),
        case(
            revision,
            "state",
            "hint_behind",
            "The newest manifest is found from a hint that lags behind.",
            base(revision, []) | manifests(*third) | hint(1),
            {"inspect": inspected({REGION: (manifest_view(REGION, 3, 3, 0, 1, []), 0)})},
            ("MANIFEST-029", "MANIFEST-030", "MANIFEST-031"),
        ),
        case(
            revision,
            "state",
            "no_hint",
            "The newest manifest is found without a hint.",
            base(revision, []) | manifests(*third),
            {"inspect": inspected({REGION: (manifest_view(REGION, 3, 3, 0, 1, []), 0)})},
            ("MANIFEST-029", "MANIFEST-030"),
        ),
        case(
            revision,
            "state",
            "old_manifests_collected",
            "The newest manifest is found without a hint where the first versions are gone.",
            base(revision, [])
            | manifests("writer_epoch: 3 current_generation: 1", "writer_epoch: 4 current_generation: 1", first=3),
            {
                "inspect": inspected({REGION: (manifest_view(REGION, 4, 4, 0, 1, []), 0)}),
                **recovered(5, p, 1, []),
            },
            ("MANIFEST-001", "MANIFEST-030"),
            ambiguity="AMB-31",
            outcomes=(
                _refused("inspect", "recover", "status", kinds=["not_found", "corrupt", "storage"]),
                {"expected": {"inspect": inspected({REGION: (None, 0)})}},
            ),
        ),
        case(
            revision,
            "state",
            "two_regions_and_progress",
            "Merge progress is that of the index; a region without an entry has none.",
            base(revision, [], merged)
            | manifests(NEW.replace("generation: 1", "generation: 5"))
            | manifests(NEW, region=OTHER),
            {
                "inspect": inspected(
                    {
                        REGION: (manifest_view(REGION, 1, 1, 0, 5, []), 4),
                        OTHER: (manifest_view(OTHER, 1, 1, 0, 1, []), 0),
                    }
                )
            },
            ("INDEX-004", "INDEX-018" if revision == "A" else "INDEX-010"),
        ),
        case(
            revision,
            "state",
            "newest_table_version",
            "The newest table version counts.",
            base(revision, [], version=1) | base(revision, [], merged, version=2) | manifests(NEW),
            {"inspect": inspected({REGION: (manifest_view(REGION, 1, 1, 0, 1, []), 4)}, version=2)},
            ("INDEX-004",),
        ),
        case(
            revision,
            "state",
            "entry_without_rows",
            "An entry without rows in the middle of the WAL does not end it.",
            base(revision, [])
            | claimed_twice
            | entries(revision, {p: (1, [(1, "a")]), p + 1: (2, []), p + 2: (2, [(2, "b")])}),
            recovered(3, p + 3, 1, [(1, "a"), (2, "b")]),
            ("WAL-022", "FENCE-016"),
            ambiguity="AMB-20",
            outcomes=(_refused("recover", "status", kinds=["corrupt"]),),
        ),
        case(
            revision,
            "state",
            "epochs_that_go_back",
            "An entry of an older epoch behind one of a newer epoch is replayed in its place.",
            base(revision, [])
            | manifests(NEW, "writer_epoch: 2 current_generation: 1")
            | entries(revision, {p: (2, [(1, "new")]), p + 1: (1, [(1, "old")])}),
            recovered(3, p + 2, 1, [(1, "old")]),
            ("WAL-019", "FENCE-015"),
            ambiguity="AMB-27",
            outcomes=(_refused("recover", "status", kinds=["corrupt", "fenced"]),),
        ),
    ]
    more = _wals(revision)
    return [*made, *more, *([] if revision == "A" else _flushed_states(revision))]


def _wals(revision: str) -> list[Case]:
    """WALs that are longer than the last-seen hint and than a digit, or of two generations."""
    p = FIRST[revision]
    gone = f'flushed {{ generation: 1 path: "{FOLDERS[0]}" }}'
    flush = f"writer_epoch: 1 current_generation: 2 replay_after: {p + 1} last_seen: {p + 1} {gone}"
    claim = f"writer_epoch: 2 current_generation: 2 replay_after: {p + 1} last_seen: {p + 1} {gone}"
    collected = f"writer_epoch: 2 current_generation: 2 replay_after: {p + 1} last_seen: {p + 3}"
    progress = f'merged {{ region_id {{ uuid: "{uuid_text(REGION)}" }} generation: 1 }}'
    behind: dict[int, tuple[int, Sequence[Row]]] = {
        p + 2: (1, [(2, "wal"), (3, "wal")]),
        p + 3: (2, [(3, "later")]),
        p + 4: (2, [(4, "last")]),
    }
    long: dict[int, tuple[int, Sequence[Row]]] = {p + i: (1, [(1, f"v{i}"), (100 + i, "once")]) for i in range(18)}
    hinted = manifest_view(REGION, 4, 2, p + 1, 2, []) | {"last_seen": str(p + 3)}
    made = [
        case(
            revision,
            "state",
            "last_seen_ahead_of_the_pointer",
            "Replay begins behind the newest manifest's replay pointer, also where the last-seen hint is further on.",
            base(revision, [(1, "g1"), (2, "g1")], progress)
            | manifests(NEW, flush, claim, collected)
            | hint(2)
            | entries(revision, {p: (1, [(1, "g1")]), p + 1: (1, [(2, "g1")])})
            | entries(revision, behind, number=2),
            {
                "inspect": inspected({REGION: (hinted, 1)}),
                **recovered(3, p + 5, 2, [(1, "g1"), (2, "wal"), (3, "later"), (4, "last")]),
            },
            ("WAL-020", "WAL-022", "MANIFEST-011", "MANIFEST-031"),
        ),
        case(
            revision,
            "state",
            "long_wal",
            "Entries are replayed in the order of their numbers, which is not that of their names, up to the last one.",
            base(revision, []) | manifests(NEW) | entries(revision, long),
            recovered(2, p + 18, 1, [(1, "v17"), *((100 + i, "once") for i in range(18))]),
            ("WAL-019", "WAL-022"),
        ),
    ]
    if revision == "R":
        two = entries("R", {p: (1, [(1, "a"), (2, "a")])}) | entries("R", {p + 1: (1, [(2, "b"), (3, "b")])}, number=2)
        made.append(
            case(
                "R",
                "state",
                "entries_of_two_generations",
                "Where entries of two generations are left, the row of the later one counts.",
                base("R", []) | manifests(NEW) | two,
                {"recover": {"region_id": REGION, "epoch": "2", "rows": rows_view([(1, "a"), (2, "b"), (3, "b")])}},
                ("WAL-019", "READ-002"),
            )
        )
    return made


def _flushed_states(revision: str) -> list[Case]:
    p = FIRST[revision]
    listed = [(1, FOLDERS[0])]
    flushed = manifests(
        NEW,
        f"writer_epoch: 1 current_generation: 2 replay_after: {p + 1} last_seen: {p + 1} "
        f'flushed {{ generation: 1 path: "{FOLDERS[0]}" }}',
    )
    wal = {p: (1, [(1, "g1")]), p + 1: (1, [(2, "g1")])}
    later = {p + 2: (1, [(2, "wal"), (3, "wal")])}
    unlisted = generation(revision, "deadbeef_gen_2", [(4, "never listed")])
    return [
        case(
            revision,
            "state",
            "flushed_and_tail",
            "Replay begins behind the pointer; what lies below it is in the generation.",
            base(revision, [(1, "base"), (5, "base")])
            | flushed
            | hint(2)
            | generation(revision, FOLDERS[0], [(1, "g1"), (2, "g1")])
            | entries(revision, wal)
            | entries(revision, later, number=2),
            {
                "inspect": inspected({REGION: (manifest_view(REGION, 2, 1, p + 1, 2, listed), 0)}),
                **recovered(2, p + 3, 2, [(1, "g1"), (2, "wal"), (3, "wal"), (5, "base")]),
            },
            ("WAL-020", "READ-001", "READ-003", "GEN-003"),
        ),
        case(
            revision,
            "state",
            "flushed_entries_collected",
            "Entries at and below the pointer may be gone.",
            base(revision, [])
            | flushed
            | generation(revision, FOLDERS[0], [(1, "g1"), (2, "g1")])
            | entries(revision, later, number=2),
            recovered(2, p + 3, 2, [(1, "g1"), (2, "wal"), (3, "wal")]),
            ("WAL-020", "MANIFEST-009"),
        ),
        case(
            revision,
            "state",
            "left_over_folder",
            "A folder of a generation that no manifest lists is not read.",
            base(revision, [])
            | flushed
            | generation(revision, FOLDERS[0], [(1, "g1"), (2, "g1")])
            | unlisted
            | entries(revision, later, number=2),
            recovered(2, p + 3, 2, [(1, "g1"), (2, "wal"), (3, "wal")]),
            ("FLUSH-013", "FLUSH-025"),
        ),
    ]


def cases() -> list[Case]:
    """Cases of all revisions."""
    return [each for revision in ("A", "B", "R") for each in _states(revision)]
