"""What a file is, in one line, by what inspection says of it."""

from __future__ import annotations

import pytest
from memwal.inspection.lines import line, words
from memwal.inspection.node import U64, Fields, Node
from memwal.violations import objection

MANIFEST: Fields = (("epoch", U64(3)), ("position_replay_after", U64(7)), ("generations", (1, 2)), ("sealed", False))


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("region_manifest", MANIFEST, "epoch 3, replay after 7, flushed 1, 2"),
        (
            "region_manifest",
            (*MANIFEST[:2], ("generations", ()), ("sealed", True)),
            "epoch 3, replay after 7, flushed none, sealed",
        ),
        ("wal_entry", (("epoch", U64(4)), ("barrier", True), ("rows", U64(0))), "epoch 4, barrier"),
        ("wal_entry", (("epoch", U64(4)), ("barrier", False), ("rows", U64(1200))), "epoch 4, 1,200 rows"),
        ("transaction", (("operation", "create_index"), ("read_version", U64(2))), "create index on version 2"),
        ("transaction", (("operation", None), ("read_version", U64(2))), "no operation on version 2"),
        ("bloom_filter", (("form", "split-block"), ("understood", True)), "split-block"),
        (
            "bloom_filter",
            (("form", "split-block"), ("understood", False)),
            "split-block, of a format that is not known: every key may be there",
        ),
        ("version_hint", (("version", U64(9)),), "version 9"),
        ("deletion_file", (("deleted_rows", U64(1)),), "1 row"),
        ("tag", (("version", U64(9)),), ""),
    ],
)
def test_a_file_is_told_in_one_line(kind: str, fields: Fields, said: str) -> None:
    assert line(Node(kind=kind, name="x", fields=fields)) == said


def test_a_table_version_is_told_with_its_fragments_and_indexes() -> None:
    index = Node(kind="index", name="by_id")
    below = (Node(kind="indexes", name="indexes", children=(index,)),)
    fields: Fields = (("version", U64(5)), ("fragments", 2))
    assert line(Node(kind="table_version", name="x", fields=fields, children=below)) == (
        "version 5, 2 fragments, 1 index"
    )


def test_kinds_are_told_in_words() -> None:
    assert [words(kind) for kind in ("wal_entry", "mem_wal_index", "region_manifest")] == [
        "WAL entry",
        "MemWAL index",
        "region manifest",
    ]


def test_nothing_is_told_of_a_file_that_is_damaged() -> None:
    damage = (objection("x", "cut", "WAL-009"),)
    assert line(Node(kind="wal_entry", name="x", damage=damage)) == ""
