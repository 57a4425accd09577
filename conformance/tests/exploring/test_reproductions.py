"""Files that show findings without our code: when they run, for how long, and what is said of them."""

from __future__ import annotations

import ast
import dataclasses
import os
import socket
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from memwal_conformance.exploring import findings, reproducing, showing, stored, stub
from memwal_conformance.exploring.findings import ForeignFinding, Notebook
from memwal_conformance.exploring.reproducing import NOT_YET, Reproductions

BASE: dict[str, Any] = {
    "oracle": "rows",
    "hit": "no fault",
    "severity": "critical",
    "clauses": [],
    "note": None,
    "sentence": "It is.",
    "detail": "",
    "where": "",
    "life": {"name": "a", "steps": "w put"},
    "plan": {"words": "no fault"},
    "crash": -1,
    "told": [],
    "log": [],
}


def finding(number: int, words: str, **more: Any) -> ForeignFinding:
    return ForeignFinding(number=number, words=words, **{**BASE, **more})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reproductions:
    """Of an exploration of the package; a file is one line that ends as the sentence of its finding says."""
    monkeypatch.setattr(reproducing, "text_of", lambda found, _: f"raise SystemExit({found.sentence})")
    return Reproductions(Notebook(reproducing.PACKAGE, "1.0", "R"), tmp_path / "out", {}, None)


def test_a_file_runs_when_its_finding_comes_and_one_of_the_same_matter_does_not(files: Reproductions) -> None:
    first, second, other = finding(1, "a row", sentence="1"), finding(2, "a row"), finding(3, "a key", sentence="0")
    for each in (first, second, other):
        files.notebook.findings.append(each)
        files.shown(each, 60.0)
    assert first.alone == "shows it"
    assert second.alone == "not run: finding 1 is most likely the same matter, and its file shows it"
    assert other.alone.startswith("does not show it: it tried a few times")
    assert sorted(file.name for file in files.folder.iterdir()) == ["01.py", "01.txt", "02.py", "03.py", "03.txt"]
    assert [line for line in showing.listed([first], "x") if "01.py shows it" in line]


def test_a_file_that_there_is_no_time_for_is_written_and_the_finding_says_so(files: Reproductions) -> None:
    late, order = finding(1, "a row", sentence="1"), finding(2, "a key")
    files.notebook.findings += [late, order]
    files.shown(late, 1.0)
    assert late.alone.startswith(NOT_YET)
    (files.folder / "09.py").touch()  # of an exploration before
    files.keep({})
    assert [each.alone[: len(NOT_YET)] for each in findings.load(files.folder)["findings"][:2]] == [NOT_YET, NOT_YET]
    assert not (files.folder / "09.py").exists()
    assert (files.folder / "02.py").exists()


def test_a_file_has_no_more_time_than_it_is_given(files: Reproductions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproducing, "_LEAST_S", 0.0)
    monkeypatch.setattr(reproducing, "text_of", lambda *_: "import time\ntime.sleep(60)")
    slow = finding(1, "a row")
    files.notebook.findings.append(slow)
    files.shown(slow, 0.1)
    assert slow.alone == "does not show it: it did not end in 0 s"


def test_of_another_implementation_there_are_no_files(files: Reproductions) -> None:
    files.notebook.implementation = "other"
    found = finding(1, "a row")
    files.notebook.findings.append(found)
    files.shown(found, 60.0)
    files.keep({})
    assert (found.alone, [file.name for file in files.folder.iterdir() if file.suffix == ".py"]) == ("", [])


