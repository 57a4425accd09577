"""Merging the generations of several regions, one region after the other."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ArtifactError, Unmergeable
from ..ids import Generation, RegionId
from ..jobs import merger
from ..jobs.merger import Merged
from ..table.upsert import KeysRead
from .place import Place
from .reports import MergeReport


def merge_regions(
    place: Place, wanted: Sequence[RegionId], until: Generation | None, beside: frozenset[RegionId]
) -> tuple[MergeReport, ArtifactError | Unmergeable | None]:
    """What was merged of the regions ``wanted``, and the first failure, with a note of each further one.

    A region that cannot be merged stops none of the others. ``until``, ``beside``: as of `merger.merge_region`.
    """
    done: list[Merged] = []
    failures: list[ArtifactError | Unmergeable] = []
    base = KeysRead()
    for region in wanted:
        try:
            done += place.run(merger.merge_region(place.io, region, until, beside, base))
        except (ArtifactError, Unmergeable) as failure:
            failures.append(failure)
    for further in failures[1:]:
        failures[0].add_note(f"in another region: {further}")
    report = MergeReport(
        merged=tuple((m.region_id, m.generation) for m in done),
        rows=sum(m.rows for m in done),
        deleted=sum(m.deleted for m in done),
    )
    return report, failures[0] if failures else None
