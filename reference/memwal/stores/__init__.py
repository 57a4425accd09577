"""Real stores: a local directory, and object stores through obstore.

A store performs one `StoreRequest` at a time, blocking; see `Store.perform` for what it may raise. `ObjectStore` is in
`memwal.stores.objects`, which needs obstore (the extra ``s3``). External manifest stores, which only arbitrate the
versions of tables, are `SqliteKeyValue`, `DynamoKeyValue`, and whatever else offers what `KeyValue` names.
"""

from __future__ import annotations

from .base import Store
from .key_value import DynamoKeyValue, KeyValue, SqliteKeyValue
from .local import LocalStore
from .manifest_store import ManifestStore
from .urls import open_store

__all__ = [
    "DynamoKeyValue",
    "KeyValue",
    "LocalStore",
    "ManifestStore",
    "SqliteKeyValue",
    "Store",
    "open_store",
]
