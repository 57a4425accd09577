"""An interrupt ends whatever blocks, as `KeyboardInterrupt` and nothing else; what it leaves behind is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec import data_file
from memwal.effects import StoreRequest
from memwal.errors import Outcome, WriterStopped

from ..kit.ground import Ground

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


class Interrupted(Ground):
    """A store at one of whose requests the user loses patience: before or after it was performed."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.performed = False

    def perform(self, request: StoreRequest[Any]) -> Any:
        if self.left is None:
            return super().perform(request)
        self.left -= 1
        if self.left >= 0:
            return super().perform(request)
        self.left = None
        if self.performed:
            with suppress(Outcome):  # an answer that is an error is lost, too
                super().perform(request)
        raise KeyboardInterrupt


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "v": [f"v{number}" for number in ids]}, schema=SCHEMA)


def begun() -> tuple[Interrupted, memwal.Table, memwal.Writer]:
    """A base of two rows, two generations that are not merged, and a row in the WAL."""
    store = Interrupted()
    table = memwal.create("t", rows(1, 2), primary_key=["id"], store=store)
    writer = table.writer(background=False)
    for number in (3, 4):
        writer.put(rows(number))
        writer.flush()
    writer.put(rows(5))
    return store, table, writer


Call = Callable[[memwal.Table, memwal.Writer], object]

CALLS: dict[str, Call] = {
    "put": lambda table, writer: writer.put(rows(6)),
    "flush": lambda table, writer: writer.flush(),
    "close": lambda table, writer: writer.close(flush=True),
    "scan": lambda table, writer: table.scan(),
    "get": lambda table, writer: table.get(pa.table({"id": [3]})),
    "merge": lambda table, writer: table.merge(),
    "snapshot": lambda table, writer: table.snapshot(),
    "append": lambda table, writer: table.base.append(rows(7)),
    "delete": lambda table, writer: table.base.delete("id = 1"),
    "writer": lambda table, writer: table.writer(writer.region_id, background=False),
    "verify": lambda table, writer: memwal.verify("t", store=table._place.store),
    "repair": lambda table, writer: memwal.repair("t", store=table._place.store, dry_run=True),
}


READS = ("scan", "get", "verify", "repair")
"""Calls that change nothing: it makes no difference to the table whether the request was performed."""


@pytest.mark.parametrize(
    ("call", "performed"),
    [(call, performed) for call in CALLS for performed in (False, True) if not performed or call not in READS],
)
def test_an_interrupt_at_any_request_surfaces_and_leaves_a_whole_table(call: str, performed: bool) -> None:
    at = 0
    while True:
        store, table, writer = begun()
        store.left, store.performed = at, performed
        try:
            CALLS[call](table, writer)
        except KeyboardInterrupt:
            pass
        else:
            assert store.left is not None, f"the interrupt at request {at} was swallowed"
            break
        assert [f for f in memwal.verify("t", store=store).findings if f.severity == "error"] == []
        kept = memwal.open("t", store=store).scan().column("id").to_pylist()
        assert {2, 3, 4, 5} <= set(kept) <= {1, 2, 3, 4, 5, 6, 7}
        at += 1
    assert at


@pytest.mark.parametrize("call", ["put", "flush"])
def test_a_writer_is_stopped_by_an_interrupt_and_says_so(call: str) -> None:
    store, table, writer = begun()
    store.left = 0

    with pytest.raises(KeyboardInterrupt), writer:
        CALLS[call](table, writer)

    with pytest.raises(WriterStopped, match="KeyboardInterrupt"):
        writer.put(rows(8))
    with memwal.open("t", store=store).writer(writer.region_id) as again:
        again.put(rows(9))
    assert {1, 2, 3, 4, 5, 9} <= set(memwal.open("t", store=store).scan().column("id").to_pylist())


def test_an_interrupt_while_a_writer_waits_for_its_thread_surfaces() -> None:
    reached, released = threading.Event(), threading.Event()

    class Slow(Ground):
        def perform(self, request: StoreRequest[Any]) -> Any:
            if threading.current_thread() is not threading.main_thread():
                reached.set()
                released.wait(30)
            return super().perform(request)

    table = memwal.create("t", SCHEMA, primary_key=["id"], store=Slow())
    writer = table.writer(memtable_rows=1)
    writer.put(rows(1))
    writer.put(rows(2))
    assert reached.wait(30)
    with interrupted_soon(), pytest.raises(KeyboardInterrupt):
        writer.close()
    released.set()


@contextmanager
def interrupted_soon() -> Iterator[None]:
    """The process gets SIGINT while the block runs, whatever it does then."""
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_of_a_native_read_surfaces_and_no_row_is_left_out() -> None:
    encoded = data_file.encode(pa.table({"n": np.arange(3_000_000)}))

    def read_on(decoder: data_file.Decoder) -> None:
        for _ in range(1_000):
            assert decoder.read().num_rows == 3_000_000

    whole = [(0, encoded)]
    with data_file.Decoder(whole, len(encoded), "x") as decoder, interrupted_soon(), pytest.raises(KeyboardInterrupt):
        read_on(decoder)


SLOW = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from memwal.stores.local import LocalStore
def perform(self, request):
    print("reading", flush=True)
    time.sleep(60)
LocalStore.perform = perform
from memwal.cli.main import main
main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_a_command_that_is_interrupted_ends_soon_with_one_line(number: int, code: int, tmp_path: Path) -> None:
    memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    command = [sys.executable, "-c", SLOW, "scan", str(tmp_path / "t")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "reading\n"
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(30) == code
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1
