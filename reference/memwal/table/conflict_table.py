"""Which committed transactions a transaction may be carried over: one table, 15 x 15, that code walks and docs print.

A cell says what the committed transaction of its column means for ours, of its row: rebase ours on top of it,
re-execute our operation on the newest version, or give up. Each has its reason, and says whether the texts state it,
whether it follows from the effects that they state, or whether it was chosen.

Rebasing keeps the history serial. Ours then stands after the committed one, unless that only added or deleted rows that
ours does not look at: then it stands before it, which gives the same rows.

Source: table documents, "Conflict Resolution"; AMB-82, 84, 86, 87, 122, 123.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from . import conditions as on
from .transactions import OPERATIONS, Transaction


class ConflictVerdict(Enum):
    """What a committed transaction means for one that read an earlier version."""

    REBASE = "rebasable"
    """Build ours on top of theirs."""
    RETRY = "retryable"
    """Re-execute our operation on the newest version."""
    FAIL = "incompatible"
    """Our operation no longer means the same."""


class Basis(Enum):
    """Where a decision comes from."""

    STATED = "stated"
    DERIVED = "derived"
    CHOSEN = "chosen"


Condition = Callable[[Transaction, Transaction], bool]
"""Of our transaction and of the committed one."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One decision with its reason."""

    verdict: ConflictVerdict
    condition: Condition | None
    """If there is one, the verdict holds where it is true, and ours is rebasable where it is not."""
    when: str
    """The condition in words; empty if there is none."""
    basis: Basis
    reason: str

    def decide(self, ours: Transaction, theirs: Transaction) -> ConflictVerdict:
        """The verdict for two transactions of the cell's types."""
        if self.condition is None or self.condition(ours, theirs):
            return self.verdict
        return ConflictVerdict.REBASE

    @property
    def words(self) -> str:
        """The decision for people."""
        return f"{self.verdict.value} if {self.when}" if self.when else self.verdict.value


_Decision = tuple[ConflictVerdict, Condition | None, str]
_Entry = tuple[_Decision, Basis, str]
_S, _D, _C = Basis.STATED, Basis.DERIVED, Basis.CHOSEN


def _when(condition: Condition, words: str) -> _Decision:
    return ConflictVerdict.RETRY, condition, words


_YES: _Decision = (ConflictVerdict.REBASE, None, "")
_AGAIN: _Decision = (ConflictVerdict.RETRY, None, "")
_NO: _Decision = (ConflictVerdict.FAIL, None, "")
_FRAGMENTS = _when(on.same_fragments, "both touch a fragment")
_ROWS = _when(on.more_than_deletions, "a fragment of both is gone or has other values, or a row is in both")

_REPLACED = "AMB-87: the table was replaced"
_REVERTED = "AMB-87: the table was reverted"
_ELSEWHERE = "AMB-87: a clone is the first version of another table"
_METADATA = "metadata only: nothing that ours depends on"
_BASES = "base paths are only added"
_IDS = "ids are only taken from a counter, and given at commit"
_UNDONE = "ours goes back to an earlier version: the other came before it, and is undone"
_COVERED = "ours replaces whatever is there: the other came before it"
_VALIDATED = "AMB-86: the configuration is to be validated again"

_COMMON: dict[str, _Entry] = {
    "append": (_YES, _D, "appended rows came after the rows that ours read"),
    "create_index": (_YES, _D, "an index owns no rows; what it covers is narrowed when ours is applied"),
    "overwrite": (_NO, _C, _REPLACED),
    "restore": (_NO, _C, _REVERTED),
    "clone": (_NO, _C, _ELSEWHERE),
    "reserve_fragments": (_YES, _D, _IDS),
    "update_config": (_YES, _D, _METADATA),
    "update_mem_wal_state": (_YES, _D, "AMB-86: it touches no rows and no fragments"),
    "update_bases": (_YES, _D, _BASES),
    "merge": (_AGAIN, _D, "all fragments gained columns; ours was built for the schema before"),
    "project": (_AGAIN, _D, "columns were dropped; ours was built for the schema before"),
}
"""What most rows say of these columns."""

