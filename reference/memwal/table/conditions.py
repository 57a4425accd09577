"""Under which conditions two transactions are in each other's way: what the cells of the conflict table ask.

Each is a function of our transaction and of the committed one, told by the messages alone.
Source: table documents, "Rebase Mechanism"; AMB-69, 84, 86, 87, 91, 123.
"""

from __future__ import annotations

from ..revisions import CONFIG_COLLECTED
from . import metadata, transactions
from .transactions import Transaction, is_mem_wal, touches_mem_wal


def same_fragments(ours: Transaction, theirs: Transaction) -> bool:
    return bool(transactions.touched(ours) & transactions.touched(theirs))


def more_than_deletions(ours: Transaction, theirs: Transaction) -> bool:
    """Whether a fragment of both is gone or has other values; two deletions are compared row by row (TXN-057)."""
    both = transactions.touched(ours) & transactions.touched(theirs)
    gone = transactions.removed(ours) | transactions.removed(theirs)
    in_place = transactions.fields_rewritten(ours) or transactions.fields_rewritten(theirs)
    return bool(both & gone) or bool(both and in_place)


def update_against_update(ours: Transaction, theirs: Transaction) -> bool:
    """Rows that the other wrote may hold keys that ours inserts, or satisfy what ours looked for (AMB-84)."""
    body = theirs.update
    if body.new_fragments or body.merged_generations or body.fields_modified:
        return True
    return more_than_deletions(ours, theirs)


def replaced_same(ours: Transaction, theirs: Transaction) -> bool:
    """A fragment of ours is gone, or both give one of its columns other values."""
    if transactions.touched(ours) & transactions.removed(theirs):
        return True
    same = transactions.fields_rewritten(ours) & transactions.fields_rewritten(theirs)
    return bool(same) and same_fragments(ours, theirs)


def both_touch_mem_wal(ours: Transaction, theirs: Transaction) -> bool:
    return touches_mem_wal(ours) and touches_mem_wal(theirs)


def theirs_touches_mem_wal(_ours: Transaction, theirs: Transaction) -> bool:
    return touches_mem_wal(theirs)


def same_region(ours: Transaction, theirs: Transaction) -> bool:
    """Both make progress of one region; that of different regions is entered field by field (AMB-69, 84, 86)."""
    mine = {region for region, _ in transactions.merged_generations(ours)}
    return any(region in mine for region, _ in transactions.merged_generations(theirs))


def same_index(ours: Transaction, theirs: Transaction) -> bool:
    """Both change an index of one name, or the MemWAL index."""

    def names(body: Transaction) -> set[str]:
        return {i.name for i in [*body.create_index.new_indices, *body.create_index.removed_indices]}

    return bool(names(ours) & names(theirs)) or both_touch_mem_wal(ours, theirs)


def indexed_rewritten(ours: Transaction, theirs: Transaction) -> bool:
    """It changed values of a column that ours indexes, or both touch the MemWAL index."""
    rewritten = transactions.indexed(ours) & transactions.fields_rewritten(theirs)
    return bool(rewritten) or both_touch_mem_wal(ours, theirs)


def covered_rewritten(ours: Transaction, theirs: Transaction) -> bool:
    return bool(transactions.covered(ours) & transactions.touched(theirs))


def rewrites_covered(ours: Transaction, theirs: Transaction) -> bool:
    return covered_rewritten(theirs, ours)


def touches_the_mem_wal(ours: Transaction, _theirs: Transaction) -> bool:
    return touches_mem_wal(ours)


def indexed_dropped(ours: Transaction, theirs: Transaction) -> bool:
    """It dropped a column that ours indexes, or that a region spec of ours may use (AMB-66)."""
    kept = transactions.schema_ids(theirs)
    lost = kept is not None and not transactions.indexed(ours) <= kept
    return lost or any(map(is_mem_wal, ours.create_index.new_indices))


def drops_indexed(ours: Transaction, theirs: Transaction) -> bool:
    return indexed_dropped(theirs, ours)


def replaced_dropped(ours: Transaction, theirs: Transaction) -> bool:
    kept = transactions.schema_ids(theirs)
    return kept is not None and not transactions.fields_rewritten(ours) <= kept


def same_places(ours: Transaction, theirs: Transaction) -> bool:
    return metadata.overlap(ours.update_config, theirs.update_config)


def sets_schema_metadata(ours: Transaction, _theirs: Transaction) -> bool:
    return any(place.startswith(("schema", "field ")) for place, _ in metadata.places(ours.update_config))


def set_schema_metadata(ours: Transaction, theirs: Transaction) -> bool:
    return sets_schema_metadata(theirs, ours)


def set_collected_point(_ours: Transaction, theirs: Transaction) -> bool:
    """It may have recorded a point below which nothing is restored (AMB-91)."""
    found = metadata.places(theirs.update_config)
    return any(place == "config" and (key is None or key.startswith(CONFIG_COLLECTED)) for place, key in found)


def same_base(ours: Transaction, theirs: Transaction) -> bool:
    def names(transaction: Transaction) -> set[object]:
        bases = transaction.update_bases.new_bases
        return {base.id for base in bases if base.id} | {base.name for base in bases if base.name}

    return bool(names(ours) & names(theirs))
