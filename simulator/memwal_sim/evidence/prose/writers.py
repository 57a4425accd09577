"""Faults of regions, claims, the WAL and region manifests."""

from __future__ import annotations

from collections.abc import Iterator

from ...outcomes import Fate
from ..directing import Example, Turn, follows
from .steps import FLUSH, MERGE, PLAIN, READ, SNAPSHOT, rows


def tell() -> Iterator[Example]:
    """All of them, by area."""
    yield from _of_regions()
    yield from _of_claims()
    yield from _of_the_wal()
    yield from _of_manifests()


def _of_regions() -> Iterator[Example]:
    yield Example(
        path="region/same_key_in_two_regions",
        play=PLAIN,
        oracle="reads are explained",
        title="The same key in two regions: the older row overwrites the newer one",
        description=(
            "The five steps with which both texts explain why a key has to be in one region. Region A receives a row"
            " with key pk=1 at T1, region B another one at T2, later. B's row is merged first, A's second: merges are"
            " ordered within a region only, so A's older row overwrites B's newer one. No process did anything that is"
            " forbidden to it alone; what is broken is that both regions took the key (REGION-001, REGION-002, AMB-90)."
            " Both regions are manual, which no spec governs (REGION-012, AMB-56): there the caller has to see to it."
            " The outcome is the damage itself: the last acknowledged value is gone."
        ),
        cast=(
            follows("writer-a", "writer", rows(pk1="T1"), FLUSH),
            follows("writer-b", "writer", rows(pk1="T2"), FLUSH, region=2),
            follows("merger-b", "merger", MERGE, region=2),
            follows("merger-a", "merger", MERGE),
            follows("reader", "reader", READ),
        ),
        turns=(
            Turn(
                actor="writer-a",
                says="1. Region A receives a write with key 1 at T1",
                state={"generations": {"1": {"pk1": "T1"}}, "acknowledged": ["writer-a/1"]},
            ),
            Turn(
                actor="writer-b",
                says="2. Region B receives a write with key 1 at T2, which is later",
                state={"generations of 2": {"1": {"pk1": "T2"}}, "acknowledged": ["writer-a/1", "writer-b/1"]},
            ),
            Turn(
                actor="merger-b",
                says="3. The row in region B is merged first",
                state={"base rows": {"pk1": "T2"}, "merged of 2": 1, "merged": 0},
            ),
            Turn(
                actor="merger-a",
                says="4. and 5. The row in region A is merged second, and overwrites the newer one",
                state={"base rows": {"pk1": "T1"}, "merged of 2": 1, "merged": 1},
            ),
            Turn(actor="reader", says="The older value is read", state={"reads": {"reader/1": {"pk1": "T1"}}}),
        ),
    )


def _of_claims() -> Iterator[Example]:
    yield Example(
        path="fencing/two_claims_of_one_version",
        play=PLAIN,
        title="Two writers want the same manifest version: one wins, the other goes higher",
        description=(
            "Both writers load manifest version 1 with epoch 1 and derive version 2 with epoch 2. Creating the object"
            " decides: writer-1 wins, writer-2 finds it there, loads it, and claims epoch 3 in version 3. writer-1 is"
            " fenced from then on. If both took epoch 2 for theirs, nothing could tell their entries apart (FENCE-004"
            " to 008, MANIFEST-023). The outcome has to be two epochs, one of which is the newest, and no lost row."
        ),
        cast=(
            follows("writer-0", "writer", rows(k0="v0")),
            follows("writer-1", "writer", {"open": None}, rows(k1="v1")),
            follows("writer-2", "writer", {"open": None}, rows(k2="v2")),
            follows("reader", "reader", READ),
        ),
        turns=(
            Turn(actor="writer-0", says="The region is at version 1", state={"region": {"version": 1, "epoch": 1}}),
            Turn(actor="writer-1", before="put_if_absent manifest/@2"),
            Turn(
                actor="writer-2",
                before="put_if_absent manifest/@2",
                says="Both have derived version 2 with epoch 2",
                state={"region": {"version": 1, "epoch": 1}},
            ),
            Turn(
                actor="writer-1",
                after="put_if_absent manifest/@2",
                says="writer-1 wins",
                state={"region": {"version": 2, "epoch": 2}},
            ),
            Turn(
                actor="writer-2",
                after="put_if_absent manifest/@3",
                says="writer-2 found version 2 taken, loaded it, and claims epoch 3",
                state={"region": {"version": 3, "epoch": 3}, "manifests": [1, 2, 3]},
            ),
            Turn(actor="writer-2", says="writer-2 writes", state={"acknowledged": ["writer-0/1", "writer-2/1"]}),
            Turn(
                actor="writer-1",
                says="writer-1 is fenced, and its write is not acknowledged",
                state={"ended": {"writer-1": "Fenced"}, "acknowledged": ["writer-0/1", "writer-2/1"]},
            ),
            Turn(actor="reader", says="What was acknowledged is there", state={"reads": {"reader/1": _K02}}),
        ),
    )
    yield Example(
        path="fencing/pending_writes_of_a_fenced_writer",
        play=PLAIN,
        title="A fenced writer stops, and its pending write is refused",
        description=(
            "writer-1 has two writes in memory that are not in the WAL yet when writer-2 claims the region. The next"
            " flush of the WAL meets writer-2's barrier: writer-1 stops at once, and whoever waits for its writes is"
            " told that they failed (FENCE-012, FENCE-013). An answer to them would be a promise that nobody keeps, for"
            " writer-2 has recovered without them. The outcome has to be that the durable row is kept, that both"
            " pending ones are neither stored nor acknowledged, and that a further write is refused too."
        ),
        cast=(
            follows(
                "writer-1",
                "writer",
                rows(k1="v1"),
                {"buffered": {"k2": "v2"}},
                rows(k3="v3"),
                rows(k4="v4"),
                insists=True,
            ),
            follows("writer-2", "writer", {"open": None}, READ),
        ),
        turns=(
            Turn(
                actor="writer-1",
                before="put_if_absent wal/@2",
                says="One write is durable, two are pending",
                state={"wal": {"0": 1, "1": 1}, "acknowledged": ["writer-1/1"]},
            ),
            Turn(
                actor="writer-2",
                before="list _versions",
                says="writer-2 has claimed the region and put its barrier where writer-1 would write",
                state={"region": {"epoch": 2}, "wal": {"0": 1, "1": 1, "2": 2}},
            ),
            Turn(
                actor="writer-1",
                says="writer-1 is fenced: nothing of it was stored or acknowledged since",
                state={"acknowledged": ["writer-1/1"], "wal": {"0": 1, "1": 1, "2": 2}},
            ),
            Turn(
                actor="writer-2",
                says="The durable row is there, and nothing else",
                state={"reads": {"writer-2/1": {"k1": "v1"}}},
            ),
        ),
    )