_DIFFERING: dict[str, dict[str, _Entry]] = {
    "append": {
        "append": (_YES, _D, "appends only add fragments"),
        "delete": (_YES, _D, "a delete only touches fragments that it read"),
        "update": (_YES, _D, "an update only touches fragments that it read"),
        "rewrite": (_YES, _D, "a rewrite only touches fragments that it read"),
        "data_replacement": (_YES, _D, "it only touches fragments that it names"),
    },
    "delete": {
        "delete": (_ROWS, _S, "deletion vectors are merged when the rows do not overlap (TXN-056, AMB-123)"),
        "update": (_ROWS, _D, "an update deletes rows in their fragments too: as two deletes (TXN-052, AMB-123)"),
        "rewrite": (_FRAGMENTS, _D, "the rows are in other fragments after a rewrite"),
        "restore": (_NO, _S, "the rows that ours meant may not be there (TXN-059)"),
        "data_replacement": (_FRAGMENTS, _D, "the predicate was evaluated on values that were replaced"),
    },
    "overwrite": {
        **dict.fromkeys(("append", "delete", "rewrite", "data_replacement", "merge", "project"), (_YES, _D, _COVERED)),
        "create_index": (_when(on.theirs_touches_mem_wal, "it touched the MemWAL index"), _C,
                         "AMB-87: what is carried over changed"),
        "update": (_when(on.theirs_touches_mem_wal, "it made merge progress"), _C,
                   "AMB-87: regions have to be looked at again"),
        "overwrite": (_AGAIN, _C, "two replacements: the later one should have seen the earlier one"),
        "restore": (_AGAIN, _C, "AMB-87: regions have to be looked at again"),
        "update_mem_wal_state": (_AGAIN, _C, "AMB-87: regions have to be looked at again"),
    },
    "create_index": {
        "append": (_YES, _D, "an index covers the fragments that it names"),
        "delete": (_YES, _D, "deleted rows are masked when an index is used"),
        "update": (_when(on.indexed_rewritten, "it rewrote an indexed column, or both touch the MemWAL index"), _D,
                   "values under covered fragments have changed; AMB-69: the MemWAL index is re-derived"),
        "create_index": (_when(on.same_index, "both touch an index of one name, or the MemWAL index"), _D,
                         "AMB-69: one name, one writer"),
        "rewrite": (_when(on.covered_rewritten, "it rewrote a covered fragment"), _D, "row addresses have changed"),
        "merge": (_when(on.touches_the_mem_wal, "ours touches the MemWAL index"), _D,
                  "else fragments keep their ids, and the indexed columns their values"),
        "project": (_when(on.indexed_dropped, "it dropped an indexed column, or ours changes the MemWAL index"), _D,
                    "there is nothing to index; AMB-86: the configuration is to be validated again"),
        "data_replacement": (_when(on.indexed_rewritten, "it replaced an indexed column"), _D,
                             "values under covered fragments have changed"),
        "update_mem_wal_state": (_when(on.both_touch_mem_wal, "both touch the MemWAL index"), _D,
                                 "AMB-69: the MemWAL index is re-derived"),
    },
    "rewrite": {
        "delete": (_FRAGMENTS, _D, "the rewritten rows hold some that were deleted"),
        "update": (_FRAGMENTS, _D, "the rewritten rows hold some that were updated"),
        "rewrite": (_FRAGMENTS, _D, "both rewrote the same rows"),
        "data_replacement": (_FRAGMENTS, _D, "the rewritten rows hold values that were replaced"),
        "create_index": (_when(on.rewrites_covered, "it covers a fragment that ours rewrites"), _D,
                         "the new index would lose rows that it covers"),
    },
    "merge": {
        **dict.fromkeys(
            ("append", "delete", "update", "rewrite", "data_replacement"),
            (_AGAIN, _D, "a merge of columns names every fragment as it read it"),
        ),
        "merge": (_AGAIN, _D, "two schemas"),
        "project": (_AGAIN, _D, "two schemas"),
        "update_config": (_when(on.set_schema_metadata, "it set metadata of schema or fields"), _D,
                          "ours names the fields as it read them"),
        "update_mem_wal_state": (_AGAIN, _C, _VALIDATED),
    },
    "restore": {
        **dict.fromkeys(("append", "delete", "rewrite", "data_replacement", "merge", "project"), (_YES, _D, _UNDONE)),
        "create_index": (_when(on.theirs_touches_mem_wal, "it touched the MemWAL index"), _C,
                         "AMB-87: what is compared with the earlier version changed"),
        "update": (_when(on.theirs_touches_mem_wal, "it made merge progress"), _C,
                   "AMB-87: generations have to be looked at again"),
        "overwrite": (_AGAIN, _C, "the table was replaced meanwhile: look again"),
        "restore": (_AGAIN, _C, "two restores: the later one should have seen the earlier one"),
        "update_config": (_when(on.set_collected_point, "it recorded that generations were collected"), _C,
                          "AMB-91: nothing is restored below a recorded point"),
        "update_mem_wal_state": (_AGAIN, _C, "AMB-87: generations have to be looked at again"),
    },
    "reserve_fragments": {theirs: (_YES, _D, _IDS) for theirs in OPERATIONS if theirs != "clone"},
    "update": {
        "append": (_AGAIN, _C, "an upsert looked for its keys, and appended rows may hold some"),
        "delete": (_ROWS, _D, "an update deletes rows in their fragments: as two deletes (TXN-052, AMB-123)"),
        "update": (_when(on.update_against_update, "it wrote rows, a fragment of both is gone, or a row is in both"),
                   _D, "AMB-84: two upserts may insert one key, and new rows may be what ours looked for"),
        "rewrite": (_FRAGMENTS, _S, "the fragments that ours changes are gone (TXN-058)"),
        "data_replacement": (_FRAGMENTS, _D, "the rows that ours copied hold values that were replaced"),
        "update_mem_wal_state": (_when(on.same_region, "both make progress of one region"), _D,
                                 "AMB-82: the newest progress decides"),
    },
    "project": {
        **dict.fromkeys(
            ("append", "delete", "update", "rewrite", "data_replacement"),
            (_YES, _D, "ours sets the schema only, and data files stay"),
        ),
        "create_index": (_when(on.drops_indexed, "it indexed a column that ours drops, or changed the MemWAL index"),
                         _D, "the index would be lost; AMB-66: a spec may use the column"),
        "merge": (_AGAIN, _D, "two schemas"),
        "project": (_AGAIN, _D, "two schemas"),
        "update_config": (_when(on.set_schema_metadata, "it set metadata of schema or fields"), _D,
                          "ours names the fields as it read them"),
    },
    "update_config": {
        **dict.fromkeys(
            ("append", "delete", "update", "rewrite", "data_replacement", "create_index"),
            (_YES, _D, "ours sets metadata only"),
        ),
        "merge": (_when(on.sets_schema_metadata, "ours sets metadata of schema or fields"), _D, "it replaced them"),
        "project": (_when(on.sets_schema_metadata, "ours sets metadata of schema or fields"), _D, "it replaced them"),
        "update_config": (_when(on.same_places, "both set a key"), _D, "else different places are set"),
    },
    "data_replacement": {
        "delete": (_when(on.replaced_same, "it removed a fragment of ours"), _D,
                   "deletions are beside the files, and row offsets stay"),
        "update": (_FRAGMENTS, _D, "rows with values that ours replaces were copied elsewhere"),
        "rewrite": (_FRAGMENTS, _D, "the fragments that ours names are gone"),
        "project": (_when(on.replaced_dropped, "a column that ours replaces was dropped"), _D, "nothing to replace"),
        "data_replacement": (_when(on.replaced_same, "both replace a column of a fragment"), _D, "else apart"),
    },
    "update_mem_wal_state": {
        **dict.fromkeys(
            ("append", "delete", "rewrite", "data_replacement"),
            (_YES, _C, "AMB-86: fragments are carried over as they are"),
        ),
        "create_index": (_YES, _C, "AMB-86: field by field, unless the same progress changed"),
        "update": (_when(on.same_region, "both make progress of one region"), _C,
                   "AMB-86: the newest progress decides"),
        "merge": (_AGAIN, _C, _VALIDATED),
        "project": (_AGAIN, _C, _VALIDATED),
        "update_mem_wal_state": (_when(on.same_region, "both make progress of one region"), _C,
                                 "AMB-86: the newest progress decides"),
    },
    "clone": dict.fromkeys(OPERATIONS, (_NO, _C, _ELSEWHERE)),
    "update_bases": {
        **{theirs: (_YES, _D, _BASES) for theirs in OPERATIONS if theirs != "clone"},
        "update_bases": (_when(on.same_base, "both add an id or a name"), _D, "ids and names are unique"),
    },
}  # fmt: skip
"""Per transaction type what differs from `_COMMON`."""


def _cells() -> Iterator[tuple[tuple[str, str], Cell]]:
    for ours in OPERATIONS:
        entries = {**_COMMON, **_DIFFERING[ours]}
        for theirs in OPERATIONS:
            decision, basis, reason = entries[theirs]
            yield (ours, theirs), Cell(*decision, basis, reason)


CELLS: dict[tuple[str, str], Cell] = dict(_cells())
"""(ours, the committed one) -> cell, for every pair."""
