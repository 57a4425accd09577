"""`version_hint.json`: best-effort pointer to a recent region manifest version."""

from __future__ import annotations

import json

from ..clauses import implements
from ..ids import UINT64_MAX, ManifestVersion
from . import json_text


@implements("MANIFEST-026")
def encode(version: ManifestVersion) -> bytes:
    """``{"version": n}``."""
    return json.dumps({"version": version}).encode()


@implements("MANIFEST-026", "MANIFEST-031", "AMB-31")
def decode(data: bytes, path: str) -> ManifestVersion | None:  # noqa: ARG001 - every decoder takes its object's name
    """The version, or None for anything that is not an object with one: a hint is never authoritative.

    ``path`` is the hint's name; there is no error that would need it.
    """
    try:
        found = json_text.parse(data)
    except (ValueError, RecursionError):
        return None
    version = found.get("version") if isinstance(found, dict) else None
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= UINT64_MAX:
        return None
    return ManifestVersion(version)
