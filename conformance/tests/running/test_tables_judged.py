"""Checks of scenarios on tables that the engine wrote: each holds where it should, and is broken where it should be."""

from __future__ import annotations

from pathlib import Path

import lance
import memwal
import pyarrow as pa
import pytest
from kit.runs import run_suite
from memwal_conformance.judge import store, structure
from memwal_conformance.protocol import Json
from memwal_conformance.running import checks, scenarios
from memwal_conformance.running.checks import CheckContext

SMOKE = Path(__file__).resolve().parents[2] / "scenarios" / "smoke.json"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64()), pa.field("t", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), list(ids), [f"word {i}" for i in ids]], schema=SCHEMA)


def broken(root: Path, revision: str, **step: object) -> str | None:
    """What a check of one finding says."""
    names = scenarios.Names(scenarios.load(SMOKE), str(root), {})
    asked: Json = {"clauses": ["GEN-009"], **step}
    (finding,) = checks.look(CheckContext(root, revision, names, ("id",)), asked)
    return finding.broken


def test_last_seen_hints_are_held_against_the_ends_of_the_wals(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="A")
    with table.writer() as writer:
        writer.put(rows(1))
        writer.put(rows(2))
        told = broken(tmp_path / "t", "A", check="ends", of="manifests")
        assert told is not None
        assert told.endswith("the last-seen hint in manifests is 0, the WAL ends at 2")
        assert str(broken(tmp_path / "t", "A", check="ends", of="snapshots")).endswith("is 0, the WAL ends at 2")
        table.snapshot()
        for place in ("manifests", "snapshots"):
            assert broken(tmp_path / "t", "A", check="ends", of=place) is None
        writer.put(rows(3))
        assert str(broken(tmp_path / "t", "A", check="ends", of="snapshots")).endswith("is 2, the WAL ends at 3")


def test_a_spec_is_held_against_what_was_asked_for(tmp_path: Path) -> None:
    memwal.create(tmp_path / "none", SCHEMA, primary_key=["id"], revision="B")
    assert broken(tmp_path / "none", "B", check="spec", **{"is": []}) == "there is no region spec"
    spec = memwal.region_spec([memwal.bucket("z", "id", 4), memwal.identity("a", "t")])
    keyed = SCHEMA.set(2, SCHEMA.field("t").with_nullable(False))
    memwal.create(tmp_path / "t", keyed, primary_key=["t", "id"], revision="B", spec=spec)
    assert broken(tmp_path / "t", "B", check="spec", **{"is": [["z", ["id"]], ["a", ["t"]]]}) is None
    for wrong in ([["a", ["t"]], ["z", ["id"]]], [["z", ["n"]], ["a", ["t"]]], [["z", ["id"]]]):
        told = broken(tmp_path / "t", "B", check="spec", **{"is": wrong})
        assert told is not None
        assert told.startswith("the region fields and their columns are [['z', ['id']], ['a', ['t']]]")


def test_every_listed_generation_must_have_each_maintained_index_with_all_its_rows(tmp_path: Path) -> None:
    memwal.create(tmp_path / "t", rows(1, 2, 3), primary_key=["id"], revision="B")
    lance.dataset(str(tmp_path / "t")).create_scalar_index("n", "BTREE", name="by_n")
    table = memwal.open(tmp_path / "t")
    table.maintain(["by_n"])
    with table.writer() as writer:
        writer.put(rows(1, 4))
        writer.flush()
        assert broken(tmp_path / "t", "B", check="indexed") is None
    lance.dataset(str(tmp_path / "t")).create_scalar_index("t", "INVERTED", name="by_t")
    memwal.open(tmp_path / "t").maintain(["by_n", "by_t"])
    assert str(broken(tmp_path / "t", "B", check="indexed")).endswith("the index by_t is not there")
    (generation,) = (tmp_path / "t" / "_mem_wal").glob("*/*_gen_1")
    lance.dataset(str(generation)).insert(rows(5))
    assert str(broken(tmp_path / "t", "B", check="indexed")).endswith("the index by_n is 2 of 3 rows")


def test_generations_that_name_their_wal_by_url_are_looked_into_behind_the_gate(tmp_path: Path) -> None:
    case = "conformance/scenarios/generations_have_the_maintained_indexes.json"
    assert run_suite(tmp_path, case, "--memwal-revision", "A", "--memwal-gate").status == 0


@pytest.mark.parametrize(("revision", "expected"), [("A", 1), ("B", 0)])
def test_the_retired_field_is_a_fault_of_revision_a(revision: str, expected: int, tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision)
    table.writer().close()
    (manifest,) = (tmp_path / "t" / "_mem_wal").glob("*/manifest/*.binpb")

    def faults() -> list[str]:
        found = structure.run(store.read(tmp_path / "t", revision, ("id",)))
        return [fault for result in found for fault in result.faults]

    assert faults() == []
    manifest.write_bytes(manifest.read_bytes() + b"\x38\x00")
    assert [fault.partition(": ")[2] for fault in faults()] == ["version 1 has the retired field 7"] * expected
