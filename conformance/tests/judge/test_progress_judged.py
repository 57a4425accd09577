"""What the judge says of merge progress that rises without the rows that it speaks of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from memwal_conformance.judge import progress, table
from memwal_conformance.judge.artifacts import JudgedIndexDetails
from memwal_conformance.judge.store import LAYOUTS, JudgedRegion, JudgedStore
from memwal_conformance.judge.table import JudgedTableManifest

REGION = "0f8fad5b-d9cb-469f-a165-70867728950e"


def manifest(version: int, data: tuple[bytes, ...], merged: int) -> JudgedTableManifest:
    details = JudgedIndexDetails(
        snapshot_ts_millis=0,
        num_regions=0,
        inline_snapshots=None,
        region_specs=(),
        maintained_indexes=(),
        merged=((REGION, merged),) if merged else (),
        catchup=(),
    )
    return JudgedTableManifest(
        version=version, fragments=len(data), base_paths=(), memwal=(details,), config={}, data=data
    )


@pytest.mark.parametrize(
    ("versions", "rows", "told"),
    [
        ([(1, (b"a",), 0), (2, (b"a", b"b"), 1), (3, (b"c",), 2)], 1, []),
        ([(1, (b"a",), 0), (2, (b"a", b"b"), 0), (3, (b"a", b"b"), 1)], 1, [3]),
        ([(1, (b"a",), 0), (2, (b"a",), 1)], 0, []),
        ([(1, (b"a",), 1), (2, (b"a",), 1)], 1, []),
        ([(1, (b"a",), 0), (3, (b"a",), 1)], 1, []),
    ],
    ids=["with the rows", "in a version of its own", "of a generation without rows", "unchanged", "over a gap"],
)
def test_progress_rises_in_the_version_that_has_the_rows(
    versions: list[tuple[int, tuple[bytes, ...], int]],
    rows: int,
    told: list[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    known = {str(version).encode(): manifest(version, data, merged) for version, data, merged in versions}
    files = {version: tmp_path / str(version) for version, _, _ in versions}
    for version, file in files.items():
        file.write_text(str(version), "utf-8")
    monkeypatch.setattr(table, "versions", lambda _root: files)
    monkeypatch.setattr(table, "table_manifest", known.__getitem__)
    monkeypatch.setattr(table, "rows", lambda _folder, _storage: pa.table({"id": list(range(rows))}))
    region = JudgedRegion(
        region_id=REGION,
        folder=tmp_path,
        manifests={},
        wal={},
        wal_names=(),
        generations=("a1b2c3d4_gen_1", "a1b2c3d4_gen_2"),
        strangers=(),
        hint=None,
    )
    store = JudgedStore(
        root=tmp_path, layout=LAYOUTS["B"], key=("id",), table=known[b"1"], regions={REGION: region}, strangers=()
    )
    found = [seen for seen in progress.steps(store) if seen is not None]
    expected = [f"version {v}: merge progress of {REGION} becomes 1, without any data" for v in told]
    assert found == expected
