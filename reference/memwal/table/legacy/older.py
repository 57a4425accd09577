"""What the manifests of older writers leave out, filled in when a version is loaded.

Versions of pylance before 0.8 record no row counts, those before 0.16 no version of the data files. Whatever reads a
table finds all of it, and the next commit writes it.
Source: table documents, "Manifest", "Fragments" and "Deletion Files".
"""

from __future__ import annotations

import uuid

from ... import paths
from ...clauses import implements
from ...codec import deletion, protobuf
from ...codec.data_file import FLAT_VERSION, FileVersion
from ...codec.pb.lance import table_pb2
from ...codec.table_manifest import TableManifest
from ...effects import Io
from ...errors import InvalidArgument
from .. import reuse, stored_file
from . import reading, structure

LEGACY_VERSION: FileVersion = (0, 1)
"""What manifests call all file versions before 2."""
_PREVIEW_VERSION = (0, 3)
"""How files of version 2.0 named themselves at first."""
_FLAG_VERSION_2 = 4
"""Feature flag by which a table without fragments said that its files will be of version 2."""


def version_text(version: FileVersion) -> str:
    """A file version as manifests write it."""
    return ".".join(map(str, version))


def table_version(version: FileVersion) -> FileVersion:
    """What a manifest calls the version of its files where one of them says ``version``."""
    if version in structure.VERSIONS:
        return LEGACY_VERSION
    return FLAT_VERSION if version == _PREVIEW_VERSION else version


@implements("FORMAT-021")
def file_versions(message: table_pb2.Manifest) -> frozenset[FileVersion]:
    """The versions of all data files of a table version, as its manifest calls them: one, or none without files."""
    files = (file for fragment in message.fragments for file in fragment.files)
    return frozenset(table_version((file.file_major_version, file.file_minor_version)) for file in files)


@implements("FORMAT-011", "FORMAT-015")
def highest_fragment_id(message: table_pb2.Manifest) -> int:
    """The highest fragment id that a table ever used, as far as a version tells; -1 for none.

    The field is absent where an older writer made one fragment, and goes for nothing where a fragment is above it.
    """
    recorded = [message.max_fragment_id] if message.HasField("max_fragment_id") else []
    return max([*recorded, *(fragment.id for fragment in message.fragments)], default=-1)


def size_recorded(file: table_pb2.DataFile) -> int:
    """Bytes that a data file has to have; 0 if nothing reliable says it.

    Versions of pylance from 0.33 to 7.0 record a size for files before version 2 that leaves out their first part.
    """
    return 0 if (file.file_major_version, file.file_minor_version) in structure.VERSIONS else file.file_size_bytes


def unknown_rows(fragment: table_pb2.DataFragment) -> bool:
    """Whether a fragment does not say how many rows it has."""
    return bool(fragment.files) and not fragment.physical_rows


def doubled(message: table_pb2.Manifest) -> list[int]:
    """Fragment ids that a version has more than once."""
    ids = [fragment.id for fragment in message.fragments]
    return sorted({number for number in ids if ids.count(number) > 1}) if len(set(ids)) < len(ids) else []


@implements("FORMAT-017", "FORMAT-021", "FORMAT-040")
async def completed(io: Io, manifest: TableManifest, path: str) -> TableManifest:
    """``manifest`` with the file version, row counts and reuse of fragments that it does not say itself.

    Costs a request or two for each file that has to be asked, and none for what newer writers wrote. Raises
    `ArtifactError` for such a file that is missing or damaged, and `InvalidArgument` for one in a base path.
    """
    if not _misses(manifest.message) and not any(map(_lies_outside, manifest.indices)):
        return manifest
    message = table_pb2.Manifest()
    message.CopyFrom(manifest.message)
    if not message.data_format.version:
        message.data_format.file_format = "lance"
        message.data_format.version = version_text(told_by_files(message))
    for fragment in message.fragments:
        if unknown_rows(fragment):
            fragment.physical_rows = await _rows(io, message, fragment, path)
        if fragment.HasField("deletion_file") and not fragment.deletion_file.num_deleted_rows:
            fragment.deletion_file.num_deleted_rows = await _deleted(io, fragment, path)
    indices = [await _with_content(io, entry) for entry in manifest.indices]
    return TableManifest(message=message, indices=tuple(indices), transaction=manifest.transaction)


def _misses(message: table_pb2.Manifest) -> bool:
    return not message.data_format.version or any(
        unknown_rows(fragment) or (fragment.HasField("deletion_file") and not fragment.deletion_file.num_deleted_rows)
        for fragment in message.fragments
    )


def _lies_outside(entry: table_pb2.IndexMetadata) -> bool:
    """Whether the content of a fragment reuse index lies in a file of the table."""
    return reuse.is_reuse(entry) and not entry.HasField("base_id") and reuse.details(entry, "").HasField("external")


@implements("FORMAT-021")
def told_by_files(message: table_pb2.Manifest) -> FileVersion:
    """The version of a table's data files where its manifest does not name one."""
    found = file_versions(message)
    if found:
        return min(found)
    return FLAT_VERSION if message.writer_feature_flags & _FLAG_VERSION_2 else LEGACY_VERSION


async def _rows(io: Io, message: table_pb2.Manifest, fragment: table_pb2.DataFragment, path: str) -> int:
    """Physical rows of a fragment, by its first data file."""
    file = fragment.files[0]
    _check_inside(fragment, file.HasField("base_id"), path)
    name = paths.data_file(file.path)
    return await stored_file.rows(io, name, file, message.fields)


async def _deleted(io: Io, fragment: table_pb2.DataFragment, path: str) -> int:
    """Rows in a fragment's deletion file."""
    file = fragment.deletion_file
    _check_inside(fragment, file.HasField("base_id"), path)
    name = f"{paths.DELETIONS}/{deletion.name(fragment)}"
    data = await reading.get(io, name, "FORMAT-034")
    return len(deletion.decode(data, file.file_type, fragment.physical_rows, io.path(name)))


def _check_inside(fragment: table_pb2.DataFragment, elsewhere: bool, path: str) -> None:
    if elsewhere:
        reason = f"{path}: fragment {fragment.id} records no rows, and its files lie in a base path"
        raise InvalidArgument(f"{reason}: have pylance commit to the table that they are from, and clone it anew")


@implements("TXN-054")
async def _with_content(io: Io, entry: table_pb2.IndexMetadata) -> table_pb2.IndexMetadata:
    """A fragment reuse index with its content inside, where that lies in a file; any other entry as it is."""
    if not _lies_outside(entry):
        return entry
    found, clause = reuse.details(entry, io.path(entry.name)).external, "TXN-054"
    name = f"{paths.INDICES}/{uuid.UUID(bytes=entry.uuid.uuid)}/{found.path}"
    content = await reading.get(io, name, clause, found.offset, found.size)
    inline = protobuf.parse(
        table_pb2.FragmentReuseIndexDetails.InlineContent, content, clause=clause, path=io.path(name)
    )
    whole = table_pb2.IndexMetadata()
    whole.CopyFrom(entry)
    whole.index_details.value = protobuf.serialise(table_pb2.FragmentReuseIndexDetails(inline=inline))
    return whole
