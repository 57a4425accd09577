"""Adapter processes that misbehave: each is reported as what it is, and none survives."""

import os
import selectors
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from memwal_conformance.adapters import process as processes
from memwal_conformance.adapters.process import AdapterCrash, AdapterMissing, AdapterProcess, AdapterTimeout, Exchange
from memwal_conformance.protocol import AdapterError, ProtocolViolation
from memwal_conformance.pytest_plugin.session import noted
from memwal_conformance.reporting.picture import answered
from memwal_conformance.running.calls import PendingCall

SKELETON = Path(__file__).parents[2] / "memwal_conformance" / "adapters" / "skeleton.py"
READ = "import sys, json, os, signal; line = sys.stdin.readline(); "


def adapter(code: str, limit_s: float = 20.0) -> AdapterProcess:
    return AdapterProcess([sys.executable, "-c", READ + code], limit_s=limit_s)


@pytest.fixture
def skeleton() -> Iterator[AdapterProcess]:
    with AdapterProcess([sys.executable, str(SKELETON)], limit_s=20) as process:
        process.greet()
        yield process


def test_the_skeleton_answers(skeleton: AdapterProcess) -> None:
    skeleton.call("configure", {"revision": "B", "settings": {}})
    assert skeleton.call("eval.name", {"kind": "wal", "number": "5"}) == {"name": "101" + "0" * 61 + ".arrow"}
    skeleton.end()
    assert skeleton.status == 0


def test_an_error_reply_leaves_the_process_usable(skeleton: AdapterProcess) -> None:
    skeleton.call("configure", {"revision": "B", "settings": {}})
    with pytest.raises(AdapterError) as caught:
        skeleton.call("eval.name", {"kind": "wal", "number": "99999999999999999999"})
    assert caught.value.kind == "invalid_argument"
    assert skeleton.call("eval.name", {"kind": "manifest", "number": "1"})["name"].startswith("10")


def test_a_kill_is_sigkill_and_says_whether_the_process_ran(skeleton: AdapterProcess) -> None:
    assert skeleton.kill()
    assert skeleton.status == -9
    assert not skeleton.kill()


def test_a_kill_takes_what_the_adapter_started_along(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess; child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']); "
        f"open({str(pid_file)!r}, 'w').write(str(child.pid)); "
        'print(\'{"id": "1", "result": {}}\', flush=True); signal.pause()'
    )
    process = adapter(code)
    process.call("configure", {"revision": "B", "settings": {}})
    child = int(pid_file.read_text())
    watched = os.pidfd_open(child)
    try:
        assert process.kill()
        with selectors.DefaultSelector() as selector:
            selector.register(watched, selectors.EVENT_READ)
            assert selector.select(10), "the child still runs"
    finally:
        os.close(watched)


def test_requests_that_an_adapter_tells_of_before_its_reply_are_kept() -> None:
    event = '{"trace": {"operation": "put", "path": "x", "outcome": "ok"}}'
    told: list[Exchange] = []
    reply = '{"id": "1", "result": {}}'
    code = f"print({event!r}); print({event!r}); print({reply!r}, flush=True); signal.pause()"
    process = AdapterProcess([sys.executable, "-c", READ + code], limit_s=20, log=told.append)
    process.call("configure", {"revision": "B", "settings": {}})
    assert process.kill()
    (exchange,) = told
    assert exchange.trace == ({"operation": "put", "path": "x", "outcome": "ok"},) * 2
    assert exchange.outcome == {"result": {}}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ('print(\'{"trace": {"operation": "put"}}\', flush=True); signal.pause()', "an event breaks its schema"),
        ("print('Picked up JAVA_TOOL_OPTIONS', flush=True); signal.pause()", "not JSON"),
        ('print(\'{"id": "9", "result": {}}\', flush=True); signal.pause()', "has id 9"),
        ('print(\'{"id": "1", "result": {"roles": 5}}\', flush=True); signal.pause()', "result of hello"),
        ("sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stdout.flush(); signal.pause()", "not JSON"),
    ],
)
def test_garbage_is_a_protocol_violation_and_ends_the_process(code: str, reason: str) -> None:
    process = adapter(code)
    with pytest.raises(ProtocolViolation, match=reason):
        process.greet()
    assert not process.alive


