"""A search in a flushed generation finds rows that were written again."""

from memwal_sim.bugs import Bug
from memwal_sim.scenarios.searching import Row, Source


def _every_row(source: Source) -> dict[int, Row]:
    """In place of the last row of each key."""
    return dict(source.rows)


BUG = Bug(
    name="superseded_in_generation",
    clause="READ-005",
    what="A search takes every hit of a generation's index, also of rows whose key comes again in that generation.",
    why=(
        "Revisions A and B leave older rows of a key in a generation and in its index: whoever searches has to know "
        "that the last row of a key counts."
    ),
    scenario="updated_key",
    oracle="a search equals a scan",
    violated="READ-002",
    replaced={"memwal_sim.scenarios.searching:counting": _every_row},
)
