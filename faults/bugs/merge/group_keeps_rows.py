"""A merger that lost one region of its commit to another merger leaves out its progress, and not its rows."""

from memwal.effects import Io
from memwal.errors import AlreadyMerged
from memwal.jobs.merger import _Attempt
from memwal.table.state import TableState, latest
from memwal.table.upsert import upsert
from memwal_sim.bugs import Bug


async def _rows_stay(io: Io, state: TableState, attempt: _Attempt) -> None:
    """In place of a commit that is given up when one of its regions was merged by another."""
    wanted = [(member.region, member.listed.generation) for member in attempt.members]
    progress = [(region, generation) for region, generation in wanted if state.mem_wal.progress(region) < generation]
    try:
        await upsert(io, state, attempt.work, progress=progress)
    except AlreadyMerged:
        await _rows_stay(io, await latest(io), attempt)


BUG = Bug(
    name="group_keeps_rows",
    clause="AMB-150",
    what="A merger that commits several regions, and lost one of them to another, leaves out only its progress.",
    why=(
        "What is stored for the commit has the rows of all its regions, and they are committed as they are. The other "
        "merger may be a generation further by then, so that its rows are replaced by older ones of the same keys."
    ),
    scenario="group_merger_and_merger",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    unseen="a message of the protocol merges one region, so that no commit of an implementation has to carry two",
    replaced={"memwal.jobs.merger:_commit": _rows_stay},
)