def test_silence_is_a_timeout_and_ends_the_process() -> None:
    process = adapter("sys.stderr.write('still thinking\\n'); sys.stderr.flush(); signal.pause()", limit_s=0.7)
    with pytest.raises(AdapterTimeout, match=r"no answer to hello in 0\.7 s"):
        process.greet()
    assert not process.alive


def test_half_a_line_is_a_timeout() -> None:
    process = adapter("sys.stdout.write('{\"id\": '); sys.stdout.flush(); signal.pause()", limit_s=0.7)
    with pytest.raises(AdapterTimeout):
        process.greet()


def test_an_adapter_that_ends_by_itself_is_a_crash_with_its_last_words() -> None:
    process = adapter("sys.stderr.write('panicked at src/wal.rs:7\\n'); sys.exit(101)")
    with pytest.raises(AdapterCrash, match=r"exit status 101.*during hello") as caught:
        process.greet()
    assert "panicked at src/wal.rs:7" in caught.value.stderr
    assert caught.value.status == 101


def test_an_adapter_that_kills_itself_is_a_crash_with_its_signal() -> None:
    process = adapter("os.kill(os.getpid(), 11)")
    with pytest.raises(AdapterCrash, match="signal 11"):
        process.greet()


def test_a_kill_while_a_message_is_under_way_is_its_outcome_and_the_report_says_so() -> None:
    log: list[Exchange] = []
    process = AdapterProcess([sys.executable, "-c", "import signal; signal.pause()"], limit_s=20, log=log.append)
    call = PendingCall(process, "hello", {"protocol": "1"})
    while not process.under_way:
        threading.Event().wait(0.01)
    assert process.kill()
    call.ended(20)
    with pytest.raises(AdapterCrash, match="signal 9"):
        call.result()
    assert [list(each.outcome) for each in log] == [["killed"]]
    assert answered(noted(log[0])) == ("killed before it answered", False)


def test_an_adapter_that_never_reads_is_a_timeout_even_for_a_long_request() -> None:
    process = AdapterProcess([sys.executable, "-c", "import signal; signal.pause()"], limit_s=0.7)
    rows = [[{"t": "utf8", "v": "x" * 1000}]] * 2000
    columns = [{"name": "c", "type": "utf8", "nullable": False}]
    with pytest.raises(AdapterTimeout):
        process.call("writer.put", {"writer": "w", "rows": {"columns": columns, "rows": rows}, "durable": True})
    assert not process.alive


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(AdapterMissing, match="cannot start no-such-adapter --x: No such file"):
        AdapterProcess(["no-such-adapter", "--x"])


def test_a_folder_in_place_of_a_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(AdapterMissing, match=f"cannot start {tmp_path}: it is a folder$"):
        AdapterProcess([str(tmp_path)])


def test_every_exchange_is_logged_with_its_outcome() -> None:
    log: list[Exchange] = []
    process = AdapterProcess([sys.executable, str(SKELETON)], actor="one", limit_s=20, log=log.append)
    with process:
        process.greet()
        process.call("configure", {"revision": "A", "settings": {}})
        with pytest.raises(AdapterError):
            process.call("eval.name", {"kind": "wal", "number": "99999999999999999999"})
    assert [(e.actor, e.message, next(iter(e.outcome))) for e in log] == [
        ("one", "hello", "result"),
        ("one", "configure", "result"),
        ("one", "eval.name", "error"),
        ("one", "shutdown", "result"),
    ]


