"""What every store promises, checked on each of them, and what obstore's errors become."""

from __future__ import annotations

import random
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import memwal
import obstore.store
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.drive import drive
from memwal.effects import (
    Copy,
    Delete,
    Get,
    GetRanges,
    Head,
    Io,
    List,
    ListFolders,
    Now,
    Open,
    Put,
    PutIfAbsent,
    RenameIfAbsent,
    Stamped,
    Stat,
    StoreRequest,
)
from memwal.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    Outcome,
    OutcomeUnknown,
    StorageError,
    Throttled,
    Unreachable,
)
from memwal.revisions import STRICT
from memwal.stores import LocalStore, Store, files, open_store
from memwal.stores.objects import ObjectStore
from obstore import exceptions

# ---------------------------------------------------------------------------------------------------------------------
# An S3 server of a few lines: conditional put, ranges, pages of two names, and faults on order.

DROP, APPLY_AND_DROP, HOLD = "drop", "apply and drop", "hold"


class S3Server(ThreadingHTTPServer):
    """Serves the bucket ``b``. ``faults``: what the next requests meet, a status with a body or one of the above."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), S3Handler)
        self.objects: dict[str, bytes] = {}
        self.faults: deque[tuple[int, str] | str | None] = deque()
        self.log: list[str] = []
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.conditional = True

    def options(self, **more: str) -> dict[str, str]:
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_region": "us-east-1"}
        return {**keys, "aws_endpoint": f"http://127.0.0.1:{self.server_port}", "allow_http": "true", **more}

    def store(self, **more: str) -> ObjectStore:
        store, root = open_store("s3://b", self.options(**{"client_max_retries": "0", **more}))
        assert root == ""
        return cast(ObjectStore, store)


class S3Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: S3Server

    def log_message(self, *_: object) -> None:
        pass

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with self.server.lock:
            self.server.log.append(self.command)
            fault = self.server.faults.popleft() if self.server.faults else None
            answer = self.answer(body) if fault in (None, APPLY_AND_DROP) else (0, b"", {})
        if fault == HOLD:
            self.server.released.wait(20)
        if isinstance(fault, str):
            self.close_connection = True
            return
        self.reply(*answer) if fault is None else self.reply(fault[0], fault[1].encode(), {})

    do_GET = do_HEAD = do_PUT = do_DELETE = serve

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        stamps = {"ETag": '"tag"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT", "Content-Length": str(len(body))}
        for key, value in {**stamps, **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        parts = urlsplit(self.path)
        key = unquote(parts.path).removeprefix("/b").removeprefix("/")
        objects = self.server.objects
        if not key:
            return 200, self.listing({k: v[0] for k, v in parse_qs(parts.query).items()}).encode(), {}
        if self.command == "PUT":
            if self.headers.get("if-none-match") and key in objects and self.server.conditional:
                return 412, b"", {}
            source = self.headers.get("x-amz-copy-source")
            if source is not None:
                source = unquote(source).strip("/").removeprefix("b/")
                if source == key:
                    return 400, b"<Error><Code>InvalidRequest</Code></Error>", {}
                if source not in objects:
                    return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
                objects[key] = objects[source]
                return 200, b'<CopyObjectResult><ETag>"tag"</ETag></CopyObjectResult>', {}
            objects[key] = body
            return 200, b"", {}
        if self.command == "DELETE":
            objects.pop(key, None)
            return 204, b"", {}
        if key not in objects:
            return 404, b"", {}
        return self.part(objects[key])

    def part(self, data: bytes) -> tuple[int, bytes, dict[str, str]]:
        wanted = self.headers.get("range")
        if wanted is None:
            return 200, data, {}
        first, last = wanted.removeprefix("bytes=").split("-")
        begin = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1) if first and last else len(data)
        if begin >= len(data):
            return 416, b"", {}
        return 206, data[begin:end], {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"}

    def listing(self, query: dict[str, str]) -> str:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        found: dict[str, str] = {}
        for key, data in sorted(self.server.objects.items()):
            head, slash, _ = key[len(prefix) :].partition("/") if delimiter else (key, "", "")
            if not key.startswith(prefix):
                continue
            if slash:
                folder = f"{prefix}{head}/"
                found[folder] = f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            else:
                stamps = '<LastModified>2015-10-21T07:28:00Z</LastModified><ETag>"tag"</ETag>'
                found[key] = f"<Contents><Key>{escape(key)}</Key>{stamps}<Size>{len(data)}</Size></Contents>"
        rest = [key for key in sorted(found) if key > query.get("continuation-token", "")]
        page, more = rest[:2], rest[2:]
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        content = "".join(found[key] for key in page)
        return (
            f"<ListBucketResult><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{content}{token}</ListBucketResult>"
        )


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with S3Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


# ---------------------------------------------------------------------------------------------------------------------
# The stores under test


def local(folder: Path, create: files.Create | None = None, move: files.Move | None = None, **options: Any) -> Store:
    store = LocalStore(folder / "root", **options)
    store._creates = (create,) if create else store._creates
    store._moves = (move,) if move else store._moves
    return store


def memory(prefix: str = "") -> Store:
    return ObjectStore(obstore.store.MemoryStore(), prefix)


MAKERS: dict[str, Callable[[Path], Store]] = {
    "local": local,
    "local, fsync": lambda folder: local(folder, fsync=True),
    "local, links": lambda folder: local(folder, files.create_by_link, files.move_by_link),
    "local, renames": lambda folder: local(folder, files.create_by_rename),
    "memory": lambda _: memory(),
    "memory, prefix": lambda _: memory("some/prefix"),
}


@pytest.fixture(params=[*MAKERS, "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "s3":
        return cast(S3Server, request.getfixturevalue("s3")).store()
    return MAKERS[request.param](tmp_path)


def answer(store: Store, request: StoreRequest[Any]) -> object:
    """The reply, or the outcome's kind and path."""
    try:
        return store.perform(request)
    except Outcome as outcome:
        return type(outcome), outcome.fields["path"]


