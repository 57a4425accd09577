"""Tables with generations, and the rows that a reader finds in them."""

from __future__ import annotations

from .case import Case
from .messages import text_bytes, uuid_text
from .objects import OTHER, REGION
from .tables import INDEX_ID, Files, Row, base, generation, hint, manifests, snapshot
from .whole import FIRST, FOLDERS, NEW, case, rows_view


def _tables(revision: str) -> list[Case]:
    two = [(1, FOLDERS[0]), (2, FOLDERS[1])]
    p = FIRST[revision]
    text = " ".join(f'flushed {{ generation: {g} path: "{path}" }}' for g, path in two)
    pointers = (
        NEW,
        f"writer_epoch: 1 current_generation: 2 replay_after: {p + 1} last_seen: {p + 1} "
        f'flushed {{ generation: 1 path: "{FOLDERS[0]}" }}',
        f"writer_epoch: 1 current_generation: 3 replay_after: {p + 2} last_seen: {p + 2} {text}",
    )
    rows = [(1, "base"), (2, "base"), (9, "base")]
    generations = generation(revision, FOLDERS[0], [(1, "g1"), (2, "g1")]) | generation(
        revision, FOLDERS[1], [(2, "g2"), (3, "g2")]
    )
    newest = rows_view([(1, "g1"), (2, "g2"), (3, "g2"), (9, "base")])
    without_first = rows_view([(1, "base"), (2, "g2"), (3, "g2"), (9, "base")])
    older = rows_view([(1, "g1"), (2, "g1"), (9, "base")])
    progress = f'merged {{ region_id {{ uuid: "{uuid_text(REGION)}" }} generation: 1 }}'
    merged_rows: list[Row] = [(1, "g1"), (2, "g1"), (9, "base")]
    inline = snapshot(revision, 2, 1, p + 1, 2, two[:1])
    known = f'num_regions: 1 inline_snapshots: "{text_bytes(inline)}"'
    both: list[tuple[str, ...]] = [("READ-001", "READ-002", "READ-003", "READ-006"), ("READ-007", "READ-015")]
    made = [
        case(
            revision,
            "table",
            "two_generations",
            "The newest row of a key is that of the highest generation, and the base table's last of all.",
            base(revision, rows) | manifests(*pointers) | hint(3) | generations,
            {"read": {"strong": [newest]}},
            both[0],
        ),
        case(
            revision,
            "table",
            "snapshot_of_the_first",
            "An eventual read sees the generations of the snapshot or of the manifest, a strong one the latter.",
            base(revision, rows, known) | manifests(*pointers) | hint(3) | generations,
            {"read": {"strong": [newest], "eventual": [older, newest]}},
            ("READ-010", "READ-013", "INDEX-006"),
        ),
        case(
            revision,
            "table",
            "merged_and_not_collected",
            "A generation that is merged and still there gives no row twice.",
            base(revision, merged_rows, progress) | manifests(*pointers) | hint(3) | generations,
            {"read": {"strong": [newest]}},
            both[1],
        ),
        case(
            revision,
            "table",
            "merged_and_collected",
            "A generation that is merged, listed and gone is passed over.",
            base(revision, merged_rows, progress)
            | manifests(*pointers)
            | hint(3)
            | {name: data for name, data in generations.items() if FOLDERS[0] not in name},
            {"read": {"strong": [newest]}},
            ("READ-012",),
        ),
    ]
    changed: list[Row] = [(1, "changed since"), (2, "g1"), (9, "base")]
    made += [
        case(
            revision,
            "table",
            "base_changed_since_the_merge",
            "A merged generation that is still there does not bring back what was changed in the base table since.",
            base(revision, changed, progress) | manifests(*pointers) | hint(3) | generations,
            {"read": {"strong": [rows_view([(1, "changed since"), (2, "g2"), (3, "g2"), (9, "base")])]}},
            ("READ-007", "READ-011"),
            ambiguity=None if revision == "R" else "AMB-88",
            outcomes=() if revision == "R" else ({"expected": {"read": {"strong": [newest]}}},),
        ),
        case(
            revision,
            "invalid",
            "table_with_a_lost_generation",
            "A generation that is listed, not merged and gone is not left out in silence.",
            base(revision, rows)
            | manifests(*pointers)
            | hint(3)
            | {name: data for name, data in generations.items() if FOLDERS[0] not in name},
            {"read": {"error": ["corrupt", "not_found", "storage", "invalid_argument"]}},
            ("READ-001",),
            ambiguity="AMB-100",
            outcomes=({"expected": {"read": {"strong": [without_first]}}},),
            kind="table",
        ),
    ]
    made += _many_generations(revision)
    if revision == "B":
        made.append(
            case(
                "B",
                "table",
                "snapshot_in_a_file",
                "Region snapshots that are not in the index details are read from the file of the index.",
                base("B", rows, "num_regions: 1")
                | manifests(*pointers)
                | hint(3)
                | generations
                | {f"_indices/{INDEX_ID}/index.lance": inline},
                {"read": {"strong": [newest], "eventual": [older, newest]}},
                ("SNAP-013", "INDEX-008", "GEN-020"),
            )
        )
    if revision == "R":
        deleted = generation("R", FOLDERS[1], [(1, "†"), (3, "g2")])
        left = rows_view([(2, "g1"), (3, "g2"), (9, "base")])
        made.append(
            case(
                "R",
                "table",
                "tombstone",
                "A tombstone hides the rows of its key in older generations and in the base table.",
                base("R", rows) | manifests(*pointers) | hint(3) | generations | deleted,
                {"read": {"strong": [left]}},
                ("READ-002", "READ-003"),
            )
        )
    return made


