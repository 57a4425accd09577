from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.effects import Copy, Delete, Get, Head, List, ListFolders, Put, PutIfAbsent, RenameIfAbsent, StoreRequest
from memwal.errors import AlreadyExists, InvalidArgument, NotFound, Outcome, StorageError
from memwal.stores.local import LocalStore
from memwal.stores.memory import MemoryStore, Raised, Reply, Returned
from memwal_sim.store import Contents, Traits, dump, perform, reply_digest

FILES = ["a", "b/c", "b/d/e", "b/f"]
"""Names of which none is a folder of another: a file system can hold all of them."""
files = st.sampled_from(FILES)
folders = st.sampled_from(["", "b", "b/d", "x"])
datas = st.sampled_from([b"", b"one", b"two", b"three"])
ranges = st.tuples(st.integers(-6, 6), st.none() | st.integers(0, 6))
requests: st.SearchStrategy[StoreRequest[Any]] = st.one_of(
    st.builds(lambda path, span: Get(path, *span), files, ranges),
    st.builds(Head, files),
    st.builds(List, folders),
    st.builds(ListFolders, folders),
    st.builds(PutIfAbsent, files, datas),
    st.builds(Put, files, datas),
    st.builds(Delete, files),
    st.builds(Copy, files, files),
    st.builds(RenameIfAbsent, files, files),
)


