"""A whole table: its versions, what the chosen one holds, its references, its MemWAL index and its regions."""

from __future__ import annotations

from .. import paths
from ..codec import table_manifest
from ..codec.table_manifest import TableManifest
from ..effects import Io
from ..errors import ArtifactError, InvalidArgument, NotFound
from ..ids import TableVersion
from ..index import snapshot
from ..revisions import CONFIG_REVISION, REVISIONS, R, Revision
from ..table import transactions
from ..table import versions as naming
from ..table.state import TableState, check_readable
from ..violations import Violation, objection
from . import files, kinds, versions
from .details import of_details
from .node import U64, Fields, Node, Value, counted, limited, look, node_of
from .regions import inspect_regions

TAGS, BRANCHES = "_refs/tags", "_refs/branches"
"""Folders of a table's references, and of the tables of its branches."""


async def inspect_table(
    io: Io,
    *,
    version: TableVersion | None = None,
    region: str | None = None,
    limit: int = 20,
    entries: int | None = None,
    name: str = "",
) -> Node:
    """The table at ``io``: ``version``, or the newest that can be read.

    ``region``: show this region only, and of the table its version alone. ``limit``: most entries of each list that
    are shown, and looked at; ``entries``: of WAL entries, if not the same. Reads manifests, the last WAL entries, and
    no rows. Raises `NotFound` if there is no trace of a table, `InvalidArgument` for a version or a region that is not
    there.
    """
    listing = await naming.listing(io)
    folders = await io.list_folders(paths.MEM_WAL)
    if not listing.versions and not folders:
        raise NotFound(io.path(paths.VERSIONS))
    if version is not None and version not in listing.versions:
        span = f"{listing.versions[0]} to {listing.versions[-1]}" if listing.versions else "none"
        raise InvalidArgument(f"there is no version {version}; choose one of {span}")
    state, broken = await _newest(io, listing, version)
    damage = list(broken)
    if not listing.versions:
        damage.append(objection(io.path(paths.VERSIONS), "regions exist, and no table version does", "FORMAT-004"))
    revision, misread = _revision(state)
    damage += misread
    fields: tuple[tuple[str, Value], ...] = (
        ("versions", len(listing.versions)),
        ("newest_version", U64(listing.versions[-1]) if listing.versions else None),
        ("naming", listing.scheme.value),
        ("revision", revision.name if state is not None and state_has_mem_wal(state) else None),
        ("regions", len(folders)),
    )
    children: list[Node] = []
    if state is not None:
        children.append(await _chosen(io, state, listing.name(state.version), limit))
    if region is None:
        children.append(await _history(io, listing, limit))
        children += await _references(io, limit)
        if state is not None:
            children += await _mem_wal(io, state, revision)
    if folders or region is not None:
        children.append(await inspect_regions(io, revision, limit, region, limit if entries is None else entries))
    return Node(kind="table", name=name, fields=fields, damage=tuple(damage), children=tuple(children))


def state_has_mem_wal(state: TableState) -> bool:
    """Whether some index entry is one of MemWAL, readable or not."""
    return any(i.index_details.type_url.endswith("MemWalIndexDetails") for i in state.manifest.indices)


async def _newest(
    io: Io, listing: naming.Listing, version: TableVersion | None
) -> tuple[TableState | None, list[Violation]]:
    """The version that is asked for, or the newest that can be read, and why those above it cannot."""
    broken: list[Violation] = []
    for number in (version,) if version is not None else reversed(listing.versions):
        path = listing.name(number)
        found = await look(_manifest(io, path, number), io.path(path))
        if isinstance(found, TableManifest):
            return TableState(found, io.path(path)), broken
        broken.append(found)
    return None, broken


async def _manifest(io: Io, name: str, version: TableVersion) -> TableManifest:
    found = table_manifest.decode(await io.get(name), io.path(name))
    if found.message.version != version:
        reason = f"the manifest says version {found.message.version}, its name {version}"
        raise ArtifactError("FORMAT-007", io.path(name), reason)
    return found


def _revision(state: TableState | None) -> tuple[Revision, list[Violation]]:
    """The revision that the table's config names; R where it names none, or one that is not known."""
    if state is None:
        return R, []
    name = state.config.get(CONFIG_REVISION, R.name)
    if name in REVISIONS:
        return REVISIONS[name], []
    known = ", ".join(REVISIONS)
    return R, [objection(state.path, f"config {CONFIG_REVISION} is {name!r}; it must be one of {known}", "AMB-06")]


