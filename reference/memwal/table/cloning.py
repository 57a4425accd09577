"""Copies of a table, and places in which files of it may lie.

Source: table documents, "Clone" and "UpdateBases"; AMB-40, 87.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import confirm, paths
from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import AlreadyExists, InvalidArgument
from ..ids import TableVersion
from . import versions as naming
from .commit import commit, transaction_of
from .mirror import index_folder
from .read import deletion_path
from .state import TableState, latest, load, versions
from .transactions import Transaction, is_mem_wal
from .write import retried


@implements("TXN-037", "TXN-038", "AMB-40", "AMB-87")
async def clone(io: Io, source: Io, version: TableVersion | None = None, *, shallow: bool) -> TableState:
    """Create the table at ``io`` as a copy of ``version`` (the newest if None) of the one at ``source``.

    The first version of the copy has the number of the version that was copied, as with the native package.
    A shallow clone holds metadata only, and finds the files at the source's `Io.location`. A deep one has copies of
    all files, made by the store. The MemWAL index and rows that are not merged are not part of either. Raises
    `AlreadyExists`, and `InvalidArgument` for a shallow clone of a table without a location.
    """
    if await versions(io):
        raise AlreadyExists(io.path(paths.VERSIONS))
    original = await latest(source) if version is None else await load(source, version)
    if not source.location and (shallow or original.manifest.message.base_paths):
        raise InvalidArgument("base paths of a clone need the absolute name of its source", clause="TXN-037")
    if not shallow:
        await _copy_files(io, source, original)
    body = Transaction.Clone(is_shallow=shallow, ref_version=original.version, ref_path=source.location)
    made = await commit(io, None, Transaction(clone=body), source=original.manifest)
    await _check_alone(io, made)
    return made


async def _check_alone(io: Io, made: TableState) -> None:
    """Take the new table back and raise `AlreadyExists` if another was made at ``io`` meanwhile.

    Tables that begin with different numbers do not meet when their first versions are created. Each of two cloners
    may find the other's; then neither stays.
    """
    others = [version for version in await versions(io) if version != made.version]
    if others and (min(others) < made.version or await _is_clone(io, min(others))):
        await naming.remove(io, made.version, naming.name(made.version, made.scheme))
        raise AlreadyExists(io.path(paths.VERSIONS))


async def _is_clone(io: Io, version: TableVersion) -> bool:
    transaction = await transaction_of(io, await load(io, version))
    return transaction is not None and transaction.HasField("clone")


@implements("TXN-038")
async def _copy_files(io: Io, source: Io, state: TableState) -> None:
    """Every file in the table's own folder that ``state`` names, under its own name."""
    names: list[str] = []
    for fragment in state.fragments:
        names += [paths.data_file(file.path) for file in fragment.files if not file.HasField("base_id")]
        if fragment.HasField("deletion_file") and not fragment.deletion_file.HasField("base_id"):
            names.append(deletion_path(fragment))
        if any(file.HasField("base_id") for file in fragment.files) or fragment.deletion_file.HasField("base_id"):
            reason = f"fragment {fragment.id} has files in a base path: a deep clone would not be independent of it"
            raise InvalidArgument(reason, clause="TXN-038")
    for index in state.manifest.indices:
        if not is_mem_wal(index) and not index.HasField("base_id"):
            names += await source.list(index_folder(index.uuid.uuid))
    for name in dict.fromkeys(names):
        await confirm.copy(source, io, name)


@implements("TXN-046")
async def add_bases(io: Io, bases: Mapping[str, str]) -> TableState:
    """Add base paths by name: folders that hold data files directly."""
    body = Transaction.UpdateBases(
        new_bases=[table_pb2.BasePath(name=name, path=path, is_dataset_root=False) for name, path in bases.items()]
    )
    return await retried(io, lambda current: commit(io, current, Transaction(update_bases=body)))
