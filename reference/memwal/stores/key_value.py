"""External manifest stores: a key-value interface with put-if-not-exists, and what makes a `Store` of it.

Source: table documents, "External Manifest Store". Keys are below `memwal.effects.EXTERNAL_ROOT`: the table's name in
its store and the version in 20 digits; the value is the name of the version's manifest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from ..clauses import implements
from ..effects import (
    EXTERNAL_ROOT,
    Delete,
    Get,
    GetRanges,
    Head,
    List,
    ListFolders,
    Put,
    PutIfAbsent,
    StoreRequest,
)
from ..errors import AlreadyExists, InvalidArgument, NotFound, StorageError
from .base import Handlers, Store, handler, spans_of


@implements("EXT-001")
class KeyValue(Protocol):
    """What an external manifest store has to offer. Every call is atomic and durable when it returns.

    A call raises `OutcomeUnknown` when it may have been applied, `Throttled` or `StorageError` when it was not.
    """

    def get(self, key: str) -> str | None:
        """The value, or None."""

    def put_if_absent(self, key: str, value: str) -> bool:
        """Enter a key; false, and nothing written, if it is there."""

    def put(self, key: str, value: str) -> None:
        """Enter or replace a key."""

    def delete(self, key: str) -> None:
        """Remove a key if it is there."""

    def keys(self, prefix: str) -> Iterable[str]:
        """All keys that begin with ``prefix``."""

    def describe(self) -> str:
        """Words for people; never contains credentials."""

    def close(self) -> None:
        """Release what is held."""


class SqliteKeyValue:
    """A key-value store in one SQLite file: for tables on one machine or on a file system with working locks.

    The file is made if it is not there. Each call opens it anew: nothing is held between calls, so that one object
    serves many threads and the children of a process.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        try:
            self._execute(
                "CREATE TABLE IF NOT EXISTS manifests (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
            )
        except StorageError as error:
            raise StorageError(
                self._path, f"not usable as an external manifest store: {error.fields['reason']}"
            ) from error

    def _execute(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        """The rows of the answer, after the change is on disk."""
        try:
            with closing(sqlite3.connect(self._path, isolation_level=None, timeout=30)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                return connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StorageError(self._path, str(error)) from error

    def get(self, key: str) -> str | None:
        found = self._execute("SELECT value FROM manifests WHERE key = ?", key)
        return str(found[0][0]) if found else None

    def put_if_absent(self, key: str, value: str) -> bool:
        sql = "INSERT INTO manifests (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING RETURNING key"
        return bool(self._execute(sql, key, value))

    def put(self, key: str, value: str) -> None:
        self._execute("INSERT OR REPLACE INTO manifests (key, value) VALUES (?, ?)", key, value)

    def delete(self, key: str) -> None:
        self._execute("DELETE FROM manifests WHERE key = ?", key)

    def keys(self, prefix: str) -> Iterable[str]:
        sql = "SELECT key FROM manifests WHERE substr(key, 1, length(?)) = ? ORDER BY key"
        return [str(row[0]) for row in self._execute(sql, prefix, prefix)]

    def describe(self) -> str:
        return f"SQLite file {self._path}"

    def close(self) -> None:
        """Nothing is held."""


class DynamoKeyValue:
    """A key-value store in a DynamoDB table, by its conditional writes.

    ``client``: a DynamoDB client as boto3 makes it, which must not retry by itself: the answer to a retried conditional
    put cannot be told from another's success. ``table``: name of a table with the text keys ``base`` (partition: the
    key up to its last component) and ``version`` (sort: the rest). ``unknown``: turns an error of the client into the
    outcome that it stands for; the error is raised as it is where it returns None.
    """

    def __init__(self, client: Any, table: str, unknown: Callable[[Exception], Exception | None] | None = None) -> None:
        self._client, self._table, self._unknown = client, table, unknown

    def _key(self, key: str) -> dict[str, dict[str, str]]:
        base, _, version = key.rpartition("/")
        return {"base": {"S": base}, "version": {"S": version}}

    def _call(self, operation: str, **arguments: Any) -> Any:
        try:
            return getattr(self._client, operation)(TableName=self._table, **arguments)
        except Exception as error:
            translated = self._unknown(error) if self._unknown is not None else None
            if translated is None:
                raise
            raise translated from error

    def get(self, key: str) -> str | None:
        item = self._call("get_item", Key=self._key(key), ConsistentRead=True).get("Item")
        return None if item is None else str(item["path"]["S"])

    def put_if_absent(self, key: str, value: str) -> bool:
        item = {**self._key(key), "path": {"S": value}}
        absent = "attribute_not_exists(#base) AND attribute_not_exists(#version)"
        names = {"#base": "base", "#version": "version"}
        try:
            self._call("put_item", Item=item, ConditionExpression=absent, ExpressionAttributeNames=names)
        except self._client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def put(self, key: str, value: str) -> None:
        self._call("put_item", Item={**self._key(key), "path": {"S": value}})

    def delete(self, key: str) -> None:
        self._call("delete_item", Key=self._key(key))

    def keys(self, prefix: str) -> Iterable[str]:
        base = prefix.rstrip("/")
        names, values = {"#base": "base"}, {":base": {"S": base}}
        arguments: dict[str, Any] = {"ConsistentRead": True}
        found: list[str] = []
        while True:
            page = self._call(
                "query",
                KeyConditionExpression="#base = :base",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
                **arguments,
            )
            found += [f"{base}/{item['version']['S']}" for item in page["Items"]]
            if "LastEvaluatedKey" not in page:
                return found
            arguments["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def describe(self) -> str:
        return f"DynamoDB table {self._table}"

    def close(self) -> None:
        """The client is the caller's."""


class WithExternal:
    """A store whose names below `EXTERNAL_ROOT` are answered by an external manifest store; a `Store` of both."""

    def __init__(self, store: Store, external: KeyValue) -> None:
        self._store, self._external = store, external

    def perform(self, request: StoreRequest[Any]) -> Any:
        if request.path != EXTERNAL_ROOT and not request.path.startswith(f"{EXTERNAL_ROOT}/"):
            return self._store.perform(request)
        return handler(_HANDLERS, request)(self._external, request)

    def describe(self) -> str:
        return f"{self._store.describe()}, versions in {self._external.describe()}"

    def close(self) -> None:
        self._external.close()
        self._store.close()


def _get(external: KeyValue, request: Get) -> bytes:
    value = external.get(request.path)
    if value is None:
        raise NotFound(request.path)
    data = value.encode()
    return b"".join(data[first:end] for first, end in spans_of(request, len(data)))


def _head(external: KeyValue, request: Head) -> int:
    value = external.get(request.path)
    if value is None:
        raise NotFound(request.path)
    return len(value.encode())


def _put_if_absent(external: KeyValue, request: PutIfAbsent) -> None:
    if not external.put_if_absent(request.path, request.data.decode()):
        raise AlreadyExists(request.path)


def _put(external: KeyValue, request: Put) -> None:
    external.put(request.path, request.data.decode())


def _delete(external: KeyValue, request: Delete) -> None:
    external.delete(request.path)


def _list(external: KeyValue, request: List) -> tuple[str, ...]:
    return tuple(sorted(external.keys(f"{request.path}/")))


def _refused(external: KeyValue, request: ListFolders) -> None:
    raise InvalidArgument(f"an external manifest store has no folders to list below {request.path}")


_HANDLERS: Handlers[KeyValue] = {
    Get: _get,
    GetRanges: _get,
    Head: _head,
    PutIfAbsent: _put_if_absent,
    Put: _put,
    Delete: _delete,
    List: _list,
    ListFolders: _refused,
}
