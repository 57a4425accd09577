"""A folder of the local file system as the contents of a store."""

from __future__ import annotations

from pathlib import Path

from memwal.errors import InvalidArgument
from memwal.stores.base import check_name
from memwal_sim.store import Contents

from .limits import GateLimits


def loaded(root: Path, limits: GateLimits | None = None) -> Contents:
    """Every file below ``root`` as an object of its relative name; links are not followed.

    Raises `InvalidArgument` if ``root`` is not a folder, or holds more than a gate with ``limits`` takes.
    """
    bounds = limits or GateLimits()
    if not root.is_dir():
        raise InvalidArgument(f"{root} is not a folder")
    objects: dict[str, bytes] = {}
    size = 0
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        name = path.relative_to(root).as_posix()
        check_name(name)
        size += path.stat().st_size
        if len(objects) >= bounds.objects or size > bounds.kept_bytes:
            raise InvalidArgument(f"{root} holds more than {bounds.objects} files or {bounds.kept_bytes} bytes")
        objects[name] = path.read_bytes()
    return Contents(objects)
