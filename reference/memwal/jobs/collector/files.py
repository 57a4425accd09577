"""Files of the base table that no retained version names: data, deletions, indexes, snapshots and transactions.

**Why this is safe.** A file is deleted only if what named it is done with it. That is an expired version, whose
files are out of reach once its manifest is gone: a commit names the files of the version that it is built on, which
stays, and new files under fresh names, which no expired version knows. Or it is the transaction of an attempt that
committed nothing, if the version after the one that it read is expired: to commit it would have to be compared with
that. An attempt may be made again with the same files under a new transaction, which says so as soon as it is written;
so these files stay where a transaction names them that may still be committed, and go only after a grace time. Files
that nothing is known to have named are left: a commit writes its files before it says so.

Files go before the transactions that name them, and the manifests in `EXPIRED` go last, when nothing is left that they
name but what is in use. So a collector may stop anywhere, and the next one still knows what this one knew.

Source: MemWAL revisions A and B, "Garbage Collector" and "Region Snapshot Storage"; table documents, "Storage Layout"
and "Commit Algorithm".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ... import confirm, paths
from ...clauses import implements
from ...codec import protobuf
from ...codec.pb.lance import transaction_pb2
from ...codec.table_manifest import TableManifest
from ...effects import Io
from ...errors import NotFound
from ...ids import Milliseconds, TableVersion
from ...table.state import TableState, timestamp_ms
from . import names
from .decision import Eligibility, KeepRule, Kind, lasting
from .ledger import Ledger
from .policy import Policy
from .versions import detached_manifests, expired_manifests

FOLDERS: Mapping[str, Kind] = {
    paths.DATA: "data",
    paths.DELETIONS: "deletion",
    paths.INDICES: "index",
    paths.TRANSACTIONS: "transaction",
}
"""Folders with files that versions name, in the order of deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncommittedTransaction:
    """A transaction that no version names."""

    name: str
    read_version: TableVersion
    next_ms: Milliseconds | None
    """Time stamp of the first retained version above the one that it read; None where that has none."""
    under_way: bool
    """Whether the version after the one that it read is there, or is still to come."""