# ---------------------------------------------------------------------------------------------------------------------
# The contract


def test_an_object_is_read_as_it_was_created(store: Store) -> None:
    assert store.perform(PutIfAbsent("wal/0001.arrow", b"\x00\xffdata")) is None
    assert store.perform(Get("wal/0001.arrow")) == b"\x00\xffdata"
    assert store.perform(Head("wal/0001.arrow")) == 6


def test_an_empty_object_is_an_object(store: Store) -> None:
    store.perform(PutIfAbsent("a", b""))
    assert store.perform(Get("a")) == b""
    assert store.perform(Head("a")) == 0
    assert store.perform(List("")) == ("a",)
    assert answer(store, PutIfAbsent("a", b"x")) == (AlreadyExists, "a")


@pytest.mark.clause("MANIFEST-019", "MANIFEST-021")
def test_a_second_create_of_a_name_fails_and_leaves_the_first_content(store: Store) -> None:
    store.perform(PutIfAbsent("f/a", b"first"))
    assert answer(store, PutIfAbsent("f/a", b"second")) == (AlreadyExists, "f/a")
    assert store.perform(Get("f/a")) == b"first"


def test_a_put_replaces(store: Store) -> None:
    store.perform(Put("f/hint", b"a longer first content"))
    store.perform(Put("f/hint", b"second"))
    assert store.perform(Get("f/hint")) == b"second"


def test_a_create_finds_the_object_that_a_put_has_made(store: Store) -> None:
    store.perform(Put("a", b"put"))
    assert answer(store, PutIfAbsent("a", b"create")) == (AlreadyExists, "a")


@pytest.mark.parametrize(
    ("offset", "length", "part"),
    [
        (0, None, b"0123456789"),
        (3, None, b"3456789"),
        (0, 4, b"0123"),
        (3, 4, b"3456"),
        (8, 5, b"89"),
        (10, None, b""),
        (10, 3, b""),
        (25, None, b""),
        (25, 3, b""),
        (4, 0, b""),
        (-3, None, b"789"),
        (-3, 2, b"78"),
        (-3, 9, b"789"),
        (-10, None, b"0123456789"),
        (-25, None, b"0123456789"),
        (-25, 2, b"01"),
        (-3, 0, b""),
    ],
)
def test_a_range_gives_the_bytes_that_are_there(store: Store, offset: int, length: int | None, part: bytes) -> None:
    store.perform(Put("f/a", b"0123456789"))
    assert store.perform(Get("f/a", offset, length)) == part


@pytest.mark.parametrize(
    ("ranges", "parts"),
    [
        ((), b""),
        (((3, 4),), b"3456"),
        (((0, 1), (4, 2), (9, 1)), b"0459"),
        (((4, 2), (0, 1), (3, 4), (4, 2)), b"450345645"),
        (((8, 5), (1, 0), (10, 3), (25, 3), (0, 2)), b"8901"),
        (((-3, 2), (0, 99)), b"780123456789"),
    ],
)
def test_several_ranges_give_their_bytes_in_the_order_in_which_they_are_asked_for(
    store: Store, ranges: tuple[tuple[int, int], ...], parts: bytes
) -> None:
    store.perform(Put("f/a", b"0123456789"))
    assert store.perform(GetRanges("f/a", ranges=ranges)) == parts


def test_many_ranges_of_a_large_object_are_read_as_one_by_one(store: Store) -> None:
    data = random.Random(7).randbytes(3 << 20)
    store.perform(Put("a", data))
    ranges = (*((at, 1_000) for at in range(0, len(data), 50_000)), (0, 1 << 20), (1 << 20, 1 << 20))
    assert store.perform(GetRanges("a", ranges=ranges)) == b"".join(data[at : at + size] for at, size in ranges)


@pytest.mark.parametrize(("offset", "length"), [(0, None), (3, None), (3, 4), (-3, None), (4, 0), (25, 3)])
def test_what_is_read_comes_with_the_stamp_of_its_object(
    store: Store, monkeypatch: pytest.MonkeyPatch, offset: int, length: int | None
) -> None:
    monkeypatch.setattr("memwal.stores.local._TICK_NS", 0)  # files are old enough at once
    store.perform(Put("f/a", b"0123456789"))
    asked = Get("f/a", offset, length)
    stamp = store.perform(Stat("f/a"))
    assert stamp is not None
    assert store.perform(Stamped("f/a", offset, length)) == (store.perform(asked), stamp)
    assert answer(store, Stamped("f/b", offset, length)) == (NotFound, "f/b")


def test_a_store_of_files_opens_an_object_of_the_size_that_is_told_and_others_open_none(
    store: Store, tmp_path: Path
) -> None:
    store.perform(Put("f/a", b"0123456789"))
    with pytest.raises(InvalidArgument):
        store.perform(Open("f//a", 10))
    if not isinstance(store, LocalStore):
        with pytest.raises(InvalidArgument, match="Open"):
            store.perform(Open("f/a", 10))
        return
    file = store.perform(Open("f/a", 10))
    assert (file.read(), file.readable(), file.writable()) == (b"0123456789", True, False)
    store.perform(Delete("f/a"))
    store.perform(Put("f/a", b"other"))
    file.seek(0)
    assert file.read() == b"0123456789"
    file.close()
    assert [store.perform(Open("f/a", size)) for size in (10, 0)] == [None, None]
    assert answer(store, Open("f/b", 1)) == (NotFound, "f/b")
    assert answer(store, Open("f", 1)) == (NotFound, "f")


