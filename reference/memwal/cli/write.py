"""`memwal table create` and `memwal table upsert`: a table from a file, and rows from files and pipes into it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

import memwal
from memwal.cli import files
from memwal.cli.specs import SHAPES, parsed
from memwal.cli.terminal import AsJson, ManifestStore, Place, print_json, progress, say
from memwal.errors import InvalidArgument, MemwalError, check_name
from memwal.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

BATCH_ROWS = 100_000
"""Rows that `upsert` writes at a time: each region gets its share of them as one atomic write."""

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="parquet, csv (with a header), json (one object a line) or arrow. Default: by the file's ending.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command()(create)
    app.command()(upsert)


def create(
    table: Place,
    source: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="File with the first rows and their columns; - is standard input."),
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="Column of the primary key; repeatable.")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TYPE", help="Without FILE: a column and its type, as in id=int64; repeatable."),
    ] = None,
    buckets: Annotated[
        int | None, typer.Option(min=1, help="Number of regions; a hash of the key chooses the region of a row.")
    ] = None,
    spec: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help=f"A field of the region spec; repeatable: {SHAPES}.")
    ] = None,
    revision: Annotated[str, typer.Option(help="A, B, or R, which the released native writer can read.")] = "B",
    wal_collection: Annotated[
        bool, typer.Option("--wal-collection", help="Let gc delete WAL entries; cannot be changed later.")
    ] = False,
    manifest_collection: Annotated[
        bool, typer.Option("--manifest-collection", help="Let gc delete region manifests; cannot be changed later.")
    ] = False,
    format_: Format = None,
    manifest_store: ManifestStore = None,
    as_json: AsJson = False,
) -> None:
    """Create a table with MemWAL, from a file of rows or from columns that are named.

    Without --buckets and --spec the table has one region, which one writer at a time can hold.
    """
    if not key:
        raise typer.BadParameter("name the column or columns of the primary key", param_hint="--key")
    if (source is None) == (not column):
        raise typer.BadParameter("give either a FILE or columns, as in --column id=int64", param_hint="FILE")
    if buckets is not None and spec:
        raise typer.BadParameter("give either --buckets or --spec, not both", param_hint="--buckets")
    rows = None if source is None else _rows(files.batches(source, format_, None))
    made = memwal.create(
        table,
        _schema(column or []) if rows is None else rows,
        primary_key=key,
        revision=revision,
        spec=_spec(key, buckets, spec or []),
        wal_collection=wal_collection,
        manifest_collection=manifest_collection,
        manifest_store=manifest_store,
    )
    number = 0 if rows is None else rows.num_rows
    if as_json:
        print_json({"version": made.version, "revision": made.revision.name, "rows": number})
    else:
        where = counted(buckets, "region") if buckets else "regions by spec" if spec else "one region"
        say(f"created {table}: revision {made.revision.name}, {where}, {counted(number, 'row')}")


def upsert(
    table: Place,
    sources: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files with rows; - is standard input.")],
    format_: Format = None,
    sequence_by: Annotated[str | None, typer.Option(help="Column by which the last row of a key wins.")] = None,
    late_rows: Annotated[
        str, typer.Option(help="Rows whose sequence is not higher than the stored one: drop, keep or fail.")
    ] = "drop",
    batch_rows: Annotated[int, typer.Option(min=1, help="Number of rows to write at a time.")] = BATCH_ROWS,
    manifest_store: ManifestStore = None,
    as_json: AsJson = False,
) -> None:
    """Insert rows, or replace rows with the same key. They are durable when the command ends.

    Claims each region that it writes to, which fences open writers of it. If it fails, run it again.
    """
    check_name("way with late rows", late_rows, ("drop", "keep", "fail"))
    opened = memwal.open(table, manifest_store=manifest_store, listener=progress)
    done = 0
    try:
        with opened:
            for source in sources:
                for part in _parts(files.batches(source, format_, opened.schema), batch_rows):
                    opened.upsert(part, sequence_by=sequence_by, late_rows=late_rows)  # type: ignore[arg-type] # above
                    done += part.num_rows
                    progress.say(f"{counted(done, 'row')} written")
    except MemwalError as error:
        if done:
            error.add_note(f"{counted(done, 'row is', 'rows are')} written: run the command again to write all of them")
        raise
    if as_json:
        print_json({"rows": done})
    else:
        say(f"upserted {counted(done, 'row')}")


def _rows(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    import pyarrow as pa

    first = next(batches, None)
    if first is None:
        raise InvalidArgument("the file has no rows to take the columns from: name them with --column")
    return pa.Table.from_batches(list(chain([first], batches)))


def _parts(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of ``rows``, the last one shorter."""
    import pyarrow as pa

    held = list[pa.RecordBatch]()
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) < rows:
            continue  # small batches are written together
        joined = pa.Table.from_batches(held)
        whole = joined.num_rows - joined.num_rows % rows
        for start in range(0, whole, rows):
            yield joined.slice(start, rows)
        held = joined.slice(whole).to_batches()
    if any(each.num_rows for each in held):
        yield pa.Table.from_batches(held)


def _schema(columns: list[str]) -> pa.Schema:
    import pyarrow as pa

    fields = []
    for text in columns:
        name, _, alias = text.partition("=")
        try:
            fields.append(pa.field(name, pa.type_for_alias(alias)))
        except ValueError:
            reason = f"--column {text!r}: write NAME=TYPE with a type of Arrow such as int64, string, date32"
            raise InvalidArgument(reason, clause="AMB-136") from None
    return pa.schema(fields)


def _spec(key: list[str], buckets: int | None, fields: list[str]) -> memwal.index.transforms.SpecRequest | None:
    if buckets is not None:
        return memwal.bucket("bucket", key, buckets)
    return memwal.region_spec([parsed(text) for text in fields]) if fields else None
