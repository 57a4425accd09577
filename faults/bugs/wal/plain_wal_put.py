"""WAL entries replace what is there."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="plain_wal_put",
    clause="AMB-13",
    what="A WAL entry is stored with a plain put, which replaces an entry that is there already.",
    why=(
        "Two writers that hold the same position overwrite each other, and the rows of the first vanish after they "
        "were acknowledged. Revisions A and B ask for a conditional put for manifests only."
    ),
    scenario="two_writers_two_keys",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    readings={"conditional_wal_put": False},
)
