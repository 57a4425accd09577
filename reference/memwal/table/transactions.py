"""Transactions as messages: what they are called, what they touch, and their files.

Source: table documents, "Transaction Types", "Transaction Files" and "Rebase Mechanism".
"""

from __future__ import annotations

from ..clauses import implements
from ..codec import fragment_bitmap as bitmap
from ..codec import protobuf
from ..codec.pb.lance import table_pb2, transaction_pb2
from ..ids import Generation, RegionId, region_id_from_bytes

Transaction = transaction_pb2.Transaction

OPERATIONS = tuple(field.name for field in Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields)
"""All transaction types, in the order of their numbers."""


def encode(transaction: Transaction) -> bytes:
    """Bytes of a transaction file."""
    return protobuf.serialise(transaction)


@implements("TXN-010", "TXN-011")
def decode(data: bytes, path: str) -> Transaction:
    """Parse a transaction file; an operation that is not known is kept, unread. Raises `ArtifactError`."""
    return protobuf.parse(Transaction, data, clause="TXN-010", path=path)


@implements("TXN-017")
def operation(transaction: Transaction) -> str:
    """Name of the transaction's operation; empty for one that this engine does not know."""
    return transaction.WhichOneof("operation") or ""


def merged_generations(transaction: Transaction) -> list[tuple[RegionId, Generation]]:
    """Merge progress that the transaction makes."""
    body = transaction.update if operation(transaction) == "update" else transaction.update_mem_wal_state
    return [(region_id_from_bytes(m.region_id.uuid), Generation(m.generation)) for m in body.merged_generations]


@implements("TXN-051")
def touched(transaction: Transaction) -> frozenset[int]:
    """Ids of existing fragments that the transaction changes or removes."""
    match operation(transaction):
        case "delete":
            body = transaction.delete
            return frozenset({f.id for f in body.updated_fragments} | set(body.deleted_fragment_ids))
        case "update":
            update = transaction.update
            return frozenset({f.id for f in update.updated_fragments} | set(update.removed_fragment_ids))
        case "rewrite":
            return frozenset(f.id for group in rewrite_groups(transaction) for f in group.old_fragments)
        case "data_replacement":
            return frozenset(item.fragment_id for item in transaction.data_replacement.replacements)
        case _:
            return frozenset()


def rewrite_groups(transaction: Transaction) -> list[transaction_pb2.Transaction.Rewrite.RewriteGroup]:
    """What a Rewrite puts in the place of what; the older form of the message is one group."""
    body = transaction.rewrite
    groups = list(body.groups)
    if body.old_fragments or body.new_fragments:
        old, new = body.old_fragments, body.new_fragments
        groups.append(Transaction.Rewrite.RewriteGroup(old_fragments=old, new_fragments=new))
    return groups


def removed(transaction: Transaction) -> frozenset[int]:
    """Ids of existing fragments that are gone after the transaction."""
    match operation(transaction):
        case "delete":
            return frozenset(transaction.delete.deleted_fragment_ids)
        case "update":
            return frozenset(transaction.update.removed_fragment_ids)
        case "rewrite":
            return touched(transaction)
        case _:
            return frozenset()


def updated(transaction: Transaction) -> dict[int, table_pb2.DataFragment]:
    """Existing fragments as a Delete or Update leaves them, by id."""
    match operation(transaction):
        case "delete":
            return {f.id: f for f in transaction.delete.updated_fragments}
        case "update":
            return {f.id: f for f in transaction.update.updated_fragments}
        case _:
            return {}


def fields_rewritten(transaction: Transaction) -> frozenset[int]:
    """Ids of fields whose values the transaction changes in place, in the fragments that it touches."""
    match operation(transaction):
        case "update":
            return frozenset(transaction.update.fields_modified)
        case "data_replacement":
            items = transaction.data_replacement.replacements
            return frozenset(number for item in items for number in item.new_file.fields)
        case _:
            return frozenset()


def schema_ids(transaction: Transaction) -> frozenset[int] | None:
    """Ids of the fields of the schema that the transaction sets; None if it sets none."""
    match operation(transaction):
        case "merge":
            return frozenset(f.id for f in transaction.merge.schema)
        case "project":
            return frozenset(f.id for f in transaction.project.schema)
        case "overwrite":
            return frozenset(f.id for f in transaction.overwrite.schema)
        case _:
            return None


def indexed(transaction: Transaction) -> frozenset[int]:
    """Ids of the fields that the new indexes of a CreateIndex are on."""
    return frozenset(number for index in transaction.create_index.new_indices for number in index.fields)


def covered(transaction: Transaction, path: str = "") -> frozenset[int]:
    """Ids of fragments that the new indexes of a CreateIndex cover."""
    found: set[int] = set()
    for index in transaction.create_index.new_indices:
        found |= bitmap.decode(index.fragment_bitmap, path)
    return frozenset(found)


def is_mem_wal(index: table_pb2.IndexMetadata) -> bool:
    """Whether ``index`` is the MemWAL index."""
    return index.index_details.type_url.endswith("MemWalIndexDetails")


def touches_mem_wal(transaction: Transaction) -> bool:
    """Whether the transaction changes the MemWAL index."""
    match operation(transaction):
        case "create_index":
            body = transaction.create_index
            return any(map(is_mem_wal, [*body.new_indices, *body.removed_indices]))
        case "update" | "update_mem_wal_state":
            return bool(transaction.update.merged_generations or transaction.update_mem_wal_state.merged_generations)
        case _:
            return False
