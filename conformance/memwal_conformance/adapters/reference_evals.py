"""The ``eval`` messages, answered by the codecs of the reference engine."""

from __future__ import annotations

import base64

from memwal import paths
from memwal.codec import bloom
from memwal.ids import ManifestVersion, TableVersion, WalPosition
from memwal.revision_0 import records

from memwal_conformance import cells
from memwal_conformance.adapters import reference_views as views
from memwal_conformance.adapters.reference_state import ReferenceState
from memwal_conformance.protocol import Json


def eval_name(state: ReferenceState, params: Json) -> Json:
    number = int(params["number"])
    names = {
        "wal": paths.wal(WalPosition(number), state.revision.wal_suffix),
        "manifest": paths.manifest(ManifestVersion(number)),
        "table_manifest": paths.table_manifest(TableVersion(number)),
    }
    return {"name": names[params["kind"]].rpartition("/")[2]}


def eval_hash(state: ReferenceState, params: Json) -> Json:
    return {"hash": views.hash_of(params["function"], params["values"], state.revision)}


def eval_region(state: ReferenceState, params: Json) -> Json:
    return {"values": views.region_values(params["spec"], params["field_ids"], params["rows"], state.revision)}


def eval_decode(state: ReferenceState, params: Json) -> Json:
    data = base64.b64decode(params["data"])
    kind: str = params["kind"]
    path: str = params.get("path", kind)
    return {kind: views.DECODERS[kind](data, state.revision, path)}


def eval_encode(state: ReferenceState, params: Json) -> Json:
    ((kind, view),) = params.items()
    return {"data": base64.b64encode(views.ENCODERS[kind](view, state.revision)).decode()}


def eval_bloom(state: ReferenceState, params: Json) -> Json:
    keys = cells.to_table(params["keys"])
    if "data" not in params:
        return {"data": base64.b64encode(bloom.encode(keys, state.revision)).decode()}
    stored = bloom.decode(base64.b64decode(params["data"]), state.revision, "bloom_filter.bin")
    return {"perhaps": [bool(answer) for answer in stored.might_contain(keys)]}


def eval_legacy(_state: ReferenceState, params: Json) -> Json:
    if "data" in params:
        found = records.decode(base64.b64decode(params["data"]), "index_details")
        return {"records": [views.record_view(record) for record in found]}
    return {"data": base64.b64encode(records.encode(tuple(map(views.record_of, params["records"])))).decode()}
