"""From a `TableOption` to the open table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import memwal
from memwal.errors import InvalidArgument, NotFound

from .options import TableOption

if TYPE_CHECKING:
    from memwal import Table
    from memwal.ids import FieldId


def open_table(place: TableOption) -> Table:
    """Open the table; raises InvalidArgument if there is none, or if its revision is another than wanted."""
    try:
        table = memwal.open(
            place.path,
            version=place.version,
            timestamp=place.timestamp,
            tag=place.tag,
            storage_options=place.storage or None,
        )
    except NotFound as missing:
        if place.version is not None and open_table(replace(place, version=None)):
            raise InvalidArgument(
                f"[MEMWAL_NO_VERSION] the table at {place.path!r} has no version {place.version}, or "
                "it was collected: read another version"
            ) from missing
        raise InvalidArgument(
            f"[MEMWAL_NO_TABLE] there is no table at {place.path!r}; create it first with "
            "memwal.create(path, schema, primary_key=[…], spec=memwal.bucket('bucket', […], n))"
        ) from missing
    if place.revision is not None and table.revision.name != place.revision:
        raise InvalidArgument(
            f"[MEMWAL_REVISION] the table at {place.path!r} has revision {table.revision.name}, "
            f"option revision says {place.revision}"
        )
    return table


def field_names(table: Table) -> dict[FieldId, str]:
    """Column name of each field id, as region specs refer to columns."""
    return {field: name for name, field in table._state.field_ids.items()}
