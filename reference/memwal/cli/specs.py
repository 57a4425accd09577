"""`memwal table specs`: the region specs of a table, and a new one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

import memwal
from memwal.cli.terminal import AsJson, ManifestStore, Place, out, progress
from memwal.errors import InvalidArgument

if TYPE_CHECKING:
    from memwal.codec.index_details import RegionField, RegionSpec
    from memwal.index.transforms import SpecRequest

SHAPES = "FIELD=TRANSFORM(COLUMN, …[, NUMBER]) or FIELD=expression(COLUMN, …: SQL)"
"""How a field of a new spec is written."""

_FIELD = re.compile(r"\s*([A-Za-z0-9_]+)\s*=\s*([a-z_]+)\s*\(([^:]*)(?::(.*))?\)\s*", re.DOTALL)
_OF_ONE_COLUMN = ("identity", "year", "month", "day", "hour")
"""Functions of `memwal` that take a name and a column."""


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""

    @app.command("specs")
    def specs(
        table: Place,
        add: Annotated[
            list[str] | None,
            typer.Option(metavar="FIELD", help=f"A field of the new spec; repeatable: {SHAPES}."),
        ] = None,
        drain_first: Annotated[
            bool, typer.Option("--drain", help="Flush and merge the regions of older specs first.")
        ] = False,
        beside_manual: Annotated[
            bool, typer.Option("--beside-manual", help="Allow a spec on a table with manual regions.")
        ] = False,
        manifest_store: ManifestStore = None,
        as_json: AsJson = False,
    ) -> None:
        """Show the region specs of a table, or add one for new writes with --add."""
        opened = memwal.open(table, manifest_store=manifest_store, listener=progress)
        if add:
            request = memwal.region_spec([parsed(text) for text in add])
            opened.add_spec(request, drain=drain_first, beside_manual=beside_manual)
        active = opened.spec.spec_id if opened.spec is not None else 0
        if as_json:
            shown = [_as_json(spec, opened, governs=spec.spec_id == active) for spec in opened.specs]
            out.print_json(json.dumps({"specs": shown}))
            return
        for spec in opened.specs:
            role = "used for new writes" if spec.spec_id == active else "kept for older regions"
            out.print(f"spec {spec.spec_id}, {role}", markup=False, highlight=False)
            for field in spec.fields:
                out.print(f"  {_line(field, opened)}", markup=False, highlight=False, soft_wrap=True)
        if not opened.specs:
            out.print("this table has no region specs: its writers name their regions")


def parsed(text: str) -> SpecRequest:
    """The field that ``text`` asks for, in one of the `SHAPES`; raises `InvalidArgument`."""
    found = _FIELD.fullmatch(text)
    if found is None:
        raise InvalidArgument(f"{text!r} is not {SHAPES}", clause="REGION-010")
    name, transform, listed, sql = found.groups()
    arguments = [argument.strip() for argument in listed.split(",") if argument.strip()]
    if transform == "expression" and sql is not None:
        return memwal.expression(name, sql.strip(), arguments)
    if sql is None and transform in _OF_ONE_COLUMN and len(arguments) == 1:
        made: SpecRequest = getattr(memwal, transform)(name, arguments[0])
        return made
    if sql is None and transform in ("bucket", "truncate") and len(arguments) > 1 and arguments[-1].isdecimal():
        columns, number = arguments[:-1], int(arguments[-1])
        if transform == "bucket":
            return memwal.bucket(name, columns, number)
        if len(columns) == 1:
            return memwal.truncate(name, columns[0], number)
    known = ", ".join([*_OF_ONE_COLUMN, "bucket", "truncate", "expression"])
    raise InvalidArgument(f"{text!r} is not {SHAPES}, with one of {known}", clause="REGION-025")


def _columns(field: RegionField, table: memwal.Table) -> list[str]:
    names = {i: name for name, i in table.field_ids.items()}
    return [names.get(i, f"field {i}, which is gone") for i in field.source_ids]


def _line(field: RegionField, table: memwal.Table) -> str:
    columns = ", ".join(_columns(field, table))
    how = f"{field.transform}({columns})" if field.transform else f"expression({columns}: {field.expression})"
    parameters = "".join(f", {name}={value}" for name, value in field.parameters)
    return f"{field.field_id} {field.result_type} = {how}{parameters}"


def _as_json(spec: RegionSpec, table: memwal.Table, *, governs: bool) -> dict[str, object]:
    fields = [
        {
            "field_id": field.field_id,
            "columns": _columns(field, table),
            "source_ids": list(field.source_ids),
            "transform": field.transform,
            "expression": field.expression,
            "result_type": field.result_type,
            "parameters": dict(field.parameters),
        }
        for field in spec.fields
    ]
    return {"spec_id": spec.spec_id, "governs_new_writes": governs, "fields": fields}
