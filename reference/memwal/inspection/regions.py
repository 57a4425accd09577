"""The regions of a table: manifests, hint, WAL and generations, from names as far as names tell."""

from __future__ import annotations

from .. import paths
from ..codec import hint, region_manifest, wal
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..effects import Io
from ..errors import ArtifactError, InvalidArgument, NotFound
from ..ids import ManifestVersion, RegionId, WalPosition
from ..region import manifest as manifests
from ..region import wal_folder
from ..region.recovery import replay_start
from ..revisions import Revision
from ..table import versions as naming
from ..table.state import load
from ..violations import Violation, objection
from . import files, kinds, lance_files
from .node import U64, Node, Value, counted, damaged, limited, look, node_of


async def inspect_regions(table: Io, revision: Revision, limit: int, only: str | None, entries: int) -> Node:
    """Every region in the store, or ``only`` one. Raises `InvalidArgument` if that is not there.

    ``entries``: most WAL entries of each that are looked at; ``limit``: most of all else.
    """
    folders = await table.list_folders(paths.MEM_WAL)
    if only is not None and only not in folders:
        reason = f"there is no region {only}; there are {', '.join(folders) or 'none'}"
        raise InvalidArgument(reason)
    wanted = [folder for folder in folders if only in (None, folder)]
    shown, more = limited(wanted, limit)
    found = []
    for folder in shown:
        await table.note("inspecting", region=folder)
        found.append(await _region(table, folder, revision, limit, entries))
    return counted("regions", "regions", found, more)


async def _region(table: Io, folder: str, revision: Revision, limit: int, entries: int) -> Node:
    io = manifests.folder(table, RegionId(folder))
    names = await look(_names(io), io.root)
    if isinstance(names, Violation):
        return damaged("region", folder, names)
    in_manifest, in_wal = names
    numbers = sorted(v for name in in_manifest if (v := paths.manifest_version(name)) is not None)
    newest, broken = await _newest(io, numbers, revision)
    children = [_manifests(numbers, newest, broken, limit)]
    if paths.VERSION_HINT.rpartition("/")[2] in in_manifest:
        children.append(await node_of(_hint(io), kinds.VERSION_HINT, paths.VERSION_HINT, io.path(paths.VERSION_HINT)))
    children.append(await _wal(io, in_wal, newest, revision, entries))
    children.append(await _generations(io, newest, revision, limit))
    fields: list[tuple[str, Value]] = [("manifests", len(numbers))]
    if newest is not None:
        fields += files.manifest_fields(newest)
    return Node(kind="region", name=folder, fields=tuple(fields), children=tuple(children))


async def _names(io: Io) -> tuple[list[str], list[str]]:
    return [n.removeprefix("manifest/") for n in await io.list("manifest")], list(await io.list("wal"))


async def _newest(
    io: Io, numbers: list[ManifestVersion], revision: Revision
) -> tuple[RegionManifest | None, list[Violation]]:
    """The newest manifest that can be read, and those above it that cannot."""
    broken: list[Violation] = []
    for number in reversed(numbers):
        name = paths.manifest(number)
        found = await look(_manifest(io, name, revision), io.path(name))
        if isinstance(found, RegionManifest):
            return found, broken
        broken.append(found)
    return None, broken


async def _manifest(io: Io, name: str, revision: Revision) -> RegionManifest:
    return region_manifest.decode(await io.get(name), revision, io.path(name))


def _manifests(
    numbers: list[ManifestVersion], newest: RegionManifest | None, broken: list[Violation], limit: int
) -> Node:
    shown, more = limited(numbers[::-1], limit)
    fields: list[tuple[str, Value]] = [
        ("count", len(numbers)),
        ("first", U64(numbers[0]) if numbers else None),
        ("last", U64(numbers[-1]) if numbers else None),
        ("newest_readable", U64(newest.version) if newest is not None else None),
        ("versions", tuple(U64(number) for number in shown)),
    ]
    return Node(kind="region_manifests", name="manifests", fields=tuple(fields), damage=tuple(broken), more=more)


async def _hint(io: Io) -> Node:
    found = hint.decode(await io.get(paths.VERSION_HINT), io.path(paths.VERSION_HINT))
    if found is None:
        reason = "it is not an object with a version: readers look for the newest without it"
        raise ArtifactError("MANIFEST-026", io.path(paths.VERSION_HINT), reason)
    return Node(kind=kinds.VERSION_HINT, name=paths.VERSION_HINT, fields=(("version", U64(found)),))


