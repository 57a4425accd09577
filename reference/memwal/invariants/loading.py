"""Loading a table version with everything in it that is parsed later on."""

from __future__ import annotations

from ..codec import deletion
from ..effects import Io
from ..errors import ArtifactError
from ..ids import TableVersion
from ..table.state import TableState, load


async def opened(io: Io, version: TableVersion) -> TableState:
    """The version, after looking at its schema, key, config, fragments and indexes.

    Raises `ArtifactError` for what would fail later, `NotFound`, and `InvalidArgument` for features not understood.
    """
    state = await load(io, version)
    _ = state.schema, state.primary_key, state.field_ids, state.config
    for fragment in state.fragments:
        kind = fragment.deletion_file.file_type
        if fragment.HasField("deletion_file") and kind not in deletion.EXTENSIONS:
            raise ArtifactError("FORMAT-052", state.path, f"fragment {fragment.id} has a deletion file of type {kind}")
        if any(not file.path for file in fragment.files):
            raise ArtifactError("FORMAT-018", state.path, f"fragment {fragment.id} has a data file without a name")
    for index in state.manifest.indices:
        if len(index.uuid.uuid) != 16:
            raise ArtifactError(
                "FORMAT-005", state.path, f"index {index.name!r} has a UUID of {len(index.uuid.uuid)} bytes"
            )
    return state
