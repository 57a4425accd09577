"""What only a local directory can get wrong: files that are seen half, errors of the system, other processes."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import stat
from collections.abc import Callable
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from memwal.effects import Copy, Delete, Get, Head, List, ListFolders, Put, PutIfAbsent, RenameIfAbsent, StoreRequest
from memwal.errors import AlreadyExists, InvalidArgument, NotFound, OutcomeUnknown, StorageError
from memwal.stores import LocalStore, files, local

WAYS = {"unnamed": files.create_unnamed, "link": files.create_by_link, "rename": files.create_by_rename}


@pytest.fixture(params=WAYS.values(), ids=list(WAYS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "root")
    store._creates = (request.param,)
    return store


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def fails(code: int) -> Callable[..., Any]:
    def call(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return call


# ---------------------------------------------------------------------------------------------------------------------
# Files


def test_no_temporary_name_is_left_behind(store: LocalStore, tmp_path: Path) -> None:
    store.perform(PutIfAbsent("f/a", b"1"))
    store.perform(Put("f/b", b"2"))
    store.perform(Copy("f/a", "f/c"))
    for request in (PutIfAbsent("f/a", b"3"), RenameIfAbsent("f/b", "f/a")):
        with pytest.raises(AlreadyExists):
            store.perform(request)
    assert everything(tmp_path / "root") == ["f/a", "f/b", "f/c"]


def test_leftovers_of_crashed_writers_are_not_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "wal").mkdir()
    for name in (".0001.arrow.0123456789abcdef.tmp", "0001.arrow.tmp.42", ".0123.manifest.tmp.6f1c"):
        (tmp_path / "wal" / name).write_bytes(b"half")
    assert store.perform(List("")) == ()
    assert store.perform(ListFolders("")) == ()
    for name in ("a.tmp", ".a.tmp", "tmp.a", ".a.0123456789abcdeF.tmp", ".a.0123456789abcdef.tmp.d/a"):
        store.perform(Put(f"wal/{name}", b""))
    assert store.perform(List("wal")) == (
        "wal/.a.0123456789abcdeF.tmp",
        "wal/.a.0123456789abcdef.tmp.d/a",
        "wal/.a.tmp",
        "wal/a.tmp",
        "wal/tmp.a",
    )


def test_a_name_that_would_not_be_listed_cannot_be_written(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.perform(Put("a", b""))
    for name in ("wal/.a.0123456789abcdef.tmp", "a.tmp.b"):
        for request in (PutIfAbsent(name, b""), Put(name, b""), Copy("a", name), RenameIfAbsent("a", name)):
            with pytest.raises(InvalidArgument, match="temporary"):
                store.perform(request)
    assert everything(tmp_path) == ["a"]


def test_a_name_of_the_greatest_length_can_be_written(store: LocalStore) -> None:
    for name in ("n" * 255, "ä" * 127):
        store.perform(PutIfAbsent(f"f/{name}", b"data"))
        store.perform(Put(f"f/{name}", b"data"))
    with pytest.raises(StorageError, match="ENAMETOOLONG"):
        store.perform(PutIfAbsent("f/" + "n" * 256, b""))


def test_a_file_has_the_rights_that_the_umask_leaves(store: LocalStore, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        store.perform(PutIfAbsent("a", b""))
        store.perform(Put("b", b""))
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / "root" / name).stat().st_mode) for name in "ab"] == [0o640, 0o640]


def test_content_beyond_one_write_call_is_whole(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data)[:1000]))
    data = bytes(range(256)) * 20
    store.perform(PutIfAbsent("a", data))
    store.perform(Put("b", data))
    assert store.perform(Get("a")) == data
    assert store.perform(Get("b")) == data


def test_a_copy_in_several_pieces_is_whole(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    data = os.urandom(3 * 2**20 + 5)
    store.perform(Put("a", data))
    store.perform(Copy("a", "b"))
    assert (tmp_path / "b").read_bytes() == data


def test_a_folder_is_no_object(store: LocalStore) -> None:
    store.perform(Put("f/g/a", b""))
    for request in (Get("f"), Head("f/g"), Copy("f", "x"), RenameIfAbsent("f", "x")):
        with pytest.raises(NotFound):
            store.perform(request)
    store.perform(Delete("f"))
    for change in (PutIfAbsent("f", b""), Put("f", b""), Copy("f/g/a", "f"), RenameIfAbsent("f/g/a", "f")):
        with pytest.raises(StorageError):
            store.perform(change)
    assert store.perform(List("")) == ("f/g/a",)


def test_nothing_can_be_below_an_object(store: LocalStore) -> None:
    store.perform(Put("a", b""))
    for request in (Get("a/b"), Head("a/b/c"), Copy("a/b", "x"), RenameIfAbsent("a/b", "x")):
        with pytest.raises(NotFound):
            store.perform(request)
    store.perform(Delete("a/b"))
    for name in ("a/b", "a/b/c"):
        for change in (PutIfAbsent(name, b""), Put(name, b""), Copy("a", name), RenameIfAbsent("a", name)):
            with pytest.raises(StorageError):
                store.perform(change)
    assert store.perform(List("")) == ("a",)


def test_a_pipe_is_no_object(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    store = LocalStore(tmp_path)
    for request in (Get("pipe"), Head("pipe")):
        with pytest.raises(NotFound):
            store.perform(request)
    assert store.perform(List("")) == ()


def test_folders_without_objects_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    (tmp_path / "full" / "a" / "b").mkdir(parents=True)
    (tmp_path / "full" / "a" / "b" / "x").write_bytes(b"")
    assert LocalStore(tmp_path).perform(ListFolders("")) == ("full",)


def test_the_root_is_made_when_the_first_object_needs_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "not" / "yet")
    assert store.perform(List("")) == ()
    assert not (tmp_path / "not").exists()
    store.perform(PutIfAbsent("a", b""))
    assert everything(tmp_path) == ["not/yet/a"]


def test_a_relative_root_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore(Path("table"))
    monkeypatch.chdir("/")
    store.perform(PutIfAbsent("a", b""))
    assert everything(tmp_path) == ["table/a"]


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.perform(Put("a", b"12345"))
    monkeypatch.setattr(os, "pread", lambda file, size, offset: b"12" if offset == 0 else b"")
    with pytest.raises(StorageError, match="byte 2 of 5"):
        store.perform(Get("a"))


# ---------------------------------------------------------------------------------------------------------------------
# Errors of the system


@pytest.mark.clause("MANIFEST-039")
@pytest.mark.parametrize("call", ["write", "open", "fsync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES])
def test_what_fails_before_a_file_has_its_name_was_not_applied(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    store.perform(Put("f/b", b"old"))
    store._fsync = call == "fsync"
    requests: list[StoreRequest[Any]] = [PutIfAbsent("f/a", b"new"), Put("f/b", b"new")]
    for request in requests:
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fails(code))
            with pytest.raises(StorageError, match=errno.errorcode[code]):
                store.perform(request)
    assert everything(tmp_path / "root") == ["f/b"]
    assert store.perform(Get("f/b")) == b"old"


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_publishing_call_that_may_have_worked_is_unknown(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store.perform(Put("f/b", b"old"))
    for call in ("link", "replace", "unlink"):
        monkeypatch.setattr(os, call, fails(code))
    monkeypatch.setattr(files, "_renameat2", fails(code))
    requests: list[StoreRequest[Any]] = [
        PutIfAbsent("f/a", b""),
        Put("f/b", b""),
        Copy("f/b", "f/c"),
        RenameIfAbsent("f/b", "f/d"),
        Delete("f/b"),
    ]
    for request in requests:
        with pytest.raises(OutcomeUnknown):
            store.perform(request)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC, errno.EROFS])
def test_a_publishing_call_that_is_refused_was_not_applied(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store.perform(Put("f/b", b"old"))
    for call in ("link", "replace"):
        monkeypatch.setattr(os, call, fails(code))
    monkeypatch.setattr(files, "_renameat2", fails(code))
    requests = [PutIfAbsent("f/a", b""), Put("f/b", b""), Copy("f/b", "f/c"), RenameIfAbsent("f/b", "f/d")]
    for request in requests:
        with pytest.raises(StorageError, match=errno.errorcode[code]):
            store.perform(request)
    assert everything(tmp_path / "root") == ["f/b"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ELOOP, errno.EMFILE])
def test_a_read_that_fails_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    store = LocalStore(tmp_path)
    store.perform(Put("f/a", b"data"))
    for calls, requests in (
        (("open",), (Get("f/a"), Copy("f/a", "b"))),
        (("pread",), (Get("f/a"), Copy("f/a", "b"))),
        (("stat",), (Head("f/a"), RenameIfAbsent("f/a", "b"))),
        (("scandir",), (List("f"), ListFolders(""))),
    ):
        with monkeypatch.context() as patch:
            for call in calls:
                patch.setattr(os, call, fails(code))
            for request in requests:
                with pytest.raises(StorageError, match=errno.errorcode[code]):
                    store.perform(request)
    assert everything(tmp_path) == ["f/a"]


def test_a_source_that_vanishes_before_it_is_moved_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_status", lambda path, name: os.stat(tmp_path))
    with pytest.raises(NotFound, match="a was not found"):
        LocalStore(tmp_path).perform(RenameIfAbsent("a", "f/b"))


def test_a_folder_that_the_system_does_not_let_be_deleted_is_no_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.perform(Put("f/a", b""))
    monkeypatch.setattr(os, "unlink", fails(errno.EPERM))  # what some systems say instead of EISDIR
    assert store.perform(Delete("f")) is None
    with pytest.raises(StorageError, match="EPERM"):
        store.perform(Delete("f/a"))


def test_a_deletion_that_is_refused_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.perform(Put("a", b"data"))
    monkeypatch.setattr(os, "unlink", fails(errno.EACCES))
    with pytest.raises(StorageError, match="EACCES"):
        store.perform(Delete("a"))


@pytest.mark.parametrize("way", [files.create_unnamed, files.create_by_link])
def test_a_link_that_was_made_counts_although_the_call_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: files.Create
) -> None:
    """A network file system repeats a call whose answer was lost, and then finds its own success in the way."""
    link = os.link

    def twice(*arguments: Any, **options: Any) -> None:
        link(*arguments, **options)
        link(*arguments, **options)

    store = LocalStore(tmp_path)
    store._creates = (way,)
    monkeypatch.setattr(os, "link", twice)
    store.perform(PutIfAbsent("a", b"data"))
    assert store.perform(Get("a")) == b"data"
    with pytest.raises(AlreadyExists):
        store.perform(PutIfAbsent("a", b"other"))
    assert everything(tmp_path) == ["a"]


def test_a_file_system_without_unnamed_files_gets_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system_open = os.open

    def without_unnamed(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "")
        return system_open(path, flags, *mode)

    monkeypatch.setattr(os, "open", without_unnamed)
    store = LocalStore(tmp_path)
    store.perform(PutIfAbsent("f/a", b"data"))
    assert store._creates == (files.create_by_link, files.create_by_rename)
    with pytest.raises(AlreadyExists):
        store.perform(PutIfAbsent("f/a", b"other"))
    assert everything(tmp_path) == ["f/a"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_links_gets_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(os, "link", fails(code))
    store = LocalStore(tmp_path)
    store.perform(PutIfAbsent("f/a", b"data"))
    assert store._creates == (files.create_by_rename,)
    with pytest.raises(AlreadyExists):
        store.perform(PutIfAbsent("f/a", b"other"))
    assert (tmp_path / "f" / "a").read_bytes() == b"data"


@pytest.mark.parametrize("offered", [True, False])
def test_a_file_system_with_neither_is_refused_naming_the_ambiguity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offered: bool
) -> None:
    monkeypatch.setattr(os, "link", fails(errno.EPERM))
    monkeypatch.setattr(files, "_renameat2", fails(errno.EINVAL) if offered else None)
    store = LocalStore(tmp_path)
    store.perform(Put("a", b""))
    for request in (PutIfAbsent("b", b""), PutIfAbsent("b", b""), RenameIfAbsent("a", "b"), RenameIfAbsent("a", "b")):
        with pytest.raises(StorageError, match="AMB-38"):
            store.perform(request)
    assert everything(tmp_path) == ["a"]


def test_a_move_by_link_whose_source_stays_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_renameat2", None)
    store = LocalStore(tmp_path)
    store.perform(Put("a", b"data"))
    monkeypatch.setattr(os, "unlink", fails(errno.EACCES))
    with pytest.raises(OutcomeUnknown, match="source could not be removed"):
        store.perform(RenameIfAbsent("a", "b"))


# ---------------------------------------------------------------------------------------------------------------------
# fsync


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was flushed, as ``file`` or the folder's path, and when an object got its name."""
    found: list[str] = []
    fsync, link, replace, unlink = os.fsync, os.link, os.replace, os.unlink

    def note_fsync(file: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{file}") if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        fsync(file)

    def note(name: str, call: Callable[..., None]) -> Callable[..., None]:
        def noted(*arguments: Any, **options: Any) -> None:
            found.append(name)
            call(*arguments, **options)

        return noted

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "link", note("link", link))
    monkeypatch.setattr(os, "replace", note("replace", replace))
    monkeypatch.setattr(os, "unlink", note("unlink", unlink))
    return found