async def _wal(io: Io, names: list[str], newest: RegionManifest | None, revision: Revision, limit: int) -> Node:
    """The WAL, and of its entries the last ones."""
    positions = wal_folder.positions(names, revision)
    start = replay_start(newest, revision) if newest is not None else revision.first_position
    tail = [position for position in positions if position >= start]
    shown = positions[-limit:] if limit else ()
    found = []
    for position in shown:
        name = paths.wal(position, revision.wal_suffix)
        node = await node_of(_entry(io, name, position, revision), kinds.WAL_ENTRY, str(position), io.path(name))
        found.append(node)
    hole = wal_folder.first_hole(start, tail)
    strange = wal_folder.strangers(names, revision)
    damage = [
        objection(
            io.path(name), f"entries of revision {revision.name} have the suffix .{revision.wal_suffix}", "AMB-10"
        )
        for name in strange
    ]
    if hole is not None:
        path = io.path(paths.wal(hole[0], revision.wal_suffix))
        damage.append(objection(path, f"entry {hole[0]} is missing, entry {hole[1]} exists", "WAL-007"))
    fields: list[tuple[str, Value]] = [
        ("count", len(positions)),
        ("first", U64(positions[0]) if positions else None),
        ("last", U64(positions[-1]) if positions else None),
        ("replay_from", U64(start)),
        ("unflushed", len(tail)),
    ]
    more = len(positions) - len(shown)
    return Node(kind="wal", name="WAL", fields=tuple(fields), damage=tuple(damage), children=tuple(found), more=more)


async def _entry(io: Io, name: str, position: WalPosition, revision: Revision) -> Node:
    if revision.wal_container == "lance":
        found = await lance_files.inspect(io, name, await io.head(name), 0)
        keep = ("size_bytes", "rows", "container", "epoch", "barrier")
        fields = tuple(pair for pair in found.fields if pair[0] in keep)
        if found.kind != kinds.WAL_ENTRY:
            raise ArtifactError("WAL-010", io.path(name), "the schema metadata have no writer_epoch")
        return Node(kind=kinds.WAL_ENTRY, name=str(position), fields=fields, damage=found.damage)
    data = await io.get(name)
    entry = wal.decode(data, revision, io.path(name))
    fields = (("size_bytes", U64(len(data))), *files.wal_fields(entry))
    return Node(kind=kinds.WAL_ENTRY, name=str(position), fields=fields)


async def _generations(io: Io, newest: RegionManifest | None, revision: Revision, limit: int) -> Node:
    """Generations that the manifest lists, and folders of generations that it does not."""
    listed = newest.flushed if newest is not None else ()
    shown, more = limited(listed[::-1], limit)
    found = [await _generation(io, one, revision) for one in shown]
    folders = [f for f in await io.list_folders() if paths.generation_number(f) is not None]
    unlisted = sorted(set(folders) - {one.path for one in listed})
    fields: tuple[tuple[str, Value], ...] = (("unlisted_folders", tuple(unlisted[:limit])),)
    return counted("generations", "generations", found, more, fields)


async def _generation(io: Io, listed: FlushedGeneration, revision: Revision) -> Node:
    inner = io.child(listed.path)
    fields: list[tuple[str, Value]] = [("generation", U64(listed.generation))]
    damage: list[Violation] = []
    state = await look(_state(inner), inner.root)
    if isinstance(state, Violation):
        damage.append(state)
    else:
        fields += state
    children = []
    for name in (paths.BLOOM_FILTER, *(("_pk_index/page_lookup.lance",) if revision.key_index else ())):
        size = await look(inner.head(name), inner.path(name))
        if isinstance(size, Violation):
            damage.append(objection(size.path, size.reason, "GEN-010" if name == paths.BLOOM_FILTER else "AMB-48"))
        else:
            children.append(Node(kind="file", name=name, fields=(("size_bytes", U64(size)),)))
    return Node(
        kind="generation", name=listed.path, fields=tuple(fields), damage=tuple(damage), children=tuple(children)
    )


async def _state(inner: Io) -> list[tuple[str, Value]]:
    """Version, rows and fragments of a generation's table. Raises `ArtifactError`."""
    listed = (await naming.listing(inner)).versions
    if not listed:
        raise ArtifactError("GEN-001", inner.root, "the generation is listed, and it has no table version")
    try:
        state = await load(inner, listed[-1])
    except NotFound as missing:
        raise ArtifactError("GEN-001", missing.path, "it is listed, and it is not there") from None
    bases = tuple(base.path for base in state.manifest.message.base_paths)
    return [
        ("version", U64(state.version)),
        ("rows", U64(max(0, state.rows))),
        ("fragments", len(state.fragments)),
        ("base_paths", bases),
    ]
