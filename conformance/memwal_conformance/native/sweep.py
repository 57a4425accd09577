"""Every fault at a change, times a crash at every later state: ``python -m memwal_conformance.native.sweep --help``.

Writes what was run and what was lost as JSON lines, and a request log for each run with a loss, into a folder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..adapters import versions
from ..gate import Do, FaultRule
from ..gate.log import text_of
from .life import WRITER, Kind, Loss, RecordedLife, adapter, changes, created, fault_order, faults, live, lost, report

KINDS = (
    Kind(append_only=True, http_retries=3),
    Kind(append_only=True, http_retries=0),
    Kind(append_only=False, http_retries=3),
)
"""An append-only table shows what a primary key hides."""


def sweep(command: Sequence[str], kind: Kind, folder: Path, *, every: int = 1) -> Iterator[dict[str, Any]]:
    """The life without faults, then under each fault (or each ``every``-th), with all later crashes."""
    start = created(command, kind)
    with adapter(command, kind.settings, {}) as recoverer:
        honest = live(command, kind, start)
        yield _told(kind, None, honest, lost(recoverer, honest), folder)
        for rule in faults(honest)[::every]:
            life = live(command, kind, start, [rule])
            met = fault_order(life, rule)
            losses = [] if met is None else lost(recoverer, life, met)
            yield _told(kind, rule, life, losses, folder)


def killed(command: Sequence[str], kind: Kind, folder: Path, *, every: int = 1) -> Iterator[dict[str, Any]]:
    """SIGKILL before and after each change (or each ``every``-th): what is left then."""
    start = created(command, kind)
    with adapter(command, kind.settings, {}) as recoverer:
        addresses = changes(live(command, kind, start))[::every]
        for rule in [FaultRule(at=at, do=do) for at in addresses for do in (Do.KILL_BEFORE, Do.KILL_AFTER)]:
            life = live(command, kind, start, [rule])
            last = life.states[-1]
            yield _told(kind, rule, life, lost(recoverer, life, last.order), folder)


def _told(
    kind: Kind, rule: FaultRule | None, life: RecordedLife, losses: Sequence[Loss], folder: Path
) -> dict[str, Any]:
    found: dict[str, Any] = {"fault": None if rule is None else rule.to_json(), **report(life, losses)}
    if life.inconclusive:
        found["inconclusive"] = life.inconclusive
    if losses:
        name = f"{'append' if kind.append_only else 'key'}-{kind.http_retries}-{rule.label if rule else 'no fault'}"
        file = folder / ("".join(c if c.isalnum() else "-" for c in name) + ".log")
        file.write_text(text_of(entry for entry in life.log if entry.actor == WRITER), encoding="utf-8")
        found["log"] = file.name
    return found


def main() -> int:
    """The command line. Exit status 1 if something was lost, 2 if the version cannot be run."""
    told = "; ".join(f"{number}: {kind}" for number, kind in enumerate(KINDS)) + "; may be repeated"
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m memwal_conformance.native.sweep")
    parser.add_argument("folder", type=Path, help="where the findings go; it is made")
    parser.add_argument("--native-version", metavar="X", help="pylance==X in an environment of its own")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th fault")
    parser.add_argument("--kind", type=int, action="append", choices=range(len(KINDS)), default=[], help=told)
    parser.add_argument("--kill", action="store_true", help="also SIGKILL before and after changes")
    asked = parser.parse_args()
    try:
        command = versions.command(asked.native_version)
    except versions.NotInstalled as error:
        sys.stderr.write(f"{error}\n")
        return 2
    logs = asked.folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    found = [
        *(sweep(command, KINDS[number], logs, every=asked.every) for number in asked.kind),
        *([killed(command, KINDS[0], logs, every=asked.every)] if asked.kill else []),
    ]
    lossy = False
    with (asked.folder / "crashes.jsonl").open("w", encoding="utf-8") as lines:
        for one in itertools.chain.from_iterable(found):
            lossy = lossy or bool(one["losses"])
            lines.write(json.dumps(one) + "\n")
            lines.flush()
            label = (one["fault"] or {}).get("label", "no fault")
            sys.stdout.write(f"{one['kind']}; {label}: {len(one['losses'])} kinds of loss\n")
            sys.stdout.flush()
    return 1 if lossy else 0


if __name__ == "__main__":
    raise SystemExit(main())
