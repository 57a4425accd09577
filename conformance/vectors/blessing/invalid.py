"""Damaged objects: one fault each, named after it. Every one must be refused as corrupt."""

from __future__ import annotations

from dataclasses import replace

from .case import Case
from .messages import encoded
from .objects import (
    END_OF_STREAM,
    FIRST,
    FLUSHED,
    HINT_PATH,
    OTHER,
    arrow,
    lance_file,
    manifest,
    manifest_path,
    wal,
    wal_path,
)

LEGACY = 'mem_wal_list { id { region: "r" generation: 1 } state: 2 }'
"""Details of revision 0 with a record that is flushed but not merged."""


def _fault(revision: str, name: str, title: str, kind: str, path: str, data: bytes, *clauses: str) -> Case:
    return Case(
        revision=revision,
        folder="invalid",
        name=name,
        title=title,
        kind=kind,
        directions=("decode",),
        clauses=clauses,
        derived="A whole object of the script, with one fault.",
        files={path: data},
        expected={"error": "corrupt"},
    )


def _manifest_faults(revision: str) -> list[Case]:
    def fault(name: str, title: str, version: int, data: bytes, clause: str = "MANIFEST-002") -> Case:
        return _fault(revision, f"manifest_{name}", title, "manifest", manifest_path(version), data, clause)

    # Revision B prints no field numbers: there the path rules say what a manifest must agree with.
    region, version = ("MANIFEST-003", "MANIFEST-004") if revision == "A" else ("MANIFEST-025", "MANIFEST-024")
    whole = manifest(FLUSHED)
    short = encoded("Manifest", FIRST + r' region_id { uuid: "\x01\x02\x03" }')
    return [
        fault("cut", "A manifest that ends inside a field is refused.", 5, whole[:-3]),
        fault("empty", "A manifest without bytes names no region and is refused.", 1, b""),
        fault("that_is_text", "Bytes that are no protobuf message are refused.", 1, b'{"version": 1}'),
        fault("with_a_short_region_id", "A region id of three bytes is refused.", 1, short),
        fault(
            "of_another_region",
            "A manifest of another region than its folder's is refused.",
            1,
            manifest(FIRST, OTHER),
            region,
        ),
        fault(
            "of_another_version",
            "A manifest that says another version than its name is refused.",
            2,
            manifest(FIRST),
            version,
        ),
    ]


def _hint_faults(revision: str) -> list[Case]:
    faults = {
        "not_json": ("A hint that is no JSON is refused.", b"5 and more"),
        "without_version": ("A hint without a version is refused.", b'{"v": 5}'),
        "with_a_fraction": ("A hint whose version is no whole number is refused.", b'{"version": 5.5}'),
    }
    return [
        _fault(revision, f"hint_{name}", title, "hint", HINT_PATH, data, "MANIFEST-026")
        for name, (title, data) in faults.items()
    ]


def _wal_faults(revision: str) -> list[Case]:
    def fault(name: str, title: str, data: bytes, *clauses: str) -> Case:
        return _fault(revision, f"wal_{name}", title, "wal", wal_path(revision, 3), data, *clauses)

    container = "WAL-008" if revision == "A" else "WAL-009"
    whole = wal(revision)
    of_another = arrow("B") if revision == "A" else lance_file()
    words, negative = wal(revision, epoch="seven"), wal(revision, epoch="-1")
    made = [
        fault("empty", "An entry without bytes is refused.", b"", container),
        fault("cut", "An entry that ends inside its data is refused.", whole[: len(whole) // 2], container),
        fault("of_another_container", "An entry of another revision's container is refused.", of_another, container),
        fault(
            "without_epoch",
            "An entry without writer_epoch is refused.",
            wal(revision, epoch=None),
            "WAL-010",
            "WAL-033",
        ),
        fault("with_an_epoch_in_words", "An epoch that is no number is refused.", words, "WAL-010", "WAL-033"),
        fault("with_a_negative_epoch", "A negative epoch is refused.", negative, "WAL-010", "WAL-033"),
    ]
    of_lance = {case.name for case in made if (case.name == "wal_of_another_container") != (revision == "A")}
    return [replace(case, stable=case.name not in of_lance) for case in made]


def _open_faults(revision: str) -> list[Case]:
    """Faults that the text leaves open: another answer is recorded."""
    legacy = _fault(
        revision,
        "index_details_of_revision_0",
        "Details of revision 0 with unmerged data are refused.",
        "index_details",
        "index_details.binpb",
        encoded("LegacyDetails", LEGACY),
        "INDEX-010",
    )
    made = [replace(legacy, ambiguity="AMB-04")]
    if revision == "A":
        return made
    stream = arrow(revision, (1, 2))
    if not stream.endswith(END_OF_STREAM):
        raise SystemExit("pyarrow wrote no end-of-stream mark")
    faults = {
        "without_end_mark": ("A stream that ends between two messages is refused.", stream[: -len(END_OF_STREAM)]),
        "with_bytes_behind_it": ("Bytes behind the end-of-stream mark are refused.", stream + b"\0" * 8),
    }
    for name, (title, data) in faults.items():
        case = _fault(revision, f"wal_{name}", title, "wal", wal_path(revision, 3), data, "WAL-009")
        made.append(replace(case, ambiguity="AMB-11"))
    return made


def cases() -> list[Case]:
    """Damaged objects of all revisions."""
    makers = (_manifest_faults, _hint_faults, _wal_faults, _open_faults)
    return [case for revision in ("A", "B", "R") for make in makers for case in make(revision)]
