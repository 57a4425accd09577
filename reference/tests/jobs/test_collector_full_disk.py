"""The collector on a full disk: what can be deleted without a write goes first, and the rest once there is room."""

from __future__ import annotations

from typing import Any

import memwal
import pytest
from memwal.effects import Copy, Delete, PutIfAbsent, StoreRequest
from memwal.errors import Outcome, StorageError
from memwal.jobs.collector import Policy, collect
from memwal.jobs.collector import run as collecting

from ..kit.collector_scene import IO
from ..kit.ground import Ground, row
from ..kit.tables import flush, opened, table

FULL = "no space left on device"


class Disk:
    """A fault: every write is refused until ``room`` objects are deleted that are no versions."""

    def __init__(self, room: int) -> None:
        self.room, self.deleted = room, 0
        self.refused: list[str] = []

    def __call__(self, request: StoreRequest[Any]) -> Outcome | None:
        self.deleted += isinstance(request, Delete) and "/_versions/" not in request.path
        if isinstance(request, PutIfAbsent | Copy) and self.deleted < self.room:
            self.refused.append(request.path)
            return StorageError(request.path, FULL)
        return None


def collectable(ground: Ground, revision: str) -> memwal.Table:
    """A table with merged generations in two regions, older versions, and files that only these need."""
    made = table(ground, revision)
    for key, region in enumerate((made.register_region(), made.register_region())):
        for value in ("a", "b"):
            flush(made, row(key, value), region=region)
            made.merge(region)
    return made


@pytest.mark.clause("GC-001", "AMB-93")
@pytest.mark.parametrize("time_travel", ["progress", "snapshot"])
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_full_disk_is_collected_and_what_needs_a_write_goes_once_there_is_room(
    revision: str, time_travel: Any
) -> None:
    ground = Ground()
    made = collectable(ground, revision)
    whole = Ground(ground.objects)
    opened(whole).gc(retain_versions=1, time_travel=time_travel)
    before = opened(ground).scan().sort_by("id")
    ground.before = disk = Disk(room=1)
    report = made.gc(retain_versions=1, time_travel=time_travel)
    assert {name.split("/")[1] for name in disk.refused} == {"_expired", "_mem_wal"}
    assert len([name for name in disk.refused if "/_mem_wal/" in name]) == 2
    assert sorted(ground.objects) == sorted(whole.objects)
    assert len({(each.kind, each.name) for each in report.decisions}) == len(report.decisions)
    assert opened(ground).scan().sort_by("id").equals(before)
    assert opened(ground).verify().clean


@pytest.mark.clause("GC-001", "AMB-93")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_disk_that_stays_full_says_so_after_everything_that_can_go_is_gone(ground: Ground, revision: str) -> None:
    made = collectable(ground, revision)
    ground.before = disk = Disk(room=1 << 20)
    with pytest.raises(StorageError, match=FULL):
        made.gc(retain_versions=1)
    assert disk.deleted > 5
    assert not [name for name in ground.objects if name.startswith("t/_transactions/")][1:]
    ground.before = lambda request: None
    assert opened(ground).verify().clean
    made.gc(retain_versions=1)
    assert not [name for name in ground.objects if "_gen_" in name]


@pytest.mark.clause("AMB-93")
def test_what_a_full_disk_refuses_is_noted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground()
    collectable(ground, "B")
    ground.before = Disk(room=1)
    ground.run(collect(IO, Policy(retain_versions=1)))
    noted = [event["reason"] for event in ground.events("collector_refused")]
    assert len(noted) == 2
    assert all(FULL in str(reason) for reason in noted)

    async def refused(*_: object) -> bool:
        raise StorageError("t", FULL)

    monkeypatch.setattr(collecting, "_record", refused)
    with pytest.raises(StorageError, match=FULL):
        ground.run(collect(IO, Policy(retain_versions=1)))
    assert [event["reason"] for event in ground.events("collector_refused")][2:] == [str(StorageError("t", FULL))]
