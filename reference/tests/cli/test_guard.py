"""Commands on tables with a file whose reading ends the process: they say so, and do what else there is to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from mmap import mmap
from pathlib import Path

import memwal
import pytest
from memwal.codec import native

from ..kit.damaged_tables import Scene, whole

DEADLY = b"LANC deadly"
"""Stands in a file for a damage that makes the native reader end its process: which bytes do so differs by version."""
READER = f"""
import os, warnings
warnings.filterwarnings("ignore", "lance is not fork-safe")
import lance.file as files
real = files.LanceFileReader

def reader(path, *arguments, **options):
    with open(path, "rb") as file:
        if {DEADLY!r} in file.read():
            os.abort()
    return real(path, *arguments, **options)

files.LanceFileReader = reader
"""
MAIN = "from memwal.cli.main import main; main()"


def run(*arguments: str, before: str = READER) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"{before}\n{MAIN}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": "300"})


def placed(scene: Scene, folder: Path) -> Path:
    """The scene as a directory."""
    for name, data in scene.objects.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder / "t"


def made_deadly(data: bytes) -> bytes:
    """``data`` in its size, with the mark in the place of page bytes."""
    return DEADLY + data[len(DEADLY) :]


@pytest.fixture
def scene() -> Scene:
    return whole("B")


def deadly_generation(scene: Scene, folder: Path) -> tuple[Path, str]:
    """A table whose first region has a deadly second generation; and that file's name in the table."""
    (name,) = scene.below(f"{scene.generation(2)}/data")
    scene.objects[name] = made_deadly(scene.objects[name])
    return placed(scene, folder), name.removeprefix("t/")


def test_a_scan_names_the_file_that_ended_the_process(scene: Scene, tmp_path: Path) -> None:
    table, name = deadly_generation(scene, tmp_path)

    done = run("scan", str(table))

    assert done.returncode == 1
    assert f"damaged: {table}: {name}: it is not a readable Lance file: reading it ends the process" in done.stderr
    assert "SIGABRT" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_merge_gets_past_the_file_that_ended_the_process(scene: Scene, tmp_path: Path) -> None:
    table, name = deadly_generation(scene, tmp_path)

    done = run("merge", str(table))

    assert (done.returncode, name in done.stderr) == (1, True)
    merged = {region.region_id: region.merged for region in memwal.open(table).regions()}
    assert merged == {scene.regions[0]: 1, scene.regions[1]: 3}


def test_verify_reports_every_file_that_ended_the_process_and_goes_on(scene: Scene, tmp_path: Path) -> None:
    scene.objects[scene.wal_path(6)] = b""
    names = [scene.below(f"{scene.generation(number)}/data")[0] for number in (2, 3)]
    for name in names:
        scene.objects[name] = made_deadly(scene.objects[name])
    table = placed(scene, tmp_path)

    done = run("verify", str(table), "--json")

    assert done.returncode == 1
    found = {(one["invariant"], one["path"]) for one in json.loads(done.stdout)["findings"]}
    assert found == {
        *(("named_files_are_whole", name.removeprefix("t/")) for name in names),
        ("wal_entries_open", scene.wal_path(6).removeprefix("t/")),
    }


def test_a_name_that_is_longer_than_the_mark_is_left_as_far_as_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = mmap(-1, native.MARK_BYTES)
    monkeypatch.setattr(native, "_watches", [native.Watch(memory=memory, deadly={})])
    with native.reading("t/" + "p" * 5_000, "FORMAT-018", refusal="not a Lance file"):
        assert native.marked(memory) == "t/" + "p" * 4_092
    assert native.marked(memory) == ""
