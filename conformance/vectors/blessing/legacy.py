"""Index details of revision 0: records of MemWALs, whole and damaged. MemWAL revision 0, "Index Details"."""

from __future__ import annotations

import struct
from typing import Any

from .case import Case
from .messages import encoded, text_bytes

STATES = ("open", "sealed", "flushed", "merged")
PATH = "index_details.binpb"


def record(region: str, generation: int, state: int, entries: str = "range { start: 0 end: 3 }", more: str = "") -> str:
    """Text of one record."""
    ids = encoded("Ids", entries)
    return (
        f'mem_wal_list {{ id {{ region: "{region}" generation: {generation} }} mem_table_location: "memory://{region}" '
        f'wal_location: "s3://wal/{region}" wal_entries: "{text_bytes(ids)}" state: {state} owner_id: "me" '
        f"last_updated_dataset_version: 9 {more} }}"
    )


def view(region: str, generation: int, state: str, entries: list[int]) -> dict[str, Any]:
    """The protocol's view of a record."""
    return {
        "region": region,
        "generation": str(generation),
        "mem_table_location": f"memory://{region}",
        "wal_location": f"s3://wal/{region}",
        "entries": [str(number) for number in entries],
        "state": state,
        "owner_id": "me",
        "last_updated_dataset_version": "9",
    }


def _case(folder: str, name: str, title: str, data: bytes, expected: Any, *clauses: str, **more: Any) -> Case:
    standard: dict[str, Any] = {"directions": ("decode", "encode"), "derived": "Protobuf text format."}
    return Case(
        revision="0",
        folder=folder,
        name=name,
        title=title,
        kind="legacy",
        clauses=clauses,
        files={PATH: data},
        expected=expected,
        **standard | more,
    )


def _whole() -> list[Case]:
    sparse = f'sorted {{ u64 {{ values: "{text_bytes(struct.pack("<3Q", 0, 5, 2**40))}" }} }}'
    clauses = ("LEGACY-005", "LEGACY-006", "LEGACY-016", "LEGACY-026")
    life = "\n".join(record("r", generation, 4 - generation) for generation in (1, 2, 3, 4))
    lived = [view("r", generation, STATES[4 - generation], [0, 1, 2]) for generation in (1, 2, 3, 4)]
    made = [
        _case(
            "index_details",
            f"state_{state}",
            f"A record in the state {state} decodes and encodes.",
            encoded("LegacyDetails", record("r", 3, number)),
            {"records": [view("r", 3, state, [0, 1, 2])]},
            *clauses,
            {"open": "LEGACY-009", "sealed": "LEGACY-011", "flushed": "LEGACY-011", "merged": "LEGACY-012"}[state],
        )
        for number, state in enumerate(STATES)
    ]
    return [
        *made,
        _case(
            "index_details",
            "no_record",
            "Details without a field are those of a table without a MemWAL.",
            b"",
            {"records": []},
            "LEGACY-005",
        ),
        _case(
            "index_details",
            "two_regions",
            "Each region has an open generation of its own.",
            encoded("LegacyDetails", record("r", 1, 0) + record("s", 1, 0)),
            {"records": [view("r", 1, "open", [0, 1, 2]), view("s", 1, "open", [0, 1, 2])]},
            *clauses,
            "LEGACY-008",
        ),
        _case(
            "index_details",
            "entries_with_holes",
            "The ids of a WAL may have holes.",
            encoded("LegacyDetails", record("r", 1, 0, sparse)),
            {"records": [view("r", 1, "open", [0, 5, 2**40])]},
            "LEGACY-016",
            "LEGACY-018",
        ),
        _case(
            "index_details",
            "unknown_fields",
            "Fields of the future are passed over.",
            encoded("LegacyDetails", record("r", 1, 0, more='of_the_future: "x"')),
            {"records": [view("r", 1, "open", [0, 1, 2])]},
            "LEGACY-005",
            directions=("decode",),
        ),
        _case(
            "state",
            "four_generations",
            "The generations of a region are open, sealed, flushed and merged, from the newest to the oldest.",
            encoded("LegacyDetails", life),
            {"records": lived},
            "LEGACY-007",
            "LEGACY-008",
            "LEGACY-013",
        ),
    ]


def _damaged() -> list[Case]:
    whole = encoded("LegacyDetails", record("r", 1, 0))
    faults: list[tuple[str, str, bytes, str]] = [
        ("cut", "Details that end inside a record are refused.", whole[:-4], "LEGACY-005"),
        (
            "two_open_generations",
            "A region with two open generations is refused.",
            encoded("LegacyDetails", record("r", 1, 0) + record("r", 2, 0)),
            "LEGACY-008",
        ),
        (
            "a_generation_twice",
            "Two records of one generation are refused.",
            encoded("LegacyDetails", record("r", 1, 1) + record("r", 1, 2)),
            "LEGACY-006",
        ),
        (
            "state_that_is_none",
            "A state above MERGED is refused.",
            encoded("LegacyDetails", record("r", 1, 4)),
            "LEGACY-013",
        ),
        (
            "without_id",
            "A record without an id is refused.",
            encoded("LegacyDetails", 'mem_wal_list { wal_location: "w" }'),
            "LEGACY-006",
        ),
        (
            "range_that_goes_back",
            "Entry ids from 5 to 3 are refused.",
            encoded("LegacyDetails", record("r", 1, 0, "range { start: 5 end: 3 }")),
            "LEGACY-016",
        ),
        (
            "entries_that_are_no_segment",
            "Entry ids that are no U64Segment are refused.",
            encoded("LegacyDetails", 'mem_wal_list { id { region: "r" generation: 1 } wal_entries: "\\xff\\xff" }'),
            "LEGACY-016",
        ),
    ]
    return [
        _case("invalid", f"details_{name}", title, data, {"error": "corrupt"}, clause, directions=("decode",))
        for name, title, data, clause in faults
    ]


def cases() -> list[Case]:
    """Cases of revision 0."""
    return [*_whole(), *_damaged()]
