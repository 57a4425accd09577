"""Whole tables with regions: the state that is recovered from them, and the rows that a reader finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .case import Case
from .hashes import cell
from .messages import text_bytes, uuid_text
from .objects import OTHER, REGION, manifest_path
from .tables import (
    INDEX_ID,
    Files,
    Row,
    base,
    entries,
    entry,
    generation,
    hint,
    manifests,
    snapshot,
    table_name,
)

FIRST = {"A": 1, "B": 0, "R": 1}
"""Position of the first WAL entry."""
NEW = "writer_epoch: 1 current_generation: 1"
FOLDERS = ("a1b2c3d4_gen_1", "00ff00ff_gen_2")
TABLE = "table"
"""Folder below input/ that holds the table."""


def rows_view(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows of the protocol, in the order given (which means nothing)."""
    columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "v", "type": "utf8", "nullable": True}]
    return {"columns": columns, "rows": [[cell("int64", key), cell("utf8", value)] for key, value in rows]}


def _manifest_view(
    region: str, version: int, epoch: int, pointer: int, current: int, listed: Sequence[tuple[int, str]]
) -> Any:
    return {
        "region_id": region,
        "version": str(version),
        "region_spec_id": "0",
        "writer_epoch": str(epoch),
        "replay_after": str(pointer),
        "last_seen": str(pointer),
        "current_generation": str(current),
        "flushed_generations": [{"generation": str(g), "path": path} for g, path in listed],
    }


def _inspected(regions: Mapping[str, tuple[Any, int]], version: int = 1) -> dict[str, Any]:
    return {
        "version": str(version),
        "primary_key": ["id"],
        "regions": [
            {"region_id": region, "manifest": manifest, "merged": str(merged)}
            for region, (manifest, merged) in sorted(regions.items())
        ],
    }


def _recovered(epoch: int, position: int, current: int, rows: Sequence[Row]) -> dict[str, Any]:
    """``position`` is the least that the next one may be: a claim may put an entry of its own at the tip (AMB-24)."""
    return {
        "recover": {"region_id": REGION, "epoch": str(epoch), "rows": rows_view(rows)},
        "status": {"region_id": REGION, "position_at_least": str(position), "generation": str(current)},
    }


def _case(
    revision: str,
    folder: str,
    name: str,
    title: str,
    files: Files,
    expected: Any,
    clauses: tuple[str, ...],
    **more: Any,
) -> Case:
    standard: dict[str, Any] = {
        "kind": folder if folder in ("state", "table") else "state",
        "directions": tuple(expected),
        "derived": "Table manifests, region manifests and WAL entries written by the script; rows counted by hand.",
        "stable": not any(file.endswith(".lance") for file in files) and not _holds_snapshot(files),
    }
    return Case(
        revision=revision,
        folder=folder,
        name=name,
        title=title,
        clauses=clauses,
        files={f"{TABLE}/{file}": data for file, data in files.items()},
        expected=expected,
        **standard | more,
    )


