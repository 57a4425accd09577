"""A commit of the MemWAL index is put on top of whatever came since."""

from memwal.table.conflict_table import ConflictVerdict
from memwal.table.state import TableState
from memwal.table.transactions import Transaction
from memwal_sim.bugs import Bug


def _compatible(_ours: Transaction, _theirs: Transaction | None) -> tuple[ConflictVerdict, str]:
    """In place of the table of conflicts."""
    return ConflictVerdict.REBASE, ""


def _unchanged(_ours: Transaction, _winner: TableState) -> None:
    """In place of looking whether the index entry is still the one that was read."""


BUG = Bug(
    name="blind_index_commit",
    clause="AMB-86",
    what=(
        "A builder's commit of the MemWAL index counts as compatible with every other transaction and is built on "
        "top of it."
    ),
    why=(
        "The index entry that it carries was derived from an older version: the merge progress that was committed "
        "meanwhile is replaced by the old one. The texts have a transaction for MemWAL state and no word on what "
        "conflicts with it."
    ),
    scenario="merger_and_builder",
    oracle="merge_progress_never_goes_back",
    violated="MERGE-018",
    replaced={"memwal.table.conflicts:verdict": _compatible, "memwal.table.commit:_changed_meanwhile": _unchanged},
)
