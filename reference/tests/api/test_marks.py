"""Marks of finished tasks: where they stand while their rows go from the WAL into the base."""

from __future__ import annotations

from pathlib import Path

import memwal
import pyarrow as pa
import pytest
from memwal.codec.marks import Mark, decode, encode, is_done, joined
from memwal.errors import ArtifactError, InvalidArgument

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"v{i}" for i in ids]}, schema=SCHEMA)


def mark(batch: int, *partitions: int, application: str = "app") -> Mark:
    return Mark(application=application, batch=batch, partitions=partitions)


@pytest.mark.parametrize("revision", ["A", "B", "R"])
@pytest.mark.clause("AMB-149")
def test_a_mark_is_found_in_the_wal_in_a_generation_and_when_both_are_collected(tmp_path: Path, revision: str) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision)
    with table.writer() as writer:
        writer.put(rows(1, 2))
        writer.finish("app", 7, 0)
        assert writer.done() == (mark(7, 0),)
        region = writer.region_id
    assert table.done(region) == (mark(7, 0),)
    with table.writer() as writer:
        assert writer.done() == (mark(7, 0),)
        writer.finish("app", 7, 3)
        writer.finish("other", 1, 0)
        writer.flush()
    everything = (mark(7, 0, 3), mark(1, 0, application="other"))
    assert table.done(region) == everything
    table.merge()
    assert table.done(region) == everything
    table.gc(retain_versions=1)
    assert table.done(region) == everything
    with table.writer() as writer:
        assert writer.done() == everything
        writer.finish("app", 8, 1)
        writer.put(rows(3))
        writer.flush()
    table.merge()
    table.gc(retain_versions=1)
    assert table.done(region) == (mark(8, 1), mark(1, 0, application="other"))
    assert sorted(row["id"] for row in table.scan().to_pylist()) == [1, 2, 3]
    assert table.verify().findings == ()


@pytest.mark.clause("AMB-149")
def test_a_mark_is_stored_behind_what_was_buffered_before(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    writer = table.writer(durable=False)
    writer.put(rows(1))
    before = writer.position_next
    writer.finish("app", 1, 0)
    assert (writer.position_next - before, writer.buffered_rows) == (2, 0)
    with memwal.open(tmp_path / "t").writer() as successor:
        assert (successor.rows, successor.done()) == (1, (mark(1, 0),))


@pytest.mark.clause("AMB-149")
def test_a_task_is_done_if_it_is_finished_or_a_later_batch_of_its_application_is() -> None:
    standing = (mark(5, 0, 2), mark(9, 1, application="other"))
    assert [is_done(standing, mark(5, p)) for p in (0, 1, 2)] == [True, False, True]
    assert is_done(standing, mark(4, 1))
    assert not is_done(standing, mark(6, 0))
    assert not is_done(standing, mark(1, 0, application="third"))


@pytest.mark.clause("AMB-149")
def test_of_each_application_the_newest_batch_is_kept() -> None:
    assert joined([mark(5, 0), mark(6, 1), mark(5, 2), mark(6, 4)]) == (mark(6, 1, 4),)
    assert decode(encode([mark(6, 4, 1), mark(2, 0, application="b")]), "p") == (
        mark(6, 4, 1),
        mark(2, 0, application="b"),
    )


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"a": [-1, []]}', '{"": [1, []]}'])
@pytest.mark.clause("AMB-149")
def test_a_text_that_is_no_mark_is_damage(text: str) -> None:
    with pytest.raises(ArtifactError, match="AMB-149"):
        decode(text, "somewhere")


@pytest.mark.clause("AMB-149")
def test_an_application_has_a_name_and_a_batch_a_number_from_0_on(tmp_path: Path) -> None:
    with memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"]).writer() as writer:
        for application, batch in (("", 1), ("app", -1)):
            with pytest.raises(InvalidArgument, match="AMB-149"):
                writer.finish(application, batch, 0)