_K02 = {"k0": "v0", "k2": "v2"}


def _of_the_wal() -> Iterator[Example]:
    yield Example(
        path="wal/buffered_write_is_lost",
        play=PLAIN,
        title="A write that did not wait for the WAL is lost in a crash, and that is allowed",
        description=(
            "Revision A: writes that are not durable are buffered in memory, accepting potential data loss on crash;"
            " B: if the MemTable is lost, what was not flushed to the WAL is lost. writer-1 makes one durable write and"
            " one that is not, and crashes. Its successor replays the WAL and finds the first (WAL-001, WAL-002,"
            " WRITER-003). The outcome has to be that the durable row is there and the other one is not: nobody was"
            " told that it was safe."
        ),
        cast=(
            follows("writer-1", "writer", rows(k1="v1"), {"buffered": {"k2": "v2"}}, FLUSH),
            follows("writer-2", "writer", FLUSH, READ),
        ),
        turns=(
            Turn(
                actor="writer-1",
                before="put_if_absent wal/@2",
                says="writer-1 holds a second row in memory only, and crashes",
                state={"wal rows": {"0": {}, "1": {"k1": "v1"}}, "acknowledged": ["writer-1/1"]},
            ),
            Turn(
                actor="writer-2",
                says="The durable row was recovered and flushed",
                state={"generations": {"1": {"k1": "v1"}}, "reads": {"writer-2/1": {"k1": "v1"}}},
            ),
        ),
    )
    yield Example(
        path="wal/next_entry_waits",
        play=PLAIN,
        title="An entry whose put got no answer is repeated before the next position is used",
        description=(
            "If WAL entry N is not flushed fully, entry N + 1 must not exist (WAL-004, WAL-007). writer-1 puts entry 1,"
            " the request is lost, and the store never answers. A writer that went on to position 2 would leave a hole"
            " at which every replay ends: rows behind it would be acknowledged and never found (AMB-14). So it puts the"
            " same bytes at position 1 again, and only then the next entry at 2. The outcome has to be a WAL without a"
            " hole, and both rows after a crash."
        ),
        cast=(
            follows("writer-1", "writer", rows(k1="v1"), rows(k2="v2")),
            follows("writer-2", "writer", {"open": None}, READ),
        ),
        turns=(
            Turn(
                actor="writer-1",
                after="put_if_absent wal/@1",
                fate=Fate.LOST,
                says="The put of entry 1 is lost, without an answer",
                state={"wal": {"0": 1}, "acknowledged": []},
            ),
            Turn(
                actor="writer-1",
                before="put_if_absent wal/@2",
                says="Entry 1 was put again; only now is its write acknowledged",
                state={"wal": {"0": 1, "1": 1}, "acknowledged": ["writer-1/1"]},
            ),
            Turn(actor="writer-1", says="Entry 2 follows", state={"wal": {"0": 1, "1": 1, "2": 1}}),
            Turn(
                actor="writer-2",
                says="A successor finds both rows",
                state={"reads": {"writer-2/1": {"k1": "v1", "k2": "v2"}}},
            ),
        ),
    )
    yield Example(
        path="wal/last_seen_is_only_a_hint",
        play=PLAIN,
        title="The last-seen hint is behind, and then raised: recovery reads from the replay pointer all the same",
        description=(
            "The manifest's last-seen position is a hint: it is not updated by WAL writes, and a snapshot builder may"
            " raise it. writer-1 stores two entries, of which the manifest knows nothing; a builder scans the WAL and"
            " raises the hint to 2; writer-1 stores a third and crashes. A recovery that took the hint for the end of"
            " the WAL would lose the third row, one that began behind it would lose the first two (WAL-020, WAL-022,"
            " AMB-09). The outcome has to be all three."
        ),
        cast=(
            follows("writer-1", "writer", rows(k1="v1"), rows(k2="v2"), rows(k3="v3")),
            follows("builder", "snapshotter", SNAPSHOT),
            follows("writer-2", "writer", FLUSH, READ),
        ),
        turns=(
            Turn(
                actor="writer-1",
                before="put_if_absent wal/@3",
                says="Two entries are stored, and the hint does not know of them",
                state={"region": {"last_seen": 0, "version": 1}, "wal": {"0": 1, "1": 1, "2": 1}},
            ),
            Turn(
                actor="builder", says="A builder raised the hint to 2", state={"region": {"last_seen": 2, "version": 2}}
            ),
            Turn(
                actor="writer-1",
                says="writer-1 stores a third entry and crashes",
                state={"region": {"last_seen": 2}, "wal": {"0": 1, "1": 1, "2": 1, "3": 1}},
            ),
            Turn(
                actor="writer-2",
                says="All three rows were replayed and flushed",
                state={"generations": {"1": _K123}, "reads": {"writer-2/1": _K123}},
            ),
        ),
    )


