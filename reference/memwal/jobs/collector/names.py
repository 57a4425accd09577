"""Which files of a table a manifest or a transaction names, relative to the table.

An index stands for all files in its folder. Files in base paths are another table's, or WAL entries, and are not named.
"""

from __future__ import annotations

from google.protobuf.message import Message

from ... import paths
from ...codec.pb.lance import table_pb2, transaction_pb2
from ...codec.table_manifest import TableManifest
from ...table.mirror import index_folder
from ...table.read import deletion_path

_UUID_BYTES = 16


def of_manifest(manifest: TableManifest) -> frozenset[str]:
    """Data and deletion files, index folders and the transaction of one version."""
    found: set[str] = set()
    for fragment in manifest.message.fragments:
        _add(fragment, found)
    for index in manifest.indices:
        _add(index, found)
    if manifest.transaction is not None:
        _add(manifest.transaction, found)
    if manifest.message.transaction_file:
        found.add(paths.transaction(manifest.message.transaction_file))
    return frozenset(found)


def of_transaction(transaction: transaction_pb2.Transaction) -> frozenset[str]:
    """Data and deletion files and index folders that a transaction names, whatever it does with them."""
    found: set[str] = set()
    _add(transaction, found)
    return frozenset(found)


def _add(message: Message, found: set[str]) -> None:
    match message:
        case table_pb2.DataFragment():
            for file in message.files:
                _add(file, found)
            if message.HasField("deletion_file") and not message.deletion_file.HasField("base_id"):
                found.add(deletion_path(message))
        case table_pb2.DataFile():
            if not message.HasField("base_id"):
                found.add(paths.data_file(message.path))
        case table_pb2.IndexMetadata():
            if not message.HasField("base_id"):
                _add_index(message.uuid.uuid, found)
        case transaction_pb2.Transaction.Rewrite.RewrittenIndex():
            _add_index(message.old_id.uuid, found)
            _add_index(message.new_id.uuid, found)
        case _:
            for descriptor, value in message.ListFields():
                if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
                    continue  # a plain value or a map of texts names no file
                for part in value if descriptor.is_repeated else (value,):
                    _add(part, found)


def _add_index(identity: bytes, found: set[str]) -> None:
    if len(identity) == _UUID_BYTES:
        found.add(index_folder(identity))
