"""Bytes of the objects of a table that grow with its regions and its puts: encoded for real."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from memwal.codec import index_details
from memwal.codec.index_details import IndexDetails
from memwal.codec.region_manifest import RegionManifest
from memwal.codec.wal import WalEntry, encode
from memwal.ids import Epoch, Generation, ManifestVersion, Milliseconds, RegionId, SpecId, WalPosition
from memwal.index import snapshot_file
from memwal.index.snapshot_file import RegionRow
from memwal.revisions import R, Revision


def entry_bytes(revision: Revision) -> int:
    """Bytes of a WAL entry without rows: what each put carries besides its rows."""
    schema = pa.schema([pa.field("id", pa.string()), pa.field("value", pa.string())])
    return len(encode(WalEntry(epoch=Epoch(1), generation=Generation(1), rows=schema.empty_table()), revision))


def index_sizes(count: int, revision: Revision, *, inline: bool) -> tuple[int, int]:
    """Bytes of the index details, and of the external snapshot, of a table with ``count`` regions."""
    ids = [RegionId(f"{number:08x}-0000-4000-8000-{number * 7919 % 2**48:012x}") for number in range(count)]
    rows = [
        RegionRow(
            region_id=region,
            spec_id=SpecId(0),
            values=(),
            manifest=RegionManifest(
                version=ManifestVersion(1000 + number),
                region_id=region,
                spec_id=SpecId(0),
                epoch=Epoch(10),
                position_replay_after=WalPosition(100_000 + number),
                position_last_seen=WalPosition(100_100 + number),
                generation_current=Generation(200),
                flushed=(),
                shard_fields=(),
            ),
        )
        for number, region in enumerate(ids)
    ]
    details = IndexDetails(
        snapshot_ts_ms=Milliseconds(1_700_000_000_000),
        num_regions=count,
        inline_snapshots=None,
        merged=tuple((region, Generation(200)) for region in ids),
    )
    encoded = snapshot_file.encode(rows, details, revision)
    if inline:
        return len(index_details.encode(replace(details, inline_snapshots=encoded), R)), 0
    return len(index_details.encode(details, R)), len(encoded)
