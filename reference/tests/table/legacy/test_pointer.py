"""The pointer to the latest version that old tables have: it never names less than what was committed."""

from __future__ import annotations

import pytest
from memwal import paths
from memwal.codec import table_manifest
from memwal.effects import Io, Put
from memwal.errors import OutcomeUnknown
from memwal.ids import TableVersion
from memwal.revisions import STRICT
from memwal.table import state, versions, write
from memwal.table.versions import Scheme

from ...kit.ground import Ground
from ...kit.interleaving import orders
from ...kit.table_scene import SCHEMA, rows

T = Io("t", interpretation=STRICT)
POINTER = "t/_latest.manifest"


def old_table(*, pointer: bool = True) -> Ground:
    """A table of one version that is named by the first scheme."""
    ground = Ground()
    ground.run(write.create(T, SCHEMA, rows(1)))
    first = ground.objects.pop(f"t/{versions.name(TableVersion(1))}")
    ground.objects[f"t/{versions.name(TableVersion(1), Scheme.V1)}"] = first
    if pointer:
        ground.objects[POINTER] = first
    return ground


def version_in(data: bytes) -> int:
    return table_manifest.decode(data, POINTER).message.version


@pytest.mark.clause("TXN-014", "AMB-119")
def test_after_a_commit_the_pointer_is_the_newest_manifest() -> None:
    ground = old_table()
    for number in (2, 3):
        ground.run(write.append(T, rows(number)))
        assert ground.objects[POINTER] == ground.objects[f"t/_versions/{number}.manifest"]
    ground.objects[POINTER] = b"what a stranger left"
    assert ground.run(state.latest(T)).version == 3
    ground.run(write.set_config(T, {"a": "1"}))
    assert version_in(ground.objects[POINTER]) == 4


@pytest.mark.clause("TXN-014")
def test_a_table_without_a_pointer_gets_none() -> None:
    ground = old_table(pointer=False)
    ground.run(write.append(T, rows(2)))
    assert POINTER not in ground.objects
    new = Ground()
    new.run(write.create(T, SCHEMA, rows(1)))
    before = len(new.asked)
    new.run(write.append(T, rows(2)))
    assert not [request for request in new.asked[before:] if request.path.endswith(paths.LATEST)]


@pytest.mark.clause("TXN-014")
def test_in_every_order_of_two_commits_the_pointer_ends_at_the_newest_version() -> None:
    played = 0
    for each in orders(
        old_table().objects,
        [lambda: write.set_config(T, {"a": "1"}), lambda: write.set_config(T, {"b": "2"})],
        lambda request: request.path in (POINTER, "t/_versions/2.manifest", "t/_versions/3.manifest"),
        switches_most=4,
    ):
        played += 1
        assert version_in(each.ground.objects[POINTER]) == 3, each.order
    assert played > 20


@pytest.mark.clause("TXN-014")
def test_a_pointer_that_cannot_be_written_fails_no_commit_and_the_next_one_mends_it() -> None:
    ground = old_table()
    ground.before = lambda r: OutcomeUnknown(r.path) if isinstance(r, Put) and r.path == POINTER else None
    assert ground.run(write.append(T, rows(2))).version == 2
    assert [note["version"] for note in ground.events("latest_pointer_left")] == [2]
    assert version_in(ground.objects[POINTER]) == 1
    ground.before = lambda request: None
    ground.run(write.append(T, rows(3)))
    assert version_in(ground.objects[POINTER]) == 3
