"""`memwal table explain`: the plan of a scan, a lookup or a search, and what its nodes spend."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

import memwal
from memwal.cli.terminal import ManifestStore, Place, out
from memwal.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command()
    def explain(
        table: Place,
        columns: Annotated[str, typer.Option(help="Columns of the answer, separated by commas. Default: all.")] = "",
        where: Annotated[str, typer.Option(help="SQL condition, as in a WHERE clause.")] = "",
        key: Annotated[str, typer.Option(metavar="JSON", help="Keys to look up: an object, or a list of them.")] = "",
        vector: Annotated[str, typer.Option(metavar="JSON", help="Vector to search for: a list of numbers.")] = "",
        text: Annotated[str | None, typer.Option(help="Words to search for.")] = None,
        option: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME=JSON", help="Option of the search: column=v, k=5, nprobes=4, phrase=true."),
        ] = None,
        analyse: Annotated[
            bool, typer.Option("--analyse", help="Run the query, and show what each node of the plan cost.")
        ] = False,
        eventual: Annotated[
            bool,
            typer.Option(
                "--eventual", help="Read the region snapshot instead of the manifests: faster, but may be older."
            ),
        ] = False,
        version: Annotated[int | None, typer.Option(help="Read this older table version.")] = None,
        manifest_store: ManifestStore = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    ) -> None:
        """Show how a scan, a lookup (--key) or a search (--vector, --text) is executed: a line per node of its plan."""
        opened = memwal.open(table, version=version, manifest_store=manifest_store)
        told = opened.explain(
            columns=columns.split(",") if columns else None,
            filter=where or None,
            keys=keys_named(opened, key) if key else None,
            vector=_json("--vector", vector) if vector else None,
            text=text,
            analyse=analyse,
            form="json" if as_json else "text",
            consistency="eventual" if eventual else "strong",
            **_options(option or ()),
        )
        if as_json:
            out.print_json(told)
        else:
            out.print(told, soft_wrap=True, highlight=False, markup=False)


def keys_named(table: memwal.Table, text: str) -> pa.Table:
    """The table of keys that ``text``, JSON, names by column; days, times and decimals as texts."""
    import pyarrow as pa

    found = _json("--key", text)
    rows = found if isinstance(found, list) else [found]
    shape = pa.schema([table.schema.field(name) for name in table.primary_key])
    if not all(isinstance(row, dict) and set(row) == set(shape.names) for row in rows):
        raise InvalidArgument(f"--key: each object must have exactly the columns {', '.join(shape.names)}")
    try:
        return pa.table([_values([row[field.name] for row in rows], field.type) for field in shape], schema=shape)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as wrong:
        raise InvalidArgument(f"--key: {wrong}") from None


def _values(given: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    texts = all(isinstance(value, str) for value in given)
    return pa.array(given).cast(kind) if texts else pa.array(given, kind)


def _options(given: list[str] | tuple[()]) -> dict[str, Any]:
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise InvalidArgument(f"--option {each!r}: write NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value  # names of columns, indexes and metrics stand as they are
    return found


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as wrong:
        raise InvalidArgument(f"{option} is not JSON: {wrong}") from None
