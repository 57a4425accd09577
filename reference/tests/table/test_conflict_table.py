"""Every cell of the conflict table: plain ones pinned, each conditional one with a case on both sides.

The expectations are written down from what the table documents say a transaction does ("Transaction Types") and from
the notes on its silence (AMB-69, 84, 86, 87, 91, 123), not from the table.
"""

from __future__ import annotations

from typing import Any

import pytest
from memwal.codec import fragment_bitmap
from memwal.codec.pb.lance import table_pb2
from memwal.table.conflict_table import CELLS, ConflictVerdict
from memwal.table.conflicts import verdict
from memwal.table.transactions import OPERATIONS, Transaction

from .test_conflicts import REGIONS, indexing, made, merging, replacing, rewriting, touching

COLUMNS = (
    "append", "delete", "overwrite", "create_index", "rewrite", "merge", "restore", "reserve_fragments", "update",
    "project", "update_config", "data_replacement", "update_mem_wal_state", "clone", "update_bases",
)  # fmt: skip
PLAIN = {
    "append":               "= = x = = ~ x = = ~ = = = x =",
    "delete":               "= ? x = ? ~ x = ? ~ = ? = x =",
    "overwrite":            "= = ~ ? = = ~ = ? = = = ~ x =",
    "create_index":         "= = x ? ? ? x = ? ? = ? ? x =",
    "rewrite":              "= ? x ? ? ~ x = ? ~ = ? = x =",
    "merge":                "~ ~ x = ~ ~ x = ~ ~ ? ~ ~ x =",
    "restore":              "= = ~ ? = = ~ = ? = ? = ~ x =",
    "reserve_fragments":    "= = = = = = = = = = = = = x =",
    "update":               "~ ? x = ? ~ x = ? ~ = ? ? x =",
    "project":              "= = x ? = ~ x = = ~ ? = = x =",
    "update_config":        "= = x = = ? x = = ? ? = = x =",
    "data_replacement":     "= ? x = ? ~ x = ? ? = ? = x =",
    "update_mem_wal_state": "= = x = = ~ x = ? ~ = = ? x =",
    "clone":                "x x x x x x x x x x x x x x x",
    "update_bases":         "= = = = = = = = = = = = = x ?",
}  # fmt: skip
"""Ours, then each committed one: = is rebasable, ~ retryable, x incompatible, ? has a condition."""
SIGNS = {"=": ConflictVerdict.REBASE, "~": ConflictVerdict.RETRY, "x": ConflictVerdict.FAIL}
Case = tuple[Transaction, Transaction]


def covering(name: str, *ids: int) -> Transaction:
    """An index on field 1 that covers the fragments."""
    found = indexing(name, 1)
    found.create_index.new_indices[0].fragment_bitmap = fragment_bitmap.encode(ids)
    return found


def bases(**fields: Any) -> Transaction:
    return made("update_bases", new_bases=[fields])


def state_of(region: int) -> Transaction:
    return merging(REGIONS[region], 1, "update_mem_wal_state")


def schema(name: str, *ids: int) -> Transaction:
    return made(name, schema=[{"id": number} for number in ids])


def in_place(fragment: int, field: int) -> Transaction:
    """An Update that gives a column of a fragment other values."""
    found = touching("update", fragment)
    found.update.fields_modified.append(field)
    return found


MEM_WAL = indexing("m", mem_wal=True)
ROWS = made("update", new_fragments=[table_pb2.DataFragment()])
FIELD_METADATA = made("update_config", field_metadata_updates={1: {"update_entries": [{"key": "a"}]}})
SCHEMA_METADATA = made("update_config", schema_metadata={"a": "1"})
CONFIG = made("update_config", upsert_values={"a": "1"})
POINT = made("update_config", upsert_values={"memwal.collected.x": "1"})
GONE = made("delete", deleted_fragment_ids=[1])

