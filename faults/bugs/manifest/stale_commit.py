"""A flush that lost a manifest version puts the same content under the next number."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="stale_commit",
    clause="AMB-29",
    what="A flush whose manifest version is taken retries under the next number without reading what took it.",
    why=(
        "The texts say that the loser retries, and not from where. If the winner was a claim, the retry puts a "
        "manifest with the old epoch above it: the claim is undone, and the fenced writer owns the region again."
    ),
    scenario="two_writers_two_keys",
    oracle="manifests_never_go_back",
    violated="MANIFEST-007",
    readings={"reverify_each_attempt": False},
)