async def _chosen(io: Io, state: TableState, name: str, limit: int) -> Node:
    """The version with all that it names, and the files of its first fragments that are not there."""
    node = versions.of_manifest(state.manifest, state.path, name, limit, details=False)
    missing, outside = await versions.files_there(io, state, limit)
    damage = [*node.damage, *missing]
    try:
        check_readable(state)
    except InvalidArgument as error:
        damage.append(objection(state.path, str(error), error.clause))
    children = list(node.children)
    file = state.manifest.message.transaction_file
    if state.manifest.transaction is None and file:
        path = io.path(paths.transaction(file))
        children.append(await node_of(_transaction(io, file), kinds.TRANSACTION, file, path))
    return Node(
        kind=node.kind,
        name=name,
        fields=(*node.fields, ("files_outside", outside)),
        damage=tuple(damage),
        children=tuple(children),
        more=node.more,
    )


async def _transaction(io: Io, file: str) -> Node:
    name = paths.transaction(file)
    try:
        data = await io.get(name)
    except NotFound:
        reason = "the table manifest names this transaction file, and it is not there"
        raise ArtifactError("TXN-016", io.path(name), reason) from None
    return versions.transaction_node(transactions.decode(data, io.path(name)), file)


async def _history(io: Io, listing: naming.Listing, limit: int) -> Node:
    """The newest versions, each with the operation that made it."""
    shown, more = limited(listing.versions[::-1], limit)
    found = []
    for version in shown:
        name = listing.name(version)
        found.append(await node_of(_version(io, name, version), "version", str(version), io.path(name)))
    return counted("versions", "versions", found, more)


async def _version(io: Io, name: str, version: TableVersion) -> Node:
    manifest = await _manifest(io, name, version)
    keep = ("version", "timestamp", "rows", "fragments", "transaction_file")
    fields: Fields = tuple(pair for pair in versions.manifest_fields(manifest) if pair[0] in keep)
    file = manifest.message.transaction_file
    damage: list[Violation] = []
    operation: str | None = None
    if manifest.transaction is not None:
        operation = transactions.operation(manifest.transaction) or "not known"
    elif file:
        made = await look(_transaction(io, file), io.path(paths.transaction(file)))
        if isinstance(made, Violation):
            damage.append(made)
        else:
            operation = str(dict(made.fields)["operation"])
    return Node(kind="version", name=str(version), fields=(*fields, ("operation", operation)), damage=tuple(damage))


async def _references(io: Io, limit: int) -> list[Node]:
    """Tags and branches."""
    found = []
    for folder, kind in ((TAGS, kinds.TAG), (BRANCHES, kinds.BRANCH)):
        names = await io.list(folder)
        if not names:
            continue
        shown, more = limited(names, limit)
        nodes = [await node_of(_reference(io, name, kind), kind, name, io.path(name)) for name in shown]
        found.append(counted(f"{kind}s" if kind == kinds.TAG else "branches", f"{kind}s", nodes, more))
    return found


async def _reference(io: Io, name: str, kind: str) -> Node:
    return files.describe(await io.get(name), io.path(name), name, R, kind)


async def _mem_wal(io: Io, state: TableState, revision: Revision) -> list[Node]:
    """The MemWAL index, or each of several, with where its region snapshot is."""
    found = []
    entries = [i for i in state.manifest.indices if i.index_details.type_url.endswith("MemWalIndexDetails")]
    for entry in entries:
        node = of_details(entry.index_details.value, state.path, revision, entry.name)
        damage = list(node.damage)
        children = list(node.children)
        if len(entries) > 1:
            damage.append(objection(state.path, f"{len(entries)} MemWAL indexes; a table has one", "INDEX-001"))
        elif not damage and len(entry.uuid.uuid) == 16:
            name = snapshot.external(entry.uuid.uuid)
            held = dict(node.fields)
            if revision.snapshot_files and held.get("inline_snapshot_bytes") is None and held.get("num_regions"):
                children.append(await node_of(_snapshot(io, name), "region_snapshot", name, io.path(name)))
        found.append(
            Node(kind=node.kind, name=node.name, fields=node.fields, damage=tuple(damage), children=tuple(children))
        )
    return found


async def _snapshot(io: Io, name: str) -> Node:
    try:
        size = await io.head(name)
    except NotFound:
        reason = "the index counts regions, and this file is not there"
        raise ArtifactError("SNAP-013", io.path(name), reason) from None
    return Node(kind="region_snapshot", name=name, fields=(("size_bytes", U64(size)),))