def test_a_file_that_may_be_replaced_within_a_tick_of_the_clock_has_no_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memwal.stores.local._TICK_NS", 1 << 62)
    store = LocalStore(tmp_path)
    store.perform(Put("a", b"data"))
    assert store.perform(Stamped("a")) == (b"data", None)


def test_a_stamp_costs_no_request_of_its_own(s3: S3Server) -> None:
    store = s3.store()
    store.perform(Put("a", b"0123456789"))
    s3.log.clear()
    for asked in (Stamped("a"), Stamped("a", 3), Stamped("a", 3, 4), Stamped("a", -3)):
        store.perform(asked)
    assert s3.log == ["GET"] * 4


def test_ranges_that_lie_close_together_are_one_request_to_an_object_store(s3: S3Server) -> None:
    store = s3.store()
    store.perform(Put("a", bytes(3 << 20)))
    s3.log.clear()
    close = tuple((at, 1_000) for at in range(0, 1 << 20, 50_000))
    assert len(store.perform(GetRanges("a", ranges=(*close, ((3 << 20) - 8, 8))))) == 1_000 * len(close) + 8
    assert s3.log == ["GET", "GET"]


def test_ranges_behind_the_end_of_an_object_are_what_is_there_of_them(s3: S3Server) -> None:
    """Its size is asked for only where the store refuses to say so itself."""
    store, data = s3.store(), bytes(range(100))
    store.perform(Put("a", data))
    far = 1 << 20
    for ranges, requests in [
        (((90, 20), (5, 2)), ["GET"]),
        (((90, 20), (150, 9), (5, 2)), ["GET"]),
        (((90, 20), (far, 9), (5, 2)), ["GET", "GET", "HEAD", "GET"]),
        (((far, 9), (far + 20, 9)), ["GET", "HEAD"]),
    ]:
        s3.log.clear()
        expected = b"".join(data[at : at + size] for at, size in ranges)
        assert store.perform(GetRanges("a", ranges=ranges)) == expected
        assert s3.log == requests


@pytest.mark.parametrize(("offset", "length"), [(0, 3), (1, None), (-3, None), (-3, 2), (2, 0)])
def test_a_range_of_an_empty_object_is_empty(store: Store, offset: int, length: int | None) -> None:
    store.perform(Put("a", b""))
    assert store.perform(Get("a", offset, length)) == b""
    assert store.perform(GetRanges("a", ranges=((offset, length or 0), (0, 3)))) == b""


@pytest.mark.parametrize(
    "request_",
    [
        *(Get("a"), Get("a", 3), Get("a", 3, 2), Get("a", -3), Get("a", 0, 0), Get("f/a")),
        *(GetRanges("a", ranges=((0, 1), (3, 2))), GetRanges("f/a"), Head("a"), Head("f/a")),
    ],
)
def test_what_is_not_there_is_not_found(store: Store, request_: StoreRequest[Any]) -> None:
    store.perform(Put("other", b""))
    assert answer(store, request_) == (NotFound, request_.path)


def test_a_listing_is_recursive_and_sorted_and_gives_full_names(store: Store) -> None:
    for name in ("t/b/2", "t/b/10", "t/a", "t/b.x", "t/c/d/e", "tt/a", "t/é %20+&<", "z"):
        store.perform(Put(name, b""))
    assert store.perform(List("t")) == ("t/a", "t/b.x", "t/b/10", "t/b/2", "t/c/d/e", "t/é %20+&<")
    assert store.perform(List("t/b")) == ("t/b/10", "t/b/2")
    assert store.perform(List("")) == ("t/a", "t/b.x", "t/b/10", "t/b/2", "t/c/d/e", "t/é %20+&<", "tt/a", "z")


def test_the_folders_directly_below_are_listed_by_their_last_component(store: Store) -> None:
    for name in ("r/one_gen_1/_versions/1", "r/one_gen_1/data/x", "r/two_gen_2/x", "r/file", "top"):
        store.perform(Put(name, b""))
    assert store.perform(ListFolders("r")) == ("one_gen_1", "two_gen_2")
    assert store.perform(ListFolders("")) == ("r",)
    assert store.perform(ListFolders("r/two_gen_2")) == ()


def test_a_folder_is_listed_as_long_as_some_object_is_below_it(store: Store) -> None:
    names = ["f/g/a", "f/g/b/c", "f/g/b/d"]
    for name in [*names, "f/h/a"]:
        store.perform(Put(name, b""))
    for name in names:
        assert store.perform(ListFolders("f")) == ("g", "h")
        store.perform(Delete(name))
    assert store.perform(ListFolders("f")) == ("h",)
    store.perform(Put("f/g/b/e", b""))
    assert store.perform(ListFolders("f")) == ("g", "h")


@pytest.mark.parametrize("request_", [List(""), List("no"), List("f/a"), ListFolders(""), ListFolders("f/a/b")])
def test_a_folder_that_is_not_there_is_empty(store: Store, request_: StoreRequest[Any]) -> None:
    assert store.perform(request_) == ()


def test_an_object_is_no_folder(store: Store) -> None:
    store.perform(Put("f/a", b""))
    assert store.perform(List("f/a")) == ()
    assert store.perform(ListFolders("f/a")) == ()


