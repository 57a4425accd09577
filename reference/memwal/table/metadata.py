"""What an UpdateConfig does to the maps of a manifest: table config, and metadata of table, schema and fields.

Source: table documents, "UpdateConfig".
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from ..clauses import implements
from ..codec.pb.lance import transaction_pb2
from ..errors import InvalidArgument
from .draft import Draft

UpdateConfig = transaction_pb2.Transaction.UpdateConfig
UpdateMap = transaction_pb2.Transaction.UpdateMap


@implements("TXN-043")
def apply(draft: Draft, body: UpdateConfig) -> None:
    """Both forms of the message: the older one with plain maps, and the newer one with updates."""
    message = draft.message
    message.config.update(body.upsert_values)
    for key in body.delete_keys:
        message.config.pop(key, None)
    _change(message.config, body.config_updates)
    _change(message.table_metadata, body.table_metadata_updates)
    if body.schema_metadata:
        _change_bytes(message.schema_metadata, _replacing(body.schema_metadata))
    _change_bytes(message.schema_metadata, body.schema_metadata_updates)
    fields = {f.id: f for f in message.fields}
    missing = (set(body.field_metadata) | set(body.field_metadata_updates)) - set(fields)
    if missing:
        raise InvalidArgument(f"the schema has no fields {sorted(missing)}", clause="TXN-043")
    for number, older in body.field_metadata.items():
        _change_bytes(fields[number].metadata, _replacing(older.metadata))
    for number, update in body.field_metadata_updates.items():
        _change_bytes(fields[number].metadata, update)


def _replacing(values: Mapping[str, str]) -> UpdateMap:
    update = UpdateMap(replace=True)
    for key, value in values.items():
        update.update_entries.add(key=key, value=value)
    return update


def _change(values: MutableMapping[str, str], update: UpdateMap) -> None:
    if update.replace:
        values.clear()
    for entry in update.update_entries:
        if entry.HasField("value"):
            values[entry.key] = entry.value
        else:
            values.pop(entry.key, None)


def _change_bytes(values: MutableMapping[str, bytes], update: UpdateMap) -> None:
    if update.replace:
        values.clear()
    for entry in update.update_entries:
        if entry.HasField("value"):
            values[entry.key] = entry.value.encode()
        else:
            values.pop(entry.key, None)


Place = tuple[str, str | None]
"""A map of the metadata, and a key in it; None stands for all keys, where the whole map is replaced."""


def places(body: UpdateConfig) -> frozenset[Place]:
    """The places in the metadata that the message sets."""
    found: set[Place] = {("config", key) for key in [*body.upsert_values, *body.delete_keys]}
    for place, update in _updates(body).items():
        found |= {(place, entry.key) for entry in update.update_entries}
        if update.replace:
            found.add((place, None))
    if body.schema_metadata:
        found.add(("schema", None))
    found |= {(f"field {number}", None) for number in body.field_metadata}
    return frozenset(found)


def _updates(body: UpdateConfig) -> dict[str, UpdateMap]:
    return {
        "config": body.config_updates,
        "table": body.table_metadata_updates,
        "schema": body.schema_metadata_updates,
        **{f"field {number}": update for number, update in body.field_metadata_updates.items()},
    }


def overlap(ours: UpdateConfig, theirs: UpdateConfig) -> bool:
    """Whether both set one place: a key of a map, or a map that one of them replaces."""
    mine, others = places(ours), places(theirs)
    if mine & others:
        return True
    whole = {place for place, key in mine | others if key is None}
    return bool(whole & {place for place, _ in mine} & {place for place, _ in others})
