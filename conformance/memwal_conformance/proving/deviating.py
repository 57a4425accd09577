"""Deviations of the reference adapter that the suite has to tell apart: what the texts permit, and what they forbid.

Which is which, and what the suite has to say of it, is in ``conformance/deviations.toml`` (`deviations`); another
subject has the same ones under the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import pyarrow as pa
from memwal import paths
from memwal.api.writer import Writer
from memwal.codec import region_manifest, wal
from memwal.codec.region_manifest import RegionManifest
from memwal.codec.wal import WalEntry
from memwal.effects import Io
from memwal.errors import AlreadyExists, Fenced, OutcomeUnknown
from memwal.ids import Epoch, ManifestVersion, SpecId
from memwal.read import collection
from memwal.read.sources import MemoryView
from memwal.read.view import View
from memwal.region import claim as claiming
from memwal.region import manifest as manifests
from memwal.region import recovery
from memwal.region.region import Region
from memwal.region.writer import RegionWriter
from memwal.revisions import Revision

from memwal_conformance.adapters.reference_state import ReferenceState
from memwal_conformance.protocol import AdapterError, Json
from memwal_conformance.proving.defects import Handlers

Replaced = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """How the reference comes to deviate."""

    plant: Callable[[Handlers], None] = lambda _: None
    """Changes handlers of the adapter."""
    replaced: Replaced = field(default_factory=dict)
    """What stands in the engine instead, as `memwal_sim.bugs.Bug.replaced` has it."""


# --- what the adapter does when it is asked -----------------------------------------------------------------------


def _flushes_at_close(handlers: Handlers) -> None:
    flush, close = handlers["writer.flush_memtable"], handlers["writer.close"]

    def closing(params: Json) -> Json:
        try:
            flush(params)
        finally:
            answer = close(params)
        return answer

    handlers["writer.close"] = closing


def _flushes_every_put(handlers: Handlers) -> None:
    _then(handlers, "writer.put", lambda params, _: handlers["writer.flush_memtable"]({"writer": params["writer"]}))


def _flushes_after_recovery(handlers: Handlers) -> None:
    _then(handlers, "writer.open", lambda _, told: handlers["writer.flush_memtable"]({"writer": told["writer"]}))


def _stores_buffered_puts(handlers: Handlers) -> None:
    put = handlers["writer.put"]
    handlers["writer.put"] = lambda params: put(params | {"durable": True})


def _gives_rows_backwards(handlers: Handlers) -> None:
    scan = handlers["reader.scan"]

    def backwards(params: Json) -> Json:
        rows = scan(params)["rows"]
        return {"rows": rows | {"rows": rows["rows"][::-1]}}

    handlers["reader.scan"] = backwards


def _says_floats_shortly(handlers: Handlers) -> None:
    for name in ("reader.scan", "reader.get"):
        handlers[name] = _with_short_floats(handlers[name])


def _with_short_floats(read: Callable[[Json], Json]) -> Callable[[Json], Json]:
    def told(params: Json) -> Json:
        rows = read(params)["rows"]
        return {"rows": rows | {"rows": [[_short(cell) for cell in row] for row in rows["rows"]]}}

    return told


def _short(cell: Json) -> Json:
    if cell["t"] != "float32" or cell["v"] is None or not math.isfinite(float(cell["v"])):
        return cell
    return cell | {"v": f"{float(cell['v']):.9g}"}  # nine digits tell any two numbers of binary32 apart


def _reads_manifests_only(handlers: Handlers) -> None:
    opened = handlers["reader.open"]
    handlers["reader.open"] = lambda params: opened(params | {"consistency": "strong"})


def _says_internal_of_every_stop(handlers: Handlers) -> None:
    for name in ("writer.open", "writer.put", "writer.flush_wal", "writer.flush_memtable", "writer.close"):
        handlers[name] = _vague(handlers[name])


def _vague(honest: Callable[[Json], Json]) -> Callable[[Json], Json]:
    def vague(params: Json) -> Json:
        try:
            return honest(params)
        except Fenced as fenced:
            raise AdapterError("internal", f"cannot continue: {fenced}") from fenced

    return vague


def _wrong_bucket(handlers: Handlers) -> None:
    region = handlers["eval.region"]

    def moved(params: Json) -> Json:
        values = region(params)["values"]
        hashed = [(field.get("transform") or "").endswith("bucket") for field in params["spec"]["fields"]]
        return {"values": [[_moved(c) if h else c for c, h in zip(row, hashed, strict=True)] for row in values]}

    handlers["eval.region"] = moved


def _is_not_asked_about_filters(handlers: Handlers) -> None:
    hello = handlers["hello"]

    def modest(params: Json) -> Json:
        told = hello(params)
        return told | {"capabilities": [each for each in told["capabilities"] if each != "eval.bloom"]}

    handlers["hello"] = modest
    del handlers["eval.bloom"]


def _makes_regions_that_are_not_there(handlers: Handlers) -> None:
    honest = handlers["writer.open"]

    def generous(params: Json) -> Json:
        return honest({"new_region_id" if name == "region_id" else name: value for name, value in params.items()})

    handlers["writer.open"] = generous


def _hides_memory_after_a_merge(handlers: Handlers) -> None:
    merge = cast("partial[Json]", handlers["merge.run"])
    state: ReferenceState = merge.args[0]

    def hide(_: Json) -> None:
        for writer in state.writers.values():
            vars(writer)["memory"] = partial(MemoryView, writer.region_id, writer.epoch, (), {})

    _first(handlers, "merge.run", hide)


def _moved(cell: Json) -> Json:
    return cell if cell["v"] is None else cell | {"v": str(int(cell["v"]) + 1)}


def _first(handlers: Handlers, name: str, does: Callable[[Json], object]) -> None:
    honest = handlers[name]

    def after(params: Json) -> Json:
        does(params)
        return honest(params)

    handlers[name] = after


def _then(handlers: Handlers, name: str, does: Callable[[Json, Json], object]) -> None:
    honest = handlers[name]

    def before(params: Json) -> Json:
        told = honest(params)
        does(params, told)
        return told

    handlers[name] = before


# --- what the engine stores ---------------------------------------------------------------------------------------

_encode_entry, _encode_manifest = wal.encode, region_manifest.encode
_FOREIGN = bytes([0xA2, 0x38, 7]) + b"foreign"
"""Field 900 of a message, with a text."""


def _entries(change: Callable[[pa.Table], pa.Table], **options: Any) -> Replaced:
    """Entries of revisions B and R written once more: ``change`` of their rows, options of the stream."""

    def encode(entry: WalEntry, revision: Revision) -> bytes:
        data = _encode_entry(entry, revision)
        if revision.wal_container != "arrow":
            return data
        rows = change(pa.ipc.open_stream(data).read_all())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(rows)
        stored: bytes = sink.getvalue().to_pybytes()
        return stored

    return {"memwal.codec.wal:encode": encode}


def _more_metadata(rows: pa.Table) -> pa.Table:
    return rows.replace_schema_metadata({**rows.schema.metadata, b"of another program": b"yes"})


def _single_rows(rows: pa.Table) -> pa.Table:
    return pa.Table.from_batches([b for i in range(rows.num_rows) for b in rows.slice(i, 1).to_batches()], rows.schema)


def _dated_back(entry: WalEntry, revision: Revision) -> bytes:
    return _encode_entry(replace(entry, epoch=Epoch(max(1, entry.epoch - 1))), revision)


def _first_dated_back(entry: WalEntry, revision: Revision) -> bytes:
    """The entry with the key 7, and those without rows: in the case that tells, the first ones of the second claim."""
    back = 7 in entry.rows.column(0).to_pylist() or not entry.rows.num_rows
    return _dated_back(entry, revision) if back else _encode_entry(entry, revision)


def _foreign_fields(manifest: RegionManifest, revision: Revision) -> bytes:
    data = _encode_manifest(manifest, revision)
    return data if _FOREIGN in data else data + _FOREIGN


def _spelled_out(version: ManifestVersion) -> bytes:
    return f'{{\n  "by": "another program",\n  "version": {version}\n}}\n'.encode()


async def _unless_busy(writer: RegionWriter, *, trigger: Any = None) -> None:
    if not writer.storing.taken:
        async with writer.storing:
            await writer._store_waiting(trigger)


def _nothing_while_busy(writer: Writer) -> MemoryView:
    held = () if writer._writer.storing.taken else writer._writer.unflushed()
    return MemoryView(writer.region_id, writer.epoch, tuple((m.generation, m.table()) for m in held), {})


async def _no_hint(*_: object) -> None:
    """In place of putting the version hint."""


_advance_put = Io.put_if_absent


async def _hint_first(self: Io, name: str, data: bytes) -> None:
    version = paths.manifest_version(name.rpartition("/")[2]) if name.startswith("manifest/") else None
    if version is not None:
        await manifests.put_hint(self, version)
    await _advance_put(self, name, data)


# --- how the engine goes about it ---------------------------------------------------------------------------------

_claim, _claimed, _rebuilt, _collect = claiming.claim, claiming.claimed, recovery._rebuilt, collection.collect
_store_entry = RegionWriter._store_entry


async def _created_unclaimed(region: Region) -> RegionManifest:
    """A region is created under epoch 0 and claimed behind that; another one may create it first."""
    if await manifests.latest(region.io, region.revision) is None:
        first = replace(_claimed(None, region), epoch=Epoch(0))
        with suppress(AlreadyExists, OutcomeUnknown):
            await region.io.put_if_absent(paths.manifest(first.version), _encode_manifest(first, region.revision))
    return await _claim(region)


async def _listed(io: Io, revision: Revision, **_: object) -> RegionManifest | None:
    return await manifests.newest_listed(io, revision)


async def _verified_behind(self: RegionWriter, *more: Any) -> None:
    await _store_entry(self, *more)
    self.adopt(await claiming.verify_epoch(self.region, self.manifest))


def _of_a_spec_nobody_has(current: RegionManifest | None, region: Region) -> RegionManifest:
    wanted = _claimed(current, region)
    return replace(wanted, spec_id=SpecId(7)) if current is None else wanted


def _by_two(current: RegionManifest | None, region: Region) -> RegionManifest:
    wanted = _claimed(current, region)
    return wanted if current is None else replace(wanted, epoch=Epoch(wanted.epoch + 1))


def _without_the_tail(manifest: RegionManifest, schema: pa.Schema, replayed: Sequence[Any]) -> recovery.Recovered:
    kept = [*replayed[:-1], *(replace(last, rows=schema.empty_table()) for last in replayed[-1:])]
    return _rebuilt(manifest, schema, kept)


def _unasserted(*_: object) -> None:
    """In place of asserting what each step changes: the reference would notice by itself, which others need not."""


async def _with_any_memory(io: Io, view: View, memory: Sequence[MemoryView]) -> collection.Parts:
    stored = {region: manifest.epoch for region, manifest in view.manifests.items() if manifest is not None}
    return await _collect(io, view, [replace(each, epoch=stored.get(each.region_id, each.epoch)) for each in memory])


PLANTS: dict[str, Plant] = {
    "flushes_at_close": Plant(plant=_flushes_at_close),
    "flushes_every_put": Plant(plant=_flushes_every_put),
    "flushes_after_recovery": Plant(plant=_flushes_after_recovery),
    "stores_buffered_puts": Plant(plant=_stores_buffered_puts),
    "gives_rows_backwards": Plant(plant=_gives_rows_backwards),
    "says_floats_shortly": Plant(plant=_says_floats_shortly),
    "reads_manifests_only": Plant(plant=_reads_manifests_only),
    "says_internal_of_every_stop": Plant(plant=_says_internal_of_every_stop),
    "adds_metadata": Plant(
        replaced={**_entries(_more_metadata), "memwal.codec.region_manifest:encode": _foreign_fields}
    ),
    "joins_batches": Plant(replaced=_entries(pa.Table.combine_chunks)),
    "compresses_entries": Plant(replaced=_entries(lambda rows: rows, compression="zstd")),
    "spells_hints_out": Plant(replaced={"memwal.codec.hint:encode": _spelled_out}),
    "keeps_no_hint": Plant(replaced={"memwal.region.manifest:put_hint": _no_hint}),
    "writes_the_hint_first": Plant(replaced={"memwal.effects:Io.put_if_absent": _hint_first}),
    "lists_instead_of_probing": Plant(replaced={"memwal.region.manifest:latest": _listed}),
    "creates_then_claims": Plant(replaced={"memwal.region.claim:claim": _created_unclaimed}),
    "verifies_behind_each_entry": Plant(replaced={"memwal.region.writer:RegionWriter._store_entry": _verified_behind}),
    "acknowledges_beside_another_put": Plant(replaced={"memwal.region.writer:RegionWriter.flush_wal": _unless_busy}),
    "hides_memory_during_a_put": Plant(replaced={"memwal.api.writer:Writer.memory": _nothing_while_busy}),
    "makes_regions_that_are_not_there": Plant(plant=_makes_regions_that_are_not_there),
    "hides_memory_after_a_merge": Plant(plant=_hides_memory_after_a_merge),
    "batches_of_single_rows": Plant(replaced=_entries(_single_rows)),
    "any_bytes_for_a_filter": Plant(replaced={"memwal.codec.bloom:encode": lambda *_: b"anything"}),
    "any_bytes_that_nobody_asks_about": Plant(
        plant=_is_not_asked_about_filters, replaced={"memwal.codec.bloom:encode": lambda *_: b"anything"}
    ),
    "names_a_spec_nobody_has": Plant(replaced={"memwal.region.claim:claimed": _of_a_spec_nobody_has}),
    "raises_the_epoch_by_two": Plant(
        replaced={"memwal.region.claim:claimed": _by_two, "memwal.region.transitions:check": _unasserted}
    ),
    "drops_the_tail": Plant(replaced={"memwal.region.recovery:_rebuilt": _without_the_tail}),
    "dates_entries_back": Plant(replaced={"memwal.codec.wal:encode": _dated_back}),
    "dates_the_first_entries_back": Plant(replaced={"memwal.codec.wal:encode": _first_dated_back}),
    "reads_with_old_memory": Plant(replaced={"memwal.read.collection:collect": _with_any_memory}),
    "wrong_bucket": Plant(plant=_wrong_bucket),
}
"""Name of a deviation -> how the reference has it."""
