"""Makes the tables of older writers that the tests read: an archive for each version of pylance, run by hand.

    python reference/tests/table/legacy/older/make.py       # all versions, each in a virtual environment of its own
    python reference/tests/table/legacy/older/make.py 0.20.0 14.0.2

With ``--write FOLDER`` it is the part that runs under one version of pylance, and needs nothing else.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

HERE = Path(__file__).resolve().parent
VERSIONS: dict[str, tuple[str, ...]] = {
    "0.5.10": ("numpy<2", "pyarrow<13"),
    "0.10.18": ("numpy<2", "pyarrow<15"),
    "0.20.0": ("numpy<2", "pyarrow<18"),
    "0.25.2": ("numpy<2", "pyarrow<18"),
    "0.33.0": ("numpy<2", "pyarrow<20"),
    "2.0.1": (),
    "7.0.0": (),
    "14.0.2": (),
}
"""Version -> what else has to be installed with it."""
LAYOUT_0 = ("0.20.0", "0.25.2", "0.33.0", "2.0.1", "7.0.0", "14.0.2")
"""Versions that write files of the layout before version 2 when they are told to; older ones write no others."""
DEFERRED = ("7.0.0", "14.0.2")
"""Versions that can put off the remapping of indexes when they compact."""

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("s", pa.string()),
        pa.field("n", pa.float64()),
        pa.field("v", pa.list_(pa.float32(), 4)),
    ]
)


def row(i: int) -> dict[str, Any]:
    """The row of a key: text is missing from every fifth, the number from every seventh."""
    text = None if i % 5 == 2 else f"word{i % 3} row{i}"
    return {"id": i, "s": text, "n": None if i % 7 == 3 else i / 4, "v": [float(i), i + 0.5, -float(i), 1.0]}


def rows(ids: Iterable[int]) -> pa.Table:
    """Rows of several keys."""
    return pa.Table.from_pylist([row(i) for i in ids], schema=SCHEMA)


def _several(place: str, *parts: Iterable[int]) -> Any:
    import lance

    for number, ids in enumerate(parts):
        lance.write_dataset(rows(ids), place, mode="append" if number else "create")
    return lance.dataset(place)


def one(place: str) -> None:
    """One fragment."""
    _several(place, range(50))


def several(place: str) -> None:
    """Three fragments."""
    _several(place, range(20), range(30, 47), range(60, 73))


def deleted(place: str) -> None:
    """Rows of two fragments are deleted, and all of the last one."""
    table = _several(place, range(20), range(30, 47), range(60, 73))
    table.delete("id IN (3, 4, 31)")
    table.delete("id = 5")
    table.delete("id >= 60")


def changed(place: str) -> None:
    """A column is added to two fragments by a second data file."""
    table = _several(place, range(10), range(10, 15))
    table.merge(pa.table({"id": pa.array(range(15), pa.int64()), "w": [f"w{i}" for i in range(15)]}), "id")


def updated(place: str) -> None:
    """Rows have a new value."""
    table = _several(place, range(20), range(20, 25))
    table.update({"s": "'new'"}, where="id < 3")


def compacted(place: str) -> None:
    """Three fragments were made one, without their deleted rows."""
    table = _several(place, range(20), range(30, 47), range(60, 73))
    table.delete("id IN (3, 4, 31)")
    table.optimize.compact_files()


def indexed(place: str) -> None:
    """A btree over the key; a fragment is newer than it."""
    import lance

    table = _several(place, range(20), range(30, 47))
    table.create_scalar_index("id", "BTREE", name="by_id")
    lance.write_dataset(rows(range(60, 73)), place, mode="append")


def vectors(place: str) -> None:
    """An IVF_PQ index over the vectors; a fragment is newer than it."""
    import lance

    table = _several(place, range(150), range(150, 300))
    table.create_index("v", "IVF_PQ", name="by_v", num_partitions=2, num_sub_vectors=2)
    lance.write_dataset(rows(range(300, 310)), place, mode="append")


def layout_0(place: str) -> None:
    """Two fragments of the layout before version 2."""
    import lance

    lance.write_dataset(rows(range(20)), place, data_storage_version="legacy")
    lance.write_dataset(rows(range(30, 47)), place, mode="append")
    lance.dataset(place).delete("id IN (3, 31)")


def deferred(place: str) -> None:
    """Four indexes over fragments that were compacted twice, with their remapping put off; a fragment is newer."""
    import lance

    table = _several(place, range(20), range(30, 47), range(60, 73), range(80, 84))
    table.create_scalar_index("id", "BTREE", name="by_id")
    table.create_scalar_index("n", "BITMAP", name="by_n")
    table.create_scalar_index("s", "INVERTED", name="by_s")
    table.create_index("v", "IVF_FLAT", name="by_v", num_partitions=2)
    table = lance.dataset(place)
    table.delete("id IN (3, 4, 31)")
    table.optimize.compact_files(defer_index_remap=True)
    lance.write_dataset(rows(range(90, 95)), place, mode="append")
    table = lance.dataset(place)
    table.delete("id BETWEEN 60 AND 66")
    table.optimize.compact_files(defer_index_remap=True)


TABLES: dict[str, Callable[[str], None]] = {
    made.__name__: made
    for made in (one, several, deleted, changed, updated, compacted, indexed, vectors, layout_0, deferred)
}
"""Kinds of table, each made by a function that gets the place."""
MAKERS = {
    "updated": tuple(VERSIONS)[1:],
    "compacted": tuple(VERSIONS)[1:],
    "indexed": tuple(VERSIONS)[1:],
    "layout_0": LAYOUT_0,
    "deferred": DEFERRED,
}
"""Versions that can make a kind of table, where that is not all of them."""


def write(folder: Path) -> None:
    """Make every table that the installed version of pylance can make."""
    import lance

    for name, make in TABLES.items():
        if lance.__version__ not in MAKERS.get(name, VERSIONS):
            continue
        make(str(folder / name))


def pack(folder: Path, archive: Path) -> None:
    """All files of ``folder``, in order and without times, so that equal tables make equal archives."""
    with tarfile.open(archive, "w:xz") as out:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))


def make(version: str) -> None:
    """Install ``version`` and have it make its archive."""
    with tempfile.TemporaryDirectory() as scratch:
        environment, tables = Path(scratch, "venv"), Path(scratch, "tables")
        tables.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        python = str(environment / "bin" / "python")
        wanted = [f"pylance=={version}", *VERSIONS[version]]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        quiet = {**os.environ, "LANCE_LOG": "error", "RUST_LOG": "error"}
        subprocess.run([python, __file__, "--write", str(tables)], check=True, env=quiet)
        pack(tables, HERE / f"{version}.tar.xz")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]))
    else:
        for chosen in sys.argv[1:] or VERSIONS:
            make(chosen)
