"""The change log of real flights: its keys, its order, and that its last rows are the data set."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter, defaultdict
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument
from memwal_spark import flights

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def source() -> list[dict[str, str]]:
    """The data set, read without pandas; what is not known is empty."""
    with zipfile.ZipFile(flights.data_folder() / "flights.csv.zip") as archive:
        lines = csv.DictReader(io.StringIO(archive.read("flights.csv").decode()))
        return [{name: "" if cell == "NA" else cell for name, cell in row.items()} for row in lines]


@pytest.fixture(scope="module", params=[20_000, pytest.param(None, marks=pytest.mark.long)], ids=["sample", "whole"])
def log(request: pytest.FixtureRequest) -> pa.Table:
    return flights.change_log(request.param)


@pytest.fixture(scope="module")
def whole() -> pa.Table:
    return flights.change_log()


def histories_of(log: pa.Table) -> dict[tuple[Any, ...], Rows]:
    """Key -> its events, in the order of the log; instants as microseconds since 1970."""
    instants = [field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in log.schema]
    found: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for batch in log.cast(pa.schema(instants)).to_batches(max_chunksize=50_000):
        for row in batch.to_pylist():
            found[row["flight_date"], row["carrier"], row["flight"], row["origin"]].append(row)
    return found


@pytest.fixture(scope="module")
def histories(log: pa.Table) -> dict[tuple[Any, ...], Rows]:
    return histories_of(log)


def test_the_log_has_the_declared_schema_and_no_null_in_a_key(log: pa.Table) -> None:
    assert log.schema.equals(flights.SCHEMA)
    assert {name: log[name].null_count for name in flights.KEY} == dict.fromkeys(flights.KEY, 0)


@pytest.mark.long
def test_every_flight_of_the_data_set_has_a_key_of_its_own(source: list[dict[str, str]], whole: pa.Table) -> None:
    keys = {
        (date(int(r["year"]), int(r["month"]), int(r["day"])), r["carrier"], int(r["flight"]), r["origin"])
        for r in source
    }
    assert len(keys) == len(source) == 336_776
    assert histories_of(whole).keys() == keys


@pytest.mark.long
def test_there_are_as_many_events_as_the_data_set_implies(whole: pa.Table, source: list[dict[str, str]]) -> None:
    expected = {
        "scheduled": len(source),
        "departed": sum(r["dep_time"] != "" for r in source),
        "cancelled": sum(r["dep_time"] == "" for r in source),
        "arrived": sum(r["arr_time"] != "" for r in source),
    }
    counted = Counter(whole["event"].to_pylist())
    assert {event: counted[event] for event in expected} == expected
    assert counted.total() == whole.num_rows == 1_121_216


def test_events_are_numbered_from_one_in_the_order_of_time(log: pa.Table) -> None:
    assert log["seq"].to_pylist() == list(range(1, log.num_rows + 1))
    times = log["event_time"].cast(pa.int64()).to_numpy()
    assert (times[1:] >= times[:-1]).all()


def test_each_flight_passes_through_its_states_in_order(histories: dict[tuple[Any, ...], Rows]) -> None:
    courses = Counter(tuple(event["event"] for event in events) for events in histories.values())
    assert set(courses) == {
        ("scheduled", "cancelled"),
        ("scheduled", "cancelled", "corrected"),
        ("scheduled", "departed", "arrived"),
        ("scheduled", "departed", "arrived", "corrected"),
        ("scheduled", "departed", "corrected"),
    }


def test_corrections_come_for_late_diverted_and_unregistered_flights_only(
    histories: dict[tuple[Any, ...], Rows],
) -> None:
    with (flights.data_folder() / "planes.csv").open() as lines:
        registered = {row["tailnum"] for row in csv.DictReader(lines)}
    for events in histories.values():
        before = next(e for e in reversed(events) if e["event"] != "corrected")
        late = before["arr_delay"] is not None and before["arr_delay"] >= 15
        diverted = before["dep_time"] is not None and before["arr_delay"] is None
        unregistered = before["tailnum"] is not None and before["tailnum"] not in registered
        assert (events[-1]["event"] == "corrected") == (late or diverted or unregistered)
        if events[-1]["event"] == "corrected":
            parts = ["late"] * late + ["diverted"] * diverted
            parts += [f"aircraft not registered: {before['tailnum']}"] * unregistered
            assert events[-1]["remark"] == "; ".join(parts)
            assert events[-1]["tailnum"] == (None if unregistered else before["tailnum"])


def test_the_last_row_of_each_flight_is_what_the_data_set_says(
    source: list[dict[str, str]], histories: dict[tuple[Any, ...], Rows]
) -> None:
    def number(text: str) -> int | None:
        return int(float(text)) if text else None

    compared = {}
    for r in source:
        day = date(int(r["year"]), int(r["month"]), int(r["day"]))
        key = day, r["carrier"], int(r["flight"]), r["origin"]
        if key not in histories:
            continue
        compared[key] = last = histories[key][-1]
        hour = datetime.strptime(r["time_hour"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        scheduled = (int(hour.timestamp()) + int(r["minute"]) * 60) * 1_000_000
        delay = number(r["dep_delay"])
        assert last["sched_dep_time"] == scheduled
        assert last["dep_time"] == (None if delay is None else scheduled + delay * 60_000_000)
        assert (last["arr_time"] is None) == (r["arr_time"] == "")
        found = {name: last[name] for name in ("dest", "distance", "dep_delay", "arr_delay", "air_time")}
        assert found == {
            "dest": r["dest"],
            "distance": int(r["distance"]),
            "dep_delay": delay,
            "arr_delay": number(r["arr_delay"]),
            "air_time": number(r["air_time"]),
        }
    assert compared.keys() == histories.keys()


def test_an_arrival_lies_between_five_minutes_and_four_hours_after_the_time_in_the_air(log: pa.Table) -> None:
    """So the destinations' time zones are right: one hour off would show on thousands of flights."""
    rows = log.filter(pa.compute.equal(log["event"], "arrived")).select(["dep_time", "arr_time", "air_time"])
    known = rows.filter(pa.compute.is_valid(rows["air_time"]))
    instants = [known[name].cast(pa.int64()).to_numpy() // 60_000_000 for name in ("dep_time", "arr_time")]
    on_ground = instants[1] - instants[0] - known["air_time"].to_numpy()
    assert on_ground.min() >= 5
    assert on_ground.max() <= 240


def test_a_sample_is_drawn_by_seed_and_is_a_part_of_the_whole() -> None:
    sample = flights.change_log(200, seed=7)
    assert sample.equals(flights.change_log(200, seed=7))
    assert not sample.equals(flights.change_log(200, seed=8))
    assert len(sample.group_by(list(flights.KEY)).aggregate([])) == 200


@pytest.mark.parametrize("number", [0, 336_777])
def test_an_impossible_number_of_flights_is_refused(number: int) -> None:
    with pytest.raises(InvalidArgument, match=rf"MEMWAL_FLIGHTS.*1 … 336776, not {number}"):
        flights.change_log(number)
