"""The judge holds the key index beside a generation against the generation's rows."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter
from memwal_conformance.judge import key_index, store
from memwal_conformance.running import ending, scenarios
from memwal_conformance.running.checks import CheckContext

HERE = Path(__file__).resolve().parents[2]
TABLE = HERE / "vectors/R/table/tombstone/input/table"
"""Two generations of revision R; the second one, of a delete and a row, hides rows of the first."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy = tmp_path / "t"
    shutil.copytree(TABLE, copy)
    return copy


def said(root: Path) -> list[str]:
    return [one for one in key_index.complete(store.read(root, "R", ("id",))) if one is not None]


def pages(root: Path) -> Path:
    (file,) = root.glob("_mem_wal/*/00ff00ff_gen_2/_pk_index/page_data.lance")
    return file


def write(file: Path, rows: pa.Table) -> None:
    with LanceFileWriter(str(file), rows.schema) as writer:
        writer.write_batch(rows)


def test_a_key_index_that_has_every_row_is_in_order(root: Path) -> None:
    assert said(root) == []
    assert len(list(key_index.complete(store.read(root, "R", ("id",))))) == 2


def test_a_row_that_the_key_index_lacks_is_a_fault_at_the_end_of_every_case(root: Path) -> None:
    indexed = LanceFileReader(str(pages(root))).read_all().to_table()
    write(pages(root), indexed.slice(1))
    (told,) = said(root)
    assert told.endswith(f"00ff00ff_gen_2: the key index lacks 1 of {indexed.num_rows} visible rows, the first at 0")
    spec = scenarios.load(HERE / "scenarios" / "smoke.json")
    context = CheckContext(root, "R", scenarios.Names(spec, str(root), {}), ("id",))
    (found,) = ending.at_end(context)
    assert found.broken == f"key indexes: {told}"
    assert ending.at_end(CheckContext(root, "B", context.names, ("id",))) == []


def test_a_row_under_another_key_is_a_fault(root: Path) -> None:
    indexed = LanceFileReader(str(pages(root))).read_all().to_table()
    write(pages(root), pa.table({"values": [99, *indexed["values"].to_pylist()[1:]], "ids": indexed["ids"]}))
    assert [told.partition(": ")[2] for told in said(root)] == ["the key index has another key for the row at 0"]


def test_a_generation_without_a_key_index_is_a_fault_beside_one_that_has_it(root: Path) -> None:
    shutil.rmtree(pages(root).parent)
    assert [told.partition(": ")[2] for told in said(root)] == ["the generation has no key index, and others have one"]
    for other in root.glob("_mem_wal/*/*/_pk_index"):
        shutil.rmtree(other)
    assert said(root) == []
