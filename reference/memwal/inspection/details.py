"""The MemWAL index of a table version, of revision 0 or a later one."""

from __future__ import annotations

from ..codec import index_details
from ..codec.index_details import IndexDetails, Progress
from ..errors import ArtifactError
from ..revision_0 import records
from ..revisions import Revision
from . import kinds
from .node import U64, Fields, Node, counted, of_error


def of_details(data: bytes, path: str, revision: Revision, name: str) -> Node:
    """The details ``data`` of the MemWAL index of a table whose config says ``revision``."""
    try:
        if index_details.is_revision_0(data, path):
            return _of_records(records.decode(data, path), name)
        return _of_later(index_details.decode(data, revision, path), revision, name)
    except ArtifactError as error:
        return Node(kind=kinds.INDEX_DETAILS, name=name, damage=(of_error(error),))


def _of_records(found: records.Records, name: str) -> Node:
    children = tuple(
        Node(
            kind="mem_wal_of_revision_0",
            name=f"{record.region}/{record.generation}",
            fields=(
                ("region", record.region),
                ("generation", U64(record.generation)),
                ("state", record.state.name),
                ("entries", tuple(f"{start}-{end - 1}" for start, end in record.entries.ranges[:20])),
                ("entry_count", U64(len(record.entries))),
                ("owner_id", record.owner_id),
                ("mem_table_location", record.mem_table_location),
                ("wal_location", record.wal_location),
                ("version_updated", U64(record.version_updated)),
            ),
        )
        for record in found
    )
    fields: Fields = (("revision", "0"), ("records", len(found)))
    return Node(kind=kinds.INDEX_DETAILS, name=name, fields=fields, children=children)


def _of_later(found: IndexDetails, revision: Revision, name: str) -> Node:
    fields: Fields = (
        ("revision", revision.name),
        ("snapshot_ts_ms", U64(found.snapshot_ts_ms)),
        ("num_regions", found.num_regions),
        ("inline_snapshot_bytes", None if found.inline_snapshots is None else U64(len(found.inline_snapshots))),
        ("maintained_indexes", found.maintained_indexes),
        ("maintain_all", found.maintain_all),
        ("writer_defaults", dict(found.writer_defaults)),
        ("spec_change", found.spec_change or None),
        ("unknown_bytes", len(found.unknown)),
    )
    specs = [
        Node(
            kind="region_spec",
            name=str(spec.spec_id),
            fields=(("spec_id", spec.spec_id),),
            children=tuple(
                Node(
                    kind="region_field",
                    name=field.field_id,
                    fields=(
                        ("source_ids", tuple(int(i) for i in field.source_ids)),
                        ("transform", field.transform),
                        ("expression", field.expression),
                        ("result_type", field.result_type),
                        ("parameters", dict(field.parameters)),
                    ),
                )
                for field in spec.fields
            ),
        )
        for spec in found.specs
    ]
    children = [counted("region_specs", "region specs", specs), _progress("merged", "merged generations", found.merged)]
    for entry in found.catchup:
        children.append(_progress("catch_up", entry.index_name, entry.generations))
    return Node(kind=kinds.INDEX_DETAILS, name=name, fields=fields, children=tuple(children))


def _progress(kind: str, name: str, progress: Progress) -> Node:
    children = [
        Node(kind="progress", name=region, fields=(("region_id", region), ("generation", U64(generation))))
        for region, generation in progress
    ]
    return counted(kind, name, children)
