"""What `memwal table verify` says of files whose names, entries or bytes are damaged: findings, never another error."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.codec import table_manifest
from memwal.codec.pb.lance import table_pb2
from memwal.codec.table_manifest import TableManifest
from memwal.effects import StoreRequest
from memwal.stores.base import check_name

from ..kit.ground import Ground

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


class Strict(Ground):
    """Refuses names that no store has, as real stores do."""

    def perform(self, request: StoreRequest[Any]) -> Any:
        if request.path:
            check_name(request.path)
        return super().perform(request)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A table with merged rows, deletions, and two indexes that list their files."""
    root = tmp_path_factory.mktemp("verified")
    place = str(root / "t")
    table = memwal.create(place, pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}, SCHEMA), primary_key=["id"])
    with table.writer(table.register_region()) as writer:
        writer.put(pa.table({"id": [3, 4], "v": ["x", "y"]}, SCHEMA))
        writer.flush()
    table.merge()
    lance.dataset(place).create_scalar_index("id", "BTREE")
    lance.dataset(place).create_scalar_index("v", "INVERTED")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def newest(objects: dict[str, bytes]) -> str:
    return min(name for name in objects if name.startswith("t/_versions/") and name.endswith(".manifest"))


def verified(objects: dict[str, bytes], *, fast: bool = True) -> memwal.Report:
    return memwal.verify("t", store=Strict(objects), fast=fast)


@pytest.mark.clause("FORMAT-004")
def test_a_manifest_with_any_damaged_bytes_gives_findings_and_no_other_error(objects: dict[str, bytes]) -> None:
    name = newest(objects)
    data = objects[name]
    manifest = table_manifest.decode(data, name)
    inline = next(i for i in manifest.indices if i.name == "__lance_mem_wal").index_details.value
    native = range(data.index(inline), data.index(inline) + len(inline))  # a Lance file: may end the native reader
    places = [place for place in range(len(data)) if place not in native]
    index_section = [place for place in places if place < native.stop + 4000 and place < len(data) - 16]
    chosen = random.Random(20)
    found = 0
    for number in range(400):
        damaged = bytearray(data)
        start = chosen.choice(index_section if number % 4 else places)
        for place in range(start, min(start + chosen.choice([1, 1, 2, 5]), len(data))):
            if place not in native:
                damaged[place] = chosen.randrange(256)
        found += bool(verified({**objects, name: bytes(damaged)}).findings)
    assert found > 100
    assert verified(objects).clean


def index_entry(index: table_pb2.IndexMetadata, *files: bytes) -> None:
    """Add field 10 with these bytes, as later writers do."""
    for data in files:
        index.MergeFromString(bytes([10 << 3 | 2, len(data)]) + data)


def listed(name: bytes, size: bytes = b"\x10\x07") -> bytes:
    return b"\x0a" + bytes([len(name)]) + name + size


DAMAGE: dict[str, tuple[Callable[[table_pb2.IndexMetadata], object], str]] = {
    "no message": (lambda i: index_entry(i, b"\xff\xff\xff"), "cannot be read as Flat"),
    "a number for a message": (
        lambda i: i.MergeFromString(bytes([10 << 3, 5])),
        "lists a file by a field of wire type 0",
    ),
    "no name": (lambda i: index_entry(i, b"\x10\x07"), "lists a file without a name"),
    "a name that is a number": (lambda i: index_entry(i, b"\x08\x07"), "lists a file without a name"),
    "a size that is text": (lambda i: index_entry(i, listed(b"f", b"\x12\x01x")), "size that is not a number"),
    "no UTF-8": (lambda i: index_entry(i, listed(b"\xff")), "name is not UTF-8"),
    "a name outside": (lambda i: index_entry(i, listed(b"../../../x")), "not a name inside of its folder"),
    "an empty name": (lambda i: index_entry(i, listed(b"")), "not a name inside of its folder"),
    "a NUL": (lambda i: index_entry(i, listed(b"a\0b")), "not a name inside of its folder"),
}


@pytest.mark.clause("FORMAT-004")
@pytest.mark.parametrize("kind", DAMAGE)
def test_an_index_entry_that_cannot_be_understood_is_named_with_its_place(objects: dict[str, bytes], kind: str) -> None:
    change, says = DAMAGE[kind]
    name = newest(objects)
    manifest = table_manifest.decode(objects[name], name)
    indices = [table_pb2.IndexMetadata.FromString(index.SerializeToString()) for index in manifest.indices]
    change(next(index for index in indices if index.name == "id_idx"))
    message = table_pb2.Manifest.FromString(manifest.message.SerializeToString())
    damaged = table_manifest.encode(TableManifest(message=message, indices=tuple(indices)))
    (finding,) = [one for one in verified({**objects, name: damaged}).findings if says in one.reason]
    assert (finding.path, finding.clause, finding.oracle) == (
        name.removeprefix("t/"), "FORMAT-004", "index_files_are_there",
    )  # fmt: skip
    assert finding.offset == 0


@pytest.mark.clause("FORMAT-026", "FORMAT-024", "FORMAT-031")
def test_data_files_before_version_2_are_read_to_their_ends(tmp_path: Path) -> None:
    rows = pa.table({"id": range(500), "v": [f"value {i}" for i in range(500)]})
    place = tmp_path / "t"
    lance.write_dataset(rows, str(place), data_storage_version="legacy", max_rows_per_group=100)
    report = memwal.verify(place)
    assert (report.findings, report.notes) == ((), ())
    (file,) = place.glob("data/*.lance")
    whole = file.read_bytes()
    found: set[tuple[str, str]] = set()
    said = ""
    for place_in_file in range(0, len(whole), 97):
        damaged = bytearray(whole)
        damaged[place_in_file] ^= 0xFF
        file.write_bytes(bytes(damaged))
        findings = memwal.verify(place).findings
        found |= {(finding.oracle, finding.clause) for finding in findings}
        said += "".join(finding.reason for finding in findings)
    assert found == {("named_files_are_whole", f"FORMAT-0{number}") for number in (24, 26, 31)}
    assert "column 'v': Invalid UTF8 sequence" in said
