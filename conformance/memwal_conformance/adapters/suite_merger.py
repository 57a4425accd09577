"""The suite's own merger: rows by pylance in a copy of the table, progress by the judge, one commit for both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from ..judge import content, merging, table
from ..judge.artifacts import Generation
from ..judge.wire import DamagedBytes
from ..protocol import AdapterError, Json
from .suite_store import ATTEMPTS, REGIONS, SuiteTable, commit

_MARKS = "memwal.done"
"""Config of a generation that has marks of finished tasks (AMB-149), which this merger does not know how to merge."""


def run(where: SuiteTable, params: Json, revision: str) -> Json:
    """Merge what is listed and not merged, in ascending order, each generation as one table version."""
    done: list[Json] = []
    last = int(params["generation"]) if "generation" in params else None
    for region_id in [params["region_id"]] if "region_id" in params else where.regions():
        known = 0
        while (number := _merged_next(where, region_id, known, last, revision)) is not None:
            done.append({"region_id": region_id, "generation": str(number)})
            known = number
    return {"merged": done}


def _merged_next(where: SuiteTable, region_id: str, known: int, last: int | None, revision: str) -> int | None:
    """The generation that was merged now; None if there was none to merge up to ``last``.

    ``known``: the one that was merged before. Progress behind it has been taken back, and merging would never end.
    """
    for _ in range(ATTEMPTS):
        version, base = where.newest_version()
        before = _progress(base, region_id)
        if before < known:
            raise AdapterError("corrupt", f"generation {known} of {region_id} was merged, and the progress is {before}")
        found = where.newest_manifest(region_id)
        later = sorted((g for g in found[0].generations if g.number > before), key=lambda g: g.number) if found else []
        if not later or (last is not None and later[0].number > last):
            return None
        try:
            if later[0].number != before + 1:
                raise AdapterError("corrupt", f"generation {before + 1} of {region_id} is neither merged nor listed")
            if _committed(where, base, later[0], region_id, revision):
                return later[0].number
        except (AdapterError, DamagedBytes, FileNotFoundError) as error:
            # Another may have merged it, and a third collected it: only in the newest version it is damage.
            if where.newest_version()[0] != version:
                continue
            raise error if isinstance(error, AdapterError) else AdapterError("corrupt", str(error)) from error
    raise AdapterError("conflict", f"{ATTEMPTS} table versions were taken by others")


def _progress(base: bytes, region_id: str) -> int:
    return max((dict(details.merged).get(region_id, 0) for details in table.table_manifest(base).memwal), default=0)


def _committed(where: SuiteTable, base: bytes, listed: Generation, region_id: str, revision: str) -> bool:
    """Whether the generation is merged by the version after ``base``, which another may have taken."""
    folder = f"{REGIONS}/{region_id}/{listed.path}"
    with where.changed(base, *where.names(folder)) as (root, store_what_is_new):
        if _MARKS in table.newest(root / folder).config:
            raise AdapterError("invalid_argument", f"{folder} has marks of tasks, which the suite does not merge")
        rows = content.rows_in_order(root / folder, revision, merging.key_of(base), where.options)
        behind = {index: _covered(root, base, index, region_id) for index in maintained(base)}
        _upsert(root, content.fold(rows, merging.key_of(base)), merging.key_of(base))
        progress = merging.MergeStep(region_id=region_id, generation=listed.number, behind=behind)
        following = merging.merged(base, store_what_is_new(), progress)
    return commit(where, following)


def _upsert(root: Path, state: content.State, key: Sequence[str]) -> None:
    """Deletes, which revision R has, and then the newest row of each other key."""
    dataset = lance.dataset(str(root))
    gone = [dict(zip(key, values, strict=True)) for values, row in state.items() if row is None]
    if gone:
        merge: Any = dataset.merge_insert(list(key))
        keys = pa.schema([dataset.schema.field(name) for name in key])
        merge.when_matched_delete().execute(pa.Table.from_pylist(gone, schema=keys))
    rows = [row for row in state.values() if row is not None]
    if rows:
        merge = lance.dataset(str(root)).merge_insert(list(key))
        merge.when_matched_update_all().when_not_matched_insert_all().execute(
            pa.Table.from_pylist(rows, schema=dataset.schema)
        )


def maintained(base: bytes) -> list[str]:
    """Names of the maintained indexes of a table version."""
    return [name for details in table.table_manifest(base).memwal for name in details.maintained_indexes]


def _covered(root: Path, base: bytes, index: str, region_id: str) -> int:
    """Up to which generation an index without an entry covers the base: all that is merged, if it lacks no row."""
    try:
        return 0 if table.unindexed_rows(root, index) else _progress(base, region_id)
    except DamagedBytes:
        return 0
