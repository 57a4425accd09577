"""Region manifests, hints, WAL entries and index details, whole and damaged."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance.file import LanceFileWriter

from .case import Case
from .messages import encoded, uuid_text
from .names import SUFFIX

REGION = "6ba7b814-9dad-41d1-80b4-00c04fd430c8"
OTHER = "0f8fad5b-d9cb-469f-a165-70867728950e"
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
HINT_PATH = f"_mem_wal/{REGION}/manifest/version_hint.json"
ROWS: dict[str, list[Any]] = {"id": [1, 2, 1], "v": ["a", None, "c"]}
FIELDS = [pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]
KINDS = {"id": "int64", "v": "utf8", "_tombstone": "bool"}


def digits(number: int) -> str:
    """64 binary digits, least significant first."""
    return "".join("1" if number >> bit & 1 else "0" for bit in range(64))


def manifest_path(version: int, region: str = REGION) -> str:
    """Full name of a region manifest."""
    return f"_mem_wal/{region}/manifest/{digits(version)}.binpb"


def wal_path(revision: str, position: int) -> str:
    """Full name of a WAL entry."""
    return f"_mem_wal/{REGION}/wal/{digits(position)}.{SUFFIX[revision]}"


# Manifests ---------------------------------------------------------------------------------------------------------

FIRST = "version: 1 writer_epoch: 1 current_generation: 1"
FLUSHED = """
  version: 5 writer_epoch: 3 replay_after: 10 last_seen: 12 current_generation: 8 spec_id: 2
  flushed { generation: 6 path: "a1b2c3d4_gen_6" } flushed { generation: 7 path: "00ff00ff_gen_7" }
"""
LARGE = """
  version: 9223372036854775809 writer_epoch: 9223372036854775808 replay_after: 18446744073709551613
  last_seen: 18446744073709551614 current_generation: 9223372036854775807 spec_id: 4294967295
"""
ACCOUNTED = """
  version: 7 writer_epoch: 2 replay_after: 4 last_seen: 4 current_generation: 2 spec_id: 1 status: 1
  flushed { generation: 1 path: "a1b2c3d4_gen_1" in_memory_bytes: 188 physical_rows: 5 primary_key_bytes: 40 }
  shard_fields { field_id: "bucket" value: "\\x03\\x00\\x00\\x00" }
