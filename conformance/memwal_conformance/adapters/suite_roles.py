"""The suite's own roles behind the adapter protocol: ``python -m memwal_conformance.adapters.suite_roles``.

A merger, an index builder and a collector for implementations that have none, and a writer of base rows for all of
them. They do what the texts allow and
not more, by the judge's decoders and pylance: no line of them is the reference engine's, and they ask the adapter under
test nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from obstore import exceptions

from ..judge import artifacts, collecting, table
from ..judge.wire import DamagedBytes
from ..protocol import AdapterError, Json
from . import suite_base, suite_indexes, suite_merger
from .serve import Handler, serve
from .suite_store import ATTEMPTS, REGIONS, Failpoint, SuiteTable


def hello(_: Json) -> Json:
    return {
        "protocol": "1",
        "implementation": "suite",
        "version": "1",
        "revisions": ["A", "B", "R"],
        "roles": ["merger", "index_builder", "collector"],
        "capabilities": ["s3", "sync.crash"],
    }


class SuiteRoles:
    """What is kept between messages: the revision, and where ``s3://`` URLs lead."""

    def __init__(self) -> None:
        self._revision = "B"
        self._storage: Json = {}
        self._failpoint = Failpoint()

    def configure(self, params: Json) -> Json:
        """Take the revision, and where the tables are."""
        self._revision, self._storage = params["revision"], params.get("storage", {})
        self._failpoint = Failpoint()
        return {}

    def sync_crash(self, params: Json) -> Json:
        """End the process at a change of the store."""
        after, left = params["moment"] == "after", params.get("occurrence", 1)
        self._failpoint = Failpoint(class_=params["class"], after=after, left=left)
        return {}

    def _table(self, params: Json) -> SuiteTable:
        return SuiteTable(params["table"], self._storage, self._failpoint)

    def merge_run(self, params: Json) -> Json:
        """See `suite_merger`."""
        return suite_merger.run(self._table(params), params, self._revision)

    def snapshot_run(self, params: Json) -> Json:
        """See `suite_indexes`."""
        return suite_indexes.snapshot(self._table(params), self._revision)

    def catchup_run(self, params: Json) -> Json:
        """See `suite_indexes`."""
        return suite_indexes.catch_up(self._table(params), params.get("index"))

    def base_write(self, params: Json) -> Json:
        """See `suite_base`."""
        return suite_base.write(self._table(params), params)

    def gc_run(self, params: Json) -> Json:
        """Old table versions go first; then, from manifest and store, what all that stay have merged."""
        where = self._table(params)
        with where.copied(*where.names("_versions")) as root:
            files = [path for _, path in sorted(table.versions(root).items())]
            for path in files[: -params["retain_versions"]]:
                where.delete(f"_versions/{path.name}")
            retained = [table.table_manifest(path.read_bytes()) for path in files[-params["retain_versions"] :]]
        gone = []
        for region_id in where.regions():
            for number, folder in _dropped(where, region_id, collecting.bound(retained, region_id)):
                for name in where.names(f"{REGIONS}/{region_id}/{folder}"):
                    where.delete(name)  # one by one, so that a rule of the gate can meet each
                gone.append({"region_id": region_id, "generation": str(number)})
        return {"generations": gone}


def _dropped(where: SuiteTable, region_id: str, bound: int) -> Sequence[tuple[int, str]]:
    """Number and folder of the generations up to ``bound`` that a new manifest version leaves out."""
    folder = f"{REGIONS}/{region_id}/manifest"
    for _ in range(ATTEMPTS):
        found = where.newest_manifest(region_id)
        if found is None:
            return ()
        newest, data = found
        old = [(generation.number, generation.path) for generation in newest.generations if generation.number <= bound]
        if not old:
            return ()
        after = newest.version + 1
        try:
            changed = collecting.without(data, {number for number, _ in old}, after)
            where.create(f"{folder}/{artifacts.name_of(after, 'binpb')}", changed)
        except exceptions.AlreadyExistsError:
            continue  # another process committed: begin again with what is there now
        where.put(f"{folder}/version_hint.json", json.dumps({"version": after}).encode())
        return old
    raise AdapterError("conflict", f"{ATTEMPTS} manifest versions of {region_id} were taken by others")


def handlers() -> dict[str, Handler]:
    """A function per message, sharing one state."""
    roles = SuiteRoles()
    answers: dict[str, Callable[[Json], Json]] = {
        "hello": hello,
        "configure": roles.configure,
        "shutdown": lambda _: {},
        "sync.crash": roles.sync_crash,
        "merge.run": roles.merge_run,
        "snapshot.run": roles.snapshot_run,
        "catchup.run": roles.catchup_run,
        "base.write": roles.base_write,
        "gc.run": roles.gc_run,
    }
    return answers


def main() -> None:
    """Serve the roles until ``shutdown``."""
    serve(handlers(), {DamagedBytes: "corrupt", exceptions.BaseError: "storage", OSError: "storage"})


if __name__ == "__main__":
    main()
