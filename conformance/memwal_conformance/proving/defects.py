"""Defects that any implementation could have, planted in the reference adapter; the suite must fail each.

A defect names the case that has to fail, and the clause that this case has to name.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import mmh3
import pyarrow as pa
import pyarrow.compute as pc
from memwal.codec.marks import Mark
from memwal.codec.region_manifest import RegionManifest
from memwal.effects import Io
from memwal.errors import MemwalError, StorageError
from memwal.ids import Generation
from memwal.region import claim as claiming
from memwal.region.memtable import MemTable
from memwal.region.region import Region
from memwal.region.sequences import Comparison, Sequences
from memwal.region.writer import RegionWriter
from memwal.table.state import TableState, latest

from memwal_conformance import cells
from memwal_conformance.adapters.serve import Handler
from memwal_conformance.protocol import Json

Handlers = dict[str, Handler]


def _drops_puts(handlers: Handlers) -> None:
    put, calls = handlers["writer.put"], iter(range(1_000_000))
    handlers["writer.put"] = lambda params: {} if next(calls) % 2 else put(params)


def _acknowledges_early(handlers: Handlers) -> None:
    put = handlers["writer.put"]
    handlers["writer.put"] = lambda params: put(params | {"durable": False})


def _halves_puts(handlers: Handlers) -> None:
    put, sync = handlers["writer.put"], handlers["writer.flush_wal"]

    def halved(params: Json) -> Json:
        rows = params["rows"]["rows"]
        for part, last in ((rows[: len(rows) // 2], False), (rows[len(rows) // 2 :], True)):
            if part:
                put(params | {"rows": params["rows"] | {"rows": part}})
                if not last:
                    sync({"writer": params["writer"]})
        return {}

    handlers["writer.put"] = halved


_claimed, _flush_oldest = claiming.claimed, RegionWriter.flush_oldest


def _keeps_epoch(current: RegionManifest | None, region: Region) -> RegionManifest:
    wanted = _claimed(current, region)
    return wanted if current is None else replace(wanted, epoch=current.epoch)


def _unasserted(*_: object) -> None:
    """In place of asserting what each step changes: the reference would notice by itself, which others need not."""


def _stale_scan(handlers: Handlers) -> None:
    tables, scan = _remembered(handlers), handlers["reader.scan"]

    def stale(params: Json) -> Json:
        newest = cells.to_table(scan(params)["rows"])
        base = lance.dataset(tables[params["reader"]]).to_table(columns=newest.column_names)
        key = newest.column_names[0]
        others = newest.filter(pc.invert(pc.is_in(newest[key], value_set=base[key].combine_chunks())))
        old = base.filter(pc.is_in(base[key], value_set=newest[key].combine_chunks())).cast(newest.schema)
        return {"rows": cells.to_rows(pa.concat_tables([others, old]))}

    handlers["reader.scan"] = stale


def _collects_early(handlers: Handlers) -> None:
    collect = handlers["gc.run"]

    def early(params: Json) -> Json:
        for folder in Path(params["table"]).glob("_mem_wal/*/*_gen_*"):
            shutil.rmtree(folder)
        return collect(params)

    handlers["gc.run"] = early


def _plain_names(handlers: Handlers) -> None:
    name = handlers["eval.name"]

    def unreversed(params: Json) -> Json:
        stem, _, suffix = name(params)["name"].partition(".")
        return {"name": f"{stem[::-1]}.{suffix}"}

    handlers["eval.name"] = unreversed


def _seeded_hash(handlers: Handlers) -> None:
    murmur = handlers["eval.hash"]

    def seeded(params: Json) -> Json:
        (first, *_) = params["values"]
        if first["t"] == "utf8" and first["v"] is not None and params["function"] == "murmur3":
            return {"hash": mmh3.hash(first["v"].encode(), seed=42, signed=True)}
        return murmur(params)

    handlers["eval.hash"] = seeded


def _trusts_bytes(handlers: Handlers) -> None:
    decode = handlers["eval.decode"]
    handlers["eval.decode"] = lambda params: decode(params | ({"path": "x"} if "path" in params else {}))


def _swallows_epoch(handlers: Handlers) -> None:
    encode = handlers["eval.encode"]

    def swallowed(params: Json) -> Json:
        return encode({"manifest": params["manifest"] | {"writer_epoch": "0"}} if "manifest" in params else params)

    handlers["eval.encode"] = swallowed


def _limits_first(handlers: Handlers) -> None:
    tables, scan = _remembered(handlers), handlers["reader.scan"]

    def limited(params: Json) -> Json:
        newest = scan({name: value for name, value in params.items() if name != "limit"})
        if "limit" not in params:
            return newest
        base = lance.dataset(tables[params["reader"]]).to_table()
        first = cells.to_rows(base.slice(0, params["limit"]))["rows"]
        rows = newest["rows"]["rows"]
        return {"rows": newest["rows"] | {"rows": [row for row in rows if row in first]}}

    handlers["reader.scan"] = limited


def _hides_what_it_flushes(handlers: Handlers) -> None:
    opened, put, scan = handlers["writer.open"], handlers["writer.put"], handlers["reader.scan"]
    tables = _remembered(handlers)
    limits: dict[str, int | None] = {}
    full: set[str] = set()

    def open_(params: Json) -> Json:
        answer = opened(params)
        limits[answer["writer"]] = params.get("memtable_rows")
        return answer

    def fill(params: Json) -> Json:
        limit = limits[params["writer"]]
        if limit is not None and len(params["rows"]["rows"]) >= limit:
            full.add(params["writer"])
        return put(params)

    def seen(params: Json) -> Json:
        if full.isdisjoint(params.get("writers", ())):
            return scan(params)
        return {"rows": cells.to_rows(lance.dataset(tables[params["reader"]]).to_table())}

    handlers["writer.open"], handlers["writer.put"], handlers["reader.scan"] = open_, fill, seen


def _merges_again(handlers: Handlers) -> None:
    merge = handlers["merge.run"]

    def again(params: Json) -> Json:
        answer = merge(params)
        if "generation" in params:
            (folder,) = Path(params["table"]).glob(f"_mem_wal/{params['region_id']}/*_gen_{params['generation']}")
            base = lance.dataset(params["table"])
            upsert = base.merge_insert(base.schema.names[0]).when_matched_update_all().when_not_matched_insert_all()
            upsert.execute(lance.dataset(str(folder)).to_table().select(base.schema.names))
        return answer

    handlers["merge.run"] = again


def _searches_the_base(handlers: Handlers) -> None:
    tables = _remembered(handlers)

    def search(params: Json) -> Json:
        base = lance.dataset(tables[params["reader"]])
        query = pa.array([float(number) for number in params["vector"]], pa.float32())
        found = base.to_table(nearest={"column": params["column"], "q": query, "k": params["k"]})
        return {"rows": cells.to_rows(found.select(base.schema.names))}

    handlers["reader.search"] = search


def _acknowledges_ahead(handlers: Handlers) -> None:
    put = handlers["writer.put"]

    def unheard(params: Json) -> None:
        with suppress(MemwalError):  # the case may end first, and its store with it
            put(params)

    def ahead(params: Json) -> Json:
        threading.Thread(target=unheard, args=(params,), daemon=True).start()
        return {}

    handlers["writer.put"] = ahead


async def _passes_over_failed_flushes(self: RegionWriter) -> Generation | None:
    current = self.manifest.generation_current
    waiting = [memtable for memtable in self.frozen if memtable.generation >= current]
    self.frozen = tuple(replace(m, generation=Generation(current + i)) for i, m in enumerate(waiting))
    try:
        return await _flush_oldest(self)
    except StorageError:
        self.failures.clear()
        self.frozen = self.frozen[1:]
        return None


async def _compares_with_its_own(self: Comparison, held: Callable[[], Sequence[MemTable]], _rows: pa.Table) -> None:
    if self.known is None:
        self.known = Sequences(self.key, self.sequence.column, (await self.stored(held(), True)).slice(0, 0))


async def _records_no_marks(io: Io, *_: object) -> TableState:
    return await latest(io)


def _only_this_batch(marks: Iterable[Mark], wanted: Mark) -> bool:
    return any(mark.batch == wanted.batch and set(wanted.partitions) <= set(mark.partitions) for mark in marks)


def _remembered(handlers: Handlers) -> dict[str, str]:
    """Handle of a reader -> its table, from now on."""
    opened = handlers["reader.open"]
    tables: dict[str, str] = {}

    def remember(params: Json) -> Json:
        answer = opened(params)
        tables[answer["reader"]] = params["table"]
        return answer

    handlers["reader.open"] = remember
    return tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A planted defect, and where the suite must find it."""

    plant: Callable[[Handlers], None] = lambda _: None
    """Changes handlers of the adapter."""
    replaced: Mapping[str, Callable[..., Any] | property] = field(default_factory=dict)
    """What stands in the engine instead, as `memwal_sim.bugs.Bug.replaced` has it."""
    sentence: str
    case: str
    """A case that must fail, as pytest names it below ``conformance/``."""
    clause: str
    """A clause that this case must report as broken."""