"""


def manifest(text: str, region: str = REGION) -> bytes:
    """Bytes of a region manifest."""
    return encoded("Manifest", text + f' region_id {{ uuid: "{uuid_text(region)}" }}')


def manifest_view(*numbers: int, generations: Sequence[tuple[int, str]] = (), **more: Any) -> dict[str, Any]:
    """The view of a manifest: version, epoch, replay_after, last_seen, current_generation, spec id."""
    version, epoch, after, seen, current, spec = map(str, numbers)
    view: dict[str, Any] = {
        "region_id": REGION,
        "version": version,
        "region_spec_id": spec,
        "writer_epoch": epoch,
        "replay_after": after,
        "last_seen": seen,
        "current_generation": current,
        "flushed_generations": [{"generation": str(number), "path": path} for number, path in generations],
    }
    return {"manifest": view | more}


def _reversed_fields(data: bytes) -> bytes:
    """The fields of a message of short fields in reverse order, which means the same."""
    at, parts = 0, []
    while at < len(data):
        start, wire_type = at, data[at] & 7
        at += 1
        if wire_type == 2:
            at += 1 + data[at]
        else:
            while data[at] & 0x80:
                at += 1
            at += 1
        parts.append(data[start:at])
    return b"".join(reversed(parts))


MANIFEST_CLAUSES = {
    "A": (
        "MANIFEST-002",
        "MANIFEST-003",
        "MANIFEST-004",
        "MANIFEST-005",
        "MANIFEST-006",
        "MANIFEST-008",
        "MANIFEST-010",
        "MANIFEST-013",
        "MANIFEST-016",
    ),
    "B": ("MANIFEST-002", "MANIFEST-038"),
    "R": ("MANIFEST-002",),
}
"""Only revision A prints the field numbers; B names two fields; all say that the file is this message."""


def _manifest_case(revision: str, name: str, title: str, data: bytes, view: dict[str, Any], **more: Any) -> Case:
    standard = {"directions": ("decode", "encode"), "clauses": MANIFEST_CLAUSES[revision]}
    return Case(
        revision=revision,
        folder="manifest",
        name=name,
        title=title,
        kind="manifest",
        derived="Protobuf text format under descriptors of the script's own.",
        files={manifest_path(int(view["manifest"]["version"])): data},
        expected=view,
        **standard | more,
    )


def _manifest_cases(revision: str) -> list[Case]:
    first = manifest_view(1, 1, 0, 0, 1, 0)
    flushed = manifest_view(5, 3, 10, 12, 8, 2, generations=[(6, "a1b2c3d4_gen_6"), (7, "00ff00ff_gen_7")])
    large = manifest_view(2**63 + 1, 2**63, 2**64 - 3, 2**64 - 2, 2**63 - 1, 2**32 - 1)
    return [
        _manifest_case(
            revision, "first", "The first manifest of a region decodes and encodes.", manifest(FIRST), first
        ),
        _manifest_case(
            revision,
            "generations",
            "A manifest with two flushed generations decodes and encodes.",
            manifest(FLUSHED),
            flushed,
        ),
        _manifest_case(revision, "large_numbers", "Numbers above 2^63 survive.", manifest(LARGE), large),
        _manifest_case(
            revision,
            "fields_in_any_order",
            "The order of fields means nothing.",
            _reversed_fields(manifest(FLUSHED)),
            flushed,
            directions=("decode",),
            clauses=("MANIFEST-002",),
        ),
        _manifest_case(
            revision,
            "unknown_fields",
            "The retired field 7 and fields of the future are passed over.",
            manifest(FLUSHED + ' retired: 4 of_the_future: "x"'),
            flushed,
            directions=("decode",),
            clauses=("MANIFEST-015",) if revision == "A" else ("MANIFEST-002",),
        ),
    ]


def _accounting_case() -> Case:
    counts = {"in_memory_bytes": "188", "physical_rows": "5", "primary_key_bytes": "40"}
    more: dict[str, Any] = {
        "flushed_generations": [{"generation": "1", "path": "a1b2c3d4_gen_1", **counts}],
        "shard_fields": [{"field_id": "bucket", "value": base64.b64encode(b"\x03\0\0\0").decode()}],
        "status": "sealed",
    }
    return _manifest_case(
        "R",
        "accounting",
        "Shard fields, status and accounting of revision R decode and encode.",
        manifest(ACCOUNTED),
        manifest_view(7, 2, 4, 4, 2, 1, **more),
    )


def _hint_case(revision: str, name: str, title: str, data: bytes, version: str, directions: tuple[str, ...]) -> Case:
    return Case(
        revision=revision,
        folder="hint",
        name=name,
        title=title,
        kind="hint",
        directions=directions,
        clauses=("MANIFEST-026",),
        derived="Written by hand.",
        files={HINT_PATH: data},
        expected={"hint": {"version": version}},
    )


def _hint_cases(revision: str) -> list[Case]:
    return [
        _hint_case(
            revision,
            "hint",
            "A version hint is a JSON object with the version.",
            b'{"version": 5}',
            "5",
            ("decode", "encode"),
        ),
        _hint_case(
            revision,
            "spaces",
            "White space and further members do not matter.",
            b' {"x":[1],\n"version":12} ',
            "12",
            ("decode",),
        ),
    ]


# WAL entries -------------------------------------------------------------------------------------------------------


def fields(revision: str) -> list[pa.Field]:
    """Columns of a stored entry."""
    tombstone = [pa.field("_tombstone", pa.bool_(), nullable=False)] if revision == "R" else []
    return [*FIELDS, *tombstone]


def metadata(revision: str, epoch: str | None = "7") -> dict[str, str]:
    """Schema metadata of a stored entry."""
    generation = {"generation": "2"} if revision == "R" else {}
    return generation if epoch is None else {"writer_epoch": epoch, **generation}


def batches(revision: str, sizes: tuple[int, ...]) -> list[pa.RecordBatch]:
    """The rows of `ROWS`, cut into batches."""
    columns = dict(ROWS)
    if revision == "R":
        columns["_tombstone"] = [False, True, False]
    table = pa.table(columns, schema=pa.schema(fields(revision)))
    found, at = [], 0
    for size in sizes:
        found.append(table.slice(at, size).combine_chunks().to_batches()[0])
        at += size
    return found


def arrow(revision: str, sizes: tuple[int, ...] = (3,), epoch: str | None = "7") -> bytes:
    """An Arrow IPC stream as pyarrow writes it."""
    schema = pa.schema(fields(revision), metadata=metadata(revision, epoch))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches(revision, sizes):
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def lance_file(sizes: tuple[int, ...] = (3,), epoch: str | None = "7") -> bytes:
    """A Lance file as pylance writes it."""
    schema = pa.schema(FIELDS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "entry.lance"
        with LanceFileWriter(str(path), schema) as writer:
            for batch in batches("A", sizes):
                writer.write_batch(batch)
            for key, value in metadata("A", epoch).items():
                writer.add_schema_metadata(key, value)
        return path.read_bytes()


def wal(revision: str, sizes: tuple[int, ...] = (3,), epoch: str | None = "7") -> bytes:
    """An entry of the revision's container."""
    return lance_file(sizes, epoch) if revision == "A" else arrow(revision, sizes, epoch)


def wal_view(revision: str, rows: int) -> dict[str, Any]:
    """The view of an entry with the first ``rows`` rows."""
    kinds = [KINDS[field.name] for field in fields(revision)]
    columns = [{"name": f.name, "type": KINDS[f.name], "nullable": f.nullable} for f in fields(revision)]
    columns_by_name = {**ROWS, "_tombstone": [False, True, False]}
    cells = [
        [_cell(kind, columns_by_name[str(column["name"])][row]) for column, kind in zip(columns, kinds, strict=True)]
        for row in range(rows)
    ]
    view: dict[str, Any] = {"writer_epoch": "7"}
    if revision == "R":
        view["generation"] = "2"
    return {"wal": {**view, "rows": {"columns": columns, "rows": cells}}}


