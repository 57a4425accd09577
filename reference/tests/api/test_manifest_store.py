"""The external manifest store as users of the public interface meet it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.effects import Copy, Put, StoreRequest
from memwal.errors import InvalidArgument, NotFound, StorageError
from memwal.stores import DynamoKeyValue, LocalStore, SqliteKeyValue
from memwal.stores.key_value import KeyValue
from typer.testing import CliRunner

from ..kit.tables import flush
from ..table.test_external_manifests import FakeDynamo

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int, v: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, schema=SCHEMA)


def put(table: memwal.Table, region: str, *ids: int) -> None:
    flush(table, rows(*ids), region=region)


def ids(table: memwal.Table) -> list[int]:
    return sorted(table.scan().column("id").to_pylist())


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.fixture(params=["name", "sqlite object", "dynamo object"])
def external(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = {
        "name": lambda: f"sqlite:{tmp_path / 'v.db'}",
        "sqlite object": lambda: SqliteKeyValue(tmp_path / "v.db"),
        "dynamo object": lambda: DynamoKeyValue(FakeDynamo(), "manifests"),
    }
    return made[request.param]()


def entered(external: Any) -> KeyValue:
    return SqliteKeyValue(external.removeprefix("sqlite:")) if isinstance(external, str) else external


def entries(external: Any, place: str) -> list[str]:
    return list(entered(external).keys(f"{Path(place).resolve()}/"))


@pytest.mark.clause("EXT-001", "EXT-002", "EXT-017")
def test_a_table_lives_its_life_through_an_external_manifest_store(place: str, external: Any) -> None:
    table = memwal.create(place, rows(1, 2), primary_key=["id"], manifest_store=external)
    region = table.register_region()
    for first in (3, 5, 7):
        put(table, region, first, first + 1)
    other = memwal.open(place, manifest_store=external)
    assert ids(other) == list(range(1, 9))
    assert len(other.merge().merged) == 3
    assert table.refresh().gc(retain_versions=1, grace_ms=0).collected
    assert len(entries(external, place)) == 1
    assert memwal.base_table(place).versions == (memwal.open(place, manifest_store=external).version,)
    assert other.refresh().version == table.refresh().version
    assert ids(memwal.open(place, manifest_store=external)) == list(range(1, 9))
    assert sorted(lance.dataset(place).to_table().column("id").to_pylist()) == list(range(1, 9))
    assert memwal.verify(place).clean


@pytest.mark.clause("TXN-006")
def test_without_its_manifest_store_a_table_is_read_and_not_committed_to(place: str, external: Any) -> None:
    table = memwal.create(place, rows(1), primary_key=["id"], manifest_store=external)
    region = table.register_region()
    put(table, region, 2)
    before = table.refresh().version
    unaware = memwal.open(place)
    assert ids(unaware) == [1, 2]
    for commit in (unaware.merge, unaware.register_region, lambda: memwal.base_table(place).append(rows(9))):
        with pytest.raises(InvalidArgument, match=r"manifest_store= \[TXN-006\]"):
            commit()
    assert table.refresh().version == before
    assert memwal.open(place, manifest_store=external).merge().rows == 1


@pytest.mark.clause("TXN-006")
def test_a_table_that_others_commit_without_a_manifest_store_is_not_opened_with_one(place: str, external: Any) -> None:
    memwal.create(place, rows(1), primary_key=["id"])
    for opening in (memwal.open, memwal.base_table):
        with pytest.raises(InvalidArgument, match="TXN-006"):
            opening(place, manifest_store=external)


@pytest.mark.clause("EXT-002")
def test_a_table_of_pylance_is_enabled_with_a_manifest_store(place: str, external: Any) -> None:
    keyed = pa.schema([pa.field("id", pa.int64(), False, {b"lance-schema:unenforced-primary-key": b"true"})])
    lance.write_dataset(pa.table({"id": [1]}, schema=keyed), place)
    lance.write_dataset(pa.table({"id": [2]}, schema=keyed), place, mode="append")
    table = memwal.enable(place, manifest_store=external)
    memwal.base_table(place, manifest_store=external).append(pa.table({"id": [3]}, schema=keyed))
    assert ids(table.refresh()) == [1, 2, 3]


@pytest.mark.clause("TXN-006", "TXN-035")
def test_restoring_a_version_from_before_keeps_the_record_of_the_manifest_store(place: str, external: Any) -> None:
    lance.write_dataset(pa.table({"id": [1]}), place)
    lance.write_dataset(pa.table({"id": [2]}), place, mode="append")
    memwal.base_table(place).tag("before", 1)
    through = {"memwal.commits": "external"}
    with pytest.raises(InvalidArgument, match="TXN-006"):
        memwal.base_table(place).update_metadata(config=through)
    table = memwal.create(f"{place}2", rows(1), primary_key=["id"], manifest_store=external)
    base = memwal.base_table(f"{place}2", manifest_store=external).append(rows(2))
    base.restore(table.version)
    assert memwal.open(f"{place}2", manifest_store=external).scan().column("id").to_pylist() == [1]
    with pytest.raises(InvalidArgument, match="TXN-006"):
        memwal.base_table(f"{place}2").append(rows(3))


class Dying(LocalStore):
    """A store whose process ends at a chosen kind of request."""

    def __init__(self, path: Path, at: type[StoreRequest[Any]], below: str) -> None:
        super().__init__(path)
        self.at, self.below = at, below

    def perform(self, request: StoreRequest[Any]) -> Any:
        if isinstance(request, self.at) and request.path.startswith(self.below):
            raise StorageError(request.path, "the process is dead")
        return super().perform(request)


@pytest.mark.clause("EXT-003", "EXT-007", "EXT-011", "EXT-013", "EXT-014", "EXT-015", "TXN-006")
def test_readers_finish_a_commit_whose_writer_died_after_it_was_entered(tmp_path: Path, external: Any) -> None:
    healthy = {"store": LocalStore(tmp_path), "manifest_store": external}
    table = memwal.create("t", rows(1), primary_key=["id"], **healthy)
    region = table.register_region()
    put(table, region, 2)
    before = table.refresh().version
    dying = memwal.open("t", store=Dying(tmp_path, Copy, "t/_versions/"), manifest_store=external)
    with pytest.raises(StorageError):
        dying.merge()
    staged = [file.name for file in (tmp_path / "t" / "_versions").iterdir() if "-" in file.name]
    assert len(staged) == 1
    assert lance.dataset(str(tmp_path / "t")).version == before
    assert memwal.open("t", **healthy).version == before + 1
    assert lance.dataset(str(tmp_path / "t")).to_table().column("id").to_pylist() == [1, 2]
    assert not [file.name for file in (tmp_path / "t" / "_versions").iterdir() if "-" in file.name]
    store = entered(external)
    assert [path for key in store.keys("") if not (path := str(store.get(key))).endswith(".manifest")] == []


@pytest.mark.clause("EXT-005", "EXT-006")
def test_a_commit_whose_writer_died_before_it_was_entered_has_not_happened(tmp_path: Path, external: Any) -> None:
    healthy = {"store": LocalStore(tmp_path), "manifest_store": external}
    table = memwal.create("t", rows(1), primary_key=["id"], **healthy)
    with pytest.raises(StorageError):
        memwal.base_table("t", store=Dying(tmp_path, Put, "t/_versions/"), manifest_store=external).append(rows(2))
    assert memwal.open("t", **healthy).version == table.version
    memwal.base_table("t", **healthy).append(rows(3))
    assert ids(memwal.open("t", **healthy)) == [1, 3]


@pytest.mark.clause("EXT-006", "EXT-008")
def test_two_handles_of_a_table_under_several_names_never_commit_one_version_twice(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, external: Any
) -> None:
    memwal.create(place, rows(0), primary_key=["id"], manifest_store=external)
    (tmp_path / "link").symlink_to(tmp_path / "t")
    monkeypatch.chdir(tmp_path)
    names = [place, "t", f"file://{place}", str(tmp_path / "link"), f"{tmp_path}/x/../t"]
    (tmp_path / "x").mkdir()
    handles = [memwal.base_table(name, manifest_store=external) for name in names]
    handles.append(memwal.base_table(place, within=tmp_path, manifest_store=external))
    for number, handle in enumerate(handles, 1):
        handle.append(rows(number))
    table = memwal.open(place, manifest_store=external)
    assert ids(table) == list(range(len(handles) + 1))
    assert len(entries(external, place)) == table.version


@pytest.mark.clause("EXT-006")
def test_tables_of_several_places_share_a_manifest_store(tmp_path: Path, external: Any) -> None:
    for name in ("a", "b", "a/inner"):
        memwal.create(tmp_path / name, rows(len(name)), primary_key=["id"], manifest_store=external)
    for name in ("a", "b", "a/inner"):
        table = memwal.open(tmp_path / name, manifest_store=external)
        memwal.base_table(tmp_path / name, manifest_store=external).append(rows(100))
        assert ids(table.refresh()) == [len(name), 100]


@pytest.mark.clause("TXN-037", "TXN-038")
@pytest.mark.parametrize("shallow", [True, False])
def test_a_clone_reads_its_source_through_the_manifest_store_and_has_none(
    tmp_path: Path, place: str, external: Any, shallow: bool
) -> None:
    memwal.create(place, rows(1), primary_key=["id"], manifest_store=external)
    memwal.base_table(place, manifest_store=external).append(rows(2))
    copy = memwal.clone(place, tmp_path / "c", shallow=shallow, manifest_store=external)
    assert copy.append(rows(3)).scan().column("id").to_pylist() == [1, 2, 3]


CHILD = """
import sys, memwal, pyarrow as pa
place, store, first = sys.argv[1:]
base = memwal.base_table(place, manifest_store=store)
for number in range(int(first), int(first) + 15):
    base.append(pa.table({"id": [number], "v": ["x"]}, schema=base.schema))