def _holds_snapshot(files: Files) -> bool:
    return any(file.endswith(".manifest") and b"LANC" in data[:-4] for file, data in files.items())


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
    at_two = _manifest_view(REGION, 2, 2, 0, 1, [])
    merged = f'merged {{ region_id {{ uuid: "{uuid_text(REGION)}" }} generation: 4 }} num_regions: 0'
    third = [NEW, "writer_epoch: 2 current_generation: 1", "writer_epoch: 3 current_generation: 1"]
    made = [
        _case(
            revision,
            "state",
            "new_region",
            "A region that nobody wrote to is recovered empty.",
            base(revision, []) | manifests(NEW) | hint(1),
            {
                "inspect": _inspected({REGION: (_manifest_view(REGION, 1, 1, 0, 1, []), 0)}),
                **_recovered(2, p, 1, []),
            },
            ("MANIFEST-001", "GEN-002", "FENCE-005"),
        ),
        _case(
            revision,
            "state",
            "wal_of_two_writers",
            "The entries of two writers are replayed in the order of their positions; the last row of a key counts.",
            base(revision, []) | claimed_twice | hint(2) | entries(revision, tail),
            {"inspect": _inspected({REGION: (at_two, 0)}), **_recovered(3, p + 3, 1, replayed)},
            (*start, "FENCE-015", "FENCE-016", "READ-002"),
        ),
        _case(
            revision,
            "state",
            "last_seen_lags_behind",
            "Entries beyond the last-seen hint are replayed.",
            base(revision, [])
            | manifests(NEW, f"writer_epoch: 2 current_generation: 1 last_seen: {p + 1}")
            | entries(revision, tail),
            _recovered(3, p + 3, 1, replayed),
            ("MANIFEST-011", "WAL-022"),
        ),
        _case(
            revision,
            "state",
            "rows_over_the_base",
            "A replayed row hides the base table's row of its key.",
            base(revision, [(1, "base"), (9, "base")]) | claimed_twice | hint(2) | entries(revision, tail),
            _recovered(3, p + 3, 1, [*replayed, (9, "base")]),
            ("READ-001", "READ-004", "READ-006"),
        ),
        _case(
            revision,
            "state",
            "hint_behind",
            "The newest manifest is found from a hint that lags behind.",
            base(revision, []) | manifests(*third) | hint(1),
            {"inspect": _inspected({REGION: (_manifest_view(REGION, 3, 3, 0, 1, []), 0)})},
            ("MANIFEST-029", "MANIFEST-030", "MANIFEST-031"),
        ),
        _case(
            revision,
            "state",
            "no_hint",
            "The newest manifest is found without a hint.",
            base(revision, []) | manifests(*third),
            {"inspect": _inspected({REGION: (_manifest_view(REGION, 3, 3, 0, 1, []), 0)})},
            ("MANIFEST-029", "MANIFEST-030"),
        ),
        _case(
            revision,
            "state",
            "old_manifests_collected",
            "The newest manifest is found without a hint where the first versions are gone.",
            base(revision, [])
            | manifests("writer_epoch: 3 current_generation: 1", "writer_epoch: 4 current_generation: 1", first=3),
            {
                "inspect": _inspected({REGION: (_manifest_view(REGION, 4, 4, 0, 1, []), 0)}),
                **_recovered(5, p, 1, []),
            },
            ("MANIFEST-001", "MANIFEST-030"),
            ambiguity="AMB-31",
        ),
        _case(
            revision,
            "state",
            "two_regions_and_progress",
            "Merge progress is that of the index; a region without an entry has none.",
            base(revision, [], merged)
            | manifests(NEW.replace("generation: 1", "generation: 5"))
            | manifests(NEW, region=OTHER),
            {
                "inspect": _inspected(
                    {
                        REGION: (_manifest_view(REGION, 1, 1, 0, 5, []), 4),
                        OTHER: (_manifest_view(OTHER, 1, 1, 0, 1, []), 0),
                    }
                )
            },
            ("INDEX-004", "INDEX-018" if revision == "A" else "INDEX-010"),
        ),
        _case(
            revision,
            "state",
            "newest_table_version",
            "The newest table version counts.",
            base(revision, [], version=1) | base(revision, [], merged, version=2) | manifests(NEW),
            {"inspect": _inspected({REGION: (_manifest_view(REGION, 1, 1, 0, 1, []), 4)}, version=2)},
            ("INDEX-004",),
        ),
        _case(
            revision,
            "state",
            "entry_without_rows",
            "An entry without rows in the middle of the WAL does not end it.",
            base(revision, [])
            | claimed_twice
            | entries(revision, {p: (1, [(1, "a")]), p + 1: (2, []), p + 2: (2, [(2, "b")])}),
            _recovered(3, p + 3, 1, [(1, "a"), (2, "b")]),
            ("WAL-022", "FENCE-016"),
            ambiguity="AMB-20",
        ),
        _case(
            revision,
            "state",
            "epochs_that_go_back",
            "An entry of an older epoch behind one of a newer epoch is replayed in its place.",
            base(revision, [])
            | manifests(NEW, "writer_epoch: 2 current_generation: 1")
            | entries(revision, {p: (2, [(1, "new")]), p + 1: (1, [(1, "old")])}),
            _recovered(3, p + 2, 1, [(1, "old")]),
            ("WAL-019", "FENCE-015"),
            ambiguity="AMB-27",
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
    hinted = _manifest_view(REGION, 4, 2, p + 1, 2, []) | {"last_seen": str(p + 3)}
    made = [
        _case(
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
                "inspect": _inspected({REGION: (hinted, 1)}),
                **_recovered(3, p + 5, 2, [(1, "g1"), (2, "wal"), (3, "later"), (4, "last")]),
            },
            ("WAL-020", "WAL-022", "MANIFEST-011", "MANIFEST-031"),
        ),
        _case(
            revision,
            "state",
            "long_wal",
            "Entries are replayed in the order of their numbers, which is not that of their names, up to the last one.",
            base(revision, []) | manifests(NEW) | entries(revision, long),
            _recovered(2, p + 18, 1, [(1, "v17"), *((100 + i, "once") for i in range(18))]),
            ("WAL-019", "WAL-022"),
        ),
    ]
    if revision == "R":
        two = entries("R", {p: (1, [(1, "a"), (2, "a")])}) | entries("R", {p + 1: (1, [(2, "b"), (3, "b")])}, number=2)
        made.append(
            _case(
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
        _case(
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
                "inspect": _inspected({REGION: (_manifest_view(REGION, 2, 1, p + 1, 2, listed), 0)}),
                **_recovered(2, p + 3, 2, [(1, "g1"), (2, "wal"), (3, "wal"), (5, "base")]),
            },
            ("WAL-020", "READ-001", "READ-003", "GEN-003"),
        ),
        _case(
            revision,
            "state",
            "flushed_entries_collected",
            "Entries at and below the pointer may be gone.",
            base(revision, [])
            | flushed
            | generation(revision, FOLDERS[0], [(1, "g1"), (2, "g1")])
            | entries(revision, later, number=2),
            _recovered(2, p + 3, 2, [(1, "g1"), (2, "wal"), (3, "wal")]),
            ("WAL-020", "MANIFEST-009"),
        ),
        _case(
            revision,
            "state",
            "left_over_folder",
            "A folder of a generation that no manifest lists is not read.",
            base(revision, [])
            | flushed
            | generation(revision, FOLDERS[0], [(1, "g1"), (2, "g1")])
            | unlisted
            | entries(revision, later, number=2),
            _recovered(2, p + 3, 2, [(1, "g1"), (2, "wal"), (3, "wal")]),
            ("FLUSH-013", "FLUSH-025"),
        ),
    ]


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
    older = rows_view([(1, "g1"), (2, "g1"), (9, "base")])
    progress = f'merged {{ region_id {{ uuid: "{uuid_text(REGION)}" }} generation: 1 }}'
    merged_rows: list[Row] = [(1, "g1"), (2, "g1"), (9, "base")]
    inline = snapshot(revision, 2, 1, p + 1, 2, two[:1])
    known = f'num_regions: 1 inline_snapshots: "{text_bytes(inline)}"'
    both: list[tuple[str, ...]] = [("READ-001", "READ-002", "READ-003", "READ-006"), ("READ-007", "READ-015")]
    made = [
        _case(
            revision,
            "table",
            "two_generations",
            "The newest row of a key is that of the highest generation, and the base table's last of all.",
            base(revision, rows) | manifests(*pointers) | hint(3) | generations,
            {"read": {"strong": [newest]}},
            both[0],
        ),
        _case(
            revision,
            "table",
            "snapshot_of_the_first",
            "An eventual read sees the generations of the snapshot or of the manifest, a strong one the latter.",
            base(revision, rows, known) | manifests(*pointers) | hint(3) | generations,
            {"read": {"strong": [newest], "eventual": [older, newest]}},
            ("READ-010", "READ-013", "INDEX-006"),
        ),
        _case(
            revision,
            "table",
            "merged_and_not_collected",
            "A generation that is merged and still there gives no row twice.",
            base(revision, merged_rows, progress) | manifests(*pointers) | hint(3) | generations,
            {"read": {"strong": [newest]}},
            both[1],
        ),
        _case(
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
        _case(
            revision,
            "table",
            "base_changed_since_the_merge",
            "A merged generation that is still there does not bring back what was changed in the base table since.",
            base(revision, changed, progress) | manifests(*pointers) | hint(3) | generations,
            {"read": {"strong": [rows_view([(1, "changed since"), (2, "g2"), (3, "g2"), (9, "base")])]}},
            ("READ-007", "READ-011"),
            ambiguity=None if revision == "R" else "AMB-88",
        ),
        _case(
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
            kind="table",
        ),
    ]
    made += _many_generations(revision)
    if revision == "B":
        made.append(
            _case(
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
            _case(
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
        _case(
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
        _case(
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
        _case(
            revision,
            "table",
            "base_only",
            "A table without a flushed generation is its base table, under both consistency modes.",
            base(revision, rows) | manifests(NEW) | hint(1),
            {"read": {"strong": [rows_view(rows)], "eventual": [rows_view(rows)]}},
            ("READ-001",),
        )
    ]


def _faults(revision: str) -> list[Case]:
    p = FIRST[revision]
    three: dict[int, tuple[int, Sequence[Row]]] = {p + i: (1, [(i, "x")]) for i in range(3)}
    gap = {position: content for position, content in three.items() if position != p + 1}
    third = entry(revision, 1, [(7, "x")])
    plain = f"_mem_wal/{REGION}/wal/{p + 3:064b}.{'lance' if revision == 'A' else 'arrow'}"
    good = base(revision, []) | manifests(NEW) | hint(1)
    table = base(revision, [])[table_name(1)]
    twice = " ".join(
        f'merged {{ region_id {{ uuid: "{uuid_text(REGION)}" }} generation: {number} }}' for number in (4, 7)
    )

    def fault(
        name: str, title: str, files: Files, direction: str, errors: str | list[str], *clauses: str, **more: Any
    ) -> Case:
        return _case(revision, "invalid", name, title, files, {direction: {"error": errors}}, clauses, **more)

    start = "WAL-005" if revision == "B" else "WAL-004"
    return [
        fault(
            "state_with_a_gap_in_the_wal",
            "A WAL with a missing entry below its tip is not recovered as if it ended there.",
            good | entries(revision, gap),
            "recover",
            "corrupt",
            start,
            ambiguity="AMB-139",
        ),
        fault(
            "state_with_a_name_not_reversed",
            "A WAL entry named with its most significant digit first is a hole, not an entry.",
            good | entries(revision, {p: three[p]}) | {plain: third},
            "recover",
            "corrupt",
            "WAL-013",
            ambiguity="AMB-139",
        ),
        fault(
            "state_with_an_epoch_of_the_future",
            "An entry of an epoch that nobody has claimed is not replayed.",
            good | entries(revision, {p: (1, [(1, "a")]), p + 1: (9, [(1, "future")])}),
            "recover",
            ["corrupt", "fenced"],
            "FENCE-015",
            "WAL-011",
            ambiguity="AMB-26",
        ),
        fault(
            "state_with_a_damaged_entry",
            "A WAL entry that does not decode is not passed over.",
            good | entries(revision, three) | {next(iter(entries(revision, {p + 1: (1, [])}))): b"\0" * 64},
            "recover",
            ["corrupt", "storage", "invalid_argument"],
            "WAL-008" if revision == "A" else "WAL-009",
        ),
        fault(
            "state_with_a_manifest_of_another_region",
            "A region whose manifest names another region is refused.",
            base(revision, []) | {manifest_path(1): manifests(NEW, region=OTHER)[manifest_path(1, OTHER)]},
            "inspect",
            "corrupt",
            "MANIFEST-003" if revision == "A" else "MANIFEST-025",
        ),
        fault(
            "state_with_a_manifest_under_another_version",
            "A manifest whose name says another version is refused.",
            base(revision, []) | manifests(NEW) | {manifest_path(2): manifests(NEW)[manifest_path(1)]},
            "inspect",
            "corrupt",
            "MANIFEST-004" if revision == "A" else "MANIFEST-024",
        ),
        fault(
            "state_with_a_pointer_beyond_the_tail",
            "A replay pointer above every entry that is there is no reason to write below it.",
            base(revision, [])
            | manifests(NEW, f"writer_epoch: 1 current_generation: 2 replay_after: {p + 9} last_seen: {p + 9}")
            | entries(revision, three),
            "recover",
            ["corrupt", "storage"],
            "MANIFEST-009",
            ambiguity="AMB-139",
        ),
        fault(
            "table_with_a_wrong_magic",
            "A table manifest without LANC at its end is refused.",
            good | {table_name(1): table[:-4] + b"LAND"},
            "inspect",
            "corrupt",
            "FORMAT-004",
        ),
        fault(
            "table_cut",
            "A table manifest that lost its end is refused.",
            good | {table_name(1): table[:-20]},
            "inspect",
            "corrupt",
            "FORMAT-004",
        ),
        fault(
            "table_with_unknown_reader_flags",
            "A table with a reader flag that is not known is refused.",
            good | base(revision, [], more=f" reader_flags: {2**40} writer_flags: {2**40}"),
            "inspect",
            ["corrupt", "invalid_argument", "internal", "storage"],
            "FORMAT-008",
        ),
        fault(
            "table_with_two_progress_entries",
            "Index details with two progress entries for a region are refused.",
            good | base(revision, [], twice),
            "inspect",
            "corrupt",
            "INDEX-018" if revision == "A" else "INDEX-010",
        ),
    ]


def cases() -> list[Case]:
    """Cases of all revisions."""
    made = [case for r in ("A", "B", "R") for case in (*_states(r), *_base_tables(r), *_faults(r))]
    return [*made, *(case for r in ("B", "R") for case in _tables(r))]