@dataclass(slots=True)
class Known:
    """Who names which file."""

    in_use: dict[str, str] = field(default_factory=dict)
    """File -> the version, in words."""
    expired: dict[str, TableVersion] = field(default_factory=dict)
    attempts: dict[str, list[UncommittedTransaction]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file, or an index with all its files."""

    name: str
    known: Known
    policy: Policy
    now_ms: Milliseconds


def _in_use(file: File) -> str:
    user = file.known.in_use.get(file.name)
    return f"named by {user}" if user is not None else ""


@implements("GC-014")
def _under_way(file: File) -> str:
    for attempt in file.known.attempts.get(file.name, ()):
        if attempt.under_way:
            return f"a commit on version {attempt.read_version} may be under way"
    return ""


def _unknown(file: File) -> str:
    named = file.name in file.known.expired or file.name in file.known.attempts
    return "" if named else "unknown: no version and no transaction that is there names it; a commit may be writing it"


def _may_go_on(file: File) -> str:
    if file.name in file.known.expired:
        return ""
    grace = file.policy.grace_ms
    for attempt in file.known.attempts[file.name]:
        if not grace:
            return f"left by an attempt on version {attempt.read_version}; it takes a grace time to know that it ended"
        if attempt.next_ms is None or attempt.next_ms > file.now_ms - grace:
            return f"left by an attempt on version {attempt.read_version}, which was replaced within {lasting(grace)}"
    return ""


_RULES: tuple[KeepRule[File], ...] = (
    KeepRule(name="in use", stays="while a retained version names it", clauses=("GC-003",), reason=_in_use),
    KeepRule(name="under way", stays="while a transaction names it that may still be committed: the version after the "
         "one that it read is there, or is still to come", clauses=("GC-014",), reason=_under_way),
    KeepRule(name="unknown", stays="if no expired version and no transaction names it", clauses=("AMB-76",),
         reason=_unknown),
    KeepRule(name="attempt", stays="if only attempts that committed nothing name it: without a grace time always, else "
         "while the version after the one that was read is younger than grace_ms", clauses=("AMB-92",),
         reason=_may_go_on),
)  # fmt: skip

_WHAT: Mapping[Kind, str] = {
    "data": "data files",
    "deletion": "deletion files",
    "index": "index folders, external region snapshots among them",
    "transaction": "transaction files",
}
RULES: Mapping[Kind, Eligibility[File]] = {
    kind: Eligibility(kind=kind, what=_WHAT[kind], rules=_RULES) for kind in FOLDERS.values()
}


def _gone(file: File) -> str:
    version = file.known.expired.get(file.name)
    if version is not None:
        return f"named by expired version {version} only"
    read = file.known.attempts[file.name][0].read_version
    return f"left by an attempt on version {read} that committed nothing"


@implements("AMB-76", "GC-003")
async def collect_files(
    io: Io,
    retained: Sequence[TableState],
    expired: Sequence[TableState],
    policy: Policy,
    now_ms: Milliseconds,
    ledger: Ledger,
) -> None:
    """Decide on every file of the table's own folders, and delete those that go.

    ``retained``: all versions that stay, ascending; ``expired``: those that this call expires, for a dry run.
    """
    objects = await _objects(io)
    aside = await expired_manifests(io)
    known = await _known(io, retained, [s.manifest for s in expired], aside, objects)
    kept = set[str]()
    for name in objects:
        file = File(name=name, known=known, policy=policy, now_ms=now_ms)
        decision = RULES[FOLDERS[name.partition("/")[0]]].decide(file, name, _reason(file))
        if not decision.collected and decision.rule != "in use":
            kept.add(name)
        await ledger.carry_out(io, decision, objects[name])
    for name, manifest in aside:
        if not ledger.dry_run and kept.isdisjoint(names.of_manifest(manifest)):
            # The manifest that was set aside goes last: it is what says that its files may go.
            await confirm.delete(io, name)


def _reason(file: File) -> str:
    return _gone(file) if file.name in file.known.expired or file.name in file.known.attempts else ""


async def _objects(io: Io) -> dict[str, tuple[str, ...]]:
    """Files and index folders -> their objects, in the order of deletion."""
    found: dict[str, tuple[str, ...]] = {}
    for folder in FOLDERS:
        for name in await io.list(folder):
            thing = "/".join(name.split("/")[:2]) if folder == paths.INDICES else name
            found[thing] = (*found.get(thing, ()), name)
    return found


async def _known(
    io: Io,
    retained: Sequence[TableState],
    expired: Sequence[TableManifest],
    aside: Sequence[tuple[str, TableManifest]],
    objects: Iterable[str],
) -> Known:
    known = Known()
    for name, manifest in await detached_manifests(io):
        known.in_use.update(dict.fromkeys(names.of_manifest(manifest), f"the detached version {name}"))
    for state in retained:
        known.in_use.update(dict.fromkeys(names.of_manifest(state.manifest), f"version {state.version}"))
    for manifest in (*expired, *(each for _, each in aside)):
        known.expired.update(dict.fromkeys(names.of_manifest(manifest), TableVersion(manifest.message.version)))
    times = {state.version: timestamp_ms(state) for state in retained}
    for name in objects:
        if name.startswith(f"{paths.TRANSACTIONS}/") and name.endswith(".txn") and name not in known.in_use:
            await _look_at(io, name, times, known)
    return known


async def _look_at(io: Io, name: str, times: Mapping[TableVersion, Milliseconds | None], known: Known) -> None:
    """Enter what a transaction names that no retained version names itself."""
    try:
        data = await io.get(name)
    except NotFound:
        return
    transaction = protobuf.parse(transaction_pb2.Transaction, data, clause="TXN-010", path=io.path(name))
    named = names.of_transaction(transaction)
    version, read = known.expired.get(name), TableVersion(transaction.read_version)
    if version is not None:
        known.expired.update(dict.fromkeys(named - known.expired.keys(), version))
    else:
        above = [number for number in times if number > read]
        under_way = not above or read + 1 in times
        attempt = UncommittedTransaction(
            name=name,
            read_version=read,
            next_ms=times[min(above)] if above else None,
            under_way=under_way,
        )
        for one in (name, *named):
            known.attempts.setdefault(one, []).append(attempt)
