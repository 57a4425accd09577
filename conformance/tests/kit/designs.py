"""Designs that the texts permit and that the reference does not have, put into it: the suite may not fail them.

``python conformance/tests/kit/designs.py NAME`` serves one as an adapter.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from memwal import paths
from memwal.api import place
from memwal.codec import wal
from memwal.codec.marks import Mark
from memwal.codec.wal import WalEntry
from memwal.errors import ArtifactError
from memwal.ids import WalPosition
from memwal.region import claim
from memwal.region.recovery import recover
from memwal.region.writer import RegionWriter
from memwal.revisions import Interpretation, Revision
from memwal_conformance.adapters import reference
from memwal_conformance.adapters.reference_state import ReferenceState
from memwal_conformance.protocol import Json
from memwal_conformance.proving.defects import Handlers
from memwal_conformance.proving.deviating import PLANTS, Plant
from memwal_sim import bugs

END_MARK = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design(Plant):
    """One of them."""

    readings: Mapping[str, object] = field(default_factory=dict)
    """Fields of `memwal.revisions.Interpretation`, and the values that they take."""


def _says_null(handlers: Handlers) -> None:
    """Members that an answer need not have are there, and null."""
    opened, decode = handlers["writer.open"], handlers["eval.decode"]

    def decoded(params: Json) -> Json:
        answer = decode(params)
        if "wal" in answer:
            return {"wal": {"generation": None, **answer["wal"]}}
        return answer

    handlers["writer.open"] = lambda params: {**opened(params), "epoch": None}
    handlers["eval.decode"] = decoded


def _says_nothing(handlers: Handlers) -> None:
    """Members that may be null are left out where they are."""
    flush, hashed, inspect, decode = (
        handlers[name] for name in ("writer.flush_memtable", "eval.hash", "inspect", "eval.decode")
    )

    def without_null(value: Any) -> Any:
        if isinstance(value, list):
            return [without_null(each) for each in value]
        if not isinstance(value, dict) or set(value) == {"t", "v"}:
            return value
        return {name: without_null(each) for name, each in value.items() if each is not None}

    for name, honest in zip(
        ("writer.flush_memtable", "eval.hash", "inspect", "eval.decode"), (flush, hashed, inspect, decode), strict=True
    ):
        handlers[name] = functools.partial(lambda honest, params: without_null(honest(params)), honest)


def _only_writes_and_reads(handlers: Handlers) -> None:
    hello = handlers["hello"]
    handlers["hello"] = lambda params: {**hello(params), "implementation": "small", "roles": ["writer", "reader"]}
    for message in ("merge.run", "snapshot.run", "catchup.run", "gc.run"):
        del handlers[message]


_encode, _decode, _store_entry = wal.encode, wal.decode, RegionWriter._store_entry


def _without_end_mark(entry: WalEntry, revision: Revision) -> bytes:
    return _encode(entry, revision).removesuffix(END_MARK)


def _with_or_without_end_mark(data: bytes, revision: Revision, path: str) -> WalEntry:
    whole = data if revision.wal_container == "lance" or data.endswith(END_MARK) else data + END_MARK
    return _decode(whole, revision, path)


async def _epoch_at(writer: RegionWriter, name: str) -> int:
    io = writer.region.io
    return wal.decode(await io.get(name), writer.region.revision, name).epoch


async def _looks_after_each_put(self: RegionWriter, done: tuple[Mark, ...] = ()) -> None:
    """The manifest is asked after the put and before the acknowledgement; an older entry in the way is replayed."""
    waiting, rows = self.memtable, self.region.rows.schema.empty_table()
    if not done:
        _, rows = waiting.handing_over(self.limits.entry_bytes)
    while True:
        try:
            await _store_entry(self, done)
        except ArtifactError as error:
            taken = paths.wal(self.position_next, self.region.revision.wal_suffix)
            if error.clause != "WAL-006" or await _epoch_at(self, taken) >= self.epoch:
                raise
            found = await recover(self.region, self.manifest)
            self.memtable = found.memtable.with_write(rows, rows.nbytes) if rows.num_rows else found.memtable
            covered = self.memtable.position_covered
            assert covered is not None
            self.position_next = WalPosition(covered + 1)
            continue
        break
    self.adopt(await claim.verify_epoch(self.region, self.manifest))


DESIGNS: dict[str, Design] = {
    "flushes_at_close": Design(plant=PLANTS["flushes_at_close"].plant),
    "flushes_after_recovery": Design(plant=PLANTS["flushes_after_recovery"].plant),
    "says_null": Design(plant=_says_null),
    "says_nothing": Design(plant=_says_nothing),
    "only_writes_and_reads": Design(plant=_only_writes_and_reads),
    "no_end_mark": Design(
        replaced={"memwal.codec.wal:encode": _without_end_mark, "memwal.codec.wal:decode": _with_or_without_end_mark}
    ),
    "no_hint": Design(replaced=PLANTS["keeps_no_hint"].replaced),
    "looks_after_each_put": Design(
        readings={"claim_barrier": False},
        replaced={"memwal.region.writer:RegionWriter._store_entry": _looks_after_each_put},
    ),
}
"""Name -> the design."""


@contextmanager
def engine_of(name: str) -> Iterator[None]:
    """The engine of this process has the design while the context is open, its handlers apart."""
    design, honest = DESIGNS[name], place.named_profile

    def misread(profile: place.Profile) -> Interpretation:
        return replace(honest(profile), **design.readings)  # type: ignore[arg-type]

    with bugs.replacing({**design.replaced, "memwal.api.place:named_profile": misread}):
        yield


def handlers_of(name: str, state: ReferenceState | None = None) -> Handlers:
    """The reference's handlers with the design's."""
    made = reference.handlers(state)
    DESIGNS[name].plant(made)
    return made


if __name__ == "__main__":
    with engine_of(sys.argv[1]):
        reference.main(functools.partial(handlers_of, sys.argv[1]))