def test_an_adapter_that_stays_after_its_shutdown_is_killed_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "LEAVE_S", 0.2)
    log: list[Exchange] = []
    stays = (
        "import runpy, signal, sys; sys.argv = [sys.argv[1]]\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "finally: signal.pause()"
    )
    lasting = AdapterProcess([sys.executable, "-c", stays, str(SKELETON)], limit_s=60, log=log.append)
    lasting.greet()
    lasting.end()
    assert lasting.status == -signal.SIGKILL
    assert [next(iter(e.outcome)) for e in log] == ["result", "result", "broken"]
    assert log[-1].outcome["broken"] == "it answered shutdown, did not exit in 0.2 s, and was killed"


def asked_at_once(process: AdapterProcess) -> tuple[PendingCall, PendingCall]:
    """Two requests that were under way at once; by now they may be over."""
    first, second = (PendingCall(process, "writer.close", {"writer": name}) for name in ("w", "x"))
    while process.under_way < 2 and not (first.over and second.over):
        threading.Event().wait(0.01)
    return first, second


def test_two_requests_at_once_each_get_their_own_answer_whichever_comes_first() -> None:
    log: list[Exchange] = []
    event = '{"trace": {"operation": "put", "path": "x", "outcome": "ok"}}'
    reply = "sys.stdout.write(json.dumps({'id': json.loads(%s)['id'], **%s}) + '\\n'); sys.stdout.flush(); "
    refusal = {"error": {"kind": "fenced", "message": "no"}}
    code = "second = sys.stdin.readline(); " + reply % ("second", {"result": {}}) + f"print({event!r}); "
    code += reply % ("line", refusal) + "signal.pause()"
    process = AdapterProcess([sys.executable, "-c", READ + code], limit_s=20, log=log.append)
    calls = asked_at_once(process)
    outcomes = []
    for call in calls:
        try:
            outcomes.append(str(call.result()))
        except AdapterError as error:
            outcomes.append(error.kind)
    assert sorted(outcomes) == ["fenced", "{}"]
    assert sum(len(each.trace) for each in log) == 1
    assert process.kill()


def test_one_of_two_requests_that_is_never_answered_ends_both_for_one_reason() -> None:
    log: list[Exchange] = []
    process = AdapterProcess([sys.executable, "-c", READ + "signal.pause()"], limit_s=0.7, log=log.append)
    for call in asked_at_once(process):
        with pytest.raises(AdapterTimeout, match=r"no answer to writer.close in 0\.7 s"):
            call.result()
        call.ended(20)
    assert not process.alive
    assert [list(each.outcome) for each in log] == [["broken"], ["broken"]]


def test_an_answer_that_nothing_asked_for_breaks_the_protocol_for_both() -> None:
    code = 'sys.stdin.readline(); print(\'{"id": "9", "result": {}}\', flush=True); signal.pause()'
    process = adapter(code)
    for call in asked_at_once(process):
        with pytest.raises(ProtocolViolation, match="has id 9"):
            call.result()


def test_a_concurrent_adapter_answers_what_it_can_and_ends_with_what_it_did_not_expect(tmp_path: Path) -> None:
    file = tmp_path / "adapter.py"
    file.write_text(
        "import threading\n"
        "from memwal_conformance.adapters.serve import serve\n"
        "let_go = threading.Event()\n"
        "def close(params):\n"
        "    if params['writer'] == 'x':\n"
        "        let_go.set()\n"
        "    if params['writer'] == 'y':\n"
        "        raise KeyError('unexpected')\n"
        "    assert let_go.wait(20)\n"
        "    return {}\n"
        "serve({'writer.close': close}, {}, concurrent=True)\n"
    )
    process = AdapterProcess([sys.executable, str(file)], limit_s=30)
    waits = PendingCall(process, "writer.close", {"writer": "w"})
    assert process.call("writer.close", {"writer": "x"}) == {}
    assert waits.result() == {}
    with pytest.raises(AdapterCrash, match="exit status 1") as caught:
        process.call("writer.close", {"writer": "y"})
    assert "KeyError: 'unexpected'" in caught.value.stderr