_K123 = {"k1": "v1", "k2": "v2", "k3": "v3"}


def _of_manifests() -> Iterator[Example]:
    yield Example(
        path="manifest/hint_is_not_written",
        play=PLAIN,
        title="The version hint is not written: a failure that is acceptable",
        description=(
            "A manifest version is committed by its own object; the hint beside it is written best effort, and failure"
            " is acceptable. writer-1 claims version 1, flushes in version 2, and the hint of version 2 is lost. The"
            " hint says 1. Whoever reads starts there and asks for the next version until one is missing, and so finds"
            " 2 (MANIFEST-025 to 031). To take the hint for the newest version would bring back a state without the"
            " flush. The outcome has to be that writer-2 derives version 3 from version 2, and no row is lost."
        ),
        cast=(
            follows("writer-1", "writer", rows(k1="v1"), FLUSH),
            follows("writer-2", "writer", {"open": None}, READ),
        ),
        turns=(
            Turn(actor="writer-1", before="put_if_absent manifest/@2"),
            Turn(
                actor="writer-1",
                after="put hint",
                fate=Fate.LOST,
                says="Version 2 is committed, and the hint still says 1",
                state={"region": {"version": 2, "flushed": [1]}, "hint": 1},
            ),
            Turn(
                actor="writer-2",
                says="writer-2 found version 2 and built on it",
                state={
                    "region": {"version": 3, "epoch": 2, "flushed": [1], "replay_after": 1},
                    "hint": 3,
                    "reads": {"writer-2/1": {"k1": "v1"}},
                },
            ),
        ),
    )
    yield Example(
        path="manifest/two_updates_compete",
        play=PLAIN,
        title="A flush and a snapshot builder compete for one manifest version",
        description=(
            "Updates of the region manifest are conditional creates; if two processes compete, one wins and the other"
            " retries. A builder has derived version 2 with a higher last-seen hint when writer-1's flush commits"
            " version 2. The builder finds it taken. It may try again from the newest version or leave it, since the"
            " hint is best effort; what it may not do is to write what it derived under the next number, which would"
            " undo the flush (MANIFEST-022, MANIFEST-023, MANIFEST-036, AMB-29, AMB-33). The outcome has to be the"
            " flush in the newest version, and the snapshot."
        ),
        cast=(
            follows("writer-1", "writer", rows(k1="v1"), FLUSH),
            follows("builder", "snapshotter", SNAPSHOT),
            follows("reader", "reader", READ),
        ),
        turns=(
            Turn(actor="writer-1", before="put_if_absent manifest/@2"),
            Turn(
                actor="builder",
                before="put_if_absent manifest/@2",
                says="Both have derived version 2",
                state={"region": {"version": 1, "flushed": [], "last_seen": 0}},
            ),
            Turn(actor="writer-1", says="The flush wins", state={"region": {"version": 2, "flushed": [1]}}),
            Turn(
                actor="builder",
                says="The builder lost, and undid nothing",
                state={"region": {"flushed": [1], "replay_after": 1, "epoch": 1}, "ended": {"builder": "done"}},
            ),
            Turn(actor="reader", says="The row is there", state={"reads": {"reader/1": {"k1": "v1"}}}),
        ),
    )