def test_a_deleted_object_is_gone_and_its_folder_with_it(store: Store) -> None:
    store.perform(Put("f/g/a", b""))
    assert store.perform(Delete("f/g/a")) is None
    assert answer(store, Get("f/g/a")) == (NotFound, "f/g/a")
    assert store.perform(List("")) == ()
    assert store.perform(ListFolders("f")) == ()
    assert store.perform(ListFolders("")) == ()


def test_deleting_what_is_not_there_succeeds(store: Store) -> None:
    assert store.perform(Delete("a")) is None
    assert store.perform(Delete("f/g/a")) is None
    store.perform(Put("f/a", b""))
    assert store.perform(Delete("f")) is None
    assert store.perform(List("")) == ("f/a",)


def test_a_deleted_name_can_be_created_again(store: Store) -> None:
    store.perform(PutIfAbsent("a", b"1"))
    store.perform(Delete("a"))
    store.perform(PutIfAbsent("a", b"2"))
    assert store.perform(Get("a")) == b"2"


def test_a_copy_replaces_its_target_and_keeps_its_source(store: Store) -> None:
    store.perform(Put("f/a", b"source"))
    store.perform(Put("g/b", b"a longer target"))
    assert store.perform(Copy("f/a", "g/b")) is None
    store.perform(Copy("f/a", "new/folder/c"))
    store.perform(Put("f/a", b"changed"))
    assert store.perform(Get("g/b")) == b"source"
    assert store.perform(Get("new/folder/c")) == b"source"


def test_a_copy_onto_itself_changes_nothing(store: Store) -> None:
    store.perform(Put("a", b"data"))
    store.perform(Copy("a", "a"))
    assert store.perform(Get("a")) == b"data"
    assert answer(store, Copy("no", "no")) == (NotFound, "no")


def test_a_copy_of_nothing_leaves_the_target(store: Store) -> None:
    store.perform(Put("b", b"target"))
    assert answer(store, Copy("a", "b")) == (NotFound, "a")
    assert store.perform(Get("b")) == b"target"


def test_a_rename_moves(store: Store) -> None:
    store.perform(Put("f/a", b"data"))
    assert store.perform(RenameIfAbsent("f/a", "new/folder/b")) is None
    assert store.perform(List("")) == ("new/folder/b",)
    assert store.perform(Get("new/folder/b")) == b"data"


@pytest.mark.clause("MANIFEST-021")
def test_a_rename_does_not_replace(store: Store) -> None:
    store.perform(Put("a", b"source"))
    store.perform(Put("b", b"target"))
    assert answer(store, RenameIfAbsent("a", "b")) == (AlreadyExists, "b")
    assert answer(store, RenameIfAbsent("a", "a")) == (AlreadyExists, "a")
    assert store.perform(Get("a")) == b"source"
    assert store.perform(Get("b")) == b"target"


def test_a_rename_of_nothing_finds_nothing(store: Store) -> None:
    store.perform(Put("b", b""))
    assert answer(store, RenameIfAbsent("a", "b")) == (NotFound, "a")
    assert answer(store, RenameIfAbsent("a", "c/d")) == (NotFound, "a")
    assert store.perform(List("")) == ("b",)


BAD_NAMES = ("", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/./b", "a/..", "a\0b", "\udcff", "a/\ud800")


@pytest.mark.parametrize("name", BAD_NAMES)
def test_what_is_no_object_name_is_refused_in_every_place(store: Store, name: str) -> None:
    requests: list[StoreRequest[Any]] = [
        Get(name),
        GetRanges(name),
        Head(name),
        PutIfAbsent(name, b""),
        Put(name, b""),
        Delete(name),
        Copy(name, "target"),
        Copy("source", name),
        RenameIfAbsent(name, "target"),
        RenameIfAbsent("source", name),
    ]
    store.perform(Put("source", b""))
    for request in requests + ([List(name), ListFolders(name)] if name else []):
        with pytest.raises(InvalidArgument, match="not an object name"):
            store.perform(request)
    assert store.perform(List("")) == ("source",)


def test_names_that_only_look_odd_are_names(store: Store) -> None:
    names = ("...", "..a/b..", ".hidden", "a b", "a\\b", "a%2Fb", "0" * 200)
    for name in names:
        store.perform(PutIfAbsent(name, name.encode()))
    assert store.perform(List("")) == tuple(sorted(names))
    assert [store.perform(Get(name)) for name in names] == [name.encode() for name in names]


def test_a_negative_length_is_refused(store: Store) -> None:
    store.perform(Put("a", b"data"))
    with pytest.raises(InvalidArgument, match="-1 bytes"):
        store.perform(Get("a", 0, -1))
    with pytest.raises(InvalidArgument, match="-1 bytes"):
        store.perform(GetRanges("a", ranges=((0, 1), (2, -1))))


def test_requests_that_are_not_for_a_store_are_refused(store: Store) -> None:
    with pytest.raises(InvalidArgument, match="Now"):
        store.perform(cast(Any, Now()))


def test_of_fifty_racing_creates_one_wins(store: Store) -> None:
    start = threading.Barrier(50)

    def create(number: int) -> object:
        start.wait()
        return answer(store, PutIfAbsent("manifest/0001.binpb", b"%d" % number))

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(create, range(50)))
    assert answers.count(None) == 1
    assert answers.count((AlreadyExists, "manifest/0001.binpb")) == 49
    assert store.perform(Get("manifest/0001.binpb")) == b"%d" % answers.index(None)