def test_a_reply_of_the_small_store_does_not_wait_for_a_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    options = []
    serve = stub._Handler.serve

    def noted(handler: stub._Handler) -> None:
        options.append(handler.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        serve(handler)

    monkeypatch.setattr(stub._Handler, "do_GET", noted)
    store = stub.StubStore({"t/a": b"1"}, [], {})
    host, port = store.server.server_address[:2]
    with socket.create_connection((str(host), port), timeout=20) as client:
        client.sendall(b"GET /memwal/t/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        whole = b"".join(iter(lambda: client.recv(4096), b""))
    store.server.shutdown()
    store.server.server_close()
    assert whole.startswith(b"HTTP/1.1 200")
    assert [bool(each) for each in options] == [True]


def test_the_small_store_deletes_many_and_names_what_is_gone() -> None:
    store = stub.StubStore({"t/a&b": b"1", "t/c": b"2"}, [], {})
    host, port = store.server.server_address[:2]
    body = b"<Delete><Object><Key>t/a&amp;b</Key></Object></Delete>"
    for _ in range(2):  # what is not there any more changes nothing
        with urllib.request.urlopen(f"http://{host}:{port}/memwal?delete", body, timeout=20) as reply:
            assert b"<Deleted><Key>t/a&amp;b</Key></Deleted>" in reply.read()
    store.server.shutdown()
    store.server.server_close()
    assert [list(state) for state in store.states] == [["t/a&b", "t/c"], ["t/c"]]
    assert [line.split()[:2] for line in store.log] == [["DELETE_MANY", "200"]] * 2


@pytest.mark.parametrize(("do", "seen"), [("lose", None), ("apply_then_lose", None), ("half", b"HTTP/1.1 200")])
def test_the_small_store_resets_a_connection_as_the_gate_does(do: str, seen: bytes | None) -> None:
    store = stub.StubStore({"t/a": b"12"}, [{"at": {"name": "t/a"}, "do": do}], {})
    host, port = store.server.server_address[:2]
    with socket.create_connection((str(host), port), timeout=20) as client:
        client.sendall(b"GET /memwal/t/a HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            whole = b"".join(iter(lambda: client.recv(4096), b""))
        except ConnectionResetError:
            whole = None
    store.server.shutdown()
    store.server.server_close()
    assert (whole if whole is None else (whole[:12], whole[-1:])) == (None if seen is None else (seen, b"1"))


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file of a finding as a module, about a writer that puts once."""
    made = pytest.importorskip("memwal_conformance.exploring.alone")
    about = {"sentence": "", "oracle": "structure", "where": "flushed", "crash": -1, "plan": {}, "storage": {}}
    monkeypatch.setattr(made, "FINDING", about | {"life": {"steps": "w open, w put"}})
    for name in ("ENDPOINT", "REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ALLOW_HTTP"):
        monkeypatch.setenv(f"AWS_{name}", "")  # what the file sets is as it was at the end
    return made


def test_what_takes_the_store_from_the_environment_is_the_actor_too(alone: Any) -> None:
    store = alone.store_of({})
    for actor in ("one", "two"):
        assert store.options(actor)["aws_access_key_id"] == os.environ["AWS_ACCESS_KEY_ID"] == actor
    assert os.environ["AWS_ENDPOINT"] == store.options("one")["aws_endpoint"]
    store.server.shutdown()
    store.server.server_close()


@pytest.mark.parametrize("where", ["flushed", "stored"])
def test_a_row_that_a_recovery_writes_again_is_what_a_finding_of_then_is_about(
    alone: Any, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written_again(store: stub.StubStore) -> list[tuple[int, str]]:
        entries = sorted(name for name in store.objects if "/wal/" in name)
        rows = max(entries, key=lambda name: len(store.objects[name]))
        store.objects[f"{rows.rpartition('/')[0]}/{f'{9:064b}'[::-1]}.arrow"] = store.objects[rows]
        return [(0, "w1"), (100, "w1"), (101, "w1"), (100_000, "base"), (100_001, "base")]

    monkeypatch.setitem(alone.FINDING, "where", where)
    monkeypatch.setattr(alone, "seen_after", written_again)
    monkeypatch.setattr(alone, "TRIES", 1)
    assert alone.shows(1)[0][0] == "structure, after recovery and flush"
    assert alone.main() == (1 if where == "flushed" else 3)


@pytest.mark.parametrize(("kind", "sees"), [("already_exists", ["error"]), ("corrupt", [])])
def test_an_error_is_what_a_finding_is_about_if_it_is_of_that_kind(
    alone: Any, kind: str, sees: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def do(life: Any, number: int, actor: str, verb: str) -> None:
        raise OSError("Dataset already exists: t/gen_1")

    found = finding(1, f"flush ends in an error that is not due there: {kind}", oracle="error")
    (about,) = [
        part for part in ast.parse(reproducing.text_of(found, {}) or "").body if "FINDING" in ast.unparse(part)
    ][:1]
    assert isinstance(about, ast.AnnAssign)
    monkeypatch.setattr(alone, "FINDING", ast.literal_eval(ast.unparse(about.value)))
    monkeypatch.setattr(alone.PackageLife, "do", do)
    life = alone.PackageLife(None)
    life.told(0, "w", "flush")
    assert [kind for kind, _ in life.wrong] == sees


def test_a_call_that_does_not_end_is_left_and_the_life_continues(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(alone, "HUNG_S", 0.1)
    monkeypatch.setattr(alone.PackageLife, "do", lambda *step: over.wait(20) if step[-1] == "put" else None)
    life = alone.PackageLife(None)
    life.writers = {"w": None, "v": None}
    for step in ("put", "flush"):
        life.told(0, "w", step)
    over.set()
    assert life.wrong == [("hang", "w put: it has not ended after 0 s")]
    assert list(life.writers) == ["v"]


def test_a_row_that_is_acknowledged_and_stored_nowhere_is_seen_in_any_state(alone: Any) -> None:
    alone.PackageLife(maker := alone.store_of({})).create()
    life = alone.PackageLife(store := alone.store_of(maker.objects))
    for number, step in enumerate(("w open", "w put", "w delete", "w flush", "w put")):
        life.step(number, *step.split())
    assert alone.lost_in_store(life) == []
    last = max((name for name in store.objects if "/wal/" in name), key=stub.name_of)  # of fewer than ten entries
    store.states = [{name: data for name, data in state.items() if name != last} for state in store.states]
    told = alone.lost_in_store(life)
    assert [line.partition(", in what is stored after ")[0] for line in told] == [
        f"row {key} is None, and 'w4' was acknowledged" for key in (400, 401)
    ]


@pytest.mark.parametrize(("error", "told"), [(BrokenPipeError, 0), (ConnectionResetError, 0), (KeyError, 1)])
def test_a_client_that_hangs_up_is_no_error_of_the_small_store(
    error: type[Exception], told: int, capfd: pytest.CaptureFixture[str]
) -> None:
    store = stub.StubStore({}, [], {})
    try:
        raise error
    except error:
        store.server.handle_error(None, ("127.0.0.1", 1))
    store.server.shutdown()
    store.server.server_close()
    assert capfd.readouterr().err.count("Traceback") == told


def test_a_base_table_that_misses_a_file_cannot_be_read(alone: Any) -> None:
    store = alone.store_of({})
    alone.PackageLife(store).create()
    assert alone.unreadable(store.objects) == []
    (told,) = alone.unreadable({name: data for name, data in store.objects.items() if "/data/" not in name})
    assert told.startswith("the base table cannot be read: ")


EVERYTHING = (
    "w put, w again, w replace, w twice, w flush, w delete, w scan, w fill, p base, p update, p remove, w index, "
    "w close, w merge, w compact, w scan, w ask"
)


@pytest.mark.parametrize("indexed", [False, True])
def test_the_package_lives_through_every_operation_of_lives(
    alone: Any, indexed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"sentence": "", "oracle": "rows", "crash": -1, "plan": {}, "storage": {}}
    life = {"steps": EVERYTHING, "memtable_rows": 8, "indexed": indexed}
    monkeypatch.setattr(alone, "FINDING", about | {"life": life})
    monkeypatch.setattr(alone, "FIRST", range(100_000, 100_008 if indexed else 100_002))
    alone.shows(1)
    said = capsys.readouterr().out.splitlines()
    steps = EVERYTHING.split(", ")
    assert [line for line in said if line in [f"{step}: done" for step in steps]] == [f"{step}: done" for step in steps]


def test_a_finding_keeps_what_came_of_its_file() -> None:
    found = finding(1, "a row", alone=f"{NOT_YET}: its time was over")
    assert ForeignFinding(**dataclasses.asdict(found)).has_file


def test_a_row_of_one_write_in_two_wal_entries_is_seen_and_a_key_that_is_deleted_twice_is_not() -> None:
    def entry(*rows: tuple[int, str | None]) -> bytes:
        sink = pa.BufferOutputStream()
        table = pa.table({"id": [key for key, _ in rows], "v": pa.array([value for _, value in rows], pa.string())})
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return bytes(sink.getvalue())

    def name(position: int) -> str:
        return f"t/_mem_wal/region/wal/{f'{position:064b}'[::-1]}.arrow"

    once = [entry((1, "w1"), (2, None)), entry((1, "w2"), (2, None))]
    objects = {name(n): data for n, data in enumerate(once, 1)}
    assert stored.entries(objects) == {1: [(1, "w1"), (2, None)], 2: [(1, "w2"), (2, None)]}
    assert stored.in_two_entries(objects) == []
    objects[name(4)] = once[0]
    assert stored.in_two_entries(objects) == ["row (1, 'w1') is in WAL entries [1, 4]"]
