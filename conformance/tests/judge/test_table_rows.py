"""Rows of a table are read once for the same bytes, and again where a byte is another one."""

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from memwal_conformance.judge import table


def test_the_same_bytes_are_read_once_and_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, same, other = (tmp_path / name for name in ("first", "same", "other"))
    lance.write_dataset(pa.table({"id": [1, 2]}), first)
    shutil.copytree(first, same)
    shutil.copytree(first, other)
    lance.write_dataset(pa.table({"id": [3]}), other, mode="append")
    opened: list[Path] = []
    dataset = table._dataset
    monkeypatch.setattr(table, "_dataset", lambda root, storage: opened.append(root) or dataset(root, storage))
    found = [table.rows(root)["id"].to_pylist() for root in (first, same, other, other)]
    assert found == [[1, 2], [1, 2], [1, 2, 3], [1, 2, 3]]
    assert opened == [first, other]
