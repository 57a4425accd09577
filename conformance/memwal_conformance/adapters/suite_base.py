"""The suite's own writer of base rows: it changes them as a plain user of Lance does, by pylance, beside MemWAL."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa

from .. import cells
from ..judge import merging
from ..protocol import AdapterError, Json
from .suite_store import SuiteTable


def write(where: SuiteTable, params: Json) -> Json:
    """One change, as one version of the base table (a compaction may take several)."""
    try:
        dataset = lance.dataset(where.url, storage_options=where.options or None)
        _change(dataset, where, params)
    except OSError as error:
        # pylance has one type of exception for all that a store may do, and for lost commits.
        raise AdapterError("conflict" if "conflict" in str(error) else "storage", str(error)) from error
    return {"version": str(where.newest_version()[0])}


def _change(dataset: Any, where: SuiteTable, params: Json) -> None:
    if "compact" in params:
        dataset.optimize.compact_files()
        return
    (rows,) = (params[name] for name in ("append", "update", "delete") if name in params)
    given = cells.to_table(rows)
    given = given.cast(pa.schema([dataset.schema.field(name) for name in given.column_names]))
    if "append" in params:
        dataset.insert(given)
        return
    merge = dataset.merge_insert(list(merging.key_of(where.newest_version()[1])))
    (merge.when_matched_update_all() if "update" in params else merge.when_matched_delete()).execute(given)
