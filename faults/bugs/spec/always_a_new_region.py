"""Registering a region value always creates a region."""

from memwal_sim.bugs import Bug


def _none_known(*_: object) -> dict[object, object]:
    """In place of the registered regions by their values."""
    return {}


BUG = Bug(
    name="always_a_new_region",
    clause="REGION-003",
    what="A client that needs the region of a value registers a new one without looking for one that has the value.",
    why=(
        "Each commit adds a row and keeps all others, so that nothing is in conflict and nothing shows it. From then "
        "on it depends on the client which of the two regions gets a key."
    ),
    scenario="two_creators",
    oracle="regions_have_distinct_values",
    violated="AMB-52",
    replaced={"memwal.index.registration:_by_values": _none_known},
)
