"""The retained versions of a table, newest first: when each was committed, by which operation, with how many rows.

Source: Lance table format, "Transactions".
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import paths
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..ids import Milliseconds, TableVersion
from . import state, transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """One retained version."""

    version: TableVersion
    committed_ms: Milliseconds | None
    """Since 1970, in UTC, by the clock of its committer; None where the version does not say."""
    operation: str
    """Name of the transaction's operation, such as ``append``; empty where the version does not tell."""
    rows: int
    """Rows of the base table in that version."""
    damage: str = ""
    """Why the version cannot be read; then the other fields say nothing."""


async def history(io: Io, most: int) -> tuple[TableCommit, ...]:
    """The ``most`` newest retained versions, newest first."""
    found = []
    for version in reversed((await state.versions(io))[-most:]):
        try:
            found.append(await _commit(io, version))
        except (ArtifactError, NotFound) as error:
            found.append(TableCommit(version=version, committed_ms=None, operation="", rows=0, damage=str(error)))
    return tuple(found)


async def _commit(io: Io, version: TableVersion) -> TableCommit:
    current = await state.load(io, version)
    message, transaction = current.manifest.message, current.manifest.transaction
    if transaction is None and message.transaction_file:
        name = paths.transaction(message.transaction_file)
        try:
            transaction = transactions.decode(await io.get(name), io.path(name))
        except NotFound:
            transaction = None
    operation = transactions.operation(transaction) if transaction is not None else ""
    return TableCommit(
        version=version,
        committed_ms=state.timestamp_ms(current),
        operation=operation.replace("_", " "),
        rows=current.rows,
    )
