"""Invariants of the versions of a table, whether MemWAL is enabled on it or not.

Source: table documents, "Manifest Naming Schemes", "Commit Algorithm" and "Table Format"; AMB-87, 119, 120, 130.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from .. import paths
from ..ids import TableVersion
from ..table.legacy import older
from ..table.state import TableState
from ..table.transactions import Transaction
from ..table.versions import Listing
from ..violations import Violation, objection
from .finding import invariant

_RESTORE = "Restore the object from a backup of the store. Other versions stay readable."


@invariant(
    "TXN-003",
    "FORMAT-004",
    "FORMAT-007",
    "FORMAT-008",
    "FORMAT-028",
    about="table",
    remedy=_RESTORE,
)
def table_versions_open(damaged: Iterable[Violation]) -> Iterator[Violation]:
    """Every retained table version can be loaded and says the version that its name says."""
    yield from damaged


@invariant(
    "TXN-002",
    "TXN-001",
    about="table",
    severity="warning",
    remedy="The missing versions cannot be read any more. A collector deletes oldest versions first, and keeps those "
    "that tags and branches name; find out who deleted others.",
)
def table_versions_are_dense(listing: Listing, kept: Set[TableVersion], folder: str) -> Iterator[Violation]:
    """Retained table versions form one block, below which a tag, a branch or a clock keeps some: ``kept``.

    By age a version is kept that was committed before a clock was put back.
    """
    versions = listing.versions
    for a, b in reversed(list(zip(versions, versions[1:], strict=False))):
        if b != a + 1:
            left = [version for version in versions if version <= a and version not in kept]
            if left:
                reason = f"versions {a + 1} to {b - 1} are missing, and nothing keeps version {left[-1]}"
                yield objection(f"{folder}/{listing.name(TableVersion(a + 1)).rpartition('/')[2]}", reason)
            return


@invariant(
    "AMB-120",
    "TXN-018",
    "TXN-019",
    about="table",
    remedy="Two implementations disagree about the newest version. Stop all writers, then rename the manifests of one "
    "scheme, after comparing the version inside of each.",
)
def table_versions_have_one_naming_scheme(listing: Listing, folder: str) -> Iterator[Violation]:
    """All manifests of a table are named by one scheme."""
    if listing.mixed:
        named = ", ".join(f"{version} as {scheme.value}" for version, scheme in listing.schemes[-8:])
        yield objection(folder, f"manifests of both naming schemes: {named}")


@invariant(
    "TXN-010",
    "FORMAT-012",
    "TXN-022",
    "AMB-130",
    about="table",
    severity="warning",
    remedy="A commit that has to be compared with this version fails as conflicting; running it again succeeds. "
    "Nothing else reads the file.",
)
def transactions_are_there(
    state: TableState, names: frozenset[str], transaction: Transaction | Violation | None
) -> Iterator[Violation]:
    """Each version has its transaction, in the manifest or as a readable file."""
    name = state.manifest.message.transaction_file
    folder = state.path.rpartition(f"{paths.VERSIONS}/")[0]
    if state.manifest.transaction is not None:
        return
    if not name:
        yield objection(state.path, f"version {state.version} names no transaction", "AMB-130")
    elif paths.transaction(name) not in names:
        yield objection(
            f"{folder}{paths.transaction(name)}", f"the transaction of version {state.version} is not there"
        )
    elif isinstance(transaction, Violation):
        yield transaction
    elif transaction is not None and not transaction.uuid:
        yield objection(f"{folder}{paths.transaction(name)}", "the transaction has no UUID", "TXN-022")


@invariant(
    "FORMAT-015",
    "FORMAT-011",
    "TXN-025",
    about="table",
    remedy="Row addresses and indexes are ambiguous. Restore an older version, and find out who committed this one.",
)
def fragment_ids_are_unique(state: TableState) -> Iterator[Violation]:
    """Fragment ids of a version are unique, and none is above the highest that was ever used."""
    message = state.manifest.message
    ids = [fragment.id for fragment in message.fragments]
    twice = sorted({i for i in ids if ids.count(i) > 1}) if len(set(ids)) < len(ids) else []
    if twice:
        yield objection(state.path, f"fragments {twice} occur more than once in version {state.version}")
    if ids and message.HasField("max_fragment_id") and max(ids) > message.max_fragment_id:
        reason = f"fragment {max(ids)} is above {message.max_fragment_id}, the highest id of version {state.version}"
        yield objection(state.path, reason, "FORMAT-011")


@invariant(
    "FORMAT-021",
    about="table",
    remedy="No pylance opens this version. Restore the one before, or have `memwal.base_table(...).upgrade()` write "
    "all rows anew.",
)
def data_files_have_one_version(state: TableState) -> Iterator[Violation]:
    """All data files of a table version have the file version that its manifest names."""
    found = sorted(older.file_versions(state.manifest.message) | {state.file_version})
    if len(found) > 1:
        named = ", ".join(map(older.version_text, found))
        yield objection(state.path, f"version {state.version} has data files, or names them, of versions {named}")


@invariant(
    "FORMAT-010",
    "FORMAT-034",
    about="table",
    severity="warning",
    remedy="A reader that goes by the flag shows deleted rows. Any delete or merge by this engine sets it again.",
)
def deletion_files_are_announced(state: TableState) -> Iterator[Violation]:
    """A version with deletion files says so in its feature flags."""
    message = state.manifest.message
    flags = message.reader_feature_flags & message.writer_feature_flags
    if any(f.HasField("deletion_file") for f in message.fragments) and not flags & 1:
        yield objection(state.path, f"version {state.version} has deletion files, and its feature flags do not say so")


@invariant(
    "GC-003",
    about="table",
    severity="warning",
    remedy="The collector refuses the table while a tag or a branch cannot be read. Delete it, or tag another version.",
)
def tags_name_versions(
    tags: Mapping[str, Set[TableVersion] | Violation],
    branches: Mapping[str, Set[TableVersion] | Violation],
    listing: Listing,
) -> Iterator[Violation]:
    """Every tag and every branch can be read, and a tag names a version that exists.

    A branch of a branch names versions that are not this table's.
    """
    for path, named in (*tags.items(), *branches.items()):
        if isinstance(named, Violation):
            yield named
        elif path in tags and not named <= set(listing.versions):
            yield objection(path, f"the tag names version {min(named)}, which is not there")
