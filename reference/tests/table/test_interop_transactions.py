"""What pylance commits the engine reads and builds on, and both commit to one table at once without losing anything."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec import table_manifest
from memwal.effects import Io, PutIfAbsent
from memwal.revisions import STRICT
from memwal.table import columns, compaction, read, state, transactions, whole, write
from memwal.table.commit import transaction_of
from memwal.table.transactions import Transaction

from ..kit.folder import Folder
from ..kit.table_scene import SCHEMA, T, latest, rows, seen, where
from ..kit.tables import by_id

BASE = pa.table({"id": pa.array(range(6), pa.int64()), "v": list("abcdef")})


@pytest.fixture
def place(folder: Folder) -> str:
    found = str(folder.root / "t")
    lance.write_dataset(BASE.slice(0, 3), found)
    lance.write_dataset(BASE.slice(3), found, mode="append")
    return found


def _upserted(ds: Any) -> None:
    new = pa.table({"id": pa.array([2, 9], pa.int64()), "v": ["C", "J"]})
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)


def _compacted(ds: Any) -> None:
    ds.delete("id = 0")
    lance.dataset(ds.uri).optimize.compact_files()


def _restored(ds: Any) -> None:
    ds.delete("id < 5")
    lance.dataset(ds.uri, version=2).restore()


def _columns_rewritten(ds: Any) -> None:
    fragment = ds.get_fragments()[0]
    new = pa.table({"_rowid": pa.array([0, 1, 2], pa.uint64()), "v": ["A", "B", "C"]})
    updated, modified = fragment.update_columns(new)
    operation = lance.LanceOperation.Update(
        updated_fragments=[updated], fields_modified=modified, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(ds.uri, operation, read_version=ds.version)


WRITES: dict[str, tuple[Callable[[Any], object], str, dict[int, str]]] = {
    "append": (lambda ds: lance.write_dataset(BASE.slice(0, 1).set_column(0, "id", pa.array([7], pa.int64())), ds.uri,
                                              mode="append"), "append", {7: "a"}),
    "delete": (lambda ds: ds.delete("id in (1, 4)"), "delete", {1: "", 4: ""}),
    "delete of a fragment": (lambda ds: ds.delete("id < 3"), "delete", {0: "", 1: "", 2: ""}),
    "update": (lambda ds: ds.update({"v": "'z'"}, where="id = 4"), "update", {4: "z"}),
    "merge_insert": (_upserted, "update", {2: "C", 9: "J"}),
    "compact_files": (_compacted, "rewrite", {0: ""}),
    "restore": (_restored, "restore", {}),
    "create_scalar_index": (lambda ds: ds.create_scalar_index("v", "BTREE"), "create_index", {}),
    "overwrite": (lambda ds: lance.write_dataset(BASE.slice(5), ds.uri, mode="overwrite"), "overwrite",
                  {0: "", 1: "", 2: "", 3: "", 4: ""}),
    "update_config": (lambda ds: ds.update_config({"k": "w"}), "update_config", {}),
    "update of columns": (_columns_rewritten, "update", {0: "A", 1: "B", 2: "C"}),
    "add_bases": (lambda ds: ds.add_bases([lance.DatasetBasePath("/nowhere", "b")]), "update_bases", {}),
}  # fmt: skip
"""What pylance does, the transaction type that it is, and the rows that are different then ('' for none)."""


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.clause("TXN-003", "TXN-022")
def test_what_pylance_commits_the_engine_reads_and_builds_on(folder: Folder, place: str, name: str) -> None:
    act, operation, changes = WRITES[name]
    act(lance.dataset(place))
    current = latest(folder)
    found = folder.run(transaction_of(T, current))
    assert found is not None
    assert transactions.operation(found) == operation
    expected = {**dict(zip(range(6), "abcdef", strict=True)), **changes}
    assert seen(folder) == {key: v for key, v in sorted(expected.items()) if v}
    assert seen(folder, 2) == dict(zip(range(6), "abcdef", strict=True))
    wide = pa.table({"id": pa.array([100], pa.int64()), "v": ["new"]})
    folder.run(write.append(T, wide))
    folder.run(write.delete(T, where(5), "id = 5"))
    assert {k: v for k, v in seen(folder).items() if k != 100} == {
        k: v for k, v in sorted(expected.items()) if v and k != 5
    }
    native = lance.dataset(place)
    native.delete("id = 100")
    assert 100 not in seen(folder)


@pytest.mark.clause("FORMAT-023")
def test_columns_that_pylance_added_and_dropped_are_there_and_gone(folder: Folder, place: str) -> None:
    lance.dataset(place).add_columns({"n": "id * 10"})
    lance.dataset(place).drop_columns(["v"])
    assert folder.run(read.scan(T, latest(folder))).to_pydict() == {
        "id": list(range(6)),
        "n": [i * 10 for i in range(6)],
    }
    assert transactions.operation(folder.run(transaction_of(T, latest(folder)))) == "project"
    folder.run(columns.recompute(T, ["n"], lambda t: pa.table({"n": t.column("id")})))
    assert lance.dataset(place).to_table().to_pydict() == {"id": list(range(6)), "n": list(range(6))}


@pytest.mark.clause("TXN-037")
def test_a_shallow_clone_that_pylance_made_is_read_and_written(folder: Folder, place: str) -> None:
    lance.dataset(place).delete("id = 1")
    lance.dataset(place).shallow_clone(str(folder.root / "c"), reference=3)
    assert seen(folder, name="c") == {0: "a", 2: "c", 3: "d", 4: "e", 5: "f"}
    own = Io("c", location=str(folder.root / "c"), interpretation=STRICT)
    folder.run(write.delete(own, where(2), "id = 2"))
    folder.run(write.append(own, pa.table({"id": pa.array([8], pa.int64()), "v": ["i"]})))
    assert seen(folder, name="c") == {0: "a", 3: "d", 4: "e", 5: "f", 8: "i"}
    folder.run(compaction.compact(own))
    assert seen(folder, name="c") == {0: "a", 3: "d", 4: "e", 5: "f", 8: "i"}


@pytest.mark.parametrize("name", ["append", "delete", "update", "compact", "restore", "columns", "config", "overwrite"])
@pytest.mark.clause("TXN-011", "TXN-022")
def test_pylance_parses_each_transaction_that_the_engine_wrote(folder: Folder, place: str, name: str) -> None:
    act = {
        "append": lambda: write.append(T, BASE.slice(0, 1)),
        "delete": lambda: write.delete(T, where(1), "id = 1"),
        "update": lambda: write.update(T, where(1), lambda t: pa.table({"id": [1], "v": ["y"]})),
        "compact": lambda: compaction.compact(T),
        "restore": lambda: whole.restore(T, 1),
        "columns": lambda: columns.recompute(T, ["v"], lambda t: t.select(["v"])),
        "config": lambda: write.update_metadata(T, config={"a": "b"}, fields={1: {"k": "w"}}),
        "overwrite": lambda: whole.overwrite(T, BASE),
    }[name]
    current = folder.run(act())
    native = lance.dataset(place)
    parsed = native.read_transaction(current.version)
    assert parsed.read_version == current.version - 1
    stale = lance.dataset(place, version=current.version - 1)
    if name in ("restore", "overwrite"):
        with pytest.raises(OSError, match=r"(?i)conflict|incompatible"):
            stale.delete("id = 4")
    elif name != "config":
        lance.dataset(place, version=current.version - 1).insert(BASE.slice(5))
        assert lance.dataset(place).count_rows() == native.count_rows() + 1


class Slowed:
    """A store in which ``between`` happens before the creation of a version."""

    def __init__(self, folder: Folder, between: Callable[[], object]) -> None:
        self.folder, self.between = folder, between

    def perform(self, request: Any) -> Any:
        if isinstance(request, PutIfAbsent) and "/_versions/" in request.path:
            self.between()
            self.between = lambda: None
        return self.folder.store.perform(request)


def _engine_meets_pylance(folder: Folder, place: str, number: int) -> None:
    """The engine loses a version to pylance and carries its transaction over."""
    from memwal.drive import drive

    theirs: list[Callable[[], object]] = [
        lambda: lance.write_dataset(rows(10_000 + number), place, mode="append"),
        lambda: lance.dataset(place).delete(f"id = {2 * number}"),
    ]
    ours = [
        lambda: write.delete(T, where(2 * number + 1), f"id = {2 * number + 1}"),
        lambda: write.append(T, rows(20_000 + number)),
        lambda: write.update(T, where(1000 + number), lambda t: rows(1000 + number, v="e")),
    ]
    drive(ours[number % 3](), Slowed(folder, theirs[number % 2]))


def _pylance_meets_engine(folder: Folder, place: str, number: int) -> None:
    """Pylance continues from a version that the engine has replaced meanwhile."""
    stale = lance.dataset(place)
    ours = [
        lambda: write.append(T, rows(30_000 + number)),
        lambda: write.delete(T, where(2000 + 2 * number), f"id = {2000 + 2 * number}"),
    ]
    folder.run(ours[number % 2]())
    theirs = [
        lambda: stale.delete(f"id = {2000 + 2 * number + 1}"),
        lambda: stale.insert(rows(40_000 + number)),
        lambda: stale.update({"v": "'p'"}, where=f"id = {3000 + number}"),
    ]
    theirs[number % 3]()


def _expected(rounds: int) -> dict[int, object]:
    found: dict[int, object] = dict.fromkeys(range(4000), "x")
    for n in range(rounds):
        if n % 2:
            found.pop(2 * n)
        else:
            found[10_000 + n] = "x"
        match n % 3:
            case 0:
                found.pop(2 * n + 1)
            case 1:
                found[20_000 + n] = "x"
            case _:
                found[1000 + n] = "e"
        if n % 2:
            found.pop(2000 + 2 * n)
        else:
            found[30_000 + n] = "x"
        match n % 3:
            case 0:
                found.pop(2000 + 2 * n + 1)
            case 1:
                found[40_000 + n] = "x"
            case _:
                found[3000 + n] = "p"
    return dict(sorted(found.items()))


ROUNDS = 110
"""Of each direction; up to 500 are possible."""
COMPACTED = 6
"""After so many rounds the table is compacted, by either side in turn, so that it stays small."""


def play(folder: Folder, rounds: int) -> None:
    """``rounds`` commits of either side over one of the other, then compare all rows."""
    folder.run(write.create(T, SCHEMA, rows(*range(4000))))
    place = str(folder.root / "t")
    for number in range(rounds):
        _engine_meets_pylance(folder, place, number)
        _pylance_meets_engine(folder, place, number)
        if number % (2 * COMPACTED) == 0:
            folder.run(compaction.compact(T))
        elif number % COMPACTED == 0:
            lance.dataset(place).optimize.compact_files()
    assert seen(folder) == _expected(rounds)


@pytest.mark.clause("TXN-012", "TXN-023", "TXN-047", "TXN-053", "TXN-005")
def test_commits_of_the_engine_over_those_of_pylance_and_back_lose_nothing(folder: Folder) -> None:
    play(folder, ROUNDS)


@pytest.mark.clause("TXN-005", "TXN-012", "TXN-013", "TXN-023")
def test_engine_and_pylance_at_once_in_threads_lose_nothing(folder: Folder) -> None:
    at_once(folder, 40)


def at_once(folder: Folder, each: int) -> None:
    """Both sides append and delete ``each`` times as fast as they can."""
    folder.run(write.create(T, SCHEMA, rows(*range(800))))
    place = str(folder.root / "t")

    def ours() -> None:
        for n in range(each):
            if n % 2:
                folder.run(write.delete(T, where(n), f"id = {n}"))
            else:
                folder.run(write.append(T, rows(1000 + n)))

    def theirs() -> None:
        for n in range(each):
            if n % 2:
                lance.dataset(place).delete(f"id = {400 + n}")
            else:
                lance.write_dataset(rows(2000 + n), place, mode="append")

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(ours), pool.submit(theirs)]:
            future.result()
    expected = set(range(800)) | {1000 + n for n in range(0, each, 2)} | {2000 + n for n in range(0, each, 2)}
    expected -= set(range(1, each, 2)) | {400 + n for n in range(1, each, 2)}
    assert set(seen(folder)) == expected
    assert latest(folder).version == 1 + 2 * each


@pytest.mark.clause("FORMAT-011", "FORMAT-015")
def test_fragment_ids_stay_unique_whoever_gives_them(folder: Folder, place: str) -> None:
    folder.run(write.append(T, BASE.slice(0, 1)))
    lance.dataset(place).delete("id = 0 or v = 'a'")
    lance.write_dataset(BASE.slice(0, 1), place, mode="append")
    folder.run(compaction.compact(T))
    lance.write_dataset(BASE.slice(1, 1), place, mode="append")
    folder.run(write.append(T, rows(20)))
    folder.run(write.delete(T, lambda table: table.column("id").to_numpy() < 20, "id < 20"))
    for number in range(21, 25):
        folder.run(write.append(T, rows(number)))
    kept = [folder.run(state.load(T, version)) for version in folder.run(state.versions(T))]
    for current in kept:
        assert len({f.id for f in current.fragments}) == len(current.fragments)
    used: set[int] = set()
    for current in kept:
        ids = [f.id for f in current.fragments]
        assert ids == sorted(ids)
        new = set(ids) - used
        assert all(i > max(used, default=-1) for i in new)
        used |= set(ids)


def test_an_inline_transaction_of_pylance_is_the_one_of_its_file(folder: Folder, place: str) -> None:
    lance.dataset(place).delete("id = 1")
    current = latest(folder)
    inline = current.manifest.transaction
    data = (folder.root / "t" / "_transactions" / current.manifest.message.transaction_file).read_bytes()
    assert inline == Transaction.FromString(data)
    again = table_manifest.decode(table_manifest.encode(current.manifest), "m")
    assert again.transaction == inline
    assert by_id(folder.run(read.scan(T, current))) == {0: "a", 2: "c", 3: "d", 4: "e", 5: "f"}
    assert np.array_equal(folder.run(read.deleted_offsets(T, current.fragments[0], current)), [1])