CONDITIONAL: dict[tuple[str, str], tuple[list[Case], list[Case]]] = {
    ("delete", "delete"): ([(touching("delete", 1), GONE), (GONE, touching("delete", 1))],
                           [(touching("delete", 1), touching("delete", 1)), (GONE, touching("delete", 2))]),
    ("delete", "update"): ([(touching("delete", 1), made("update", removed_fragment_ids=[1])),
                            (touching("delete", 1), in_place(1, 5)), (GONE, touching("update", 1))],
                           [(touching("delete", 1), touching("update", 1)), (touching("delete", 1), in_place(2, 5))]),
    ("delete", "rewrite"): ([(touching("delete", 1), rewriting(1, 2)), (GONE, rewriting(1))],
                            [(touching("delete", 1), rewriting(2, 3))]),
    ("delete", "data_replacement"): ([(touching("delete", 1), replacing(1, 0)), (GONE, replacing(1, 7))],
                                     [(touching("delete", 1), replacing(2, 0))]),
    ("overwrite", "create_index"): ([(made("overwrite"), MEM_WAL), (made("overwrite"), made(
        "create_index", removed_indices=MEM_WAL.create_index.new_indices))], [(made("overwrite"), indexing("i", 1))]),
    ("overwrite", "update"): ([(made("overwrite"), merging(REGIONS[0], 1))], [(made("overwrite"), ROWS)]),
    ("create_index", "create_index"): ([(indexing("i", 1), indexing("i", 2)), (MEM_WAL, MEM_WAL),
                                        (indexing("i", 1), made("create_index", removed_indices=[{"name": "i"}]))],
                                       [(indexing("i", 1), indexing("j", 1)), (indexing("i", 1), MEM_WAL)]),
    ("create_index", "rewrite"): ([(covering("i", 1, 2), rewriting(2))], [(covering("i", 1, 2), rewriting(3)),
                                                                         (covering("i"), rewriting(1))]),
    ("create_index", "merge"): ([(MEM_WAL, made("merge"))], [(indexing("i", 1), schema("merge", 1, 2))]),
    ("create_index", "update"): ([(indexing("i", 1), in_place(1, 1)), (MEM_WAL, merging(REGIONS[0], 1))],
                                 [(indexing("i", 1), in_place(1, 2)), (indexing("i", 1), merging(REGIONS[0], 1)),
                                  (MEM_WAL, ROWS)]),
    ("create_index", "project"): ([(indexing("i", 1), schema("project", 2)), (MEM_WAL, schema("project", 1))],
                                  [(indexing("i", 1), schema("project", 1, 2))]),
    ("create_index", "data_replacement"): ([(indexing("i", 1), replacing(1, 1))], [(indexing("i", 1), replacing(1, 2)),
                                                                                  (MEM_WAL, replacing(1, 1))]),
    ("create_index", "update_mem_wal_state"): ([(MEM_WAL, state_of(0))], [(indexing("i", 1), state_of(0))]),
    ("rewrite", "delete"): ([(rewriting(1, 2), touching("delete", 2)), (rewriting(1), GONE)],
                            [(rewriting(1, 2), touching("delete", 3))]),
    ("rewrite", "update"): ([(rewriting(1), in_place(1, 5)), (rewriting(1), made("update", removed_fragment_ids=[1]))],
                            [(rewriting(1), touching("update", 2)), (rewriting(1), ROWS)]),
    ("rewrite", "rewrite"): ([(rewriting(1, 2), rewriting(2, 3))], [(rewriting(1), rewriting(2))]),
    ("rewrite", "data_replacement"): ([(rewriting(1), replacing(1, 0))], [(rewriting(1), replacing(2, 0))]),
    ("rewrite", "create_index"): ([(rewriting(2), covering("i", 1, 2))], [(rewriting(3), covering("i", 1, 2)),
                                                                         (rewriting(1), MEM_WAL)]),
    ("merge", "update_config"): ([(made("merge"), SCHEMA_METADATA), (made("merge"), FIELD_METADATA)],
                                 [(made("merge"), CONFIG)]),
    ("restore", "create_index"): ([(made("restore"), MEM_WAL)], [(made("restore"), indexing("i", 1))]),
    ("restore", "update"): ([(made("restore"), merging(REGIONS[0], 1))], [(made("restore"), ROWS)]),
    ("restore", "update_config"): ([(made("restore"), POINT), (made("restore"), made(
        "update_config", config_updates={"replace": True}))], [(made("restore"), CONFIG)]),
    ("update", "delete"): ([(touching("update", 1), GONE), (in_place(1, 5), touching("delete", 1))],
                           [(touching("update", 1), touching("delete", 1)), (in_place(2, 5), GONE)]),
    ("update", "update"): ([(touching("update", 1), ROWS), (touching("update", 1), in_place(2, 5)),
                            (touching("update", 1), merging(REGIONS[1], 1)),
                            (touching("update", 1), made("update", removed_fragment_ids=[1]))],
                           [(touching("update", 1), touching("update", 1)), (ROWS, touching("update", 2))]),
    ("update", "rewrite"): ([(touching("update", 3), rewriting(1, 2, 3, 4, 5))], [(touching("update", 6), rewriting(1)),
                                                                                 (ROWS, rewriting(1))]),
    ("update", "data_replacement"): ([(touching("update", 1), replacing(1, 0))],
                                     [(touching("update", 1), replacing(2, 0))]),
    ("update", "update_mem_wal_state"): ([(merging(REGIONS[0], 2), state_of(0))],
                                         [(merging(REGIONS[0], 1), state_of(1)), (ROWS, state_of(0))]),
    ("project", "create_index"): ([(schema("project", 1), indexing("i", 2)), (schema("project", 1), MEM_WAL)],
                                  [(schema("project", 1), indexing("i", 1))]),
    ("project", "update_config"): ([(schema("project", 1), FIELD_METADATA), (schema("project", 1), SCHEMA_METADATA)],
                                   [(schema("project", 1), CONFIG)]),
    ("update_config", "merge"): ([(SCHEMA_METADATA, made("merge")), (FIELD_METADATA, made("merge"))],
                                 [(CONFIG, made("merge"))]),
    ("update_config", "project"): ([(SCHEMA_METADATA, schema("project", 1)), (FIELD_METADATA, schema("project", 1))],
                                   [(CONFIG, schema("project", 1))]),
    ("update_config", "update_config"): ([(CONFIG, CONFIG), (CONFIG, made("update_config", delete_keys=["a"])),
                                          (CONFIG, made("update_config", config_updates={"replace": True}))],
                                         [(CONFIG, POINT), (CONFIG, SCHEMA_METADATA)]),
    ("data_replacement", "delete"): ([(replacing(1, 0), GONE)], [(replacing(1, 0), touching("delete", 1)),
                                                                (replacing(2, 0), GONE)]),
    ("data_replacement", "update"): ([(replacing(1, 0), touching("update", 1))],
                                     [(replacing(1, 0), touching("update", 2)), (replacing(1, 0), ROWS)]),
    ("data_replacement", "rewrite"): ([(replacing(1, 0), rewriting(1))], [(replacing(1, 0), rewriting(2))]),
    ("data_replacement", "project"): ([(replacing(1, 0), schema("project", 1, 2)),
                                       (replacing(1, 0, 1), schema("project", 0))],
                                      [(replacing(1, 0), schema("project", 0, 2)),
                                       (replacing(1, 0), schema("project", 0))]),
    ("data_replacement", "data_replacement"): ([(replacing(1, 0), replacing(1, 0)),
                                                (replacing(1, 0, 1), replacing(1, 1))],
                                               [(replacing(1, 0), replacing(1, 1)),
                                                (replacing(1, 0), replacing(2, 0))]),
    ("update_mem_wal_state", "update"): ([(state_of(0), merging(REGIONS[0], 2))],
                                         [(state_of(0), merging(REGIONS[1], 2)), (state_of(0), ROWS)]),
    ("update_mem_wal_state", "update_mem_wal_state"): ([(state_of(0), state_of(0))], [(state_of(0), state_of(1))]),
    ("update_bases", "update_bases"): ([(bases(name="a"), bases(name="a")), (bases(id=1, name="a"), bases(id=1))],
                                       [(bases(name="a"), bases(name="b")), (bases(id=1), bases(id=2))]),
}  # fmt: skip
"""Of each cell with a condition: cases in which ours has to be made again, and cases in which it is carried over."""
CASES = [
    pytest.param(pair, *case, side, id=f"{pair[0]} over {pair[1]}, {side.value} {number}")
    for pair, sides in CONDITIONAL.items()
    for side, cases in zip((ConflictVerdict.RETRY, ConflictVerdict.REBASE), sides, strict=True)
    for number, case in enumerate(cases)
]


