"""Deletions that the guard of a soak refuses, one of each kind."""

from __future__ import annotations

import pytest
from memwal import paths
from memwal.effects import Delete
from memwal.region.limits import Limits
from memwal.region.opening import open_writer
from memwal.revisions import REVISIONS
from memwal_sim.soak.counting import Counted
from memwal_sim.soak.founding import found, opened, table_of
from memwal_sim.soak.guard import Guard
from memwal_sim.soak.roles import merge_all
from memwal_sim.soak.settings import SoakSettings
from memwal_sim.soak.views import Views
from memwal_sim.soak.world import SoakWorld

REGION = "table/_mem_wal/{}"


class Ground:
    """A table with one region: generation 1 is merged, generation 2 is not, and an entry waits in the WAL."""

    def __init__(self, revision: str) -> None:
        settings = SoakSettings(revision=revision, regions=1, keys=4)
        self.counted = Counted()
        founded = self.counted.run(found(settings, {"k000000": "0.~~"}))
        (row,) = founded.rows
        self.region = row.region_id
        writer = self.counted.run(open_writer(opened(settings.table(), founded, row), limits=Limits()))
        for number in range(1, 4):
            self.counted.run(writer.put(table_of({"k000001": f"{number}.~~"})))
            if number < 3:
                self.counted.run(writer.flush())
            if number == 1:
                self.counted.run(merge_all(SoakWorld(settings)))
        self.views = Views(self.counted.store, REVISIONS[revision])
        self.guard = Guard(self.counted.store, self.views)

    def names(self, folder: str) -> list[str]:
        return self.counted.store.listed(f"table/{folder}")

    def refused(self, path: str) -> str:
        assert path in self.counted.store
        found = self.guard.judge(Delete(path))
        return found.clause if found is not None else ""

    def generation(self, number: int) -> list[str]:
        manifest = self.views.region(self.region)
        assert manifest is not None
        folder = next(g.path for g in manifest.flushed if g.generation == number)
        return self.names(f"_mem_wal/{self.region}/{folder}")


@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_what_the_newest_versions_need_may_not_be_deleted(revision: str) -> None:
    ground = Ground(revision)
    versions = ground.names("_versions")
    suffix = REVISIONS[revision].wal_suffix
    entries = sorted(
        (int(paths.wal_position(name, suffix) or 0), name) for name in ground.names(f"_mem_wal/{ground.region}/wal")
    )
    manifests = ground.views.manifest_versions(ground.region)
    assert [ground.refused(name) for name in versions] == ["GC-003", *[""] * (len(versions) - 1)]
    assert ground.refused(entries[-1][1]) == "GC-007"
    assert {ground.refused(name) for name in ground.generation(1)} == {"AMB-93"}
    assert {ground.refused(name) for name in ground.generation(2)} == {"AMB-93"}
    assert ground.refused(manifests[max(manifests)]) == "AMB-30"
    assert ground.refused(manifests[min(manifests)]) == ""
    assert "GC-003" in {ground.refused(name) for name in ground.names("data")}


def test_an_entry_below_the_replay_pointer_may_go_unless_a_generation_names_it() -> None:
    for revision, clause in (("A", "GC-006"), ("B", "")):
        ground = Ground(revision)
        suffix = REVISIONS[revision].wal_suffix
        first = min(
            (paths.wal_position(name, suffix) or 0, name) for name in ground.names(f"_mem_wal/{ground.region}/wal")
        )[1]
        assert (revision, ground.refused(first)) == (revision, clause)


@pytest.mark.parametrize(("number", "clause"), [(1, ""), (2, ""), (3, "AMB-94"), (4, "AMB-94")])
def test_a_folder_that_no_manifest_lists_may_go_once_its_generation_was_committed(number: int, clause: str) -> None:
    ground = Ground("B")
    left = f"table/_mem_wal/{ground.region}/00000000_gen_{number}/bloom_filter.bin"
    ground.counted.run(SoakSettings().table().put(left.removeprefix("table/"), b""))
    assert ground.refused(left) == clause


def test_deleting_what_is_not_there_is_nothing() -> None:
    ground = Ground("B")
    assert ground.guard.judge(Delete("table/_versions/none.manifest")) is None
    assert ground.guard.judged == 0
