"""A refused claim is taken for a success if the stored manifest has the wanted bytes."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="claim_by_equal_bytes",
    clause="AMB-28",
    what="A claim that finds its manifest version taken counts as won if the stored bytes are those it wanted to put.",
    why=(
        "It looks like a cheap way to resolve an unanswered put. But a manifest does not name its writer: two claims "
        "of one version have equal bytes, so that both writers hold the same epoch and pass every check of it."
    ),
    scenario="two_writers_two_keys",
    oracle="no process breaks",
    violated="WAL-006",
    readings={"own_claim_needs_confirmation": False},
)
