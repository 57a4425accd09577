"""Options of the data source `memwal`, read and checked: names, defaults, and what to do about a wrong one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast, get_args

from memwal.errors import InvalidArgument
from memwal.region.sequences import LateRows
from memwal.revisions import REVISIONS

from .tables import TABLES

STORAGE_PREFIX = "storage."
"""Options of this prefix go to the object store, without it."""

READ: Mapping[str, str] = {
    "path": "folder or address of the table",
    "columns": "comma-separated columns to read, which may include `_region`, `_generation`, `_epoch` and `_position`; "
    "default: all columns of the table",
    "table": f"{', '.join(TABLES)}: lists the current parts of the table instead of its rows",
    "numPartitions": "largest number of partitions of the read; default: one for each 128 MiB of the base table, and "
    "one for each 8 generations",
    "consistency": "strong (default) or eventual",
    "version": "table version to read; default: the newest",
    "timestamp": "time in ISO 8601, in UTC if it has no time zone; reads the newest version at or before it",
    "tag": "tag of the table version to read",
    "revision": "revision A, B or R that the table must have",
}
"""Options for reading: name -> meaning."""

WRITE: Mapping[str, str] = {
    "path": "folder or address of the table",
    "sequenceBy": "column by which the last row of a key wins; required",
    "lateRows": "what to do with a row whose sequence is not higher than the stored one: drop (default), keep, or fail",
    "deleteColumn": "boolean column, not stored; true deletes the key (revision R)",
    "numRegions": "number of buckets that the table's region spec must have",
    "regionColumn": "column with the region id of each row, not stored; for tables without a region spec",
    "flushEveryRows": "rows after which a task flushes its MemTable; default 250000",
    "reportPath": "local file for the report, as JSON",
    "revision": "revision A, B or R that the table must have",
}
"""Options for writing: name -> meaning."""

BATCH = ("txnAppId", "txnVersion")
"""Application and number of a batch: of `memwal_spark.upsert` alone, which gives all rows of a region to one task."""

FOLLOW: Mapping[str, str] = {
    "path": "folder or address of the table",
    "readChangeFeed": "true; required, because changes have more columns than the table",
    "startingFrom": "snapshot (default: the current rows, then changes), earliest (the first entries that the WALs "
    "still have) or latest (changes from now on); a query with a checkpoint continues from there",
    "maxEntriesPerTrigger": "largest number of WAL entries in a batch, over all regions; default: all",
    "failOnDataLoss": "true (default): fail if entries were collected before they were read; false: skip them",
    "revision": "revision A, B or R that the table must have",
}
"""Options of ``spark.readStream``: name -> meaning."""

WRITE_STREAM: Mapping[str, str] = {
    **{name: text for name, text in WRITE.items() if name not in ("numRegions", "reportPath")},
    "lateRows": "what to do with a row whose sequence is not higher than the stored one: drop (default) or keep",
    "txnAppId": "name under which batches are marked as finished; default: the id of the query",
    "flushEveryRows": "rows in a region's MemTable from which a batch flushes it; default 250000",
    "flushEveryEntries": "WAL entries of a region, read again by each batch, from which one flushes it; default 500",
    "checkpointLocation": "Spark's own: folder for the progress of the query",
    "queryName": "Spark's own: name of the query",
}
"""Options of ``df.writeStream``: name -> meaning."""

FLUSH_ROWS = 250_000
FLUSH_ENTRIES = 500
STARTS = ("snapshot", "earliest", "latest")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOption:
    """Which table."""

    path: str
    revision: str | None = None
    version: int | None = None
    timestamp: str | None = None
    tag: str | None = None
    storage: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read."""

    place: TableOption
    columns: tuple[str, ...] | None = None
    partitions: int | None = None
    consistency: str = "strong"
    table: str | None = None
    """One of `tables.TABLES` instead of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How to write."""

    place: TableOption
    sequence_by: str
    late_rows: LateRows = "drop"
    delete_column: str | None = None
    batch: tuple[str, int] | None = None
    """Application and number of the batch; then all rows of a region are in one task."""
    application: str | None = None
    """Of a stream; None: the id of its query."""
    regions: int | None = None
    region_column: str | None = None
    flush_rows: int = FLUSH_ROWS
    flush_entries: int = FLUSH_ENTRIES
    report_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """Which changes to read."""

    place: TableOption
    start: str = "snapshot"
    entries_most: int | None = None
    fail_on_data_loss: bool = True


def for_reading(options: Mapping[str, str]) -> ReadOptions:
    """Options of ``spark.read``; raises InvalidArgument for an unknown, missing or malformed one."""
    given, storage = _known(options, READ, "reading")
    consistency = given.get("consistency", "strong")
    if consistency not in ("strong", "eventual"):
        raise _wrong("consistency", consistency, "strong or eventual")
    columns, table = given.get("columns"), given.get("table")
    if table is not None and table not in TABLES:
        raise _wrong("table", table, ", ".join(TABLES))
    beside = [name for name in ("consistency", "version", "timestamp", "tag") if name in given]
    if table is not None and beside:
        raise InvalidArgument(f"[MEMWAL_OPTION] option table shows the current state: leave out {', '.join(beside)}")
    return ReadOptions(
        place=_place(given, storage),
        columns=tuple(name.strip() for name in columns.split(",")) if columns is not None else None,
        partitions=_number(given, "numPartitions"),
        consistency=consistency,
        table=table,
    )


