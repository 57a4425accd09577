"""External manifest stores as users name them, and where the entries of a table are in one.

Source: table documents, "External Manifest Store".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ..clauses import implements
from ..effects import EXTERNAL_ROOT
from ..errors import InvalidArgument
from .key_value import KeyValue, SqliteKeyValue

ManifestStore: TypeAlias = str | KeyValue
"""``sqlite:PATH``, or an object: a `SqliteKeyValue`, a `DynamoKeyValue`, or another one with these methods."""

_SQLITE = "sqlite:"


def open_manifest_store(named: ManifestStore) -> KeyValue:
    """The store that ``named`` names; an object is returned as it is.

    Raises `InvalidArgument` for a name of no known kind, and `StorageError` for a file that is no SQLite file.
    """
    if not isinstance(named, str):
        return named
    path = named.removeprefix(_SQLITE)
    if path == named or not path:
        reason = f"{named!r} names no external manifest store; write {_SQLITE}PATH, or pass an object"
        raise InvalidArgument(reason, clause="EXT-001")
    return SqliteKeyValue(path)


@implements("EXT-006", "EXT-013")
class Located:
    """An external manifest store whose entries carry absolute names, so that tables of many places share it.

    ``base``: absolute name of the object store's root. A `KeyValue` whose keys begin with `EXTERNAL_ROOT` and whose
    values are object names, as protocol code has them; inside, ``base`` is before both. Two processes that know the
    store's root by different absolute names would not see each other's entries.
    """

    def __init__(self, inner: KeyValue, base: str) -> None:
        self._inner, self._base = inner, base.rstrip("/")

    def _outside(self, name: str) -> str:
        return f"{self._base}/{name}"

    def _key(self, key: str) -> str:
        return self._outside(key.removeprefix(f"{EXTERNAL_ROOT}/"))

    def get(self, key: str) -> str | None:
        value = self._inner.get(self._key(key))
        return None if value is None else value.removeprefix(f"{self._base}/")

    def put_if_absent(self, key: str, value: str) -> bool:
        return self._inner.put_if_absent(self._key(key), self._outside(value))

    def put(self, key: str, value: str) -> None:
        self._inner.put(self._key(key), self._outside(value))

    def delete(self, key: str) -> None:
        self._inner.delete(self._key(key))

    def keys(self, prefix: str) -> Iterable[str]:
        """The keys directly below ``prefix``: a folder inside of a table's folder may be another table."""
        outside = self._key(prefix)
        return [
            prefix + key.removeprefix(outside)
            for key in self._inner.keys(outside)
            if "/" not in key.removeprefix(outside)
        ]

    def describe(self) -> str:
        return self._inner.describe()

    def close(self) -> None:
        self._inner.close()