class Model:
    """The store as a dict, written down from the docstrings of the requests and from nothing else."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def under(self, folder: str) -> list[str]:
        return sorted(name for name in self.objects if folder == "" or name.startswith(folder + "/"))

    def perform(self, request: StoreRequest[Any]) -> Any:
        have, path = self.objects, request.path
        if isinstance(request, Get | Head | Copy | RenameIfAbsent) and path not in have:
            return ("NotFound", path)
        match request:
            case Get(offset=offset, length=length):
                start = offset if offset >= 0 else max(len(have[path]) + offset, 0)
                rest = have[path][start:]
                return rest if length is None else rest[:length]
            case Head():
                return len(have[path])
            case List():
                return tuple(self.under(path))
            case ListFolders():
                below = [name.split("/")[len(path.split("/")) if path else 0 :] for name in self.under(path)]
                return tuple(sorted({parts[0] for parts in below if len(parts) > 1}))
            case PutIfAbsent(data=data):
                if path in have:
                    return ("AlreadyExists", path)
                have[path] = data
            case Put(data=data):
                have[path] = data
            case Delete():
                have.pop(path, None)
            case Copy(target=target):
                have[target] = have[path]
            case RenameIfAbsent(target=target):
                if target in have:
                    return ("AlreadyExists", target)
                have[target] = have.pop(path)
        return None


def answer(store: Any, request: StoreRequest[Any]) -> Any:
    try:
        return store.perform(request)
    except (NotFound, AlreadyExists) as outcome:
        return (type(outcome).__name__, outcome.path)


@given(st.lists(requests, max_size=30))
def test_every_request_does_what_its_docstring_says(history: list[StoreRequest[Any]]) -> None:
    store, model = MemoryStore(), Model()
    for request in history:
        assert answer(store, request) == model.perform(request), request
        assert dict(store.objects) == model.objects


@given(st.lists(requests, max_size=15))
def test_a_local_directory_answers_as_the_simulated_store_does(history: list[StoreRequest[Any]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        real, simulated = LocalStore(Path(folder)), MemoryStore()
        for request in history:
            assert answer(real, request) == answer(simulated, request), request
        real.close()


@given(st.lists(requests, max_size=20))
def test_a_digest_stands_for_the_objects_whatever_their_history(history: list[StoreRequest[Any]]) -> None:
    contents = Contents()
    for request in history:
        contents, _ = perform(contents, request)
    fresh = Contents({path: contents.objects[path] for path in sorted(contents.objects, reverse=True)})
    assert contents == fresh
    assert contents.digest == fresh.digest
    assert hash(contents) == hash(fresh)


def test_contents_are_never_changed() -> None:
    before = Contents({"a": b"1"})
    after, reply = perform(before, Put("a", b"2"))
    assert (dict(before.objects), dict(after.objects), reply) == ({"a": b"1"}, {"a": b"2"}, Returned(None))
    with pytest.raises(TypeError):
        before.objects["a"] = b"3"  # type: ignore[index]


def test_different_objects_have_different_digests() -> None:
    contents = [{}, {"a": b""}, {"ab": b""}, {"a": b"b"}, {"a": b"b", "c": b"d"}, {"a": b"d", "c": b"b"}]
    assert len({Contents(each).digest for each in contents}) == len(contents)


def test_a_request_without_effect_keeps_the_same_contents() -> None:
    contents = Contents({"a": b"1"})
    for request in (Put("a", b"1"), Delete("b"), PutIfAbsent("a", b"2"), Get("a")):
        assert perform(contents, request)[0] is contents


def test_reply_digests_tell_replies_apart() -> None:
    replies: list[Reply] = [
        Returned(None),
        Returned(b""),
        Returned(0),
        Returned(()),
        Returned(("a",)),
        Returned(b"None"),
        Raised(NotFound, "a"),
        Raised(NotFound, "b"),
        Raised(AlreadyExists, "a"),
    ]
    assert len({reply_digest(reply) for reply in replies}) == len(replies)
    assert reply_digest(Raised(NotFound, "a")) == reply_digest(Raised(NotFound, "a"))


def test_a_failure_is_a_fresh_exception_each_time() -> None:
    reply = Raised(NotFound, "a")
    first, second = reply.error(), reply.error()
    assert isinstance(first, Outcome)
    assert first is not second
    assert str(first) == "a was not found"


def test_contents_are_written_out_as_files(tmp_path: Path) -> None:
    target = tmp_path / "out"
    dump(Contents({"a": b"1", "b/c": b"2"}), target)
    assert (target / "a").read_bytes() == b"1"
    assert (target / "b" / "c").read_bytes() == b"2"


def test_contents_are_not_written_over_others(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("mine")
    with pytest.raises(InvalidArgument, match="not empty"):
        dump(Contents({"a": b"1"}), tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["old"]


def test_an_object_that_is_also_a_folder_cannot_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="a is an object and a folder"):
        dump(Contents({"a": b"1", "a/b": b"2"}), tmp_path)


def test_a_store_may_offer_no_put_if_absent_but_for_the_external_manifest_store() -> None:
    plain = Contents(traits=Traits(puts_if_absent=False))
    assert perform(plain, PutIfAbsent("x", b"1")) == (plain, Raised(StorageError, "x"))
    assert perform(plain, PutIfAbsent("@external/x", b"1"))[1] == Returned(None)
    error = Raised(StorageError, "x").error()
    assert isinstance(error, StorageError)
    assert str(error) == "x: this store does not offer the request"


def test_a_store_may_offer_no_rename_if_absent() -> None:
    plain = Contents({"x": b"1"}, Traits(renames_if_absent=False))
    assert perform(plain, RenameIfAbsent("x", "y")) == (plain, Raised(StorageError, "x"))


def test_lists_may_be_in_another_order() -> None:
    backwards = Contents({"d/a": b"", "d/b/c": b"", "d/e/f": b""}, Traits(reversed_lists=True))
    assert perform(backwards, List("d"))[1] == Returned(("d/e/f", "d/b/c", "d/a"))
    assert perform(backwards, ListFolders("d"))[1] == Returned(("e", "b"))


def test_contents_that_remember_another_change_are_not_equal() -> None:
    lagging = Contents({"x": b"1"}, Traits(lags=True))
    there_and_back = lagging.having("x", b"2").having("x", b"1")
    assert there_and_back != lagging
    assert there_and_back.digest == lagging.digest
    assert Contents({"x": b"1"}) != lagging
