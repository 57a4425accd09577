"""Tables with one fault each, that nobody may recover as if it were not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .case import Case
from .messages import uuid_text
from .objects import OTHER, REGION, manifest_path
from .tables import Files, Row, base, entries, entry, hint, manifests, table_name
from .whole import FIRST, NEW, case, rows_view


def _rows(recovered: Sequence[Row]) -> dict[str, Any]:
    """The outcome that these rows are recovered."""
    return {"expected": {"recover": {"rows": rows_view(recovered)}}}


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
        return case(revision, "invalid", name, title, files, {direction: {"error": errors}}, clauses, **more)

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
            outcomes=(_rows([(0, "x")]), _rows([(0, "x"), (2, "x")])),
        ),
        fault(
            "state_with_a_name_not_reversed",
            "A WAL entry named with its most significant digit first is a hole, not an entry.",
            good | entries(revision, {p: three[p]}) | {plain: third},
            "recover",
            "corrupt",
            "WAL-013",
            ambiguity="AMB-139",
            outcomes=(_rows([(0, "x")]),),
        ),
        fault(
            "state_with_an_epoch_of_the_future",
            "An entry of an epoch that was never claimed is not replayed.",
            good | entries(revision, {p: (1, [(1, "a")]), p + 1: (9, [(1, "future")])}),
            "recover",
            ["corrupt", "fenced"],
            "FENCE-015",
            "WAL-011",
            ambiguity="AMB-26",
            outcomes=(_rows([(1, "a")]), _rows([(1, "future")])),
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
            outcomes=(_rows([]),),
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
    return [each for revision in ("A", "B", "R") for each in _faults(revision)]
