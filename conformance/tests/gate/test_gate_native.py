"""The released native implementation as a client of the gate."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal_conformance.gate import Address, Do, FaultRule, Gate, RequestFate, Schedule

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={b"lance-schema:unenforced-primary-key": b"true"}),
        pa.field("v", pa.string()),
    ]
)
SHARD = str(uuid.UUID("0a0b0c0d-0000-4000-8000-000000000001"))
SETTINGS = {"durable_write": True, "max_wal_flush_interval_ms": 1, "manifest_scan_batch_size": 1}


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as opened:
        create(opened)
        yield opened


def options(gate: Gate, actor: str) -> dict[str, str]:
    return gate.storage_options(actor, timeout="5s", client_max_retries="0")


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), [f"v{number}" for number in ids]], schema=SCHEMA)


def create(gate: Gate) -> None:
    dataset = lance.write_dataset(
        rows(100), f"s3://{gate.bucket}/t", schema=SCHEMA, storage_options=options(gate, "create")
    )
    dataset.initialize_mem_wal()


def table(gate: Gate, actor: str) -> Any:
    return lance.dataset(f"s3://{gate.bucket}/t", storage_options=options(gate, actor))


def opened(gate: Gate, actor: str) -> Any:
    """A writer. It continues in the background, and knocks at a closed gate for ever, unless it is closed."""
    return table(gate, actor).mem_wal_writer(SHARD, **SETTINGS)


def seen(gate: Gate, actor: str = "reader") -> list[int]:
    """Ids that the engine's strong read finds."""
    found = memwal.open(f"s3://{gate.bucket}/t", storage_options=options(gate, actor))
    return sorted(found.scan()["id"].to_pylist())


def flushed(gate: Gate) -> list[list[int]]:
    """Ids in each generation."""
    found = {path.partition("/_versions/")[0] for path in gate.contents.objects if "_gen_" in path and "/_ver" in path}
    urls = [f"s3://{gate.bucket}/{path}" for path in sorted(found)]
    return [lance.dataset(url, storage_options=options(gate, "r")).to_table()["id"].to_pylist() for url in urls]


def lines(gate: Gate, actor: str) -> list[tuple[str, str, int]]:
    return [(e.operation, e.name, e.status) for e in gate.log if e.actor == actor]


def test_a_table_is_created_and_read_by_the_native_package(gate: Gate) -> None:
    assert table(gate, "native").to_table()["id"].to_pylist() == [100]
    created = lines(gate, "create")
    assert [line for line in created if line[0] == "CREATE"] == [
        ("CREATE", "versions/@1", 200),
        ("CREATE", "versions/@2", 200),
    ]
    assert gate.strangers == ()


def test_every_request_of_the_native_writer_is_attributed_and_named(gate: Gate) -> None:
    with table(gate, "writer-1").mem_wal_writer(SHARD, **SETTINGS) as writer:
        before = len(lines(gate, "writer-1"))
        writer.put(rows(1))
        writer.put(rows(2))
        puts = lines(gate, "writer-1")[before:]
    assert puts == [("CREATE", "wal/@1", 200), ("CREATE", "wal/@2", 200)]
    conditional = [line for line in lines(gate, "writer-1") if line[0] == "CREATE"]
    assert conditional == [
        ("CREATE", "manifest/@1", 200),
        ("CREATE", "wal/@1", 200),
        ("CREATE", "wal/@2", 200),
        ("CREATE", "gen/@1/versions/@1", 200),
        ("CREATE", "manifest/@2", 200),
    ]
    assert seen(gate) == [1, 2, 100]


def test_a_native_put_whose_answer_was_lost_is_there_once_or_not_at_all_but_never_twice() -> None:
    rule = FaultRule(at=Address(actor="writer-1", class_="wal", operation="CREATE"), do=Do.APPLY_THEN_LOSE)
    with Gate(rules=[rule]) as gate:
        create(gate)
        writer = opened(gate, "writer-1")
        with suppress(OSError):
            writer.put(rows(1))
        assert gate.inconclusive == ""
        put = next(entry for entry in gate.log if entry.rule == rule.label)
        assert (put.name, put.status, put.fate) == ("wal/@1", 200, RequestFate.APPLIED)
        with gate.reopen(gate.prefixes[-1]) as crashed:
            assert seen(crashed) == [1, 100]
        with suppress(OSError):
            writer.close()
        assert seen(gate) == [1, 100]


