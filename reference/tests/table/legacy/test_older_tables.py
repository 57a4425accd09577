"""Tables that older versions of pylance wrote: each is read, changed, merged and verified, and pylance reads it again.

`older/make.py` made them; what is expected follows from what it wrote.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.codec import table_manifest
from memwal.codec.pb.lance import table_pb2
from memwal.errors import ArtifactError, InvalidArgument

from ...kit.tables import flush
from .older import make

OLD_LAYOUT = ("0.5.10", "0.10.18")
"""Versions that write files of the layout before version 2 unless they are told otherwise."""
NO_KEY = ("0.5.10",)
"""Versions that drop the metadata of fields, and with them the key."""

READ_BY_THE_ENGINE_ONLY = ("0.5.10", "changed")
"""Page tables of files of version 0.1 begin with the id 0, and pylance 14.0 takes them for others."""

SEVERAL = [*range(20), *range(30, 47), *range(60, 73)]
IDS: dict[str, list[int]] = {
    "one": list(range(50)),
    "several": SEVERAL,
    "deleted": [i for i in range(47) if i < 20 or i >= 30 if i not in (3, 4, 5, 31)],
    "changed": list(range(15)),
    "updated": list(range(25)),
    "compacted": [i for i in SEVERAL if i not in (3, 4, 31)],
    "indexed": SEVERAL,
    "vectors": list(range(310)),
    "layout_0": [i for i in range(47) if i < 20 or i >= 30 if i not in (3, 31)],
    "deferred": [i for i in SEVERAL if i not in (3, 4, 31) and not 60 <= i <= 66] + [80, 81, 82, 83, *range(90, 95)],
}
MAKERS = make.MAKERS
TABLES = [(version, kind) for version in make.VERSIONS for kind in IDS if version in MAKERS.get(kind, make.VERSIONS)]
each_table = pytest.mark.parametrize(("version", "kind"), TABLES)


def unpacked(place: Path, version: str, kind: str) -> str:
    """The table in a folder of its own."""
    with tarfile.open(make.HERE / f"{version}.tar.xz") as archive:
        members = [member for member in archive.getmembers() if member.name.startswith(f"{kind}/")]
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from 3.11.4 on
        archive.extractall(place, members)
    return str(place / kind)


def row(version: str, kind: str, i: int) -> dict[str, Any]:
    """What the table of a kind has for a key. The layout before version 2 has no NULL in numbers: it reads as 0."""
    found = make.row(i)
    if is_old_layout(version, kind):
        found |= {"n": found["n"] or 0.0}
    if kind == "changed":
        found |= {"w": f"w{i}"}
    if kind == "updated" and i < 3:
        found |= {"s": "new"}
    return found


def added(kind: str, *ids: int) -> pa.Table:
    """Rows that are put into the table of a kind."""
    schema = make.SCHEMA.append(pa.field("w", pa.string())) if kind == "changed" else make.SCHEMA
    fields = [field.remove_metadata() for field in schema]
    return pa.Table.from_pylist([make.row(i) | {"w": f"w{i}"} for i in ids], pa.schema(fields))


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return sorted(found, key=lambda each: each["id"])


def is_old_layout(version: str, kind: str) -> bool:
    return kind == "layout_0" or version in OLD_LAYOUT


def findings(place: str) -> set[str]:
    return {found.oracle for found in memwal.verify(place).findings}


def known_findings(version: str) -> set[str]:
    """What `verify` has to say of an undamaged table: the oldest versions have no transactions."""
    return {"transactions_are_there"} if version == "0.5.10" else set()


@each_table
@pytest.mark.clause("FORMAT-017", "FORMAT-021")
def test_a_table_of_an_older_writer_has_the_rows_that_were_written(tmp_path: Path, version: str, kind: str) -> None:
    place = unpacked(tmp_path, version, kind)
    expected = [row(version, kind, i) for i in IDS[kind]]
    assert in_order(memwal.base_table(place).scan()) == expected
    if (version, kind) != READ_BY_THE_ENGINE_ONLY:
        assert in_order(lance.dataset(place).to_table()) == expected
    assert findings(place) == known_findings(version)


@each_table
@pytest.mark.clause("FORMAT-011", "FORMAT-015", "FORMAT-021", "TXN-014", "TXN-025")
def test_a_table_of_an_older_writer_goes_through_a_life_and_loses_no_row(
    tmp_path: Path, version: str, kind: str
) -> None:
    place = unpacked(tmp_path, version, kind)
    base = memwal.base_table(place)
    if is_old_layout(version, kind):
        with pytest.raises(InvalidArgument, match=r"0\.1 are read, but not written: write all rows anew.*upgrade"):
            base.append(added(kind, 1000))
        base.upgrade()
    expected = {i: row(version, kind, i) for i in IDS[kind]}
    if version in NO_KEY:
        base.update_metadata(fields={0: {"lance-schema:unenforced-primary-key": "true"}})
    table = memwal.enable(place)
    for ids in [(0, 1, 1000), (1000, 1, 2, 1001)]:
        flush(table, added(kind, *ids))
        memwal.open(place).merge()
        expected |= {each["id"]: each for each in added(kind, *ids).to_pylist()}
        assert in_order(memwal.open(place).scan()) == [expected[i] for i in sorted(expected)]
    base.refresh().append(added(kind, 2000, 2001)).delete("id = 2000 or id = 7 or id = 1001")
    expected |= {2001: added(kind, 2001).to_pylist()[0]}
    left = [each for i, each in sorted(expected.items()) if i not in (7, 1001)]
    assert in_order(memwal.open(place).scan()) == left
    assert findings(place) == known_findings(version)
    native = lance.dataset(place)
    assert in_order(native.to_table()) == left
    numbers = [fragment.fragment_id for fragment in native.get_fragments()]
    assert len(set(numbers)) == len(numbers)
    base.refresh().compact()
    assert in_order(lance.dataset(place).to_table()) == left
    assert in_order(memwal.open(place).scan()) == left


@pytest.mark.clause("FORMAT-011", "FORMAT-015", "TXN-025")
def test_fragment_ids_go_on_behind_the_only_fragment_of_a_table_that_records_none(tmp_path: Path) -> None:
    place = unpacked(tmp_path, "0.20.0", "one")
    base = memwal.base_table(place)
    base.append(added("one", 1000))
    base.delete("id < 50")
    base.append(added("one", 1001))
    assert [fragment.fragment_id for fragment in lance.dataset(place).get_fragments()] == [1, 2]


def edited(place: str, change: Callable[[table_pb2.Manifest], None]) -> None:
    """Change the newest manifest of a table in place."""
    path = max(Path(place, "_versions").glob("*.manifest"))
    manifest = table_manifest.decode(path.read_bytes(), str(path))
    change(manifest.message)
    path.write_bytes(table_manifest.encode(manifest))


@pytest.mark.clause("FORMAT-015")
def test_nothing_is_committed_to_a_table_that_has_a_fragment_id_twice(tmp_path: Path) -> None:
    place = unpacked(tmp_path, "0.33.0", "several")

    def twice(message: table_pb2.Manifest) -> None:
        message.fragments[2].id = 0

    edited(place, twice)
    base = memwal.base_table(place)
    assert sorted(base.scan(["id"]).column("id").to_pylist()) == IDS["several"]
    for change in (
        lambda: base.append(added("one", 1000)),
        lambda: base.delete("id = 1"),
        lambda: memwal.enable(place),
    ):
        with pytest.raises(ArtifactError, match=r"fragments \[0\] occur more than once.*\[FORMAT-015\]"):
            change()
    assert base.refresh().version == 3


def mixed(place: Path) -> str:
    """A table without a data format that has a file of version 0.2 beside one of version 2.1."""
    old, new = unpacked(place, "0.10.18", "one"), str(place / "new")
    lance.write_dataset(make.rows([100, 101]), new, data_storage_version="2.1")
    (fragment,) = lance.dataset(new).get_fragments()
    (file,) = fragment.data_files()
    shutil.copy(place / "new" / "data" / file.path, place / "one" / "data")

    def add(message: table_pb2.Manifest) -> None:
        added = message.fragments.add(id=1, physical_rows=2)
        numbers = range(len(message.fields))
        added.files.add(
            path=file.path, fields=numbers, column_indices=numbers, file_major_version=2, file_minor_version=1
        )

    edited(old, add)
    return old


@pytest.mark.clause("FORMAT-021")
def test_a_table_with_files_of_two_versions_is_read_and_told_and_takes_rows_only_after_an_upgrade(
    tmp_path: Path,
) -> None:
    place = mixed(tmp_path)
    with pytest.raises(ValueError, match="same version"):
        lance.dataset(place)
    base = memwal.base_table(place)
    expected = [row("0.10.18", "one", i) for i in range(50)] + [make.row(100), make.row(101)]
    assert in_order(base.scan()) == expected
    (found,) = memwal.verify(place).findings
    assert (found.oracle, found.severity) == ("data_files_have_one_version", "error")
    with pytest.raises(InvalidArgument, match=r"versions 0\.1, 2\.1 in one table.*upgrade.*\[FORMAT-021\]"):
        base.append(make.rows([102]))
    base.upgrade().append(make.rows([102]))
    assert in_order(lance.dataset(place).to_table()) == [*expected, make.row(102)]


@pytest.mark.clause("FORMAT-021")
@pytest.mark.parametrize(("version", "kind"), [("0.10.18", "one"), ("14.0.2", "layout_0")])
def test_an_upgrade_of_a_table_that_needs_none_commits_nothing(tmp_path: Path, version: str, kind: str) -> None:
    place = unpacked(tmp_path, version, kind)
    upgraded = memwal.base_table(place).upgrade().version
    assert memwal.base_table(place).upgrade().version == upgraded
    native = lance.dataset(place)
    assert (native.version, native.data_storage_version) == (upgraded, "2.1")


@pytest.mark.clause("FORMAT-017")
def test_a_file_that_alone_knows_its_rows_and_is_missing_is_named(tmp_path: Path) -> None:
    place = unpacked(tmp_path, "0.5.10", "several")
    gone = sorted(Path(place, "data").iterdir())[0]
    gone.unlink()
    with pytest.raises(ArtifactError, match=rf"data/{gone.name}: the table manifest names this file.*\[FORMAT-018\]"):
        memwal.base_table(place)
    assert "table_versions_open" in findings(place)
