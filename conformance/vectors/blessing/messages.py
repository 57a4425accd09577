"""Protobuf messages from text format, under descriptors written here from the field numbers of the specification.

MemWAL revision A, "Region Manifest" and "Index Details"; revision R adds fields 14 and 15 to the manifest and 3 to 5
to its entries. Table manifests: the Lance table format; revision 0: its own "Index Details". The field names are this
module's own: only numbers and types reach the bytes.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

_TYPES = {
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "uint32": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}

MESSAGES: dict[str, list[tuple[int, str, str, bool]]] = {
    "Uuid": [(1, "uuid", "bytes", False)],
    "Flushed": [
        (1, "generation", "uint64", False),
        (2, "path", "string", False),
        (3, "in_memory_bytes", "uint64", False),
        (4, "physical_rows", "uint64", False),
        (5, "primary_key_bytes", "uint64", False),
    ],
    "ShardField": [(1, "field_id", "string", False), (2, "value", "bytes", False)],
    "Manifest": [
        (1, "version", "uint64", False),
        (2, "writer_epoch", "uint64", False),
        (3, "replay_after", "uint64", False),
        (4, "last_seen", "uint64", False),
        (6, "current_generation", "uint64", False),
        (7, "retired", "uint64", False),
        (8, "flushed", "Flushed", True),
        (10, "spec_id", "uint32", False),
        (11, "region_id", "Uuid", False),
        (14, "shard_fields", "ShardField", True),
        (15, "status", "uint32", False),
        (1000, "of_the_future", "string", False),
    ],
    "Merged": [(1, "region_id", "Uuid", False), (2, "generation", "uint64", False)],
    "Catchup": [(1, "index_name", "string", False), (2, "caught_up", "Merged", True)],
    "Parameter": [(1, "key", "string", False), (2, "value", "string", False)],
    "RegionField": [
        (1, "field_id", "string", False),
        (2, "source_ids", "int32", True),
        (3, "transform", "string", False),
        (4, "expression", "string", False),
        (5, "result_type", "string", False),
        (6, "parameters", "Parameter", True),
    ],
    "RegionSpec": [(1, "spec_id", "uint32", False), (2, "fields", "RegionField", True)],
    "IndexDetails": [
        (1, "snapshot_ts_millis", "int64", False),
        (2, "num_regions", "uint32", False),
        (3, "inline_snapshots", "bytes", False),
        (7, "region_specs", "RegionSpec", True),
        (8, "maintained_indexes", "string", True),
        (9, "merged", "Merged", True),
        (10, "catchup", "Catchup", True),
    ],
    "Entry": [(1, "key", "string", False), (2, "value", "string", False)],
    "SchemaField": [
        (1, "type", "uint32", False),
        (2, "name", "string", False),
        (3, "id", "int32", False),
        (4, "parent_id", "int32", False),
        (5, "logical_type", "string", False),
        (6, "nullable", "uint32", False),
        (10, "metadata", "Entry", True),
        (12, "unenforced_primary_key", "uint32", False),
    ],
    "DataFile": [
        (1, "path", "string", False),
        (2, "fields", "int32", True),
        (3, "column_indices", "int32", True),
        (4, "major", "uint32", False),
        (5, "minor", "uint32", False),
        (6, "bytes", "uint64", False),
    ],
    "Fragment": [(1, "id", "uint64", False), (2, "files", "DataFile", True), (4, "rows", "uint64", False)],
    "Any": [(1, "type_url", "string", False), (2, "value", "IndexDetails", False)],
    "Index": [
        (1, "id", "Uuid", False),
        (3, "name", "string", False),
        (4, "table_version", "uint64", False),
        (6, "details", "Any", False),
    ],
    "IndexSection": [(1, "indices", "Index", True)],
    "Time": [(1, "seconds", "int64", False)],
    "DataFormat": [(1, "format", "string", False), (2, "version", "string", False)],
    "TableManifest": [
        (1, "fields", "SchemaField", True),
        (2, "fragments", "Fragment", True),
        (3, "version", "uint64", False),
        (6, "index_section", "optional uint64", False),
        (7, "timestamp", "Time", False),
        (9, "reader_flags", "uint64", False),
        (10, "writer_flags", "uint64", False),
        (11, "max_fragment", "optional uint32", False),
        (15, "data_format", "DataFormat", False),
        (16, "config", "Entry", True),
    ],
    "LegacyId": [(1, "region", "string", False), (2, "generation", "uint64", False)],
    "LegacyMemWal": [
        (1, "id", "LegacyId", False),
        (2, "mem_table_location", "string", False),
        (3, "wal_location", "string", False),
        (4, "wal_entries", "bytes", False),
        (5, "state", "uint32", False),
        (6, "owner_id", "string", False),
        (7, "last_updated_dataset_version", "uint64", False),
        (1000, "of_the_future", "string", False),
    ],
    "IdRange": [(1, "start", "uint64", False), (2, "end", "uint64", False)],
    "IdArray": [(3, "u64", "IdList", False)],
    "IdList": [(2, "values", "bytes", False)],
    "Ids": [(1, "range", "IdRange", False), (4, "sorted", "IdArray", False)],
    "LegacyDetails": [(1, "mem_wal_list", "LegacyMemWal", True)],
}
"""Message -> (number, name, type, repeated)."""


def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="blessing.proto", package="blessing", syntax="proto3")
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for number, name, kind, repeated in fields:
            field = described.field.add(name=name, number=number)
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            optional, kind = kind.startswith("optional "), kind.removeprefix("optional ")
            if optional:
                field.proto3_optional, field.oneof_index = True, len(described.oneof_decl)
                described.oneof_decl.add(name=f"_{name}")
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".blessing.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _pool()


def encoded(message: str, text: str) -> bytes:
    """Bytes of a message given in protobuf text format."""
    kind: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"blessing.{message}"))
    data: bytes = text_format.Parse(text, kind()).SerializeToString(deterministic=True)
    return data


def uuid_text(hexadecimal: str) -> str:
    """A UUID's 16 bytes as a text format string."""
    digits = hexadecimal.replace("-", "")
    return "".join(f"\\x{digits[i : i + 2]}" for i in range(0, 32, 2))


def text_bytes(data: bytes) -> str:
    """Bytes as a text format string."""
    return "".join(f"\\x{byte:02x}" for byte in data)
