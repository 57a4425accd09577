"""What was acknowledged against the bytes, and the command that has the judge look at a folder."""

from __future__ import annotations

import json
from pathlib import Path

import memwal
import pyarrow as pa
import pytest
import typer
from memwal_conformance.cli import judging
from memwal_conformance.judge import acknowledged, store
from typer.testing import CliRunner

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("seq", pa.int64(), nullable=False)])


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "seq": seq} for key, seq in pairs], SCHEMA)


def note(folder: Path, region: str, epoch: int, told: pa.Table, *, cut: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    kept = told.append_column("deleted", pa.array([False] * told.num_rows))
    schema = kept.schema.with_metadata({"region": region, "epoch": str(epoch), "order": "seq"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in kept.cast(schema).to_batches(max_chunksize=1):
            stream.write_batch(batch)
    data = sink.getvalue().to_pybytes()
    (folder / f"{epoch}.arrows").write_bytes(data[: len(data) - cut])


@pytest.fixture
def table(tmp_path: Path) -> tuple[Path, str]:
    """Keys 1 and 2 are in a generation, 2 again and 3 in the WAL, under epochs 1 and 2."""
    made = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    with made.writer() as writer:
        writer.put(rows((1, 1), (2, 2)))
        writer.flush()
    with made.writer() as writer:
        writer.put(rows((2, 3), (3, 4)))
    return tmp_path / "t", str(writer.region_id)


def found(table: Path, notes: Path) -> list[list[str]]:
    looked = store.read(table, "B", ["id"])
    claims = acknowledged.load(notes)
    return [
        [each for each in look(looked, claims) if isinstance(each, str)]
        for look in (acknowledged.stored, acknowledged.standing)
    ]


def test_rows_that_are_stored_or_replaced_by_newer_ones_are_in_order(table: tuple[Path, str], tmp_path: Path) -> None:
    note(tmp_path / "n", table[1], 1, rows((1, 1), (2, 2)))
    note(tmp_path / "n", table[1], 2, rows((2, 3), (3, 4), (1, 1)))
    assert found(table[0], tmp_path / "n") == [[], []]


def test_a_row_that_only_a_later_claim_has_stored_was_lost(table: tuple[Path, str], tmp_path: Path) -> None:
    note(tmp_path / "n", table[1], 1, rows((1, 1), (3, 4)))
    (lost,), standing = found(table[0], tmp_path / "n")
    assert "1 rows were acknowledged under epoch 1 and are in no WAL entry up to that epoch, first id 3, seq 4" in lost
    assert standing == []


def test_a_key_whose_newest_row_is_gone_does_not_stand(table: tuple[Path, str], tmp_path: Path) -> None:
    note(tmp_path / "n", table[1], 2, rows((2, 9), (7, 1)))
    (stored,), (standing,) = found(table[0], tmp_path / "n")
    assert "2 rows were acknowledged under epoch 2" in stored
    assert (
        standing
        == "2 keys lack their newest acknowledged row, first id 2, seq 9 was acknowledged, and the table has seq 3"
    )


def test_a_stream_that_a_killed_task_has_left_counts_up_to_its_cut(table: tuple[Path, str], tmp_path: Path) -> None:
    note(tmp_path / "n", table[1], 1, rows((1, 1), (7, 7)), cut=20)
    assert found(table[0], tmp_path / "n") == [[], []]


def test_the_command_names_clauses_and_ends_by_what_it_found(table: tuple[Path, str], tmp_path: Path) -> None:
    app = typer.Typer()
    judging.commands(app)
    app.command("other")(lambda: None)

    def run(*more: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["judge", str(table[0]), "--key", "id", *more])
        return result.exit_code, result.output

    assert run()[0] == 0
    note(tmp_path / "n", table[1], 1, rows((7, 7)))
    code, told = run("--acknowledged", str(tmp_path / "n"), "--json")
    assert code == 1
    checks = {each["check"]: each for each in json.loads(told)["checks"]}
    assert checks["acknowledged rows stand"]["clauses"] == ["WAL-001"]
    assert checks["generation content"]["looked_at"] == 1
    (tmp_path / "n" / "x.arrows").write_bytes(b"nothing")
    assert run("--acknowledged", str(tmp_path / "n"))[0] == 2
    assert run("--revision", "Q")[0] == 2
    assert CliRunner().invoke(app, ["judge", str(tmp_path / "none"), "--key", "id"]).exit_code == 2