def _cell(kind: str, value: Any) -> dict[str, Any]:
    return {"t": kind, "v": value if value is None or isinstance(value, bool | str) else str(value)}


def _open_to(revision: str, name: str) -> dict[str, Any]:
    """The note by which the answer to a case about entries is open, and its outcomes."""
    if name == "no_rows":
        return {"ambiguity": "AMB-20", "outcomes": ({"expected": {"error": "corrupt"}},)}
    # The text says nothing of the end of a stream: who writes one may leave out its mark.
    closed = revision == "A" or name != "one_batch"
    return {} if closed else {"ambiguity": "AMB-11", "outcomes": ({"compare": "readable"},)}


def _wal_cases(revision: str) -> list[Case]:
    clauses = ("WAL-008", "WAL-010", "WAL-026") if revision == "A" else ("WAL-009", "WAL-010", "WAL-032")
    container = "Lance file as pylance writes it" if revision == "A" else "Arrow stream as pyarrow writes it"
    made: list[tuple[str, str, tuple[int, ...], int, tuple[str, ...]]] = [
        ("one_batch", "An entry of one write keeps its rows in order.", (3,), 3, ("decode", "encode")),
        ("two_batches", "An entry of two writes keeps their rows in write order.", (1, 2), 3, ("decode",)),
    ]
    if revision != "A":
        made.append(("no_rows", "An entry may have no rows.", (), 0, ("decode",)))
    return [
        Case(
            revision=revision,
            folder="wal",
            name=name,
            title=title,
            kind="wal",
            directions=directions,
            clauses=clauses,
            **_open_to(revision, name),
            derived=f"{container}, with the epoch in its schema metadata.",
            files={wal_path(revision, 3): wal(revision, sizes)},
            expected=wal_view(revision, rows),
            stable=revision != "A",
        )
        for name, title, sizes, rows, directions in made
    ]


# Index details -----------------------------------------------------------------------------------------------------

DETAILS = f"""
  snapshot_ts_millis: 1767225600000 num_regions: 2
  region_specs {{ spec_id: 1 fields {{
    field_id: "bucket" source_ids: 0 transform: "bucket" result_type: "int32"
    parameters {{ key: "num_buckets" value: "8" }} }} }}
  maintained_indexes: "v_idx"
  merged {{ region_id {{ uuid: "{uuid_text(REGION)}" }} generation: 4 }}
  merged {{ region_id {{ uuid: "{uuid_text(OTHER)}" }} generation: 9223372036854775807 }}
  catchup {{ index_name: "v_idx" caught_up {{ region_id {{ uuid: "{uuid_text(REGION)}" }} generation: 3 }} }}
"""


def _details_cases(revision: str) -> list[Case]:
    field = {
        "field_id": "bucket",
        "source_ids": ["0"],
        "transform": "bucket",
        "result_type": "int32",
        "parameters": {"num_buckets": "8"},
    }
    full = {
        "snapshot_ts_millis": "1767225600000",
        "num_regions": "2",
        "inline_snapshots": None,
        "region_specs": [{"spec_id": "1", "fields": [field]}],
        "maintained_indexes": ["v_idx"],
        "merged_generations": [
            {"region_id": REGION, "generation": "4"},
            {"region_id": OTHER, "generation": "9223372036854775807"},
        ],
        "index_catchup": [{"index_name": "v_idx", "caught_up_generations": [{"region_id": REGION, "generation": "3"}]}],
    }
    lists = ("region_specs", "maintained_indexes", "merged_generations", "index_catchup")
    empty: dict[str, Any] = {
        "snapshot_ts_millis": "0",
        "num_regions": "0",
        "inline_snapshots": None,
        **{name: [] for name in lists},
    }
    numbers = ("INDEX-011", "INDEX-012", "INDEX-013", "INDEX-015", "INDEX-016", "INDEX-018", "INDEX-019")
    clauses = ("INDEX-010", *numbers) if revision == "A" else ("INDEX-010",)
    return [
        Case(
            revision=revision,
            folder="index_details",
            name=name,
            title=title,
            kind="index_details",
            directions=("decode", "encode"),
            clauses=clauses,
            derived="Protobuf text format under descriptors of the script's own.",
            files={"index_details.binpb": encoded("IndexDetails", text)},
            expected={"index_details": view},
        )
        for name, title, text, view in (
            ("full", "Configuration, progress and catch-up of the MemWAL index decode and encode.", DETAILS, full),
            ("empty", "Details without any field are those of a new index.", "", empty),
        )
    ]


def cases() -> list[Case]:
    """Whole objects of all revisions."""
    makers = (_manifest_cases, _hint_cases, _wal_cases, _details_cases)
    return [*(case for r in ("A", "B", "R") for make in makers for case in make(r)), _accounting_case()]