def for_writing(options: Mapping[str, str]) -> WriteOptions:
    """Options of ``df.write``; raises InvalidArgument for an unknown, missing or malformed one."""
    if any(name.lower() in (known.lower() for known in BATCH) for name in options):
        raise InvalidArgument(
            "[MEMWAL_USE_UPSERT] the format cannot make sure that each region is in one task, as a batch that is "
            "written once needs: call memwal_spark.upsert(df, path, sequence_by=…, txn=(application, batch)) "
            f"instead of setting {' and '.join(BATCH)}"
        )
    return _writing(*_known(options, WRITE, "writing"))


def for_writing_streams(options: Mapping[str, str]) -> WriteOptions:
    """Options of ``df.writeStream``; raises InvalidArgument for an unknown, missing or malformed one.

    ``batch`` stays None: the number of a batch is known in its tasks.
    """
    given, storage = _known(options, WRITE_STREAM, "writing a stream")
    if given.get("lateRows") == "fail":
        raise _wrong("lateRows", "fail", "drop or keep in a stream, where rows that come again are late")
    application = given.pop("txnAppId", None)
    return replace(_writing(given, storage), application=application)


def for_following(options: Mapping[str, str]) -> FollowOptions:
    """Options of ``spark.readStream``; raises InvalidArgument for an unknown, missing or malformed one."""
    given, storage = _known(options, FOLLOW, "reading a stream")
    if not follows(options):
        raise InvalidArgument(
            "[MEMWAL_NO_CHANGE_FEED] a stream reads changes, which have more columns than the table: "
            "set .option('readChangeFeed', 'true')"
        )
    start = given.get("startingFrom", STARTS[0])
    if start not in STARTS:
        raise _wrong("startingFrom", start, ", ".join(STARTS))
    return FollowOptions(
        place=_place(given, storage),
        start=start,
        entries_most=_number(given, "maxEntriesPerTrigger"),
        fail_on_data_loss=_truth(given, "failOnDataLoss", default=True),
    )


def follows(options: Mapping[str, str]) -> bool:
    """Whether the options ask for changes; Spark tells a source in no other way before it asks for the columns."""
    return _truth({name.lower(): value for name, value in options.items()}, "readchangefeed", default=False)


def _truth(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise _wrong(name, text, "true or false")
    return text == "true"


def _writing(given: Mapping[str, str], storage: dict[str, str]) -> WriteOptions:
    if "sequenceBy" not in given:
        raise InvalidArgument(
            "[MEMWAL_NO_SEQUENCE] option sequenceBy is required: a shuffle does not keep the order of rows, so name "
            "the column by which the last row of a key wins, as in .option('sequenceBy', 'seq')"
        )
    late_rows = given.get("lateRows", "drop")
    if late_rows not in get_args(LateRows):
        raise _wrong("lateRows", late_rows, ", ".join(get_args(LateRows)))
    return WriteOptions(
        place=_place(given, storage),
        sequence_by=given["sequenceBy"],
        late_rows=cast(LateRows, late_rows),
        delete_column=given.get("deleteColumn"),
        regions=_number(given, "numRegions"),
        region_column=given.get("regionColumn"),
        flush_rows=_number(given, "flushEveryRows") or FLUSH_ROWS,
        flush_entries=_number(given, "flushEveryEntries") or FLUSH_ENTRIES,
        report_path=given.get("reportPath"),
    )


def _known(options: Mapping[str, str], known: Mapping[str, str], what: str) -> tuple[dict[str, str], dict[str, str]]:
    """The options under their proper spelling (Spark ignores case), and those for the object store."""
    spelling = {name.lower(): name for name in known}
    given: dict[str, str] = {}
    storage: dict[str, str] = {}
    for name, value in options.items():
        if name.lower().startswith(STORAGE_PREFIX):
            storage[name[len(STORAGE_PREFIX) :]] = value
        elif name.lower() in spelling:
            given[spelling[name.lower()]] = value
        else:
            names = ", ".join([*known, f"{STORAGE_PREFIX}…"])
            raise InvalidArgument(
                f"[MEMWAL_UNKNOWN_OPTION] there is no option {name!r} for {what}; the options are: {names}"
            )
    return given, storage


def _place(given: Mapping[str, str], storage: dict[str, str]) -> TableOption:
    if "path" not in given:
        raise InvalidArgument(
            "[MEMWAL_NO_PATH] option path is required: set .option('path', 'the table') or call .save(path)"
        )
    revision = given.get("revision")
    if revision is not None and revision not in REVISIONS:
        raise _wrong("revision", revision, ", ".join(REVISIONS))
    moments = [name for name in ("version", "timestamp", "tag") if name in given]
    if len(moments) > 1:
        raise InvalidArgument(f"[MEMWAL_OPTION] give only one of version, timestamp, tag, not {', '.join(moments)}")
    return TableOption(
        path=given["path"],
        revision=revision,
        version=_number(given, "version"),
        timestamp=given.get("timestamp"),
        tag=given.get("tag"),
        storage=storage,
    )


def _number(given: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise _wrong(name, text, f"a whole number from {least}")
    return int(text)


def _wrong(name: str, value: str, wanted: str) -> InvalidArgument:
    return InvalidArgument(f"[MEMWAL_OPTION] option {name} must be {wanted}, not {value!r}")
