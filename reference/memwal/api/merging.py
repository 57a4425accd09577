"""Merging the generations of several regions."""

from __future__ import annotations

from collections.abc import Sequence

from ..ids import Generation, RegionId
from ..jobs import merger
from .place import Place
from .reports import MergeReport


def merge_regions(
    place: Place,
    wanted: Sequence[RegionId],
    until: Generation | None,
    beside: frozenset[RegionId],
    commit_every: int,
) -> tuple[MergeReport, merger.Failure | None]:
    """What was merged of the regions ``wanted``, and the first failure, with a note of each further one.

    A region that cannot be merged stops none of the others. The others: as of `merger.merge_regions`.
    """
    done, failed = place.run(merger.merge_regions(place.io, wanted, until, beside, commit_every=commit_every))
    failures = list(failed.values())
    for further in failures[1:]:
        failures[0].add_note(f"in another region: {further}")
    report = MergeReport(
        merged=tuple((m.region_id, m.generation) for m in done),
        rows=sum(m.rows for m in done),
        deleted=sum(m.deleted for m in done),
        commits=len({m.commit for m in done}),
    )
    return report, failures[0] if failures else None
