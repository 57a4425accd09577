"""Which committed transactions a transaction may be carried over, as a table that code walks and the docs print.

Source: table documents, "Conflict Resolution", and AMB-84, AMB-86, AMB-122. Only operations that the engine itself
commits have a row; every cell that is not listed is retryable, and an operation that is not known is incompatible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ..clauses import implements
from ..codec.pb.lance import table_pb2, transaction_pb2

Transaction = transaction_pb2.Transaction


class Verdict(Enum):
    """What a committed transaction means for one that read an earlier version."""

    REBASE = "rebase"
    """Build ours on top of theirs."""
    RETRY = "retryable"
    """Re-execute our operation on the newest version."""
    FAIL = "incompatible"
    """Our operation no longer means the same."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One decision with its reason."""

    decide: Callable[[Transaction, Transaction], Verdict]
    reason: str


def operation(transaction: Transaction) -> str:
    """Name of the transaction's operation; empty for one that this engine does not know."""
    return transaction.WhichOneof("operation") or ""


def _always(verdict: Verdict) -> Callable[[Transaction, Transaction], Verdict]:
    return lambda ours, theirs: verdict


def touched(transaction: Transaction) -> set[int]:
    """Ids of existing fragments that the transaction changes or removes."""
    if operation(transaction) == "delete":
        body = transaction.delete
        return {f.id for f in body.updated_fragments} | set(body.deleted_fragment_ids)
    if operation(transaction) == "update":
        update = transaction.update
        return {f.id for f in update.updated_fragments} | set(update.removed_fragment_ids)
    return set()


def _unless_fragments_overlap(ours: Transaction, theirs: Transaction) -> Verdict:
    return Verdict.RETRY if touched(ours) & touched(theirs) else Verdict.REBASE


def _is_mem_wal(index: table_pb2.IndexMetadata) -> bool:
    return index.index_details.type_url.endswith("MemWalIndexDetails")


def touches_mem_wal(transaction: Transaction) -> bool:
    """Whether the transaction changes the MemWAL index."""
    match operation(transaction):
        case "create_index":
            body = transaction.create_index
            return any(map(_is_mem_wal, [*body.new_indices, *body.removed_indices]))
        case "update":
            return bool(transaction.update.merged_generations)
        case "update_mem_wal_state":
            return True
        case _:
            return False


def _unless_both_touch_mem_wal(ours: Transaction, theirs: Transaction) -> Verdict:
    return Verdict.RETRY if touches_mem_wal(ours) and touches_mem_wal(theirs) else Verdict.REBASE


def _index_against_index(ours: Transaction, theirs: Transaction) -> Verdict:
    def names(body: transaction_pb2.Transaction.CreateIndex) -> set[str]:
        return {i.name for i in [*body.new_indices, *body.removed_indices]}

    both = names(ours.create_index) & names(theirs.create_index)
    return Verdict.RETRY if both else _unless_both_touch_mem_wal(ours, theirs)


def _index_against_update(ours: Transaction, theirs: Transaction) -> Verdict:
    """An update that rewrites an indexed column in place changes values under the fragments that the index names."""
    indexed = {field for index in ours.create_index.new_indices for field in index.fields}
    rewritten = indexed & set(theirs.update.fields_modified)
    return Verdict.RETRY if rewritten else _unless_both_touch_mem_wal(ours, theirs)


_REBASE = _always(Verdict.REBASE)
_FAIL = _always(Verdict.FAIL)

RULES: dict[tuple[str, str], Cell] = {
    ("append", "append"): Cell(_REBASE, "appends only add fragments"),
    ("append", "delete"): Cell(_REBASE, "a delete only touches fragments that it read"),
    ("append", "update"): Cell(_REBASE, "an update only touches fragments that it read"),
    ("append", "create_index"): Cell(_REBASE, "an index covers the fragments that it names"),
    ("append", "update_mem_wal_state"): Cell(_REBASE, "no rows are touched"),
    ("append", "rewrite"): Cell(_REBASE, "a rewrite only touches fragments that it read"),
    ("append", "reserve_fragments"): Cell(_REBASE, "ids are assigned when the manifest is built"),
    ("append", "update_config"): Cell(_REBASE, "no rows are touched"),
    ("append", "update_bases"): Cell(_REBASE, "no rows are touched"),
    ("delete", "append"): Cell(_REBASE, "appended rows came after the rows that were read"),
    ("delete", "delete"): Cell(_unless_fragments_overlap, "AMB-123: overlapping fragments are read again"),
    ("delete", "update"): Cell(_unless_fragments_overlap, "AMB-123: overlapping fragments are read again"),
    ("delete", "create_index"): Cell(_REBASE, "indexes do not own rows"),
    ("delete", "update_mem_wal_state"): Cell(_REBASE, "no rows are touched"),
    ("delete", "reserve_fragments"): Cell(_REBASE, "no rows are touched"),
    ("delete", "update_config"): Cell(_REBASE, "no rows are touched"),
    ("delete", "update_bases"): Cell(_REBASE, "no rows are touched"),
    ("update", "create_index"): Cell(_REBASE, "AMB-86: merge progress is applied to the newest index details"),
    ("update", "reserve_fragments"): Cell(_REBASE, "no rows are touched"),
    ("update", "update_config"): Cell(_REBASE, "no rows are touched"),
    ("update", "update_bases"): Cell(_REBASE, "no rows are touched"),
    ("create_index", "append"): Cell(_REBASE, "an index covers the fragments that it names"),
    ("create_index", "delete"): Cell(_REBASE, "deleted rows are masked when an index is used"),
    ("create_index", "update"): Cell(_index_against_update, "AMB-69: the MemWAL index is re-derived"),
    ("create_index", "create_index"): Cell(_index_against_index, "AMB-69: one name, one writer"),
    ("create_index", "update_mem_wal_state"): Cell(_unless_both_touch_mem_wal, "AMB-69: as for an update"),
    ("create_index", "reserve_fragments"): Cell(_REBASE, "no rows are touched"),
    ("create_index", "update_config"): Cell(_REBASE, "no rows are touched"),
    ("create_index", "update_bases"): Cell(_REBASE, "no rows are touched"),
}
for _ours in ("append", "delete", "update", "create_index", "update_config"):
    RULES[_ours, "overwrite"] = Cell(_FAIL, "the table was replaced")
    RULES[_ours, "restore"] = Cell(_FAIL, "AMB-87: the table was reverted")
    RULES[_ours, "clone"] = Cell(_FAIL, "AMB-87: the table is another one")


@implements("TXN-012", "TXN-017", "AMB-86", "AMB-122")
def verdict(ours: Transaction, theirs: Transaction) -> tuple[Verdict, str]:
    """What the committed ``theirs`` means for ``ours``, and why."""
    if not operation(theirs):
        return Verdict.FAIL, "the committed operation is not known"
    cell = RULES.get((operation(ours), operation(theirs)))
    if cell is None:
        return Verdict.RETRY, "no rule: be conservative"
    return cell.decide(ours, theirs), cell.reason
