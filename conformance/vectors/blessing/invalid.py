"""Damaged objects: one fault each, named after it. Every one must be refused as corrupt."""

from __future__ import annotations

from dataclasses import replace

from .case import Case
from .messages import encoded, uuid_text
from .objects import (
    END_OF_STREAM,
    FIRST,
    FLUSHED,
    HINT_PATH,
    OTHER,
    REGION,
    arrow,
    lance_file,
    manifest,
    manifest_path,
    wal,
    wal_path,
    wal_view,
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
        fault("that_is_text", "Bytes that are not a protobuf message are refused.", 1, b'{"version": 1}'),
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
        fault(
            "with_a_generation_twice",
            "A manifest that lists a generation twice is refused.",
            5,
            manifest(FLUSHED + ' flushed { generation: 7 path: "deadbeef_gen_7" }'),
            "GEN-013",
        ),
        fault(
            "with_a_listed_current_generation",
            "A manifest that lists the generation which the next flush makes is refused.",
            5,
            manifest(FLUSHED.replace("current_generation: 8", "current_generation: 7")),
            "MANIFEST-014",
        ),
        fault(
            "of_version_0",
            "A manifest of version 0 is refused: versions are numbered from 1.",
            0,
            manifest(FIRST.replace("version: 1", "version: 0")),
            "MANIFEST-018",
        ),
        fault(
            "with_text_for_an_epoch",
            "A manifest whose epoch is stored as text is refused.",
            1,
            manifest("version: 1 current_generation: 1") + b"\x12\x011",
        ),
        fault(
            "with_a_generation_that_is_cut",
            "A manifest whose entry of a generation ends inside a field is refused.",
            1,
            manifest(FIRST) + b"\x42\x04\x08\x01\x12\x09",
        ),
        fault(
            "with_an_endless_number",
            "A manifest with a number of more than ten bytes is refused.",
            1,
            manifest(FIRST) + b"\x20" + b"\xff" * 11,
        ),
    ]


def _hint_faults(revision: str) -> list[Case]:
    faults = {
        "not_json": ("A hint that is not JSON is refused.", b"5 and more"),
        "without_version": ("A hint without a version is refused.", b'{"v": 5}'),
        "of_version_0": ("A hint of version 0 is refused: versions are numbered from 1.", b'{"version": 0}'),
        "with_text": ("A hint whose version is text is refused.", b'{"version": "5"}'),
        "that_is_a_list": ("A hint that is not a JSON object is refused.", b"[5]"),
        "empty": ("A hint without bytes is refused.", b""),
        "with_a_fraction": ("A hint whose version is not a whole number is refused.", b'{"version": 5.5}'),
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
    wrong_magic = whole[:-4] + b"LAND" if revision == "A" else b"ARROW1\0\0" + whole
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
        fault("with_a_wrong_magic", "An entry with another magic or first word is refused.", wrong_magic, container),
        fault("with_an_epoch_in_words", "An epoch that is no number is refused.", words, "WAL-010", "WAL-033"),
        fault("with_a_negative_epoch", "A negative epoch is refused.", negative, "WAL-010", "WAL-033"),
    ]
    of_lance = {case.name for case in made if (case.name == "wal_of_another_container") != (revision == "A")}
    return [replace(case, stable=case.name not in of_lance) for case in made]


def _details_faults(revision: str) -> list[Case]:
    region = f'region_id {{ uuid: "{uuid_text(REGION)}" }}'
    field = 'field_id: "b" source_ids: 0 result_type: "int32"'
    spec = f'region_specs {{ spec_id: 1 fields {{ {field} transform: "identity" }} }}'
    twice = f"merged {{ {region} generation: 4 }} merged {{ {region} generation: 5 }}"
    short = r'merged { region_id { uuid: "\x01" } generation: 4 }'
    faults = {
        "cut": ("Index details that end inside a field are refused.", encoded("IndexDetails", spec)[:-2]),
        "with_two_progress_entries": (
            "Index details with two progress entries for a region are refused.",
            encoded("IndexDetails", twice),
        ),
        "with_a_short_region_id": (
            "Index details with a region id of one byte are refused.",
            encoded("IndexDetails", short),
        ),
    }
    clauses = {"with_two_progress_entries": "INDEX-018"}
    return [
        _fault(
            revision,
            f"index_details_{name}",
            title,
            "index_details",
            "index_details.binpb",
            data,
            clauses.get(name, "INDEX-010") if revision == "A" else "INDEX-010",
        )
        for name, (title, data) in faults.items()
    ]


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
    nothing = {"index_details": {"num_regions": "0", "merged_generations": [], "index_catchup": []}}
    outcomes = ({"expected": {"error": "invalid_argument"}}, {"expected": nothing})
    made = [replace(legacy, ambiguity="AMB-04", outcomes=outcomes)]
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
        made.append(replace(case, ambiguity="AMB-11", outcomes=({"expected": wal_view(revision, 3)},)))
    return made


def cases() -> list[Case]:
    """Damaged objects of all revisions."""
    makers = (_manifest_faults, _hint_faults, _wal_faults, _details_faults, _open_faults)
    return [case for revision in ("A", "B", "R") for make in makers for case in make(revision)]
