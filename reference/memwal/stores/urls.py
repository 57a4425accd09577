"""From the URL of a table to the store that holds it, and the folder inside."""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..errors import InvalidArgument
from .base import Store, check_name
from .local import LocalStore

Options = Mapping[str, str]

_BUCKETS: dict[str, tuple[str, Mapping[str, str]]] = {
    # An S3 delete here is of one object: the plain request is the one that every S3 server understands.
    "s3": ("S3Store", {"disable_bulk_delete": "true"}),
    "gs": ("GCSStore", {}),
    "az": ("AzureStore", {}),
}
"""Scheme -> name of obstore's class, and options that it gets unless the caller sets them."""

_memory_stores: dict[str, Store] = {}
_memory_lock = threading.Lock()


def open_store(url: str, storage_options: Options | None = None) -> tuple[Store, str]:
    """The store that ``url`` names, and the table's root folder inside it (empty: the store's own root).

    ``url``: a path of a local directory or ``file://``, which need not exist; ``memory://name/folder``, where one store
    per name lives as long as the process; ``s3://bucket/folder``, ``gs://bucket/folder``, ``az://container/folder``,
    whose folder is taken as it stands, without percent decoding.

    ``storage_options``: for buckets what obstore takes as configuration and client options (``aws_region``,
    ``endpoint``, ``allow_http``, …), and ``client_max_retries`` and ``client_retry_timeout`` (seconds) for requests
    that only read; requests that change something are never retried here. ``timeout`` (``30s`` unless given; ``500ms``,
    ``2m``, a number of seconds): how long one attempt may take, how long reads are retried, and how long a store may be
    silent before `Unreachable` ends whatever is under way. For directories ``fsync``: ``true`` or ``false`` (see
    `LocalStore`). Memory takes none.

    Raises `InvalidArgument` for an unknown scheme or option and when obstore is needed and not installed.
    """
    scheme, separator, rest = url.partition("://")
    options = dict(storage_options or {})
    if not separator:
        return _directory(Path(url), options), ""
    if scheme not in _OPENERS:
        raise InvalidArgument(f"{url!r}: this scheme is not known; use a plain path or one of {', '.join(_OPENERS)}")
    return _OPENERS[scheme](scheme, rest, options)


def _directory(path: Path, options: dict[str, str]) -> Store:
    fsync = options.pop("fsync", "false").lower()
    if options:
        raise InvalidArgument(f"for a local directory, leave out the storage option {', '.join(sorted(options))}")
    if fsync not in ("true", "false"):
        raise InvalidArgument(f"storage option fsync must be true or false, not {fsync!r}")
    if "\0" in str(path):
        raise InvalidArgument(f"{str(path)!r} is not a path")
    return LocalStore(path, fsync=fsync == "true")


def _file(scheme: str, rest: str, options: dict[str, str]) -> tuple[Store, str]:
    host, _, path = rest.partition("/")
    if host not in ("", "localhost"):
        raise InvalidArgument(f"{scheme}://{rest}: a path on host {host!r}; write {scheme}:///path")
    from urllib.request import url2pathname  # comes with all of HTTP

    return _directory(Path(url2pathname("/" + path)), options), ""


def _memory(scheme: str, rest: str, options: dict[str, str]) -> tuple[Store, str]:
    name, folder = _split(scheme, rest)
    if options:
        raise InvalidArgument(f"{scheme}:// takes no storage option {', '.join(sorted(options))}")
    with _memory_lock:
        if name not in _memory_stores:
            stores, objects = _obstore(scheme)
            _memory_stores[name] = objects.ObjectStore(stores.MemoryStore(), description=f"{scheme}://{name}")
        return _memory_stores[name], folder


def _bucket(scheme: str, rest: str, options: dict[str, str]) -> tuple[Store, str]:
    bucket, folder = _split(scheme, rest)
    if not bucket:
        raise InvalidArgument(f"{scheme}://{rest}: names no bucket: write {scheme}://bucket/path")
    stores, objects = _obstore(scheme)
    kind, defaults = _BUCKETS[scheme]
    config = {key.lower(): value for key, value in options.items()}
    patience = _patience(config)
    config["timeout"] = f"{patience // timedelta(milliseconds=1)}ms"
    retry = {"retry_timeout": patience, **_retry_of_reads(config)}
    for key, value in defaults.items():
        if not any(given.endswith(key) for given in config):
            config[key] = value
    try:
        make = getattr(stores, kind)
        writing = make(bucket, config=config, retry_config={"max_retries": 0})
        reading = make(bucket, config=config, retry_config=retry)
    except objects.RAISED as error:
        raise InvalidArgument(f"{scheme}://{rest}: {objects.reason(error)}") from None
    probe_folder = f"{folder}/_memwal_probe".lstrip("/")  # inside the table: rights may end there
    description = f"{scheme}://{rest}"
    store = objects.ObjectStore(
        writing,
        reads=reading,
        patience_s=patience.total_seconds(),
        probe_folder=probe_folder,
        description=description,
    )
    return store, folder


def _split(scheme: str, rest: str) -> tuple[str, str]:
    bucket, _, folder = rest.partition("/")
    folder = folder.rstrip("/")
    if folder:
        check_name(folder)
    return bucket, folder


_UNITS_MS = {"ms": 1, "": 1_000, "s": 1_000, "m": 60_000, "h": 3_600_000}


def _patience(config: dict[str, str]) -> timedelta:
    """Take the option ``timeout`` out of ``config``."""
    text = config.pop("timeout", "30s")
    found = re.fullmatch(r"([0-9]+) *([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _UNITS_MS or int(found[1]) == 0:
        raise InvalidArgument(f"storage option timeout must be a time like 30s or 500ms, not {text!r}")
    try:
        return timedelta(milliseconds=int(found[1]) * _UNITS_MS[found[2]])
    except OverflowError as error:
        raise InvalidArgument(f"storage option timeout is too long: {text!r}") from error


def _retry_of_reads(config: dict[str, str]) -> dict[str, Any]:
    """Take the two retry options out of ``config``."""
    retry: dict[str, Any] = {}
    converters: dict[str, tuple[str, Callable[[str], Any]]] = {
        "client_max_retries": ("max_retries", int),
        "client_retry_timeout": ("retry_timeout", lambda seconds: timedelta(seconds=int(seconds))),
    }
    for key, (name, convert) in converters.items():
        if key in config:
            value = config.pop(key)
            try:
                retry[name] = convert(value)
            except ValueError as error:
                raise InvalidArgument(f"storage option {key} must be a whole number, not {value!r}") from error
    return retry


def _obstore(scheme: str) -> tuple[Any, Any]:
    """The modules ``obstore.store`` and `memwal.stores.objects`; obstore is an optional dependency."""
    try:
        return importlib.import_module("obstore.store"), importlib.import_module(".objects", __package__)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "obstore":
            raise
        raise InvalidArgument(f"{scheme}:// needs obstore: pip install 'memwal[s3]'") from error


_OPENERS: dict[str, Callable[[str, str, dict[str, str]], tuple[Store, str]]] = {
    "file": _file,
    "memory": _memory,
    **dict.fromkeys(_BUCKETS, _bucket),
}