def test_with_fsync_the_file_is_flushed_before_it_has_its_name_and_the_folders_after(
    tmp_path: Path, synced: list[str]
) -> None:
    store = LocalStore(tmp_path / "new" / "root", fsync=True)
    store._creates = (files.create_unnamed,)
    root = f"{tmp_path}/new/root"
    store.perform(PutIfAbsent("f/g/a", b"1"))
    made = [f"{root}/f/g", f"{root}/f", root, f"{tmp_path}/new", f"{tmp_path}"]
    assert synced == ["file", "link", *made]
    synced.clear()
    store.perform(PutIfAbsent("f/g/b", b"1"))
    assert synced == ["file", "link", f"{root}/f/g"]
    synced.clear()
    store.perform(Put("f/b", b"2"))
    assert synced == ["file", "replace", *made[1:]]
    synced.clear()
    store.perform(Delete("f/g/a"))
    assert synced == ["unlink", f"{root}/f/g"]
    synced.clear()
    store.perform(Copy("f/g/b", "f/c"))
    assert synced == ["file", "replace", f"{root}/f"]
    synced.clear()
    store.perform(RenameIfAbsent("f/g/b", "f/d"))
    assert synced == [f"{root}/f", f"{root}/f/g"]


def test_without_fsync_nothing_is_flushed(store: LocalStore, synced: list[str]) -> None:
    store.perform(PutIfAbsent("f/a", b"1"))
    store.perform(Put("f/a", b"2"))
    store.perform(Delete("f/a"))
    assert set(synced) <= {"link", "replace", "unlink"}


