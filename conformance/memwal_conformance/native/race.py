"""Processes of the native package write to one shard, interleaved request by request at the gate.

``python -m memwal_conformance.native.race FOLDER --schedules N --writers 3``: seeded schedules over puts of WAL entries
and manifests (and, in some, of SSTables). Each is judged by what one more writer leaves after recovery: an acknowledged
row is there once, another once or not at all. Writes a line for each schedule, and steps and request log of a bad one.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memwal_sim.store import Contents

from ..adapters import versions
from ..adapters.process import AdapterProcess
from ..gate import Address, Gate, GateLimits, Schedule
from ..gate.log import text_of
from ..gate.schedule import Step, Stuck
from ..protocol import AdapterError, Json
from . import life
from .life import REGION, Kind

KINDS = (Kind(append_only=True, http_retries=0), Kind(append_only=False, http_retries=0))
_LIMIT_S = 30.0


@dataclass(slots=True)
class _Writer:
    """One of them."""

    process: AdapterProcess
    table: str
    promised: list[int]
    handle: str = ""
    refused: list[str] = field(default_factory=list)

    def open(self) -> None:
        self.handle = ""
        self.handle = self._call("writer.open", {"table": self.table, "new_region_id": REGION}).get("writer", "")

    def put(self, number: int) -> None:
        rows = life.rows_of([number])
        if self.handle and "error" not in self._call(
            "writer.put", {"writer": self.handle, "rows": rows, "durable": True}
        ):
            self.promised.append(number)

    def close(self) -> None:
        if self.handle:
            self._call("writer.close", {"writer": self.handle})
            self.handle = ""

    def _call(self, message: str, params: Json) -> Json:
        try:
            return self.process.call(message, params)
        except AdapterError as error:
            self.refused.append(f"{message}: {error}")
            return {"error": str(error)}


def operations(writer: _Writer, first: int, chance: random.Random) -> list[Callable[[], Any]]:
    """A claim, puts of rows from ``first`` on, a close; and, for some, another claim, a put, a close."""

    def put(number: int) -> Callable[[], None]:
        return lambda: writer.put(number)

    found = [writer.open, *(put(first + n) for n in range(chance.randint(1, 3))), writer.close]
    return found + ([writer.open, put(first + 9), writer.close] if chance.random() < 0.3 else [])


def gated(actors: Sequence[str], chance: random.Random) -> list[Address]:
    """What the schedule decides about."""
    wanted = ["wal", "manifest", *(["generation"] if chance.random() < 0.4 else [])]
    return [Address(actor=a, class_=c, operation="CREATE", occurrence=None) for a in actors for c in wanted]


def run(
    command: Sequence[str], kind: Kind, start: Contents, seed: int, folder: Path, *, number: int = 2
) -> dict[str, Any]:
    """One schedule of ``number`` writers, and what is wrong after it."""
    chance = random.Random(seed)
    actors = [f"writer-{n}" for n in range(1, number + 1)]
    about: dict[str, Any] = {"kind": str(kind), "seed": seed, **({} if number == 2 else {"writers": number})}
    promised: list[int] = []
    with ExitStack() as stack:
        gate = stack.enter_context(Gate(start, limits=GateLimits(life_s=300)))
        settings = {**kind.settings, "storage.timeout": "30s", "storage.client_max_retries": "0"}
        settings["storage.aws_region"] = gate.region
        writers = {}
        for actor in actors:
            environment = life.environment(gate, actor)
            process = stack.enter_context(life.adapter(command, settings, environment))
            writers[actor] = _Writer(process, f"s3://{gate.bucket}/t", promised)
        schedule = Schedule(gate, gated(actors, chance), settle_ms=4, limit_s=_LIMIT_S)
        pace = {actor: chance.choice((1, 3, 6)) for actor in actors}

        def choose(steps: Sequence[Step]) -> Step:
            paces = [pace[step.get("go") or step["release"]] for step in steps]
            return chance.choices(steps, paces)[0]

        work = {actor: operations(writers[actor], 10 * (n + 1), chance) for n, actor in enumerate(actors)}
        try:
            results: dict[str, list[Future[Any]]] = schedule.run(work, choose)
        except Stuck as stuck:  # nothing can be said then
            schedule.free()
            return {**about, "stuck": str(stuck), "steps": len(schedule.steps), "wrong": []}
        for future in (future for futures in results.values() for future in futures):
            future.result(_LIMIT_S)
        schedule.free()
        wrong = sorted(wrong_after(command, kind, gate.contents, promised))
        told = {
            **about,
            "promised": promised,
            "refused": [text for writer in writers.values() for text in writer.refused],
            "steps": len(schedule.steps),
            "wrong": wrong,
        }
        if wrong or gate.inconclusive:
            name = f"race-{'append' if kind.append_only else 'key'}-{seed}{'' if number == 2 else f'-of-{number}'}"
            (folder / f"{name}.log").write_text(text_of(gate.log), encoding="utf-8")
            (folder / f"{name}.json").write_text(json.dumps(schedule.steps) + "\n", encoding="utf-8")
            told["log"] = f"{name}.log"
        return told


def wrong_after(command: Sequence[str], kind: Kind, contents: Contents, promised: Sequence[int]) -> Iterator[str]:
    """What one more writer makes of the store, counted."""
    with tempfile.TemporaryDirectory(prefix="memwal-race-", ignore_cleanup_errors=True) as scratch:
        life.save(contents, Path(scratch))
        with life.adapter(command, kind.settings, {}) as recoverer:
            for where, seen in life.recovered(recoverer, Path(scratch) / "t", kind):
                counts = Counter(seen)
                for number in sorted({*promised, *counts, *life.BASE}):
                    least = int(number in promised or number in life.BASE)
                    if not least <= counts[number] <= 1:
                        acknowledged = "acknowledged" if least else "not acknowledged"
                        yield f"{where}: row {number}, {acknowledged}, is there {counts[number]} times"


def main() -> int:
    """The command line. Exit status 1 if something was wrong, 2 if the version cannot be run."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m memwal_conformance.native.race")
    parser.add_argument("folder", type=Path, help="where the findings go; it is made")
    parser.add_argument("--native-version", metavar="X", help="pylance==X in an environment of its own")
    parser.add_argument("--schedules", type=int, default=20, metavar="N", help="how many for each kind of table")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--writers", type=int, default=2, choices=range(2, 9), metavar="N", help="how many processes")
    asked = parser.parse_args()
    try:
        command = versions.command(asked.native_version)
    except versions.NotInstalled as error:
        sys.stderr.write(f"{error}\n")
        return 2
    logs = asked.folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    bad = False
    with (asked.folder / "races.jsonl").open("w", encoding="utf-8") as lines:
        for kind in KINDS:
            start = life.created(command, kind)
            for seed in range(asked.first, asked.first + asked.schedules):
                told = run(command, kind, start, seed, logs, number=asked.writers)
                bad = bad or bool(told["wrong"])
                lines.write(json.dumps(told) + "\n")
                lines.flush()
                verdict = "; ".join(told["wrong"]) or told.get("stuck", "right")
                sys.stdout.write(f"{kind}; seed {seed}: {verdict}\n")
                sys.stdout.flush()
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
