"""What never answers is a HANG, whatever it was asked for, and the text says how many requests it sent meanwhile."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from memwal_conformance.adapters.process import AdapterProcess, AdapterTimeout
from memwal_conformance.places import SUITE
from memwal_conformance.protocol import Json, messages
from memwal_conformance.proving import broken_survey
from memwal_conformance.proving.broken_survey import InProcess
from memwal_conformance.running import scenarios
from memwal_conformance.running.cases import CaseRunner
from memwal_conformance.running.racing import Order, one_by_one
from memwal_conformance.verdicts import Verdict

ROWS = {"$rows": [[1, "a"]]}
TABLE, WRITER, READER = {"table": "$table"}, {"writer": "$first.writer"}, {"reader": "$reader.reader"}
ASKED: dict[str, Json] = {
    "table.create": TABLE | {"rows": {"$rows": []}, "primary_key": ["id"]},
    "writer.open": TABLE,
    "writer.put": WRITER | {"rows": ROWS, "durable": True},
    "writer.delete": WRITER | {"keys": {"$keys": [[1]]}, "durable": True},
    "writer.flush_wal": WRITER,
    "writer.status": WRITER,
    "reader.open": TABLE | {"consistency": "strong"},
    "reader.scan": READER,
    "reader.get": READER | {"keys": {"$keys": [[1]]}},
    "snapshot.run": TABLE,
    "writer.flush_memtable": WRITER,
    "merge.run": TABLE,
    "catchup.run": TABLE,
    "gc.run": TABLE | {"retain_versions": 1},
    "base.write": TABLE | {"append": {"$rows": [[7, "base"]]}},
    "inspect": TABLE,
    "writer.close": WRITER,
}
"""Message -> its parameters; in this order each finds what it needs."""
NAMED = {"writer.open": "first", "reader.open": "reader"}
SILENT = {"writer.status", "writer.flush_wal", "writer.close"}
"""Messages that need no request to the store, here: all that was put is stored and flushed."""


class Hangs(InProcess):
    """The reference, which does what one message asks for and never says so."""

    hanging = ""

    def call(self, message: str, params: Json) -> Json:
        answer = super().call(message, params)
        if message == self.hanging:
            raise AdapterTimeout(message, 5, "")
        return answer

    @staticmethod
    def of(message: str) -> Callable[[str], AdapterProcess]:
        def start(_: str) -> AdapterProcess:
            process = Hangs("R")
            process.hanging = message
            return cast(AdapterProcess, process)

        return start


def every_step() -> scenarios.SuiteScenario:
    described: Any = json.loads((SUITE / "scenarios" / "gate" / "zombie_append.json").read_text("utf-8"))
    steps = [
        {"actor": "one", "send": message, "with": params, **({"as": NAMED[message]} if message in NAMED else {})}
        for message, params in ASKED.items()
    ]
    return scenarios.made(described | {"gate": {"rules": []}, "steps": steps}, Path("made.json"))


@pytest.mark.parametrize("message", ASKED)
def test_a_message_that_is_never_answered_is_a_hang_with_the_number_of_requests(
    message: str, cases: CaseRunner
) -> None:
    result = replace(cases, revision="R", start=Hangs.of(message)).run(every_step())
    assert result.verdict is Verdict.HANG, result.text
    first, second, *_ = result.text.splitlines()
    assert first == f"no answer to {message} in 5 s"
    found = re.fullmatch(r"one sent (\d+) requests? to the store meanwhile(, the last of them \w+ \S+)?", second)
    assert found is not None, second
    sent = [request for request in result.requests if request["actor"] == "one"]
    assert int(found[1]) <= len(sent)
    assert (int(found[1]) == 0) == (message in SILENT), second
    assert not [finding for finding in result.findings if finding.broken and not finding.witness]


def test_a_process_that_is_never_ready_is_a_hang_too(cases: CaseRunner) -> None:
    result = replace(cases, revision="R", start=Hangs.of("configure")).run(every_step())
    assert result.verdict is Verdict.HANG, result.text
    assert result.text.splitlines()[:2] == [
        "no answer to configure in 5 s",
        "one sent 0 requests to the store meanwhile",
    ]


class StandsStill(InProcess):
    """The reference, which after a put says nothing, or asks the store the same for ever, until it is killed."""

    limit_s = 5.0

    def __init__(self, *, asks: bool) -> None:
        super().__init__("B")
        self.asks, self.killed = asks, threading.Event()

    def call(self, message: str, params: Json) -> Json:
        answer = super().call(message, params)
        if message == "writer.put":
            began = time.monotonic()
            while not self.killed.wait(0 if self.asks else self.limit_s) and time.monotonic() < began + self.limit_s:
                super().call("inspect", {"table": self.table})
            raise AdapterTimeout(message, self.limit_s, "")
        self.table = params.get("table", "")
        return answer

    def kill(self) -> bool:
        self.killed.set()
        return super().kill()


@pytest.mark.parametrize("asks", [False, True])
def test_an_actor_of_a_race_that_never_answers_is_a_hang_and_the_one_that_waits_for_it_is_not(
    asks: bool, cases: CaseRunner
) -> None:
    def start(name: str) -> AdapterProcess:
        return cast(AdapterProcess, StandsStill(asks=asks)) if name == "two" else broken_survey.actor("B")

    race = scenarios.load(SUITE / "scenarios" / "gate" / "two_writers_in_any_order.json")
    order = Order(name="one stops at 1", make=partial(one_by_one, ["one", "two"], 0))
    raced = replace(cases, start=start)._raced(race, order)
    assert raced.result.verdict is Verdict.HANG, raced.result.text
    first, second, *_ = raced.result.text.splitlines()
    assert first == "no answer to writer.put in 5 s"
    assert re.fullmatch(r"two sent [\d,]+ requests? to the store meanwhile, the last of them \w+ \S+", second), second
    assert raced.steps[-1] != {"go": "one"}, raced.steps


def test_every_message_about_a_table_is_asked() -> None:
    tables = {"writer", "reader", "merger", "index_builder", "collector", "base_writer"}
    asked = {name for name, each in messages().items() if each.role in tables} | {"table.create", "inspect"}
    assert asked - set(ASKED) == {"reader.search"}  # asks for rows as a scan does, and needs a vector column
