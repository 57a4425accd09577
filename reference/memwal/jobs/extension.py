"""Extending an index over fragments that it does not cover, by pylance, inside a mirror of the table.

What pylance does by itself is kept: an index over scalars or text is merged into one part; new vectors become a part of
their own, encoded by the model of the index. Its own default for vectors is not used: it splits and joins partitions as
they grow, which trains new centroids under the old name (AMB-51).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..clauses import implements
from ..codec import native
from ..codec.pb.lance import table_pb2
from ..errors import ArtifactError
from ..table.coverage import fragment_ids, named_fragments
from ..table.mirror import Mirror
from ..table.state import TableState
from ..table.vector_models import is_vector

Segments = tuple[table_pb2.IndexMetadata, ...]
"""Entries of one index, oldest first."""

VECTOR_SEGMENTS = 8
"""From this many parts on, a vector index has all but its first part merged: that one keeps the UUID that generations
inherited their model from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What pylance made of an index."""

    added: Segments
    """New entries; their files are in the mirror, under their UUIDs."""
    removed: Segments
    """Entries that the new ones replace."""


@implements("CATCHUP-006")
def extend(mirror: Mirror, state: TableState, name: str, before: Segments) -> Extension:
    """Extend the index ``name``, whose parts are ``before``, over all fragments of ``state``.

    ``mirror`` holds ``state``, all files of ``before``, and the fragments that they do not cover. Raises
    `ArtifactError` if the index or the data cannot be read, or if fragments stay uncovered.
    """
    _optimise(mirror, state, name, _merged_segments(before))
    after = tuple(entry for entry in mirror.newest().indices if entry.name == name)
    known = {entry.uuid.uuid for entry in before}
    added = tuple(entry for entry in after if entry.uuid.uuid not in known)
    kept = {entry.uuid.uuid for entry in after}
    missing = fragment_ids(state).difference(*(named_fragments(state, entry) for entry in after))
    if missing:
        reason = f"fragments {sorted(missing)} cannot be added to index {name!r}: its files are not complete"
        raise ArtifactError("CATCHUP-006", state.path, reason)
    return Extension(added=added, removed=tuple(entry for entry in before if entry.uuid.uuid not in kept))


def _merged_segments(before: Segments) -> int:
    """How many of the newest parts are merged with what is added."""
    if not any(map(is_vector, before)):
        return len(before)
    return len(before) - 1 if len(before) >= VECTOR_SEGMENTS else 0


def _optimise(mirror: Mirror, state: TableState, name: str, merged_segments: int) -> None:
    import lance

    with native.reading(state.path, "CATCHUP-006", refusal=f"index {name!r} cannot be extended"):
        opened = lance.dataset(mirror.location)
        opened.optimize.optimize_indices(index_names=[name], num_indices_to_merge=merged_segments)