"""


@pytest.mark.clause("TXN-002", "EXT-006", "EXT-008")
def test_processes_that_commit_at_once_lose_nothing(place: str, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'v.db'}"
    memwal.create(place, rows(0), primary_key=["id"], manifest_store=store)
    command = [sys.executable, "-c", CHILD, place, store]
    children = [subprocess.Popen([*command, str(first)], env=os.environ) for first in (100, 200)]
    assert [child.wait(60) for child in children] == [0, 0]
    expected = [0, *range(100, 115), *range(200, 215)]
    assert ids(memwal.open(place, manifest_store=store)) == expected
    assert sorted(lance.dataset(place).to_table().column("id").to_pylist()) == expected


@pytest.mark.parametrize("named", ["", "sqlite:", "redis:x", "v.db"])
def test_a_name_of_no_manifest_store_is_refused(place: str, named: str) -> None:
    with pytest.raises(InvalidArgument, match="EXT-001"):
        memwal.create(place, rows(1), primary_key=["id"], manifest_store=named)
    with pytest.raises(NotFound):
        memwal.open(place)


def test_a_file_of_something_else_is_no_manifest_store(place: str, tmp_path: Path) -> None:
    (tmp_path / "v.db").write_bytes(b"no database, and long enough to be read as one" * 40)
    with pytest.raises(StorageError, match="not usable as an external manifest store"):
        memwal.create(place, rows(1), primary_key=["id"], manifest_store=f"sqlite:{tmp_path / 'v.db'}")


@pytest.fixture
def on_the_command_line(place: str, tmp_path: Path) -> list[str]:
    store = f"sqlite:{tmp_path / 'v.db'}"
    table = memwal.create(place, rows(1), primary_key=["id"], manifest_store=store)
    put(table, table.register_region(), 2)
    return [place, "--manifest-store", store]


def test_commands_that_change_a_table_take_its_manifest_store(on_the_command_line: list[str]) -> None:
    from memwal.cli.main import app

    place, *option = on_the_command_line
    runner = CliRunner()
    refused = runner.invoke(app, ["merge", place])
    assert (refused.exit_code, "manifest store" in refused.output) == (2, True)
    for command in ("info", "merge", "scan", "snapshot", "catch-up", "gc", "specs", "repair"):
        done = runner.invoke(app, [command, place, *option])
        assert (command, done.exit_code) == (command, 0), done.output
    assert memwal.base_table(place).scan().num_rows == 2
