"""A table with a few fragments, and what pylance sees of it."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from memwal.codec.pb.lance import table_pb2
from memwal.effects import Io
from memwal.revisions import STRICT
from memwal.table import read, state, write
from memwal.table.state import TableState
from memwal.table.transactions import Transaction

from .folder import Folder
from .ground import SCHEMA
from .tables import IO as T
from .tables import by_id


def rows(*ids: int, v: str = "x") -> pa.Table:
    return pa.table([pa.array(ids, pa.int64()), pa.array([v] * len(ids))], schema=SCHEMA)


def begun(folder: Folder, *parts: tuple[int, ...]) -> TableState:
    """The table ``t`` with a fragment for each of ``parts``."""
    current = folder.run(write.create(T, SCHEMA, rows(*parts[0])))
    for part in parts[1:]:
        current = folder.run(write.append(T, rows(*part)))
    return current


def where(*ids: int) -> Any:
    """Selects the rows with these ids."""

    def select(table: pa.Table) -> npt.NDArray[np.bool_]:
        return np.isin(table.column("id").to_numpy(), ids)

    return select


def seen(folder: Folder, version: int | None = None, name: str = "t") -> dict[int, object]:
    """What both the engine and pylance read, which has to be the same."""
    io = Io(name, location=str(folder.root / name), interpretation=STRICT)
    current = folder.run(state.latest(io) if version is None else state.load(io, version))
    native = lance.dataset(str(folder.root / name), version=version)
    native.validate()
    assert native.version == current.version
    ours = by_id(folder.run(read.scan(io, current, ["id", "v"])))
    assert by_id(native.to_table(columns=["id", "v"])) == ours
    assert native.count_rows() == current.rows == len(ours)
    return ours


def latest(folder: Folder) -> TableState:
    return folder.run(state.latest(T))


def transaction(folder: Folder, current: TableState) -> Transaction:
    """The transaction file of a version, as stored."""
    name = current.manifest.message.transaction_file
    return Transaction.FromString((folder.root / "t" / "_transactions" / name).read_bytes())


def fragment(current: TableState, number: int) -> table_pb2.DataFragment:
    return next(f for f in current.fragments if f.id == number)