def test_of_racing_renames_to_one_name_one_wins(store: Store) -> None:
    for number in range(16):
        store.perform(Put(f"staged/{number}", b"%d" % number))
    start = threading.Barrier(16)

    def rename(number: int) -> object:
        start.wait()
        return answer(store, RenameIfAbsent(f"staged/{number}", "1.manifest"))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(rename, range(16)))
    winner = answers.index(None)
    assert answers.count((AlreadyExists, "1.manifest")) == 15
    assert store.perform(Get("1.manifest")) == b"%d" % winner
    assert store.perform(List("staged")) == tuple(sorted(f"staged/{n}" for n in range(16) if n != winner))


def test_a_closed_store_says_where_it_was(store: Store) -> None:
    store.close()
    assert any(word in store.describe() for word in ("local directory /", "MemoryStore", "s3://b"))
    assert "secret" not in store.describe()


# ---------------------------------------------------------------------------------------------------------------------
# Agreement with a dictionary

FILES = st.sampled_from(["x", "y.bin", "f/x", "f/y.bin", "f/g/x", "h/g/y.bin", "f/é &+%41"])
FOLDERS = st.sampled_from(["", "f", "f/g", "h", "h/g", "no", "no/no", "x"])
DATA = st.binary(max_size=12)
REQUESTS: st.SearchStrategy[StoreRequest[Any]] = st.one_of(
    st.builds(Get, FILES, st.integers(-15, 15), st.none() | st.integers(0, 15)),
    st.builds(
        GetRanges,
        FILES,
        ranges=st.lists(st.tuples(st.integers(-15, 15), st.integers(0, 15)), max_size=4).map(tuple),
    ),
    st.builds(Head, FILES),
    st.builds(List, FOLDERS),
    st.builds(ListFolders, FOLDERS),
    st.builds(PutIfAbsent, FILES, DATA),
    st.builds(Put, FILES, DATA),
    st.builds(Delete, FILES),
    st.builds(Copy, FILES, FILES),
    st.builds(RenameIfAbsent, FILES, FILES),
)


def model(objects: dict[str, bytes], request: StoreRequest[Any]) -> object:
    """What a store that is a dictionary answers."""
    path = request.path
    below = {name[len(path) + 1 if path else 0 :]: name for name in objects if not path or name.startswith(path + "/")}
    if isinstance(request, Get | Head | Copy | RenameIfAbsent) and path not in objects:
        return NotFound, path
    match request:
        case GetRanges():
            return b"".join(objects[path][offset:][:length] for offset, length in request.ranges)
        case Get(_, offset, length):
            rest = objects[path][offset:]
            return rest if length is None else rest[:length]
        case Head():
            return len(objects[path])
        case List():
            return tuple(sorted(below.values()))
        case ListFolders():
            return tuple(sorted({name.split("/")[0] for name in below if "/" in name}))
        case PutIfAbsent(_, data):
            if path in objects:
                return AlreadyExists, path
            objects[path] = data
        case Put(_, data):
            objects[path] = data
        case Delete():
            objects.pop(path, None)
        case Copy(_, target):
            objects[target] = objects[path]
        case RenameIfAbsent(_, target):
            if target in objects:
                return AlreadyExists, target
            objects[target] = objects.pop(path)
    return None


