"""One table version in a private local folder, complete enough for pylance to open it and to build indexes there.

The version's own manifest, with the files that are asked for; files that are never read need not be there. Base paths
are turned into folders beside the mirrored table. The private folder is scratch: nothing in it outlives the mirror, and
the store sees none of it.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from .. import paths
from ..clauses import implements
from ..codec import table_manifest
from ..codec.pb.lance import table_pb2
from ..codec.table_manifest import TableManifest
from ..effects import Io
from ..errors import ArtifactError, InvalidArgument, NoRoom, NotFound
from ..ids import FragmentId
from . import read
from .state import TableState

_TABLE = "table"
_BASES = "bases"


class Mirror:
    """A private folder; a context manager that removes it. Names are relative to the mirrored table."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="memwal-mirror-")
        self._root = Path(self._scratch.name).resolve()

    def __enter__(self) -> Mirror:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scratch.cleanup()

    @property
    def location(self) -> str:
        """The mirrored table, as pylance opens it."""
        return str(self._root / _TABLE)

    def base(self, number: int) -> str:
        """Absolute folder that stands for a base path of the table."""
        return str(self._root / _BASES / str(number))

    def write(self, name: str, data: bytes) -> None:
        """Write a file. Raises `ArtifactError` for a name that leaves the mirror, `NoRoom` for a full disk."""
        target = self._inside(name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise NoRoom(name, f"cannot be mirrored in the local scratch folder: {error.strerror}") from error

    def path(self, name: str) -> Path:
        """Where a file of the mirrored table is."""
        return self._inside(name)

    def files(self, folder: str) -> Iterator[str]:
        """Names of the files below ``folder``, sorted."""
        table = self._root / _TABLE
        found = self._inside(folder)
        yield from sorted(str(path.relative_to(table)) for path in found.rglob("*") if path.is_file())

    def newest(self) -> TableManifest:
        """Manifest of the newest version in the mirror, after a commit to it."""
        folder = self._inside(paths.VERSIONS)
        newest = max(v for path in folder.iterdir() if (v := paths.table_version(path.name)) is not None)
        name = paths.table_manifest(newest)
        return table_manifest.decode(self._inside(name).read_bytes(), name)

    def _inside(self, name: str) -> Path:
        target = (self._root / _TABLE / name).resolve()
        if not target.is_relative_to(self._root):
            raise ArtifactError("FORMAT-018", name, "the name of a file leads out of the table's folder")
        return target


@implements("FORMAT-013", "AMB-40")
async def fill(
    io: Io,
    state: TableState,
    mirror: Mirror,
    *,
    fragments: Collection[FragmentId],
    indices: Sequence[table_pb2.IndexMetadata],
) -> None:
    """Write into ``mirror`` the manifest of ``state`` with ``indices`` as its only indexes, and the files they need.

    ``fragments``: those whose data and deletion files are fetched; the manifest names all of them, so that row
    addresses and the coverage of indexes mean what they mean in the table. One file at a time is in memory. Raises
    `ArtifactError` for a file that is named and not there.
    """
    message = table_pb2.Manifest()
    message.CopyFrom(state.manifest.message)
    for base in message.base_paths:
        base.path = mirror.base(base.id)
    manifest = TableManifest(message=message, indices=tuple(indices))
    mirror.write(paths.table_manifest(state.version), table_manifest.encode(manifest))
    wanted = set(fragments)
    for fragment in state.fragments:
        if fragment.id in wanted:
            await _fetch_fragment(io, state, mirror, fragment)
    for entry in indices:
        await fetch_index(io, state, mirror, entry)


async def _fetch_fragment(io: Io, state: TableState, mirror: Mirror, fragment: table_pb2.DataFragment) -> None:
    roots = {base.id: base.is_dataset_root for base in state.manifest.message.base_paths}
    for file in fragment.files:
        data = await _get(io, read.file_path(io, state, file))
        name = paths.data_file(file.path)
        if file.HasField("base_id"):
            name = f"{mirror.base(file.base_id)}/{name if roots[file.base_id] else file.path}"
        mirror.write(name, data)
    if fragment.HasField("deletion_file"):
        name, data = read.deletion_path(fragment), await _get(io, read.deletion_name(io, state, fragment))
        if fragment.deletion_file.HasField("base_id"):
            number = fragment.deletion_file.base_id
            inner = name if roots[number] else name.removeprefix(f"{paths.DELETIONS}/")
            name = f"{mirror.base(number)}/{inner}"
        mirror.write(name, data)


async def fetch_index(io: Io, state: TableState, mirror: Mirror, entry: table_pb2.IndexMetadata) -> None:
    """Fetch all files of one index entry; an index that covers nothing yet may have none."""
    if entry.HasField("base_id"):
        raise InvalidArgument(f"{state.path}: index {entry.name!r} lies in a base path", clause="AMB-40")
    if len(entry.uuid.uuid) != 16:
        reason = f"index {entry.name!r} has a UUID of {len(entry.uuid.uuid)} bytes"
        raise ArtifactError("FORMAT-018", state.path, reason)
    for name in await io.list(index_folder(entry.uuid.uuid)):
        mirror.write(name, await _get(io, name))


def index_folder(identity: bytes) -> str:
    """Folder of an index entry's files, relative to the table, for the 16 bytes of its UUID."""
    return f"{paths.INDICES}/{uuid.UUID(bytes=identity)}"


async def _get(io: Io, name: str) -> bytes:
    try:
        return await io.get(name)
    except NotFound:
        raise ArtifactError(
            "FORMAT-018", io.path(name), "the table manifest names this file, and it is not there"
        ) from None