def test_a_folder_that_cannot_be_flushed_leaves_the_fate_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def only_files(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(file)

    monkeypatch.setattr(os, "fsync", only_files)
    store = LocalStore(tmp_path, fsync=True)
    with pytest.raises(OutcomeUnknown, match="perhaps not durable"):
        store.perform(PutIfAbsent("a", b""))


# ---------------------------------------------------------------------------------------------------------------------
# Other processes. They are spawned, so that they share nothing but the directory.

PROCESSES = multiprocessing.get_context("spawn")
NAMES = 200
SIZE = 64 * 1024


def content(process: int) -> bytes:
    return bytes([process]) * SIZE


def create_all(root: str, process: int, start: Barrier, won: Queue[tuple[int, list[int]]]) -> None:
    """Create every name with this process's content, and report which ones were won."""
    store, winners = LocalStore(Path(root)), []
    start.wait(60)
    for number in range(NAMES):
        try:
            store.perform(PutIfAbsent(f"wal/{number}", content(process)))
            winners.append(number)
        except AlreadyExists:
            assert store.perform(Get(f"wal/{number}")) in (content(1), content(2))
    won.put((process, winners))


def test_of_two_processes_one_wins_each_name_and_no_reader_sees_half_an_object(tmp_path: Path) -> None:
    start, won = PROCESSES.Barrier(3), PROCESSES.Queue()
    racers = [PROCESSES.Process(target=create_all, args=(str(tmp_path), n, start, won)) for n in (1, 2)]
    for racer in racers:
        racer.start()
    reader = LocalStore(tmp_path)
    start.wait(60)
    seen: tuple[str, ...] = ()
    while len(seen) < NAMES and any(racer.is_alive() for racer in racers):
        seen = reader.perform(List("wal"))
        assert all(reader.perform(Get(name)) in (content(1), content(2)) for name in seen[-5:])
    winners = dict(won.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join()
    won.close()
    won.join_thread()
    assert sorted(winners[1] + winners[2]) == list(range(NAMES))
    for process, numbers in winners.items():
        for number in numbers:
            assert reader.perform(Get(f"wal/{number}")) == content(process)
    assert len(everything(tmp_path)) == NAMES


def create_for_ever(root: str, running: Event) -> None:
    store, number = LocalStore(Path(root)), 0
    while True:
        store.perform(PutIfAbsent(f"wal/{number}", content(number % 251)))
        store.perform(Put("hint", content(number % 251)))
        number += 1
        if number == 20:
            running.set()


def test_a_killed_process_leaves_only_whole_objects(tmp_path: Path) -> None:
    running = PROCESSES.Event()
    writer = PROCESSES.Process(target=create_for_ever, args=(str(tmp_path), running))
    writer.start()
    assert running.wait(60)
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    store = LocalStore(tmp_path)
    names = store.perform(List(""))
    assert len(names) > 20
    assert sorted(names) == sorted(["hint", *(f"wal/{number}" for number in range(len(names) - 1))])
    for number in range(len(names) - 1):
        assert store.perform(Get(f"wal/{number}")) == content(number % 251)
    assert store.perform(Get("hint")) in (content((len(names) - 2) % 251), content((len(names) - 3) % 251))