DEFECTS: dict[str, Defect] = {
    "drops_puts": Defect(
        plant=_drops_puts,
        sentence="Every second put is acknowledged and forgotten.",
        case="scenarios/durable_put_survives_kill.json::B",
        clause="WAL-001",
    ),
    "acknowledges_early": Defect(
        plant=_acknowledges_early,
        sentence="A durable put is acknowledged while it is only in memory.",
        case="scenarios/durable_put_survives_kill.json::A",
        clause="WAL-001",
    ),
    "halves_puts": Defect(
        plant=_halves_puts,
        sentence="One put becomes two WAL entries.",
        case="scenarios/buffered_put_vanishes_whole.json::B",
        clause="WAL-032",
    ),
    "keeps_epoch": Defect(
        replaced={"memwal.region.claim:claimed": _keeps_epoch, "memwal.region.transitions:check": _unasserted},
        sentence="A claim does not raise the epoch.",
        case="scenarios/second_writer_fences_first.json::B",
        clause="FENCE-005",
    ),
    "stale_scan": Defect(
        plant=_stale_scan,
        sentence="A scan gives the base table's row where there is one.",
        case="scenarios/last_write_wins_through_all_levels.json::R",
        clause="READ-002",
    ),
    "collects_early": Defect(
        plant=_collects_early,
        sentence="The collector removes generations that are not merged.",
        case="scenarios/collector_keeps_unmerged.json::B",
        clause="GC-001",
    ),
    "plain_names": Defect(
        plant=_plain_names,
        sentence="Names are binary digits, most significant first.",
        case="vectors/B/name/wal_entries/case.json::eval",
        clause="WAL-013",
    ),
    "seeded_hash": Defect(
        plant=_seeded_hash,
        sentence="The hash of text has seed 42.",
        case="vectors/A/hash/text/case.json::eval",
        clause="REGION-035",
    ),
    "trusts_bytes": Defect(
        plant=_trusts_bytes,
        sentence="A manifest is not held against its path.",
        case="vectors/A/invalid/manifest_of_another_region/case.json::decode",
        clause="MANIFEST-003",
    ),
    "swallows_epoch": Defect(
        plant=_swallows_epoch,
        sentence="Manifests are written without the epoch.",
        case="vectors/A/manifest/generations/case.json::encode",
        clause="MANIFEST-006",
    ),
    "limits_first": Defect(
        plant=_limits_first,
        sentence="A scan takes the limit before superseded rows are dropped.",
        case="scenarios/a_limit_counts_newest_rows_only.json::B",
        clause="READ-001",
    ),
    "hides_what_it_flushes": Defect(
        plant=_hides_what_it_flushes,
        sentence="A MemTable that is being flushed takes part in no scan.",
        case="scenarios/a_full_memtable_stays_visible.json::R",
        clause="READ-006",
    ),
    "merges_again": Defect(
        plant=_merges_again,
        sentence="A merger that is asked for a generation merges it, whatever has been merged.",
        case="scenarios/a_merged_generation_is_not_merged_again.json::A",
        clause="MERGE-019",
    ),
    "acknowledges_ahead": Defect(
        plant=_acknowledges_ahead,
        sentence="A durable put is acknowledged while its entry is on the way to the store.",
        case="scenarios/gate/put_after_a_rotation_waits_for_its_entry.json::B",
        clause="WRITER-019",
    ),
    "passes_over_failed_flushes": Defect(
        replaced={"memwal.region.writer:RegionWriter.flush_oldest": _passes_over_failed_flushes},
        sentence="A MemTable whose flush failed is left behind, and the next one is flushed in its place.",
        case="scenarios/gate/failed_flush_is_not_passed_over.json::B",
        clause="WAL-001",
    ),
    "searches_the_base": Defect(
        plant=_searches_the_base,
        sentence="A vector search looks at the base table only.",
        case="scenarios/a_vector_search_finds_newest_rows.json::B",
        clause="READ-002",
    ),
    "keeps_late_rows": Defect(
        replaced={"memwal.region.sequences:Comparison.admitted": lambda _, rows: (rows, None)},
        sentence="A writer that takes a sequence puts whatever it is given.",
        case="scenarios/a_late_row_is_left_out.json::B",
        clause="AMB-148",
    ),
    "compares_with_its_own": Defect(
        replaced={"memwal.region.sequences:Comparison.ready": _compares_with_its_own},
        sentence="A writer that takes a sequence compares with the rows that it has put itself.",
        case="scenarios/a_late_row_is_known_after_flush_merge_and_collection.json::B",
        clause="AMB-148",
    ),
    "deletes_whatever_it_is_told": Defect(
        replaced={"memwal.region.sequences:Comparison.admitted": lambda _, rows: (rows, None)},
        sentence="A delete takes effect whatever its sequence is.",
        case="scenarios/a_delete_has_a_sequence.json::R",
        clause="AMB-148",
    ),
    "records_no_marks": Defect(
        replaced={"memwal.table.marks:record": _records_no_marks},
        sentence="A merge leaves the marks of finished tasks behind in the generation.",
        case="scenarios/a_finished_task_is_known_to_later_attempts.json::B",
        clause="AMB-149",
    ),
    "knows_only_this_batch": Defect(
        replaced={"memwal.codec.marks:is_done": _only_this_batch},
        sentence="A batch is not refused where a later one is finished.",
        case="scenarios/a_finished_task_is_known_to_later_attempts.json::A",
        clause="AMB-149",
    ),
}
"""Name of a defect -> the defect."""
