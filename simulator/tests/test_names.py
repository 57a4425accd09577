from __future__ import annotations

import pytest
from memwal_sim.names import symbolic

REGION = "_mem_wal/00000000-0000-4000-8000-000000000001"
TWELVE = "0011" + "0" * 60
THREE = "11" + "0" * 62


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"{REGION}/wal/{TWELVE}.arrow", "wal/@12"),
        (f"{REGION}/wal/{TWELVE}.lance", "wal/@12"),
        (f"{REGION}/wal", "wal"),
        (f"{REGION}/wal/notes.txt", "wal/notes.txt"),
        (f"{REGION}/manifest/{THREE}.binpb", "manifest/@3"),
        (f"{REGION}/manifest/version_hint.json", "hint"),
        (f"{REGION}/manifest", "manifest"),
        (f"{REGION}", "region"),
        ("_mem_wal", "_mem_wal"),
        (f"{REGION}/a1b2c3d4_gen_2", "gen/@2"),
        (f"{REGION}/a1b2c3d4_gen_2/data/0123abcd.lance", "gen/@2/data/*.lance"),
        (f"{REGION}/a1b2c3d4_gen_2/_versions/18446744073709551614.manifest", "gen/@2/versions/@1"),
        (f"{REGION}/a1b2c3d4_gen_2/_transactions/0-af.txn", "gen/@2/_transactions/*.txn"),
        (f"{REGION}/a1b2c3d4_gen_2/bloom_filter.bin", "gen/@2/bloom_filter.bin"),
        ("_versions/18446744073709551611.manifest", "versions/@4"),
        ("_versions", "_versions"),
        ("data/0123abcd.lance", "data/*.lance"),
        ("t/_versions/18446744073709551611.manifest", "t/versions/@4"),
        ("something/else", "something/else"),
        ("", ""),
    ],
)
def test_objects_have_names_without_numbers_and_random_parts(path: str, name: str) -> None:
    assert symbolic(path) == name
