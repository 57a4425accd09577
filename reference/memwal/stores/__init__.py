"""Real stores: a local directory, and object stores through obstore.

A store performs one `StoreRequest` at a time, blocking; see `Store.perform` for what it may raise. `ObjectStore` is in
`memwal.stores.objects`, which needs obstore (the extra ``s3``).
"""

from __future__ import annotations

from .base import Store
from .local import LocalStore
from .urls import open_store

__all__ = ["LocalStore", "Store", "open_store"]
