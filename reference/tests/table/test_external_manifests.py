"""Tables whose versions are decided by an external manifest store."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import pyarrow as pa
import pytest
from memwal.drive import drive
from memwal.effects import EXTERNAL_ROOT, Commits, Copy, Get, Io, List, ListFolders, Put, PutIfAbsent
from memwal.errors import ArtifactError, InvalidArgument, NotFound, OutcomeUnknown, StorageError
from memwal.ids import TableVersion
from memwal.revisions import STRICT
from memwal.stores import LocalStore
from memwal.stores.key_value import DynamoKeyValue, KeyValue, SqliteKeyValue, WithExternal
from memwal.table import read, state, versions, write

SCHEMA = pa.schema([pa.field("id", pa.int64())])
IO, UNAWARE = Io("t", Commits.EXTERNAL, interpretation=STRICT), Io("t", interpretation=STRICT)


class FakeDynamo:
    """Conditional writes as DynamoDB documents them, two items a page."""

    class exceptions:  # noqa: N801 - as in boto3
        class ConditionalCheckFailedException(Exception):
            pass

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], dict[str, Any]] = {}

    @staticmethod
    def _key(item: dict[str, Any]) -> tuple[str, str]:
        return item["base"]["S"], item["version"]["S"]

    def get_item(self, *, TableName: str, Key: dict[str, Any], ConsistentRead: bool) -> dict[str, Any]:
        assert ConsistentRead
        found = self.items.get(self._key(Key))
        return {} if found is None else {"Item": found}

    def put_item(self, *, TableName: str, Item: dict[str, Any], **condition: Any) -> None:
        if condition and self._key(Item) in self.items:
            raise self.exceptions.ConditionalCheckFailedException
        self.items[self._key(Item)] = Item

    def delete_item(self, *, TableName: str, Key: dict[str, Any]) -> None:
        self.items.pop(self._key(Key), None)

    def query(self, *, ExpressionAttributeValues: dict[str, Any], **rest: Any) -> dict[str, Any]:
        base = ExpressionAttributeValues[":base"]["S"]
        start = rest.get("ExclusiveStartKey", {"version": {"S": ""}})["version"]["S"]
        found = sorted((k for k in self.items if k[0] == base and k[1] > start), key=lambda k: k[1])
        page: dict[str, Any] = {"Items": [self.items[key] for key in found[:2]]}
        if len(found) > 2:
            page["LastEvaluatedKey"] = {"version": {"S": found[1][1]}}
        return page


@pytest.fixture(params=["sqlite", "dynamo"])
def external(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValue]:
    store: KeyValue = (
        SqliteKeyValue(tmp_path / "versions.db")
        if request.param == "sqlite"
        else DynamoKeyValue(FakeDynamo(), "manifests")
    )
    yield store
    store.close()


class Breaking(WithExternal):
    """Stops answering at a chosen request, as a process does that dies."""

    def __init__(self, store: LocalStore, external: KeyValue, survives: int = 1 << 60) -> None:
        super().__init__(store, external)
        self.left = survives

    def perform(self, request: Any) -> Any:
        if not self.left:
            raise StorageError(request.path, "the process is dead")
        self.left -= 1
        return super().perform(request)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def ids(store: WithExternal, io: Io = IO) -> list[int]:
    return sorted(drive(read.scan(io, drive(state.latest(io), store)), store).column("id").to_pylist())


@pytest.fixture
def store(tmp_path: Path, external: KeyValue) -> WithExternal:
    made = WithExternal(LocalStore(tmp_path / "objects"), external)
    drive(write.create(IO, SCHEMA, rows(1)), made)
    return made


@pytest.mark.clause("EXT-001", "EXT-002", "EXT-009", "EXT-010", "EXT-017", "TXN-007")
def test_a_table_committed_through_an_external_store_is_a_table_without_it(
    store: WithExternal, external: KeyValue, tmp_path: Path
) -> None:
    for number in range(2, 6):
        drive(write.append(IO, rows(number)), store)
    copied = tmp_path / "copied"
    shutil.copytree(tmp_path / "objects" / "t", copied)
    assert sorted(lance.dataset(str(copied)).to_table().column("id").to_pylist()) == [1, 2, 3, 4, 5]
    assert ids(store, UNAWARE) == [1, 2, 3, 4, 5]
    assert external.get(f"{EXTERNAL_ROOT}/t/{5:020d}") == f"t/{versions.name(TableVersion(5))}"
    assert sorted(name.name for name in (copied / "_versions").iterdir()) == sorted(
        versions.name(TableVersion(number)).removeprefix("_versions/") for number in range(1, 6)
    )
    assert ids(store) == [1, 2, 3, 4, 5]


@pytest.mark.clause("EXT-004")
def test_a_manifest_is_staged_under_its_final_name_with_a_fresh_uuid(external: KeyValue, tmp_path: Path) -> None:
    staged: list[str] = []

    class Watched(WithExternal):
        def perform(self, request: Any) -> Any:
            if isinstance(request, Put) and request.path.startswith("t/_versions/"):
                staged.append(request.path)
            return super().perform(request)

    store = Watched(LocalStore(tmp_path / "objects"), external)
    drive(write.create(IO, SCHEMA, rows(1)), store)
    for attempt in (write.append(IO, rows(2)), write.append(IO, rows(3))):
        drive(attempt, store)
    digits = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    finals = [f"t/{versions.name(TableVersion(number))}" for number in (1, 2, 3)]
    assert len(staged) == 3
    assert all(re.fullmatch(f"{re.escape(f)}-{digits}", name) for f, name in zip(finals, staged, strict=True)), staged
    assert len({name[-36:] for name in staged}) == 3


@pytest.mark.clause("EXT-006", "EXT-008")
def test_of_two_committers_of_a_version_the_second_rebases(store: WithExternal, tmp_path: Path) -> None:
    entered: list[tuple[str, bytes]] = []

    class Overtaken:
        """The store; another one commits before the first entry is made."""

        def perform(self, request: Any) -> Any:
            if isinstance(request, PutIfAbsent) and request.path.startswith(EXTERNAL_ROOT):
                entered.append((request.path.rpartition("/")[2], request.data))
                if len(entered) == 1:
                    drive(write.append(IO, rows(3)), store)
            return store.perform(request)

    assert drive(write.append(IO, rows(2)), Overtaken()).version == 3
    assert ids(store) == [1, 2, 3]
    assert [int(version) for version, _ in entered] == [2, 3]
    staged = [re.fullmatch(rb"(?:.*/)?t/(_versions/[0-9]{20}\.manifest)-[0-9a-f-]{36}", path) for _, path in entered]
    assert [found[1] for found in staged if found] == [
        b"_versions/18446744073709551613.manifest",
        b"_versions/18446744073709551612.manifest",
    ]
    left = {path.name for path in (tmp_path / "objects/t/_versions").iterdir()}
    assert not [name for name in left if not name.endswith(".manifest")], "what lost is not left staged"


@pytest.mark.clause("EXT-003", "EXT-005", "EXT-007", "EXT-011", "EXT-013", "EXT-014", "EXT-015", "EXT-016")
def test_a_commit_that_dies_at_any_request_is_whole_or_absent_for_every_reader(
    external: KeyValue, tmp_path: Path
) -> None:
    outcomes: list[tuple[int, int]] = []
    for survives in range(40):
        folder = tmp_path / str(survives)
        kept = SqliteKeyValue(tmp_path / f"{survives}.db")
        healthy = WithExternal(LocalStore(folder), kept)
        drive(write.create(IO, SCHEMA, rows(1)), healthy)
        dying = Breaking(LocalStore(folder), kept, survives)
        finished = True
        try:
            drive(write.append(IO, rows(2)), dying)
        except StorageError:
            finished = False
        unaware = (drive(versions.listing(UNAWARE), healthy)).versions[-1]
        newest = drive(state.latest(IO), healthy)
        assert newest.version - unaware in (0, 1)
        assert ids(healthy) == ([1, 2] if newest.version == 2 else [1])
        assert finished <= (newest.version == 2)
        assert drive(versions.listing(UNAWARE), healthy).versions[-1] == newest.version
        assert kept.get(f"{EXTERNAL_ROOT}/t/{newest.version:020d}") == f"t/{versions.name(newest.version)}"
        outcomes.append((unaware, newest.version))
        kept.close()
        if finished and dying.left:
            break
    assert set(outcomes) == {(1, 1), (1, 2), (2, 2)}


@pytest.mark.clause("EXT-003", "EXT-014")
def test_an_unaware_reader_is_one_version_behind_at_most_however_many_writers_die(
    external: KeyValue, tmp_path: Path
) -> None:
    class DiesBehindItsEntry(WithExternal):
        entered = False

        def perform(self, request: Any) -> Any:
            if self.entered:
                raise StorageError(request.path, "the process is dead")
            reply = super().perform(request)
            self.entered = isinstance(request, PutIfAbsent) and request.path.startswith(EXTERNAL_ROOT)
            return reply

    healthy = WithExternal(LocalStore(tmp_path), external)
    drive(write.create(IO, SCHEMA, rows(1)), healthy)
    for number in (2, 3, 4):
        drive(write.append(IO, rows(number)), DiesBehindItsEntry(LocalStore(tmp_path), external))
        assert len(list(external.keys(f"{EXTERNAL_ROOT}/t/"))) == number
        assert ids(healthy, UNAWARE) == list(range(1, number))
    assert ids(healthy) == [1, 2, 3, 4]


@pytest.mark.clause("EXT-012", "EXT-016")
def test_a_reader_that_cannot_finish_a_commit_refuses_the_version(external: KeyValue, tmp_path: Path) -> None:
    class NoCopies(WithExternal):
        def perform(self, request: Any) -> Any:
            if isinstance(request, Copy):
                raise StorageError(request.path, "no copies")
            return super().perform(request)

    store = NoCopies(LocalStore(tmp_path), external)
    drive(write.create(IO, SCHEMA, rows(1)), store)
    with pytest.raises(StorageError, match="no copies"):
        drive(state.latest(IO), store)
    assert ids(WithExternal(LocalStore(tmp_path), external)) == [1]


@pytest.mark.clause("EXT-012", "EXT-016")
def test_a_version_whose_staged_manifest_is_lost_is_refused(store: WithExternal, external: KeyValue) -> None:
    lost = f"t/{versions.name(TableVersion(2))}-8a7f1c52-8a0e-4a4b-9a43-0c9d2f3b6a11"
    external.put_if_absent(f"{EXTERNAL_ROOT}/t/{2:020d}", lost)
    with pytest.raises(ArtifactError, match="EXT-012"):
        drive(state.latest(IO), store)
    assert ids(store, UNAWARE) == [1]


@pytest.mark.clause("EXT-014")
def test_a_reader_that_was_overtaken_while_it_finished_a_commit_looks_again(
    store: WithExternal, external: KeyValue, tmp_path: Path
) -> None:
    drive(write.append(IO, rows(2)), store)
    final = versions.name(TableVersion(2))
    key, staged = f"{EXTERNAL_ROOT}/t/{2:020d}", f"t/{final}-8a7f1c52-8a0e-4a4b-9a43-0c9d2f3b6a11"
    external.put(key, staged)

    class Overtaken(WithExternal):
        def perform(self, request: Any) -> Any:
            if isinstance(request, Copy):
                external.put(key, f"t/{final}")
            return super().perform(request)

    assert ids(Overtaken(LocalStore(tmp_path / "objects"), external)) == [1, 2]


@pytest.mark.parametrize("entry", ["elsewhere/_versions/1.manifest", "t/_versions/7.manifest", "t/data/x.lance", ""])
def test_an_entry_that_names_no_manifest_of_the_version_is_damage(
    store: WithExternal, external: KeyValue, entry: str
) -> None:
    external.put(f"{EXTERNAL_ROOT}/t/{2:020d}", entry)
    with pytest.raises(ArtifactError, match="EXT-006"):
        drive(state.latest(IO), store)


def test_a_key_that_is_no_version_is_damage(store: WithExternal, external: KeyValue) -> None:
    external.put(f"{EXTERNAL_ROOT}/t/new", "t/x")
    with pytest.raises(ArtifactError, match="not a version"):
        drive(state.latest(IO), store)


@pytest.mark.clause("EXT-007")
def test_a_commit_whose_last_steps_fail_has_happened(external: KeyValue, tmp_path: Path) -> None:
    class NoCopies(WithExternal):
        def perform(self, request: Any) -> Any:
            if isinstance(request, Copy):
                raise OutcomeUnknown(request.path)
            return super().perform(request)

    store = NoCopies(LocalStore(tmp_path / "objects"), external)
    told: list[str] = []
    assert drive(write.create(IO, SCHEMA, rows(1)), store, lambda event, _: told.append(event)).version == 1
    assert "finalisation_left_to_readers" in told
    assert ids(WithExternal(LocalStore(tmp_path / "objects"), external)) == [1]


@pytest.mark.clause("EXT-006", "EXT-014")
def test_a_commit_that_a_reader_finished_has_no_known_outcome_where_its_manifest_cannot_be_read(
    store: WithExternal, external: KeyValue, tmp_path: Path
) -> None:
    class Entered(WithExternal):
        """Enters the version without an answer; a reader finishes the commit, and nothing can be read from then on."""

        entered = False

        def perform(self, request: Any) -> Any:
            if self.entered and isinstance(request, Get) and not request.path.startswith(EXTERNAL_ROOT):
                raise StorageError(request.path, "permission denied")
            if isinstance(request, PutIfAbsent) and request.path.startswith(EXTERNAL_ROOT) and not self.entered:
                self.entered = True
                super().perform(request)
                assert ids(store) == [1, 2]
                raise OutcomeUnknown(request.path)
            return super().perform(request)

    with pytest.raises(OutcomeUnknown, match="permission denied"):
        drive(write.append(IO, rows(2)), Entered(LocalStore(tmp_path / "objects"), external))
    assert ids(store) == [1, 2]


@pytest.mark.clause("EXT-001", "TXN-007")
def test_both_kinds_of_external_store_keep_the_promises_of_the_interface(external: KeyValue) -> None:
    assert external.get("@external/t/1") is None
    assert external.put_if_absent("@external/t/1", "a")
    assert not external.put_if_absent("@external/t/1", "b")
    assert external.get("@external/t/1") == "a"
    external.put("@external/t/1", "c")
    for number in range(2, 8):
        external.put(f"@external/t/{number}", str(number))
    external.put("@external/tt/1", "other")
    assert list(external.keys("@external/t/")) == [f"@external/t/{number}" for number in range(1, 8)]
    external.delete("@external/t/1")
    external.delete("@external/t/1")
    assert external.get("@external/t/1") is None


def test_requests_that_an_external_store_cannot_answer_are_refused(external: KeyValue, tmp_path: Path) -> None:
    store = WithExternal(LocalStore(tmp_path / "objects"), external)
    store.perform(Put("@external/t/1", b"value"))
    assert store.perform(Get("@external/t/1", -3)) == b"lue"
    assert store.perform(List("@external/t")) == ("@external/t/1",)
    with pytest.raises(NotFound):
        store.perform(Get("@external/t/2"))
    with pytest.raises(InvalidArgument):
        store.perform(ListFolders("@external/t"))
    with pytest.raises(InvalidArgument):
        store.perform(Copy("@external/t/1", "@external/t/2"))


def test_an_error_of_the_dynamo_client_becomes_the_outcome_that_the_caller_says() -> None:
    class Timeout(Exception):
        pass

    def fail(**_: Any) -> None:
        raise Timeout

    client = SimpleNamespace(put_item=fail, exceptions=FakeDynamo.exceptions)
    translated = DynamoKeyValue(client, "m", lambda error: OutcomeUnknown("m") if isinstance(error, Timeout) else None)
    with pytest.raises(OutcomeUnknown):
        translated.put("@external/t/1", "x")
    with pytest.raises(Timeout):
        DynamoKeyValue(client, "m").put("@external/t/1", "x")


def test_a_file_that_is_no_database_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "not.db").write_bytes(b"no database, and long enough to be read as one" * 40)
    with pytest.raises(StorageError, match="not usable as an external manifest store"):
        SqliteKeyValue(tmp_path / "not.db")