def _many_generations(revision: str) -> list[Case]:
    p = FIRST[revision]
    rows = [(1, "base"), (2, "base"), (9, "base")]
    paths = {9: "ffffffff_gen_9", 10: "00000000_gen_10", 11: "77777777_gen_11"}
    content: dict[int, list[Row]] = {
        9: [(1, "g9"), (2, "g9"), (3, "g9")],
        10: [(1, "g10"), (2, "g10")],
        11: [(1, "g11"), (4, None)],
    }
    eleven = "".join(f' flushed {{ generation: {g} path: "{paths[g]}" }}' for g in (9, 10, 11))
    folders: Files = {}
    for number, held in content.items():
        folders |= generation(revision, paths[number], held)
    done = f'merged {{ region_id {{ uuid: "{uuid_text(REGION)}" }} generation: 8 }}'
    two = f'merged {{ region_id {{ uuid: "{uuid_text(OTHER)}" }} generation: 1 }}'
    one = f"writer_epoch: 1 current_generation: 2 replay_after: {p} last_seen: {p} flushed {{ generation: 1 path: "
    return [
        case(
            revision,
            "table",
            "generations_by_number",
            "Of generations the one with the highest number is the newest, not the last one by name.",
            base(revision, rows, done)
            | manifests(
                f"writer_epoch: 3 current_generation: 12 replay_after: {p + 40} last_seen: {p + 40}{eleven}", first=20
            )
            | hint(20)
            | folders,
            {"read": {"strong": [rows_view([(1, "g11"), (2, "g10"), (3, "g9"), (4, None), (9, "base")])]}},
            ("READ-002", "READ-003"),
        ),
        case(
            revision,
            "table",
            "two_regions_one_merged",
            "That a generation of one region is merged says nothing about the generation of that number of another.",
            base(revision, [*rows, (5, "other")], two)
            | manifests(NEW, f'{one}"{FOLDERS[0]}" }}')
            | manifests(NEW, f'{one}"{FOLDERS[0]}" }}', region=OTHER)
            | generation(revision, FOLDERS[0], [(1, "g1"), (6, "g1")])
            | generation(revision, FOLDERS[0], [(5, "other")], region=OTHER),
            {
                "read": {
                    "strong": [
                        rows_view([(1, "g1"), (2, "base"), (5, "other"), (6, "g1"), (9, "base")]),
                    ]
                }
            },
            ("READ-001", "READ-007", "INDEX-004"),
        ),
    ]


def _base_tables(revision: str) -> list[Case]:
    rows: list[Row] = [(1, "base"), (2, None)]
    return [
        case(
            revision,
            "table",
            "base_only",
            "A table without a flushed generation is its base table, under both consistency modes.",
            base(revision, rows) | manifests(NEW) | hint(1),
            {"read": {"strong": [rows_view(rows)], "eventual": [rows_view(rows)]}},
            ("READ-001",),
        )
    ]


def cases() -> list[Case]:
    """Cases of all revisions."""
    plain = [each for revision in ("A", "B", "R") for each in _base_tables(revision)]
    return [*plain, *(each for revision in ("B", "R") for each in _tables(revision))]
