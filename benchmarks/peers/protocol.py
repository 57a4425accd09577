"""The small protocol that all sides explore: claim, put, flush, merge, collect on a store with put-if-absent.

A coarse model of MemWAL: a region's manifest is (epoch, last replayed position, generations), a WAL entry is (epoch,
rows), the base is (generations merged, rows). Every call of the store is one atomic request, and the only place where
another process may step in. The code knows neither who schedules it nor how the store keeps its values, so that every
side runs the same lines. Python 3.10 or newer and nothing else: it is imported in the peers' environments too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

Rows = dict[str, str]
MANIFESTS, WAL, BASES = "manifest/", "wal/", "base/"
EMPTY: dict[str, Any] = {f"{MANIFESTS}0": (0, -1, ()), f"{BASES}0": ((), {})}
"""What the store holds at first."""
WRITERS = ("w1", "w2")
BUGS = ("no_barrier", "plain_wal_put", "stale_commit")


class Store(Protocol):
    """What the protocol asks for."""

    async def get(self, name: str) -> Any:
        """The value of an object, or None."""

    async def list(self, prefix: str) -> list[str]:
        """Names that begin like this."""

    async def put(self, name: str, value: Any) -> None:
        """Create or replace."""

    async def put_if_absent(self, name: str, value: Any) -> bool:
        """Create; False if it is there."""

    async def delete(self, name: str) -> None:
        """Remove, if it is there."""

    async def acknowledged(self, key: str, value: str) -> None:
        """Report a write to its client. No request: no other process steps in."""


class FencedError(Exception):
    """Another writer has the region."""


@dataclass(frozen=True)
class Region:
    """A store, and what is wrong with the protocol on it."""

    store: Store
    bug: str = ""
    """One of `BUGS`, or nothing."""


async def newest(store: Store, prefix: str) -> tuple[int, Any]:
    """Number and value of the newest manifest or base."""
    version = max(int(name.removeprefix(prefix)) for name in await store.list(prefix))
    return version, await store.get(f"{prefix}{version}")


async def store_entry(region: Region, position: int, entry: tuple[int, Rows]) -> bool:
    """Put a WAL entry; False if the position is taken."""
    if region.bug == "plain_wal_put":
        await region.store.put(f"{WAL}{position}", entry)
        return True
    return await region.store.put_if_absent(f"{WAL}{position}", entry)


async def claim(region: Region) -> tuple[int, int, Rows]:
    """Take the region: the epoch, the next WAL position, and the rows that were replayed."""
    store = region.store
    while True:
        version, (epoch, after, generations) = await newest(store, MANIFESTS)
        if await store.put_if_absent(f"{MANIFESTS}{version + 1}", (epoch + 1, after, generations)):
            break
    own, position = epoch + 1, after + 1
    rows: Rows = {}
    while True:
        entry = await store.get(f"{WAL}{position}")
        if entry is None:
            if region.bug == "no_barrier":
                return own, position, rows
            if await store_entry(region, position, (own, {})):
                return own, position + 1, rows
        else:
            if entry[0] > own:
                raise FencedError
            rows.update(entry[1])
            position += 1


async def flush(region: Region, name: str, epoch: int, position: int, rows: Rows) -> None:
    """Store ``rows`` as a generation and commit it to the manifest."""
    store = region.store
    generation = f"gen/{name}"
    await store.put(generation, rows)
    version, manifest = await newest(store, MANIFESTS)
    while True:
        if manifest[0] != epoch:
            raise FencedError
        if await store.put_if_absent(f"{MANIFESTS}{version + 1}", (epoch, position - 1, (*manifest[2], generation))):
            return
        if region.bug == "stale_commit":
            version += 1
        else:
            version, manifest = await newest(store, MANIFESTS)


async def writer(region: Region, name: str) -> None:
    """Claim, put two rows, flush; stop where the region is another's."""
    try:
        epoch, position, rows = await claim(region)
        for number in (1, 2):
            key, value = f"{name}-{number}", "v"
            while not await store_entry(region, position, (epoch, {key: value})):
                if region.bug != "no_barrier":
                    raise FencedError
                position += 1
            position += 1
            rows[key] = value
            await region.store.acknowledged(key, value)
        await flush(region, name, epoch, position, rows)
    except FencedError:
        pass


async def merger(region: Region) -> None:
    """Merge every generation of the newest manifest into the base, each with a commit of its own."""
    store = region.store
    _, (_, _, generations) = await newest(store, MANIFESTS)
    version, (merged, rows) = await newest(store, BASES)
    for generation in generations:
        if generation not in merged:
            found = await store.get(generation)
            if found is None:
                return
            merged, rows = (*merged, generation), {**rows, **found}
            version += 1
            if not await store.put_if_absent(f"{BASES}{version}", (merged, rows)):
                return


async def collector(region: Region) -> None:
    """Take generations that are merged off the manifest, then delete them."""
    store = region.store
    version, (epoch, after, generations) = await newest(store, MANIFESTS)
    _, (merged, _) = await newest(store, BASES)
    done = [generation for generation in generations if generation in merged]
    left = tuple(generation for generation in generations if generation not in done)
    if done and await store.put_if_absent(f"{MANIFESTS}{version + 1}", (epoch, after, left)):
        for generation in done:
            await store.delete(generation)


def judge(objects: dict[str, Any], acknowledged: dict[str, str]) -> str:
    """What is wrong with a store after a crash of every process, or nothing: lost rows, or epochs that went back."""
    versions = sorted(int(name.removeprefix(MANIFESTS)) for name in objects if name.startswith(MANIFESTS))
    epochs = [objects[f"{MANIFESTS}{version}"][0] for version in versions]
    if epochs != sorted(epochs):
        return f"epochs of manifests go back: {epochs}"
    _, after, generations = objects[f"{MANIFESTS}{versions[-1]}"]
    newest_base = max(int(name.removeprefix(BASES)) for name in objects if name.startswith(BASES))
    rows = dict(objects[f"{BASES}{newest_base}"][1])
    for generation in generations:
        rows.update(objects.get(generation, {}))
    position = after + 1
    while (entry := objects.get(f"{WAL}{position}")) is not None:
        rows.update(entry[1])
        position += 1
    lost = sorted(key for key, value in acknowledged.items() if rows.get(key) != value)
    return f"acknowledged and lost: {', '.join(lost)}" if lost else ""
