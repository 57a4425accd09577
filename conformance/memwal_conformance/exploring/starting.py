"""What a life begins with: its table, its regions, and processes of the adapter that are set up for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memwal_sim.store import Contents

from ..adapters.harness import Harness
from ..adapters.process import AdapterProcess
from ..gate import Gate, GateLimits
from ..protocol import Json
from ..running.testbed import FOLDER, storage_of
from . import tables
from .lives import ForeignLife

LIMITS = GateLimits(life_s=900, log_entries=5_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The table that a life begins with, and its regions; none if the life makes them."""

    contents: Contents
    region_ids: Mapping[int, str]
    """Region -> its id."""


def table_of(life: ForeignLife) -> tuple[object, ...]:
    """What lives that begin with the same table have in common."""
    of_rows = life.append_only, life.indexed, life.sequenced, life.by_text, life.textless
    return *of_rows, life.new_region, life.regions


def started(harness: Harness, revision: str, life: ForeignLife) -> Start:
    """A new table, and its regions unless the life makes one. Raises what a broken adapter raises."""
    with Gate(limits=LIMITS) as gate:
        process = harness.actor("maker", revision)
        try:
            process.call("configure", configured(harness, revision, life) | {"storage": storage_of(gate, "maker")})
            table = f"s3://{gate.bucket}/{FOLDER}"
            process.call("table.create", {"table": table, **tables.made(life)})
            regions: dict[int, str] = {}
            for region in range(1, 1 if life.new_region else life.regions + 1):
                opened = process.call("writer.open", {"table": table, **tables.of_region(life, region)})
                regions[region] = opened["region_id"]
                process.call("writer.close", {"writer": opened["writer"]})
            contents = gate.contents
            leave(process, harness, revision, life)
        except BaseException:
            process.kill()
            raise
        harness.finish(process)
        return Start(contents=contents, region_ids=regions)


def configured(harness: Harness, revision: str, life: ForeignLife) -> Json:
    """What `configure` says for a life: what the user says, and that its table is append-only."""
    settings = {**harness.settings, **({"append_only": "on"} if life.append_only else {})}
    found: Json = {"revision": revision, "settings": settings}
    return found | ({"rows": "ipc"} if "rows.ipc" in harness.hello().capabilities else {})


def leave(process: AdapterProcess, harness: Harness, revision: str, life: ForeignLife) -> None:
    """Have a process drop what is open, while the gate still answers what it has to say."""
    process.call("configure", configured(harness, revision, life))


def limits_of(rows: int | None) -> Json:
    """What `writer.open` is told of the MemTable; None: no limit."""
    return {} if rows is None else {"memtable_rows": rows}
