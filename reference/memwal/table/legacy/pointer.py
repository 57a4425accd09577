"""The pointer to the latest version, which old tables have beside the folder of versions.

Versions of pylance before 0.16 begin with it, and a commit that they make from a pointer that lags behind replaces the
version that is there. Newer ones neither write nor read it, and nor does this engine for finding versions (AMB-119).
Source: table documents, "Commit Algorithm".
"""

from __future__ import annotations

from ... import confirm, paths
from ...clauses import implements
from ...effects import Io
from ...errors import NotFound, OutcomeUnknown, StorageError, Throttled
from ...ids import TableVersion
from .. import versions


@implements("TXN-014", "AMB-119")
async def follow(io: Io, version: TableVersion, data: bytes) -> None:
    """After a commit: where the table has a pointer, it holds the newest manifest; ``data`` is that of ``version``.

    Two that commit may write it in any order. Each looks for versions above its own afterwards, so that
    the last one to write leaves the newest there. A pointer that cannot be written is left to the next commit.
    """
    try:
        await io.head(paths.LATEST)
        while True:
            await confirm.create_unconditionally(io, paths.LATEST, data)
            listed = await versions.listing(io)
            newest = listed.versions[-1] if listed.versions else version
            if newest <= version:
                return
            version, data = newest, await io.get(listed.name(newest))
    except NotFound:
        return  # there is none, or what it would hold was collected meanwhile by a process that saw a newer version
    except (OutcomeUnknown, Throttled, StorageError) as failure:
        await io.note("latest_pointer_left", version=version, reason=str(failure))
