"""How versions of a table are named, found and created on stores of each ability."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from memwal.codec.pb.lance import table_pb2
from memwal.drive import drive
from memwal.effects import Commits, Io, RenameIfAbsent
from memwal.errors import AlreadyExists, ArtifactError, NotFound, OutcomeUnknown
from memwal.ids import TableVersion
from memwal.revisions import STRICT
from memwal.stores import LocalStore
from memwal.table import read, state, versions, write
from memwal.table.versions import Scheme

from ..kit.folder import Folder
from ..kit.ground import Ground

SCHEMA = pa.schema([pa.field("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def ids(folder: Folder, io: Io) -> list[int]:
    found = folder.run(read.scan(io, folder.run(state.latest(io))))
    return sorted(found.column("id").to_pylist())


@pytest.mark.clause("TXN-018", "TXN-019")
def test_names_of_both_schemes_are_those_of_the_texts() -> None:
    assert versions.name(TableVersion(5), Scheme.V1) == "_versions/5.manifest"
    assert versions.name(TableVersion(12), Scheme.V1) == "_versions/12.manifest"
    assert versions.name(TableVersion(1)) == "_versions/18446744073709551614.manifest"
    assert versions.name(TableVersion(18446744073709551614)) == "_versions/00000000000000000001.manifest"


@pytest.mark.clause("FORMAT-003", "FORMAT-004", "FORMAT-018")
def test_a_table_is_data_files_in_one_folder_and_one_manifest_for_each_version_in_another(folder: Folder) -> None:
    io = Io("t", interpretation=STRICT)
    folder.run(write.create(io, SCHEMA, rows(1)))
    folder.run(write.append(io, rows(2)))
    folder.run(write.set_config(io, {"a": "1"}))
    names = [name for name in folder.files() if not name.startswith("t/_transactions/")]
    assert [name for name in names if name.startswith("t/_versions/")] == [
        "t/_versions/18446744073709551612.manifest",
        "t/_versions/18446744073709551613.manifest",
        "t/_versions/18446744073709551614.manifest",
    ]
    data = [name for name in names if not name.startswith("t/_versions/")]
    assert len(data) == 2
    assert all(re.fullmatch(r"t/data/[^/]+\.lance", name) for name in data)
    named = [file.path for part in folder.run(state.latest(io)).fragments for file in part.files]
    assert sorted(f"t/data/{path}" for path in named) == data


@pytest.mark.clause("FORMAT-007")
def test_a_manifest_says_the_version_of_its_name_and_is_not_taken_for_another(folder: Folder) -> None:
    io = Io("t", interpretation=STRICT)
    folder.run(write.create(io, SCHEMA, rows(1)))
    folder.run(write.append(io, rows(2)))
    for number, name in ((1, "18446744073709551614"), (2, "18446744073709551613")):
        data = (folder.root / "t" / "_versions" / f"{name}.manifest").read_bytes()
        (position,) = struct.unpack("<Q", data[-16:-8])
        assert table_pb2.Manifest.FromString(data[position + 4 : -16]).version == number
    (folder.root / "t" / "_versions" / "18446744073709551612.manifest").write_bytes(data)
    with pytest.raises(ArtifactError, match=r"says version 2, its name 3.*\[FORMAT-007\]"):
        folder.run(state.latest(io))
    (folder.root / "t" / "_versions" / "18446744073709551614.manifest").write_bytes(data)
    with pytest.raises(ArtifactError, match=r"says version 2, its name 1.*\[FORMAT-007\]"):
        folder.run(state.load(io, TableVersion(1)))


@pytest.mark.clause("TXN-020")
def test_by_the_second_scheme_the_newest_version_sorts_first() -> None:
    newest_first = sorted(versions.name(TableVersion(number)) for number in (1, 2, 9, 10, 11, 100))
    assert newest_first == [versions.name(TableVersion(number)) for number in (100, 11, 10, 9, 2, 1)]


@pytest.mark.parametrize(
    ("file", "meant"),
    [
        ("_versions/7.manifest", (7, Scheme.V1)),
        ("18446744073709551608.manifest", (7, Scheme.V2)),
        ("_versions/00000000000000000007.manifest", (18446744073709551608, Scheme.V2)),
        ("_versions/0.manifest", None),
        ("_versions/07.manifest", None),
        ("_versions/18446744073709551615.manifest", None),
        ("_versions/d7.manifest", None),
        ("_versions/_latest.manifest", None),
        ("_versions/latest_version_hint.json", None),
        ("_versions/7.manifest-8a7f1c52-8a0e-4a4b-9a43-0c9d2f3b6a11", None),
        ("_versions/7.manifest.tmp", None),
    ],
)
@pytest.mark.clause("TXN-008", "EXT-005")
def test_only_final_names_are_versions(file: str, meant: tuple[int, Scheme] | None) -> None:
    assert versions.parse(file) == meant


@pytest.mark.clause("TXN-021")
def test_the_newest_version_is_found_by_one_listing_and_one_read() -> None:
    ground, io = Ground(), Io("t", interpretation=STRICT)
    ground.run(write.create(io, SCHEMA, rows(1)))
    ground.run(write.append(io, rows(2)))
    ground.run(write.append(io, rows(3)))
    before = len(ground.asked)
    assert ground.run(state.latest(io)).version == 3
    asked = [(type(request).__name__, request.path) for request in ground.asked[before:]]
    assert asked == [("List", "t/_versions"), ("Get", "t/_versions/18446744073709551612.manifest")]


@pytest.mark.clause("TXN-018")
def test_a_table_that_pylance_named_by_the_first_scheme_is_read_and_kept_in_it(folder: Folder) -> None:
    place = str(folder.root / "t")
    lance.write_dataset(rows(1), place, enable_v2_manifest_paths=False)
    lance.write_dataset(rows(2), place, mode="append")
    names = {name for name in folder.files() if name.startswith("t/_versions/") and name.endswith(".manifest")}
    assert names == {"t/_versions/1.manifest", "t/_versions/2.manifest"}
    folder.run(write.append(Io("t", interpretation=STRICT), rows(3)))
    assert "t/_versions/3.manifest" in folder.files()
    assert ids(folder, Io("t", interpretation=STRICT)) == [1, 2, 3]
    assert sorted(lance.dataset(place).to_table().column("id").to_pylist()) == [1, 2, 3]
    assert folder.run(state.load(Io("t", interpretation=STRICT), TableVersion(2))).rows == 2


@pytest.mark.clause("TXN-008")
def test_names_of_both_schemes_in_one_table_are_told_and_the_newest_version_counts(folder: Folder) -> None:
    io = Io("t", interpretation=STRICT)
    for number in range(3):
        folder.run(write.create(io, SCHEMA, rows(0)) if not number else write.append(io, rows(number)))
    folder_of = folder.root / "t" / "_versions"
    (folder_of / Path(versions.name(TableVersion(2))).name).rename(folder_of / "2.manifest")
    told: list[str] = []
    listed = drive(versions.listing(io), folder.store, lambda event, _: told.append(event))
    assert listed.versions == (1, 2, 3)
    assert (listed.scheme, listed.mixed, told) == (Scheme.V2, True, ["mixed_manifest_names"])
    assert folder.run(state.load(io, TableVersion(2))).version == 2
    assert ids(folder, io) == [0, 1, 2]


def test_a_version_that_is_listed_and_never_there_is_damage(folder: Folder) -> None:
    class Forgetful(LocalStore):
        def perform(self, request: Any) -> Any:
            if type(request).__name__ == "Get" and request.path.endswith(versions.name(TableVersion(1))[10:]):
                raise NotFound(request.path)
            return super().perform(request)

    folder.run(write.create(Io("t", interpretation=STRICT), SCHEMA, rows(1)))
    with pytest.raises(ArtifactError, match="listed, and it is not there"):
        drive(state.latest(Io("t", interpretation=STRICT)), Forgetful(folder.root))


@pytest.mark.clause("TXN-001", "TXN-005", "TXN-006")
def test_a_store_that_only_renames_creates_each_version_once(folder: Folder) -> None:
    io = Io("t", Commits.RENAME, interpretation=STRICT)
    folder.run(write.create(io, SCHEMA, rows(1)))
    folder.run(write.append(io, rows(2)))
    assert ids(folder, io) == [1, 2]
    assert len([name for name in folder.files() if name.startswith("t/_versions/")]) == 2
    with pytest.raises(AlreadyExists):
        folder.run(versions.create(io, TableVersion(2), b"another"))
    assert ids(folder, io) == [1, 2]
    assert len([name for name in folder.files() if name.startswith("t/_versions/")]) == 2
    assert sorted(lance.dataset(str(folder.root / "t")).to_table().column("id").to_pylist()) == [1, 2]


class Unanswered(LocalStore):
    """Applies the first rename and does not answer."""

    renames = 0

    def perform(self, request: Any) -> Any:
        self.renames += isinstance(request, RenameIfAbsent)
        done = super().perform(request)
        if isinstance(request, RenameIfAbsent) and self.renames == 1:
            raise OutcomeUnknown(request.path)
        return done


@pytest.mark.clause("TXN-005")
def test_a_rename_that_was_applied_and_not_answered_is_recognised(tmp_path: Path) -> None:
    store, io = Unanswered(tmp_path), Io("t", Commits.RENAME, interpretation=STRICT)
    assert drive(write.create(io, SCHEMA, rows(1)), store).version == 1
    assert store.renames == 2
    assert drive(state.latest(io), store).rows == 1
