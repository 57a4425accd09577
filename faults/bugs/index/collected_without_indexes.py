"""A collector does not look at indexes."""

from memwal_sim.bugs import Bug


def _covered(*_: object) -> str:
    """In place of the reason why some index holds a generation back."""
    return ""


BUG = Bug(
    name="collected_without_indexes",
    clause="GC-002",
    what="A generation is collected as soon as it is merged, whether or not the maintained indexes cover its rows.",
    why=(
        "Its rows are in the base table, so that no read misses them. But a search by an index has neither the base "
        "index nor the generation's own one for them any more, and has to look at every row."
    ),
    scenario="collector_and_indexer",
    oracle="each change is a step of the machine",
    violated="CATCHUP-013",
    replaced={"memwal.jobs.collector.generations:_lagging": _covered},
)