def test_the_table_has_185_plain_cells_and_40_with_a_condition_and_each_of_these_has_cases_on_both_sides() -> None:
    assert OPERATIONS == COLUMNS == tuple(PLAIN)
    pinned = {
        (ours, theirs): sign for ours, row in PLAIN.items() for theirs, sign in zip(COLUMNS, row.split(), strict=True)
    }
    asked = {pair for pair, sign in pinned.items() if sign == "?"}
    assert (len(pinned) - len(asked), len(asked)) == (185, 40)
    assert asked == CONDITIONAL.keys() == {pair for pair, cell in CELLS.items() if cell.condition is not None}
    assert all(apart and same for same, apart in CONDITIONAL.values())


@pytest.mark.clause("TXN-047", "TXN-048", "TXN-049", "TXN-055")
@pytest.mark.parametrize("ours", OPERATIONS)
def test_a_plain_cell_says_one_thing_whatever_the_transactions_touch(ours: str) -> None:
    found = [verdict(made(ours), made(theirs))[0] for theirs in COLUMNS]
    for theirs, sign, said in zip(COLUMNS, PLAIN[ours].split(), found, strict=True):
        if sign != "?":
            assert said is SIGNS[sign], theirs
            assert CELLS[ours, theirs].verdict is SIGNS[sign]
            assert CELLS[ours, theirs].condition is None


@pytest.mark.clause("TXN-047", "TXN-048", "TXN-051", "TXN-055")
@pytest.mark.parametrize(("pair", "ours", "theirs", "expected"), CASES)
def test_a_cell_with_a_condition_says_what_both_touch(
    pair: tuple[str, str], ours: Transaction, theirs: Transaction, expected: ConflictVerdict
) -> None:
    assert (ours.WhichOneof("operation"), theirs.WhichOneof("operation")) == pair
    assert verdict(ours, theirs)[0] is expected
