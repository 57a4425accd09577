"""Writers that take a sequence, and marks of finished tasks: the capabilities ``sequence.*`` and ``task.*``."""

from __future__ import annotations

import memwal
from memwal.codec import marks
from memwal.codec.marks import Mark

from memwal_conformance import cells
from memwal_conformance.adapters.reference_state import ReferenceState
from memwal_conformance.protocol import Json


def sequence_open(state: ReferenceState, params: Json) -> Json:
    table = memwal.open(params["table"], revision=state.revision, storage_options=state.storage, profile=state.profile)
    region = params.get("region_id") or table.register_region()
    limits = memwal.Limits(wal_interval_ms=None)
    writer = table.writer(region, limits=limits, background=False, sequence_by=params["sequence_by"])
    handle = state.handle("writer")
    state.writers[handle] = writer
    return {"writer": handle, "region_id": writer.region_id, "epoch": str(writer.epoch)}


def sequence_put(state: ReferenceState, params: Json) -> Json:
    return {"late": state.writer(params).put(cells.to_table(params["rows"]), durable=True).late}


def sequence_delete(state: ReferenceState, params: Json) -> Json:
    return {"late": state.writer(params).delete(cells.to_table(params["keys"]), durable=True).late}


def task_finish(state: ReferenceState, params: Json) -> Json:
    state.writer(params).finish(params["application"], params["batch"], params["partition"])
    return {}


def task_done(state: ReferenceState, params: Json) -> Json:
    task = Mark(application=params["application"], batch=params["batch"], partitions=(params["partition"],))
    return {"done": marks.is_done(state.table(params).done(params["region_id"]), task)}
