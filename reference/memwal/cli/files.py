"""Rows from files and pipes, and into them: Parquet, CSV with a header, JSON lines, Arrow IPC."""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from memwal.errors import InvalidArgument, check_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

PIPE = "-"
"""As the name of a file: standard input or output."""
FORMATS = ("parquet", "csv", "json", "arrow")
"""``json`` is one object a line."""
_ENDINGS = {
    ".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".arrow": "arrow",
}  # fmt: skip
_MARKS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow", b"{": "json"}
"""How the formats that can be told by their bytes begin."""


def batches(source: str, format_: str | None, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """The rows of a file, or of standard input, in parts. ``schema``: types that text is read as, by column.

    Raises `InvalidArgument` for a format that is not known and for bytes that are not of the format.
    """
    import pyarrow as pa

    if format_ is not None:
        check_name("format", format_, FORMATS)
    with _opened(source) as file:
        chosen = format_ or _ENDINGS.get(Path(source).suffix.lower()) or _told_by_bytes(file)
        try:
            yield from _READERS[chosen](file, schema)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            where = "standard input" if source == PIPE else source
            reason = str(error).splitlines()[0]
            raise InvalidArgument(
                f"{where} cannot be read as {chosen}: {reason}; use --format if it has another format"
            ) from None


@contextmanager
def _opened(source: str) -> Iterator[Any]:
    if source == PIPE:
        yield io.BufferedReader(sys.stdin.buffer)
        return
    with Path(source).open("rb") as file:
        yield file


def _told_by_bytes(file: Any) -> str:
    head = file.peek(8).lstrip()
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), "csv")


def _parquet(file: Any, _schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    yield from pq.ParquetFile(file if file.seekable() else io.BytesIO(file.read())).iter_batches()


def _csv(file: Any, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv as csv

    types = {field.name: field.type for field in schema} if schema is not None else None
    yield from csv.open_csv(file, convert_options=csv.ConvertOptions(column_types=types))


def _json(file: Any, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    import pyarrow.json as json

    parsing = json.ParseOptions(explicit_schema=schema) if schema is not None else None
    yield from json.open_json(file, parse_options=parsing)


def _arrow(file: Any, _schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    if file.peek(6).startswith(b"ARROW1"):
        reader = pa.ipc.open_file(file if file.seekable() else io.BytesIO(file.read()))
        yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        yield from pa.ipc.open_stream(file)


_READERS = {"parquet": _parquet, "csv": _csv, "json": _json, "arrow": _arrow}


def written(parts: Iterable[pa.Table], schema: pa.Schema, format_: str, file: IO[bytes]) -> int:
    """Write ``parts`` to ``file`` as they come; returns the number of rows."""
    import pyarrow as pa

    rows = 0
    if format_ == "json":
        import json

        for part in parts:
            for row in part.to_pylist():
                file.write(json.dumps(row, default=str, ensure_ascii=False).encode() + b"\n")
            rows += part.num_rows
        return rows
    with _writer(schema, format_, file) as writer:
        for part in parts:
            writer.write_table(pa.table(part.columns, schema=schema))
            rows += part.num_rows
    return rows


def _writer(schema: pa.Schema, format_: str, file: IO[bytes]) -> Any:
    import pyarrow as pa

    if format_ == "csv":
        import pyarrow.csv as csv

        return csv.CSVWriter(file, schema)
    if format_ == "parquet":
        import pyarrow.parquet as pq

        return pq.ParquetWriter(file, schema)
    return pa.ipc.new_stream(file, schema)
