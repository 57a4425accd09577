"""A region spec can be removed while regions are of it."""

from memwal_sim.bugs import Bug


async def _no_regions(*_: object) -> dict[object, object]:
    """In place of looking for the regions of the table."""
    return {}


BUG = Bug(
    name="spec_removed_in_use",
    clause="REGION-011",
    what="A region spec is removed without looking whether regions are of it.",
    why=(
        "It governs no new writes any more, so that it looks unused. But the manifests of its regions still name it, "
        "and nothing says any more what their region values mean."
    ),
    scenario="spec_in_use",
    oracle="region_specs_are_listed",
    violated="REGION-011",
    unseen="no message of the protocol changes the region specs of a table that is there",
    replaced={"memwal.jobs.spec_change:_rows": _no_regions},
)
