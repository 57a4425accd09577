from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from kit import scenes
from memwal.codec import data_file, deletion
from memwal.revisions import A, B
from memwal_sim.scenarios import ground
from memwal_sim.viewer.decoding import decode, hex_dump, part
from memwal_sim.viewer.trees import ITEMS_MAX, ROWS_MAX, RowTexts, TreeNode, node

REGION = f"_mem_wal/{scenes.REGIONS[0]}"
ZERO, ONE = "0" * 64, "1" + "0" * 63


def at(nodes: Sequence[TreeNode], *names: str) -> TreeNode:
    """The node below ``nodes`` that is called so, level by level."""
    found = TreeNode("", children=tuple(nodes))
    for name in names:
        (found,) = (child for child in found.children if child.name == name)
    return found


def test_a_region_manifest_is_shown_field_by_field() -> None:
    found = decode(f"{REGION}/manifest/{ONE}.binpb", scenes.manifest(scenes.REGIONS[0], 1, 7), B)
    assert (found.kind, found.summary, found.problem) == (
        "region manifest",
        "epoch 7, replay after 0, flushed none",
        "",
    )
    assert at(found.nodes, "region_id").text == "00000000-0000-4000-8000-000000000001"
    assert at(found.nodes, "generation_current").text == "1"


def test_a_wal_entry_is_shown_with_its_schema_metadata_and_rows() -> None:
    found = decode(f"{REGION}/wal/{ZERO}.arrow", scenes.entry(3, k="v"), B)
    assert (found.kind, found.summary) == ("WAL entry", "epoch 3, 1 row")
    assert at(found.nodes, "metadata", "writer_epoch").text == "3"
    assert at(found.nodes, "schema", "value", "type").text == "string"
    assert at(found.nodes, "rows").rows == RowTexts(("id", "value"), (("k", "v"),), 0)


def test_a_wal_entry_of_revision_a_is_read_as_a_lance_file() -> None:
    table = pa.table({"id": ["k"]}).replace_schema_metadata({"writer_epoch": "4"})
    found = decode(f"{REGION}/wal/{ZERO}.lance", data_file.encode(table), A)
    assert found.summary == "epoch 4, 1 row"
    assert at(found.nodes, "metadata", "writer_epoch").text == "4"


def test_a_barrier_is_called_one() -> None:
    assert decode(f"{REGION}/wal/{ZERO}.arrow", scenes.entry(3), B).summary == "epoch 3, barrier"


def test_a_hint_is_shown_and_one_that_says_nothing_is_told_apart() -> None:
    path = f"{REGION}/manifest/version_hint.json"
    assert decode(path, b'{"version": 5}', B).summary == "version 5"
    assert decode(path, b"{", B).problem == (
        "it is not an object with a version: readers look for the newest without it [MANIFEST-026]"
    )


def test_a_table_manifest_is_shown_with_its_index_details() -> None:
    path, data = min((path, data) for path, data in ground.table(B).objects.items() if path.startswith("_versions/"))
    found = decode(path, data, B)
    assert (found.kind, found.summary) == ("table version", "version 2, 0 fragments, 1 index")
    assert at(found.nodes, "config", "memwal.revision").text == "B"
    assert at(found.nodes, "schema", "id", "type").text == "string"
    assert at(found.nodes, "indexes", "index __lance_mem_wal", "MemWAL index details", "num_regions").text == "0"


def test_a_transaction_is_shown_with_its_operation() -> None:
    ((path, data), *_) = sorted(
        (path, data) for path, data in ground.table(B).objects.items() if path.startswith("_transactions/1-")
    )
    found = decode(path, data, B)
    assert (found.kind, found.summary) == ("transaction", "create index on version 1")
    assert at(found.nodes, "operation", "create_index", "new_indices", "0", "name").text == "__lance_mem_wal"


@pytest.mark.parametrize("rows", [2, deletion.BITMAP_FROM_ROWS])
def test_a_deletion_file_is_shown_with_its_rows(rows: int) -> None:
    kind, data = deletion.encode(np.arange(5, 5 + rows, dtype=np.uint32))
    found = decode(f"_deletions/0-1-2.{deletion.EXTENSIONS[kind]}", data, B)
    assert (found.kind, found.summary) == ("deletion file", f"{rows:,} rows")
    assert at(found.nodes, "deleted_rows").text.startswith("[5, 6")


def test_a_data_file_is_shown_with_its_size_and_first_rows() -> None:
    data = data_file.encode(pa.table({"n": list(range(100))}))
    found = decode("data/abc.lance", data, B)
    assert (found.kind, found.summary, found.size_bytes) == ("data file", "100 rows", len(data))
    assert at(found.nodes, "rows").rows == RowTexts(("n",), tuple((str(n),) for n in range(ROWS_MAX)), 100 - ROWS_MAX)


@pytest.mark.parametrize(
    ("path", "clause"),
    [
        (f"{REGION}/manifest/{ONE}.binpb", "MANIFEST-002"),
        (f"{REGION}/wal/{ZERO}.arrow", "WAL-009"),
        ("_versions/18446744073709551614.manifest", "FORMAT-004"),
        ("_transactions/0-1.txn", "TXN-010"),
        ("_deletions/0-1-2.arrow", "FORMAT-006"),
        ("data/abc.lance", "FORMAT-024"),
    ],
)
def test_bytes_that_cannot_be_decoded_are_shown_in_hexadecimal_with_the_reason(path: str, clause: str) -> None:
    found = decode(path, b"\xff\xff\xff\xff\x01", B)
    assert f"[{clause}]" in found.problem
    assert found.dump == "000000  ff ff ff ff 01" + " " * 35 + "·····"
    assert found.nodes == ()


def test_objects_of_no_known_kind_are_text_or_hexadecimal() -> None:
    assert decode("notes", b"some words", B).nodes == (TreeNode("text", "some words"),)
    assert decode("noise", b"\x00\x01", B).dump.startswith("000000  00 01 ")


def test_a_part_of_an_object_says_which() -> None:
    found = part("data/abc.lance", b"ab", 10)
    assert (found.kind, found.summary) == ("part of data file", "bytes 10 to 12")
    assert part("data/abc.lance", b"ab", -8).summary == "the 2 bytes from 8 before the end"


def test_a_long_dump_is_cut() -> None:
    assert hex_dump(bytes(3000)).splitlines()[-1] == "… 1,976 bytes more"


def test_a_long_list_is_cut_and_of_a_large_set_only_the_number_is_shown() -> None:
    assert node("x", [(number,) for number in range(ITEMS_MAX + 5)]).children[-1] == TreeNode("…", "5 more")
    assert node("x", frozenset(range(ITEMS_MAX + 1))) == TreeNode("x", "201")


def test_sixteen_bytes_are_a_uuid_and_others_are_text_or_hexadecimal() -> None:
    assert node("x", bytes(15) + b"\x01").text == "00000000-0000-0000-0000-000000000001"
    assert node("x", b"true").text == '"true"'
    assert node("x", b"\x80").text == "0x80"