def test_a_native_append_whose_answer_failed_is_there_twice_after_a_crash() -> None:
    """A finding about pylance 14.0.2, and why a fault is multiplied with crashes: without one, the row is there once.

    Its HTTP client repeats the conditional put after a 500, the writer takes its own entry for another one's, sees that
    nobody has fenced it, and puts the same rows again at the next position.
    """
    rule = FaultRule(at=Address(actor="writer-1", class_="wal", operation="CREATE"), do=Do.APPLY_THEN_FAIL)
    plain = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())])
    with Gate(rules=[rule]) as gate:
        url, data = f"s3://{gate.bucket}/t", rows(1).cast(plain)
        lance.write_dataset(data.slice(0, 0), url, storage_options=options(gate, "create")).initialize_mem_wal()
        retrying = gate.storage_options("writer-1", timeout="5s", client_max_retries="3")
        with lance.dataset(url, storage_options=retrying).mem_wal_writer(SHARD, **SETTINGS) as writer:
            writer.put(data)
            acknowledged = gate.prefixes[-1]
        assert flushed(gate) == [[1]]
        entries = [(e.name, e.status, e.fate) for e in gate.log if e.class_ == "wal" and e.operation == "CREATE"]
        assert entries == [
            ("wal/@1", 200, RequestFate.APPLIED),
            ("wal/@1", 412, RequestFate.NORMAL),
            ("wal/@2", 200, RequestFate.NORMAL),
        ]
        with gate.reopen(acknowledged) as crashed:
            opened(crashed, "writer-2").close()
            assert flushed(crashed) == [[1, 1]]


def test_of_two_native_writers_the_first_is_fenced_by_the_second(gate: Gate) -> None:
    first = opened(gate, "writer-1")
    first.put(rows(1))
    second = opened(gate, "writer-2")
    with pytest.raises(OSError, match="fenced"):
        first.put(rows(2))
    second.put(rows(3))
    assert {line for line in lines(gate, "writer-1") if line[2] == 412} == {("CREATE", "wal/@2", 412)}
    assert seen(gate) == [1, 3, 100]
    with suppress(OSError):
        first.close()
    assert seen(gate) == [1, 3, 100]
    second.close()
    assert seen(gate) == [1, 3, 100]


def test_every_crash_state_of_a_native_run_has_all_that_was_acknowledged(gate: Gate) -> None:
    with table(gate, "writer-1").mem_wal_writer(SHARD, **SETTINGS) as writer:
        begun = len(gate.prefixes)
        for number in (1, 2, 3):
            writer.put(rows(number))
            gate.acknowledge("writer-1", number)
    states = gate.prefixes
    checked = 0
    for state in states[begun:]:
        promised = {promise.what for promise in state.acknowledged}
        with gate.reopen(state) as copy:
            assert promised <= set(seen(copy)) <= {1, 2, 3, 100}, state.order
        checked += 1
    assert checked == len(states) - begun
    assert checked > 10


def test_two_native_claims_of_one_region_in_a_chosen_order(gate: Gate) -> None:
    claims = Address(class_="manifest", operation="CREATE", occurrence=None)
    tables = {actor: table(gate, actor) for actor in ("writer-1", "writer-2")}
    schedule = Schedule(gate, [claims], settle_ms=4)
    claims_of = {a: schedule.go(a, lambda t=t: t.mem_wal_writer(SHARD, **SETTINGS)) for a, t in tables.items()}
    assert [str(held.request) for held in schedule.waiting()] == [
        "writer-1 CREATE manifest/@1",
        "writer-2 CREATE manifest/@1",
    ]
    schedule.release("writer-2")
    schedule.release("writer-1")
    schedule.free()
    winner = claims_of["writer-2"].result(10)
    assert [(e.actor, e.status) for e in gate.log if e.name == "manifest/@1" and e.operation == "CREATE"] == [
        ("writer-2", 200),
        ("writer-1", 412),
    ]
    with pytest.raises(OSError, match="Failed to claim shard"):
        claims_of["writer-1"].result(10)
    with suppress(OSError):
        winner.close()
