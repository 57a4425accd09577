"""Up to where generations were collected although a retained version has not merged them.

A collector that keeps only what region snapshots list (time travel rule ``snapshot``) records this before it deletes.
A version below such a point still reads as it was, but it must not become the newest again: generations that it would
have to merge are gone. Source: AMB-87, 91.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..clauses import implements
from ..codec.pb.lance import transaction_pb2
from ..effects import Io
from ..errors import ArtifactError, InvalidArgument
from ..ids import Generation, RegionId, region_id
from ..revisions import CONFIG_COLLECTED
from .commit import commit
from .state import TableState
from .write import retried

Transaction = transaction_pb2.Transaction


@implements("AMB-91")
def collected_points(state: TableState) -> dict[RegionId, Generation]:
    """Per region the generation below whose merging nothing may be restored; empty where nothing was recorded."""
    found = {}
    for key, text in state.config.items():
        if not key.startswith(CONFIG_COLLECTED):
            continue
        try:
            region, number = region_id(key.removeprefix(CONFIG_COLLECTED)), int(text)
        except ValueError as error:
            raise ArtifactError("AMB-91", state.path, f"config {key} = {text!r}: {error}") from error
        found[region] = Generation(number)
    return found


@implements("AMB-91", "AMB-98")
async def record(io: Io, points: Mapping[RegionId, Generation]) -> TableState:
    """Record ``points`` in the table config, where they are above what is recorded; two collectors keep the higher."""

    async def attempt(state: TableState) -> TableState:
        known = collected_points(state)
        higher = {region: point for region, point in points.items() if point > known.get(region, Generation(0))}
        if not higher:
            return state
        body = Transaction.UpdateConfig()
        for region, point in sorted(higher.items()):
            body.config_updates.update_entries.add(key=f"{CONFIG_COLLECTED}{region}", value=str(point))
        return await commit(io, state, Transaction(update_config=body))

    return await retried(io, attempt)


@implements("AMB-87", "AMB-91")
def check_restorable(newest: TableState, earlier: TableState) -> None:
    """Raise `InvalidArgument` if ``earlier`` has not merged up to a point recorded in ``newest``."""
    for region, point in sorted(collected_points(newest).items()):
        progress = earlier.mem_wal.progress(region) if earlier.mem_wal_entry is not None else Generation(0)
        if progress < point:
            reason = f"version {earlier.version} has merged region {region} up to generation {progress}"
            raise InvalidArgument(f"{reason}, and those up to {point} were collected", clause="AMB-91")