@settings(max_examples=150)
@given(requests=st.lists(REQUESTS, max_size=40))
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_every_sequence_of_requests_is_answered_as_by_a_dictionary(
    maker: Callable[[Path], Store], requests: list[StoreRequest[Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, objects = maker(Path(folder)), dict[str, bytes]()
        for request in requests:
            assert (request, answer(store, request)) == (request, model(objects, request))
        assert store.perform(List("")) == tuple(sorted(objects))


# ---------------------------------------------------------------------------------------------------------------------
# What obstore's exceptions become

CHANGES: list[StoreRequest[Any]] = [Put("a", b""), PutIfAbsent("a", b""), Delete("a"), Copy("s", "a")]
READS: list[StoreRequest[Any]] = [
    *(Get("a"), Get("a", 3), Get("a", -3), GetRanges("a", ranges=((0, 1), (2, 3)))),
    *(Head("a"), List("a"), ListFolders("a")),
]


class Failing:
    """Looks like an obstore store; every method raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def fail(self, *_: object, **__: object) -> Any:
        raise self.error

    put = get = get_range = get_ranges = head = delete = copy = list = list_with_delimiter = fail

    def __repr__(self) -> str:
        return "Failing()"


def failing(error: Exception) -> ObjectStore:
    store = ObjectStore(cast(Any, Failing(error)))
    store._probed = True
    return store


@pytest.mark.parametrize(
    ("error", "change", "read"),
    [
        (exceptions.GenericError("nobody knows"), OutcomeUnknown, StorageError),
        (exceptions.GenericError("Generic S3 error: HTTP error: error sending request"), Unreachable, Unreachable),
        (exceptions.GenericError("Generic S3 error: HTTP error: builder error"), StorageError, StorageError),
        (exceptions.GenericError("Server returned non-2xx status code: 304 Not Modified"), StorageError, StorageError),
        (exceptions.JoinError("task panicked"), OutcomeUnknown, Throttled),
        (exceptions.BaseError("new kind of error"), OutcomeUnknown, StorageError),
        (TimeoutError("late"), Unreachable, Unreachable),
        (ConnectionResetError("reset"), Unreachable, Unreachable),
        (OSError("device"), OutcomeUnknown, StorageError),
        (exceptions.PermissionDeniedError("403"), StorageError, StorageError),
        (exceptions.UnauthenticatedError("401"), StorageError, StorageError),
        (exceptions.PreconditionError("412"), StorageError, StorageError),
        (exceptions.NotModifiedError("304"), StorageError, StorageError),
        (exceptions.InvalidPathError("path"), StorageError, StorageError),
        (exceptions.UnknownConfigurationKeyError("key"), StorageError, StorageError),
        (ValueError("path"), InvalidArgument, InvalidArgument),
    ],
    ids=lambda value: str(value) if isinstance(value, Exception) else None,
)
def test_an_unknown_fate_is_never_reported_as_a_refusal(
    error: Exception, change: type[Exception], read: type[Exception]
) -> None:
    for request in CHANGES:
        with pytest.raises(change) as found:
            failing(error).perform(request)
        assert type(found.value) is change
    for request in READS:
        with pytest.raises(read) as found:
            failing(error).perform(request)
        assert type(found.value) is read


def test_a_missing_bucket_refuses_puts() -> None:
    for request in (Put("a", b""), PutIfAbsent("a", b"")):
        assert answer(failing(FileNotFoundError("bucket")), request) == (StorageError, "a")


def test_a_missing_object_is_not_found_by_reads_and_copies_and_is_deleted_already() -> None:
    store = failing(FileNotFoundError("object"))
    assert answer(store, Get("a")) == (NotFound, "a")
    assert answer(store, Head("a")) == (NotFound, "a")
    assert answer(store, Copy("a", "b")) == (NotFound, "a")
    assert answer(store, RenameIfAbsent("a", "b")) == (NotFound, "a")
    assert store.perform(Delete("a")) is None


@pytest.mark.parametrize("error", [exceptions.NotSupportedError("no"), NotImplementedError("no")])
def test_a_store_without_conditional_put_is_refused_naming_the_ambiguity(error: Exception) -> None:
    for store in (failing(error), ObjectStore(cast(Any, Failing(error)))):
        with pytest.raises(StorageError, match="AMB-38"):
            store.perform(PutIfAbsent("a", b""))


def test_what_a_store_says_is_reported_without_the_signature_in_its_url() -> None:
    text = "Error performing PUT\nhttps://x.invalid/c/a?sv=1&sig=geheim in 3ms - failed\n\nDebug source:\nsig=geheim"
    with pytest.raises(OutcomeUnknown) as found:
        failing(exceptions.GenericError(text)).perform(Put("a", b""))
    assert str(found.value).endswith(": Error performing PUT https://x.invalid/c/a in 3ms - failed")
    assert found.value.__suppress_context__
    assert found.value.__cause__ is None


def test_a_store_that_repeats_changes_is_refused() -> None:
    config: Any = {"region": "us-east-1"}
    for retry in (None, {"max_retries": 3}):
        repeating = obstore.store.S3Store("b", config=config, retry_config=cast(Any, retry))
        with pytest.raises(InvalidArgument, match="AMB-28"):
            ObjectStore(repeating)
    once = obstore.store.S3Store("b", config=config, retry_config={"max_retries": 0})
    assert ObjectStore(once).describe() == 'S3Store(bucket="b")'


# ---------------------------------------------------------------------------------------------------------------------
# The same through HTTP


@pytest.mark.parametrize(
    ("fault", "change", "read"),
    [
        ((500, ""), OutcomeUnknown, Throttled),
        ((503, "<Error><Code>SlowDown</Code></Error>"), OutcomeUnknown, Throttled),
        ((408, ""), OutcomeUnknown, Throttled),
        (DROP, Unreachable, Unreachable),
        ((429, ""), Throttled, Throttled),
        ((409, "<Error><Code>OperationAborted</Code></Error>"), Throttled, Throttled),
        ((501, "<Error><Code>NotImplemented</Code></Error>"), StorageError, StorageError),
        ((400, "<Error><Code>InvalidRequest</Code></Error>"), StorageError, StorageError),
        ((403, ""), StorageError, StorageError),
        ((401, ""), StorageError, StorageError),
        ((301, ""), StorageError, StorageError),
    ],
    ids=str,
)
def test_an_answer_of_the_server_becomes_the_outcome_that_is_certain(
    s3: S3Server, fault: tuple[int, str] | str, change: type[Outcome], read: type[Outcome]
) -> None:
    store = s3.store()
    store.probe()
    store._probed = True
    s3.objects["s"] = b"source"
    for request in (Put("a", b""), PutIfAbsent("a", b""), Delete("a"), Copy("s", "a")):
        s3.log.clear()
        s3.faults.append(fault)
        path = "s" if isinstance(request, Copy) else "a"
        assert answer(store, request) == (change, path)
        asks = ["HEAD"] if isinstance(request, PutIfAbsent) and fault[0] == 409 else []
        assert s3.log == ["DELETE" if isinstance(request, Delete) else "PUT", *asks]
    for reading in (Get("a"), Head("a"), List("a"), ListFolders("a")):
        s3.faults.append(fault)
        assert answer(store, reading) == (read, "a")


def test_a_server_without_conditional_put_is_refused_naming_the_ambiguity(s3: S3Server) -> None:
    s3.faults.append((501, "<Error><Code>NotImplemented</Code></Error>"))
    with pytest.raises(StorageError, match="AMB-38"):
        s3.store().perform(PutIfAbsent("a", b""))


def test_a_create_whose_answer_is_lost_is_sent_once_and_unknown(s3: S3Server) -> None:
    store = s3.store()
    store.perform(PutIfAbsent("before", b""))
    s3.log.clear()
    s3.faults.append(APPLY_AND_DROP)
    with pytest.raises(OutcomeUnknown):
        store.perform(PutIfAbsent("a", b"data"))
    assert s3.log == ["PUT"]
    assert store.perform(Get("a")) == b"data"


def test_a_create_that_is_not_answered_in_time_is_unknown(s3: S3Server) -> None:
    store = s3.store(timeout="200ms")
    store._probed = True
    s3.faults.extend([HOLD, HOLD])
    with pytest.raises(OutcomeUnknown, match="nothing was answered for"):
        store.perform(PutIfAbsent("a", b""))
    with pytest.raises(Unreachable, match="nothing was answered for"):
        store.perform(Get("a"))


def test_one_answer_ends_the_silence_of_a_store(s3: S3Server) -> None:
    store = s3.store(timeout="10s")
    store._patience_s = 0.0
    s3.faults.extend([DROP, (404, ""), DROP])
    lasting = []
    for _ in range(3):
        with pytest.raises(Outcome) as found:
            store.perform(Get("a"))
        lasting.append(getattr(found.value, "lasting", None))
    assert lasting == [True, None, True]
    store._patience_s = 60.0
    s3.faults.append(DROP)
    with pytest.raises(Unreachable) as brief:
        store.perform(Get("a"))
    assert not brief.value.lasting


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Options for an endpoint that accepts connections and never answers."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield {"aws_endpoint": f"http://127.0.0.1:{listening.getsockname()[1]}"}


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options for an endpoint at which nobody listens."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return {"aws_endpoint": f"http://127.0.0.1:{port}"}


@pytest.mark.parametrize("endpoint", ["silent", "closed"])
@pytest.mark.parametrize(
    "use",
    [lambda url, options: memwal.open(url, storage_options=options), lambda url, options: memwal.create(
        url, pa.schema([pa.field("id", pa.int64(), nullable=False)]), primary_key=["id"], storage_options=options
    )],
    ids=["open", "create"],
)  # fmt: skip
def test_an_endpoint_that_does_not_answer_is_said_to_be_unreachable_in_the_time_that_the_caller_sets(
    endpoint: str, use: Callable[[str, dict[str, str]], Any], request: pytest.FixtureRequest
) -> None:
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_region": "us-east-1"}
    options = {**keys, **request.getfixturevalue(endpoint), "allow_http": "true", "timeout": "400ms"}
    began = time.monotonic()
    with pytest.raises(Unreachable, match="nothing was answered for"):
        use("s3://b/t", options)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("lasting", [False, True])
def test_protocol_code_repeats_requests_until_the_silence_has_lasted(lasting: bool) -> None:
    class Silent:
        asked = 0

        def perform(self, request: StoreRequest[Any]) -> Any:
            self.asked += 1
            raise Unreachable(request.path, lasting=lasting and self.asked == 3)

    store = Silent()
    with pytest.raises(Unreachable):
        drive(Io(interpretation=STRICT).get("a"), cast(Store, store))
    assert store.asked == (3 if lasting else 6)


def test_a_conflict_with_a_create_under_way_is_no_defeat(s3: S3Server) -> None:
    """S3 answers 409 to the later of two creates while the earlier has not ended; that one may still fail."""
    store = s3.store()
    store.perform(PutIfAbsent("before", b""))
    conflict = (409, "<Error><Code>ConditionalRequestConflict</Code></Error>")
    s3.faults.append(conflict)
    assert answer(store, PutIfAbsent("a", b"")) == (Throttled, "a")
    s3.objects["a"] = b"the other's"
    s3.faults.append(conflict)
    assert answer(store, PutIfAbsent("a", b"")) == (AlreadyExists, "a")
    s3.faults.extend([conflict, (403, "")])
    assert answer(store, PutIfAbsent("a", b"")) == (Throttled, "a")


def test_a_read_is_repeated_and_a_change_is_not(s3: S3Server) -> None:
    store = s3.store(client_max_retries="2", client_retry_timeout="20")
    s3.objects["a"] = b"data"
    s3.faults.extend([(500, ""), (500, "")])
    assert store.perform(Get("a")) == b"data"
    s3.log.clear()
    s3.faults.extend([(500, ""), None])
    assert answer(store, Put("a", b"new")) == (OutcomeUnknown, "a")
    assert s3.log == ["PUT"]


def test_a_rename_that_could_not_delete_its_source_is_unknown(s3: S3Server) -> None:
    store = s3.store()
    store.perform(PutIfAbsent("a", b"data"))
    s3.faults.extend([None, None, (403, "")])  # get, conditional put, delete
    with pytest.raises(OutcomeUnknown, match="a may still be there"):
        store.perform(RenameIfAbsent("a", "b"))
    assert s3.objects == {"a": b"data", "b": b"data"}


# ---------------------------------------------------------------------------------------------------------------------
# The probe


def test_the_first_create_probes_the_store_and_cleans_up(s3: S3Server) -> None:
    store = s3.store()
    store.perform(Put("hint", b""))
    assert s3.log == ["PUT"]
    s3.log.clear()
    store.perform(PutIfAbsent("a", b""))
    assert s3.log == ["PUT", "PUT", "DELETE", "PUT"]
    store.perform(PutIfAbsent("b", b""))
    assert s3.log == ["PUT", "PUT", "DELETE", "PUT", "PUT"]
    assert sorted(s3.objects) == ["a", "b", "hint"]


def test_a_store_that_ignores_the_condition_is_refused_before_anything_is_written(s3: S3Server) -> None:
    s3.conditional = False
    store = s3.store()
    for _ in range(2):
        with pytest.raises(StorageError, match=r"success and success \[AMB-38\]"):
            store.perform(PutIfAbsent("a", b""))
    store.perform(Put("a", b"x"))
    with pytest.raises(StorageError, match="AMB-38"):
        store.perform(RenameIfAbsent("a", "b"))
    assert s3.objects == {"a": b"x"}


def test_a_store_that_refuses_every_create_is_refused() -> None:
    with pytest.raises(StorageError, match=r"already exists and already exists \[AMB-38\]"):
        ObjectStore(cast(Any, Failing(exceptions.AlreadyExistsError("always")))).probe()


def test_a_probe_that_is_not_answered_says_that_nothing_was_applied(s3: S3Server) -> None:
    store = s3.store()
    s3.faults.append((500, ""))
    assert answer(store, PutIfAbsent("a", b"")) == (Throttled, "a")
    assert answer(store, PutIfAbsent("a", b"")) is None
    assert s3.objects == {"a": b""}


def test_a_probe_object_that_cannot_be_deleted_is_named(s3: S3Server) -> None:
    store = s3.store()
    s3.faults.extend([None, None, (403, "")])
    kept = store.probe()
    assert kept is not None
    assert list(s3.objects) == [kept]
    assert kept.startswith("_memwal_probe/")
    assert store.probe() is None


def test_the_probe_stays_inside_the_table(s3: S3Server) -> None:
    store, root = open_store("s3://b/some/table/", s3.options())
    assert root == "some/table"
    s3.faults.extend([None, None, (403, "")])
    store.perform(PutIfAbsent("some/table/a", b""))
    assert sorted(name.rpartition("/")[0] for name in s3.objects) == ["some/table", "some/table/_memwal_probe"]


# ---------------------------------------------------------------------------------------------------------------------
# URLs


def test_a_path_and_a_file_url_are_the_same_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    by_path, root = open_store("a table")
    assert root == ""
    by_path.perform(PutIfAbsent("f/a", b"data"))
    assert (tmp_path / "a table" / "f" / "a").read_bytes() == b"data"
    monkeypatch.chdir("/")
    assert by_path.perform(List("")) == ("f/a",)
    for url in (f"file://{tmp_path}/a%20table", f"file://localhost{tmp_path}/a%20table/", str(tmp_path / "a table")):
        store, root = open_store(url, None)
        assert (store.perform(Get("f/a")), root) == (b"data", "")


def test_memory_of_one_name_is_one_store() -> None:
    first, folder = open_store("memory://test-one/some/table")
    first.perform(PutIfAbsent(f"{folder}/a", b"data"))
    second, _ = open_store("memory://test-one")
    assert folder == "some/table"
    assert second.perform(List("")) == ("some/table/a",)
    other, _ = open_store("memory://test-two/some/table", {})
    assert other.perform(List("")) == ()
    assert first.describe() == "memory://test-one"


@pytest.mark.parametrize(
    ("url", "kind", "options", "root"),
    [
        ("s3://bucket/some/table", "S3Store", {"aws_region": "eu-west-1", "timeout": "3s"}, "some/table"),
        ("s3://bucket", "S3Store", {"REGION": "eu-west-1"}, ""),
        ("gs://bucket/some/table/", "GCSStore", {"google_skip_signature": "true"}, "some/table"),
        ("az://container/t", "AzureStore", {"account_name": "account", "allow_http": "true"}, "t"),
    ],
)
def test_a_bucket_is_opened_without_repetition_of_changes(url: str, kind: str, options: Any, root: str) -> None:
    store, found = open_store(url, options)
    assert isinstance(store, ObjectStore)
    assert (type(store._store).__name__, found, store.describe()) == (kind, root, url)
    assert cast(Any, store._store).retry_config["max_retries"] == 0
    patience = 3 if options.get("timeout") else 30
    assert cast(Any, store._reads).retry_config["retry_timeout"].total_seconds() == patience == store._patience_s


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("hdfs://host/table", {}, "use a plain path or one of file, memory, s3, gs, az"),
        ("://table", {}, "use a plain path"),
        ("file://host/table", {}, "host 'host'"),
        ("/tmp/table", {"aws_region": "x"}, "leave out the storage option aws_region"),
        ("/tmp/table", {"fsync": "maybe"}, "fsync must be true or false"),
        ("/tmp/a\0b", {}, "is not a path"),
        ("memory://name", {"fsync": "true"}, "no storage option fsync"),
        ("memory://name/../table", {}, "not an object name"),
        ("s3:///table", {}, "names no bucket: write s3://bucket/path"),
        ("s3://bucket//table", {}, "not an object name"),
        ("s3://bucket", {"region": "x", "nonsense": "1"}, "nonsense"),
        ("s3://bucket", {"region": "x", "timeout": "soon"}, "soon"),
        ("s3://bucket", {"region": "x", "CLIENT_MAX_RETRIES": "many"}, "whole number, not 'many'"),
        ("az://container", {}, "Account must be specified"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_the_reason(url: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        open_store(url, options)


def test_a_directory_is_opened_with_fsync_on_request(tmp_path: Path) -> None:
    assert cast(LocalStore, open_store(str(tmp_path), {"fsync": "TRUE"})[0])._fsync
    assert not cast(LocalStore, open_store(str(tmp_path))[0])._fsync


def test_without_obstore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    for url in ("s3://bucket/table", "memory://test-without-obstore"):
        with pytest.raises(InvalidArgument, match=r"memwal\[s3\]"):
            open_store(url)
