"""Tags: names for table versions, one object each, which keep the version from being collected.

An object under ``_refs/tags`` in JSON: the version, and the size of its manifest, by which pylance loads it.
Source: MemWAL revision A, "Garbage Collector", for what they retain; the form is that of the native package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from .. import confirm
from ..clauses import implements
from ..codec import json_text
from ..effects import Io
from ..errors import ArtifactError, InvalidArgument, NotFound
from ..ids import Milliseconds, TableVersion
from .state import load

FOLDER = "_refs/tags"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def path(name: str) -> str:
    """Object of the tag ``name``, relative to the table; raises `InvalidArgument` for a text that is no such name."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".lock", ".")):
        raise InvalidArgument(f"not a tag name: {name!r}; use letters, digits, '.', '_' and '-'")
    return f"{FOLDER}/{name}.json"


@implements("GC-003")
async def create(io: Io, name: str, version: TableVersion) -> None:
    """Tag ``version``. Raises `AlreadyExists` for a tag that is there, and `NotFound` for a version that is not.

    The version is looked for again after the tag is there: a collector that expired it meanwhile has not seen the tag.
    """
    target = path(name)
    data = await _described(io, version)
    await io.put_if_absent(target, data)
    try:
        await load(io, version)
    except NotFound:
        await confirm.delete(io, target)
        raise


async def _described(io: Io, version: TableVersion) -> bytes:
    state = await load(io, version)
    size = await io.head(io.relative(state.path))
    moment = _moment(await io.now())
    described = {"branch": None, "version": version, "createdAt": moment, "updatedAt": moment, "manifestSize": size}
    return json.dumps({**described, "metadata": {}}, indent=2).encode()


def _moment(now_ms: Milliseconds) -> str:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


async def delete(io: Io, name: str) -> None:
    """Remove the tag. Raises `NotFound`."""
    await io.head(path(name))
    await confirm.delete(io, path(name))


@implements("TXN-003")
async def versions(io: Io) -> Mapping[str, TableVersion]:
    """The tags and their versions, by name. Raises `ArtifactError` for a tag that cannot be read."""
    found = {}
    for file in await io.list(FOLDER):
        name = file.removeprefix(f"{FOLDER}/").removesuffix(".json")
        try:
            found[name] = TableVersion(int(json_text.parse(await io.get(file))["version"]))
        except NotFound:
            continue
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ArtifactError("GC-003", io.path(file), f"it is not a readable tag: {error!r}") from error
    return found
