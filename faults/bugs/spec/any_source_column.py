"""A region spec may be over any columns."""

from memwal_sim.bugs import Bug


def _accept(*_: object) -> None:
    """In place of checking a spec before it is created."""


BUG = Bug(
    name="any_source_column",
    clause="AMB-55",
    what="A region spec is accepted though its region value depends on a column that is no part of the primary key.",
    why=(
        "The texts ask the user to see to it that a key always has one region. An update of the other column moves the "
        "row to another region, while the old row stays in the first one."
    ),
    scenario="spec_over_value",
    oracle="a key is in one region",
    violated="REGION-002",
    unseen="the text leaves open which source columns a region spec may have (AMB-55)",
    replaced={"memwal.index.transforms:check_spec": _accept},
)
