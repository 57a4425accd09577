"""Where bytes are decoded: no room for them is an error of this machine, and never damage of the table."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal.codec import data_file
from memwal.codec.scratch import Scratch
from memwal.errors import ArtifactError, NoRoom

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]}, schema=SCHEMA)
EVERYTHING = [(1, "a"), (2, "b"), (3, "c")]


def full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of this test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def table(place: Path, revision: str) -> memwal.Table:
    """Two rows in a generation, and one in the WAL."""
    made = memwal.create(str(place), SCHEMA, primary_key=["id"], revision=revision)
    with made.writer() as writer:
        writer.put(ROWS)
        writer.flush()
        writer.put(pa.table({"id": [3], "v": ["c"]}, schema=SCHEMA))
    return made


def held(found: pa.Table) -> list[tuple[int, str]]:
    return sorted(zip(found.column("id").to_pylist(), found.column("v").to_pylist(), strict=True))


def test_what_memory_does_not_take_is_decoded_in_the_temporary_folder(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, seen = data_file.encode(ROWS), list[str]()
    monkeypatch.setattr(os, "memfd_create", full)
    with data_file.Decoder([(0, data)], len(data), "a") as decoder:
        seen += os.listdir(own_folder)
        assert held(decoder.read()) == [(1, "a"), (2, "b")]
    assert len(seen) == 1
    assert os.listdir(own_folder) == []


def test_in_memory_nothing_is_left_in_any_folder_and_a_file_may_have_holes(own_folder: Path) -> None:
    with Scratch([(4, b"ab"), (9, b"c")], 12, "a") as scratch:
        assert Path(scratch.name).read_bytes() == b"\0\0\0\0ab\0\0\0c\0\0"
        assert os.listdir(own_folder) == []
    assert not os.path.exists(scratch.name)


OPERATIONS: dict[str, Callable[[memwal.Table, str], object]] = {
    "scan": lambda table, _: table.scan(),
    "batches": lambda table, _: list(table.batches()),
    "get": lambda table, _: table.get(pa.table({"id": [1]})),
    "merge": lambda table, _: table.merge(),
    "verify": lambda _, url: memwal.verify(url),
    "repair": lambda _, url: memwal.repair(url),
    "inspect": lambda _, url: memwal.inspect(url),
    "open a writer": lambda table, _: table.writer(),
}


@pytest.mark.parametrize("revision", ["A", "B"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_without_room_to_decode_nothing_is_called_damaged_and_nothing_is_lost(
    name: str, revision: str, tmp_path: Path, own_folder: Path
) -> None:
    url = str(tmp_path / "t")
    table(tmp_path / "t", revision)
    before = sorted(tmp_path.rglob("*.lance")) + sorted(tmp_path.rglob("*.arrow"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        looks_at_names_only = name == "inspect"
        with (
            nullcontext() if looks_at_names_only else pytest.raises(NoRoom, match="cannot be decoded in memory nor in")
        ):
            OPERATIONS[name](memwal.open(url), url)
    assert os.listdir(own_folder) == []
    assert [path for path in before if not path.exists()] == []
    assert not list(tmp_path.rglob("quarantine"))
    assert held(memwal.open(url).scan()) == EVERYTHING
    assert memwal.verify(url).findings == ()


def test_a_flush_and_a_put_need_no_room_to_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = memwal.create(str(tmp_path / "t"), SCHEMA, primary_key=["id"], revision="A")
    with made.writer() as writer:
        monkeypatch.setattr(os, "pwrite", full)
        writer.put(ROWS)
        writer.flush()
        monkeypatch.undo()
    assert held(made.scan()) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.ENOMEM])
def test_what_the_system_refuses_to_the_native_reader_is_no_damage(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_file.encode(ROWS)

    def refused(*_: Any, **__: Any) -> Any:
        raise OSError(f"LanceError(IO): Unable to open file: {os.strerror(number)} (os error {number}), /rustc/x.rs:1")

    monkeypatch.setattr("lance.file.LanceFileReader", refused)
    with pytest.raises(NoRoom):
        data_file.decode(data, "a")
    monkeypatch.undo()
    with pytest.raises(ArtifactError):
        data_file.decode(data[:-60] + data[-40:], "a")
