"""Faults of which the texts themselves speak, each as one history: what happens, and what has to come out of it.

The texts say of most of them that nothing goes wrong. Then nothing does, and the facts after the last turn say so.
Where a text describes damage, the history ends in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..outcomes import Fate
from .directing import Example, Turn, follows

PLAIN, COLLECTED, INDEXED = "worked_examples", "worked_examples_collected", "worked_examples_indexed"


def tell() -> Iterator[Example]:
    """All of them, by area."""
    yield from _of_regions()
    yield from _of_claims()
    yield from _of_the_wal()
    yield from _of_manifests()
    yield from _of_flushes()
    yield from _of_merges()
    yield from _of_the_index()
    yield from _of_reads()
    yield from _of_collection()


def _rows(**rows: str) -> dict[str, Any]:
    return {"rows": rows}


FLUSH: dict[str, Any] = {"flush": None}
READ: dict[str, Any] = {"read": None}
MERGE: dict[str, Any] = {"merge": None}
SNAPSHOT: dict[str, Any] = {"snapshot": None}
COLLECT: dict[str, Any] = {"collect": {"retain_versions": 1}}


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
            follows("writer-a", "writer", _rows(pk1="T1"), FLUSH),
            follows("writer-b", "writer", _rows(pk1="T2"), FLUSH, region=2),
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
            follows("writer-0", "writer", _rows(k0="v0")),
            follows("writer-1", "writer", {"open": None}, _rows(k1="v1")),
            follows("writer-2", "writer", {"open": None}, _rows(k2="v2")),
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
                _rows(k1="v1"),
                {"buffered": {"k2": "v2"}},
                _rows(k3="v3"),
                _rows(k4="v4"),
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
            follows("writer-1", "writer", _rows(k1="v1"), {"buffered": {"k2": "v2"}}, FLUSH),
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
            follows("writer-1", "writer", _rows(k1="v1"), _rows(k2="v2")),
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
            follows("writer-1", "writer", _rows(k1="v1"), _rows(k2="v2"), _rows(k3="v3")),
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
            follows("writer-1", "writer", _rows(k1="v1"), FLUSH),
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
            follows("writer-1", "writer", _rows(k1="v1"), FLUSH),
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


def _of_flushes() -> Iterator[Example]:
    yield Example(
        path="flush/crash_between_generation_and_manifest",
        play=PLAIN,
        title="A writer crashes between generation and manifest: a folder is left over, and no row is lost",
        description=(
            "writer-1 has written a whole generation, and crashes before the region manifest lists it. Only a folder"
            " that the manifest lists is valid. The new writer replays the WAL into memory, and flushes once more, to a"
            " folder with a new random prefix, so that nothing of the first attempt is mixed in (FLUSH-002, FLUSH-013,"
            " FLUSH-024, FLUSH-025). The old folder is an orphan, and a collector removes it. The outcome has to be one"
            " generation 1 with the rows, listed once, and no folder besides it."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k1="v1"), _rows(k2="v2"), FLUSH),
            follows("writer-2", "writer", FLUSH),
            follows("collector", "collector", COLLECT),
            follows("reader", "reader", READ),
        ),
        turns=(
            Turn(
                actor="writer-1",
                before="put_if_absent manifest/@2",
                says="The generation is written, and not listed: writer-1 crashes",
                state={"region": {"flushed": [], "replay_after": 0}, "generation folders": ["gen_1"]},
            ),
            Turn(
                actor="writer-2",
                says="writer-2 replayed the WAL and flushed to a folder of its own",
                state={
                    "region": {"flushed": [1], "current_generation": 2, "epoch": 2},
                    "generation folders": ["gen_1", "gen_1"],
                    "generations": {"1": {"k1": "v1", "k2": "v2"}},
                },
            ),
            Turn(
                actor="collector",
                says="The folder that nobody lists is gone",
                state={"region": {"flushed": [1]}, "generation folders": ["gen_1"]},
            ),
            Turn(actor="reader", says="Both rows are there", state={"reads": {"reader/1": {"k1": "v1", "k2": "v2"}}}),
        ),
    )
    yield Example(
        path="flush/collector_meets_a_flush_under_way",
        play=PLAIN,
        title="A collector looks for orphans while a flush is under way, and leaves its folder alone",
        description=(
            "A folder named like a generation that no manifest lists is an orphan of a failed flush, say the texts; a"
            " flush that is under way looks the same. A collector runs when writer-1 has written the folder and not yet"
            " listed it. If it deleted the folder, writer-1 would list nothing, and move the pointer over its rows"
            " (GC-009, FLUSH-025, AMB-94). The engine takes a folder for an orphan only once its generation can no"
            " longer be committed. The outcome has to be that the flush succeeds and its rows are there."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k1="v1"), FLUSH),
            follows("collector", "collector", COLLECT),
            follows("reader", "reader", READ),
        ),
        turns=(
            Turn(actor="writer-1", before="put_if_absent manifest/@2"),
            Turn(
                actor="collector",
                says="The collector is done, and the folder is still there",
                state={"region": {"flushed": []}, "generation folders": ["gen_1"], "ended": {"collector": "done"}},
            ),
            Turn(
                actor="writer-1",
                says="The flush is committed",
                state={"region": {"flushed": [1]}, "generations": {"1": {"k1": "v1"}}},
            ),
            Turn(actor="reader", says="The row is there", state={"reads": {"reader/1": {"k1": "v1"}}}),
        ),
    )


_BATCH = [["k", "first"], ["l", "only"], ["k", "second"], ["k", "last"]]
_LAST = {"k": "last", "l": "only"}


def _of_merges() -> Iterator[Example]:
    yield Example(
        path="merge/still_listed_after_the_merge",
        play=PLAIN,
        title="A merged generation is not collected yet: readers have a row from two sources, and answer once",
        description=(
            "A generation that is merged stays listed until a collector takes it. Its rows are in the base table and in"
            " the generation; a row that was updated since is in the base with an older value than in a newer"
            " generation. Without deduplication by key a query would return duplicate or stale rows (READ-001 to 004,"
            " READ-007). The outcome has to be each key once: l from the merge, k from the generation after it."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k="old", l="old"), FLUSH, _rows(k="new"), FLUSH),
            follows("merger", "merger", MERGE),
            follows("reader", "reader", READ),
        ),
        turns=(
            Turn(actor="writer-1", before="put_if_absent wal/@2"),
            Turn(
                actor="merger",
                says="Generation 1 is merged, and still listed",
                state={"merged": 1, "region": {"flushed": [1]}, "base rows": {"k": "old", "l": "old"}},
            ),
            Turn(
                actor="writer-1",
                says="Generation 2 has a newer value of k",
                state={"region": {"flushed": [1, 2]}, "base rows": {"k": "old", "l": "old"}},
            ),
            Turn(
                actor="reader",
                says="Each key once, the newest",
                state={"reads": {"reader/1": {"k": "new", "l": "old"}}},
            ),
        ),
    )
    yield Example(
        path="merge/several_updates_in_one_batch",
        play=PLAIN,
        title="One write batch updates a key three times: the last one counts, in memory, generation and base",
        description=(
            "A single write batch may contain multiple updates to the same primary key; later rows win. The batch is"
            " one WAL entry; the generation keeps all rows in their order, and readers take the one with the highest"
            " address (READ-005, GEN-014). A merge-insert of all of them meets a key twice, and would fail"
            " or take any of them: so a merger takes the last row of each key (MERGE-002, MERGE-013, AMB-46). The"
            " outcome has to be the last value everywhere."
        ),
        cast=(
            follows("writer-1", "writer", {"batch": _BATCH}, FLUSH),
            follows("reader-1", "reader", READ),
            follows("reader-2", "reader", READ),
            follows("merger", "merger", MERGE),
        ),
        turns=(
            Turn(actor="writer-1", before="put_if_absent gen/@1/bloom_filter.bin"),
            Turn(actor="reader-1", says="From the WAL", state={"reads": {"reader-1/1": _LAST}}),
            Turn(actor="writer-1", says="The generation has every row", state={"generations": {"1": _BATCH}}),
            Turn(actor="reader-2", says="From the generation", state={"reads": {"reader-2/1": _LAST}}),
            Turn(actor="merger", says="In the base table", state={"base rows": _LAST}),
        ),
    )  # fmt: skip


def _of_the_index() -> Iterator[Example]:
    yield Example(
        path="index/builder_meets_a_merge",
        play=PLAIN,
        title="A snapshot builder commits after a merge that it has not seen, and keeps its progress",
        description=(
            "A snapshot builder loads the MemWAL index, scans regions for a long time, and writes new details with the"
            " merge progress that it loaded. Meanwhile a merge commits. The builder's commit conflicts, and it has to"
            " take configuration and merge progress from the version on which it commits, not from the one that it"
            " loaded: else progress goes back and a generation is merged again on top of newer rows (SNAP-017,"
            " SNAP-023, MERGE-018, AMB-69). The outcome has to be progress 1 and the builder's snapshot in one version."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k="v"), FLUSH),
            follows("builder", "snapshotter", SNAPSHOT),
            follows("merger", "merger", MERGE),
            follows("reader", "reader", READ),
        ),
        turns=(
            Turn(actor="writer-1"),
            Turn(
                actor="builder",
                before="put_if_absent versions/@3",
                says="The builder has loaded progress 0 and is about to commit",
                state={"merged": 0, "snapshot": None},
            ),
            Turn(actor="merger", says="A merge commits first", state={"merged": 1, "base rows": {"k": "v"}}),
            Turn(
                actor="builder",
                says="The builder committed on top of it, and progress stays",
                state={"merged": 1, "snapshot": {"flushed": [1], "epoch": 1}, "table version": 4},
            ),
            Turn(actor="reader", says="The row is there once", state={"reads": {"reader/1": {"k": "v"}}}),
        ),
    )
    yield Example(
        path="index/catch_up_meets_a_merge",
        play=INDEXED,
        title="An index is rebuilt while a generation is merged: it is credited with what it covers, and no more",
        description=(
            "The builder's workflow in the texts: rebuild the index to the latest state, read the current merge"
            " progress, and record it; on conflict reload and retry. Between building and recording, generation 2 is"
            " merged. Progress that is read after building says 2, but the index covers generation 1 only: a search"
            " would miss rows of 2, and a collector would delete the only other source that is indexed (CATCHUP-007 to"
            " 009, CATCHUP-013, AMB-70). The outcome has to be catch-up 1, and each row found by a search."
        ),
        cast=(
            follows("writer-1", "writer", {"open": None}, _rows(k1="v1"), FLUSH, _rows(k2="v2"), FLUSH),
            follows("merger-1", "merger", MERGE),
            follows("builder", "indexer", {"index": "by_value"}),
            follows("merger-2", "merger", MERGE),
        ),
        turns=(
            Turn(actor="writer-1", before="put_if_absent wal/@2"),
            Turn(actor="merger-1", says="Generation 1 is merged", state={"merged": 1}),
            Turn(actor="writer-1"),
            Turn(actor="builder", before="put_if_absent versions/@7"),
            Turn(
                actor="merger-2",
                says="Generation 2 is merged after the index was built, and before it is recorded",
                state={"merged": 2, "catch-up": {"by_value": 0}},
            ),
            Turn(
                actor="builder",
                says="The index is credited with generation 1",
                state={
                    "merged": 2,
                    "catch-up": {"by_value": 1},
                    "found by index": {"v0": ["base"], "v1": ["k1"], "v2": ["k2"]},
                },
            ),
        ),
    )


def _of_reads() -> Iterator[Example]:
    note = " The texts: reading a stale index does not impact correctness, only freshness."
    yield Example(
        path="read/stale_snapshot_merged_generation",
        play=PLAIN,
        title="Stale snapshot, first case: a merged generation is still in the index",
        description=(
            "A snapshot lists generation 1; since then the generation was merged and a newer one with it. A reader of"
            " the newest table version has that snapshot: it finds k in generation 1 with an old value, and in the base"
            " with the newer one." + note + " That is so only if merged generations take no part in resolving values:"
            " by the rule that the highest generation wins, and that the base is generation -1, the old row of"
            " generation 1 would beat the base (READ-010, READ-011, AMB-88). The outcome has to be the newer value."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k="old"), FLUSH, _rows(k="new"), FLUSH),
            follows("builder", "snapshotter", SNAPSHOT),
            follows("merger", "merger", MERGE),
            follows("reader", "reader", {"read_eventually": None}),
        ),
        turns=(
            Turn(actor="writer-1", before="put_if_absent wal/@2"),
            Turn(actor="builder", says="The snapshot lists generation 1", state={"snapshot": {"flushed": [1]}}),
            Turn(actor="writer-1"),
            Turn(
                actor="merger",
                says="Both generations are merged; the snapshot still lists the first",
                state={"merged": 2, "snapshot": {"flushed": [1]}, "base rows": {"k": "new"}},
            ),
            Turn(actor="reader", says="The newer value is read", state={"reads": {"reader/1": {"k": "new"}}}),
        ),
    )
    yield Example(
        path="read/stale_snapshot_collected_generation",
        play=PLAIN,
        title="Stale snapshot, second case: a collected generation is still in the index",
        description=(
            "A snapshot lists generation 1; it was merged and collected since. A reader of the newest version fails"
            " to open it and skips it." + note + " It is safe because what is collected is in the base table already"
            " (READ-012, GC-001). But only a generation that the base version has merged may be skipped: one that is"
            " gone and not merged there is a loss, and to skip it would hide that (AMB-100). The outcome has to be the"
            " row, from the base."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k="v"), FLUSH, SNAPSHOT, MERGE),
            follows("collector", "collector", COLLECT),
            follows("reader", "reader", {"read_eventually": None}),
        ),
        turns=(
            Turn(
                actor="writer-1",
                says="Generation 1 is in the snapshot, and merged",
                state={"snapshot": {"flushed": [1]}, "merged": 1},
            ),
            Turn(
                actor="collector",
                says="Generation 1 is collected, and still in the snapshot",
                state={"region": {"flushed": []}, "generation folders": [], "snapshot": {"flushed": [1]}},
            ),
            Turn(actor="reader", says="The row is found in the base", state={"reads": {"reader/1": {"k": "v"}}}),
        ),
    )
    yield Example(
        path="read/stale_snapshot_misses_a_flush",
        play=PLAIN,
        title="Stale snapshot, third case: a newly flushed generation is not in the index",
        description=(
            "Generation 2 is flushed after the snapshot was built. A reader of the newest table version does not query"
            " it." + note + " The answer is that of the snapshot's point in time; a reader that wants more reads the"
            " region manifests (READ-008, READ-009, READ-013). The outcome has to be the older value for the eventual"
            " read and the newer one for the strong read, both without an error."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k="old"), FLUSH, SNAPSHOT, _rows(k="new"), FLUSH),
            follows("eventual", "reader", {"read_eventually": None}),
            follows("strong", "reader", READ),
        ),
        turns=(
            Turn(
                actor="writer-1",
                says="Generation 2 is not in the snapshot",
                state={"snapshot": {"flushed": [1]}, "region": {"flushed": [1, 2]}},
            ),
            Turn(actor="eventual", says="As of the snapshot", state={"reads": {"eventual/1": {"k": "old"}}}),
            Turn(actor="strong", says="As of now", state={"reads": {"strong/1": {"k": "new"}}}),
        ),
    )


def _of_collection() -> Iterator[Example]:
    yield Example(
        path="collect/time_travel_holds_a_generation",
        play=PLAIN,
        title="A tagged table version needs a merged generation: it is not collected",
        description=(
            "Version 3 of the table has a snapshot that lists generation 1, which it has not merged, and is tagged."
            " Version 4 has merged it. By the newest version alone the generation could go; a reader that opens version"
            " 3 would then miss its row. Garbage collection must not remove what a retained version reaches (GC-003,"
            " GC-004, READ-013; the rule as printed would retain everything for ever, AMB-91). The outcome has to be"
            " that the generation stays, and that version 3 reads as it always did."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k="v"), FLUSH, SNAPSHOT),
            follows("reader", "reader", {"read_eventually": None}, {"read_again": None}),
            follows("tagger", "operator", {"tag": None}),
            follows("merger", "merger", MERGE),
            follows("collector", "collector", COLLECT),
        ),
        turns=(
            Turn(actor="writer-1", says="The snapshot lists generation 1", state={"snapshot": {"flushed": [1]}}),
            Turn(actor="tagger", says="Version 3 is tagged", state={"table version": 3, "merged": 0}),
            Turn(
                actor="reader",
                before="get versions/@3",
                says="A reader is about to open version 3",
                state={"table version": 3},
            ),
            Turn(actor="merger", says="Version 4 has merged it", state={"table version": 4, "merged": 1}),
            Turn(
                actor="collector",
                says="The collector leaves the generation",
                state={"region": {"flushed": [1]}, "generation folders": ["gen_1"], "ended": {"collector": "done"}},
            ),
            Turn(
                actor="reader",
                says="Version 3 reads the same twice",
                state={"reads": {"reader/1": {"k": "v"}, "reader/2": {"k": "v"}}},
            ),
        ),
    )
    yield Example(
        path="collect/lagging_index_holds_a_generation",
        play=INDEXED,
        title="A maintained index lags: the generation stays until the index has caught up",
        description=(
            "Generation 1 is merged, and the base index does not cover it yet. Its own index is what searches use"
            " meanwhile, so it may be deleted only once every maintained index has caught up (GC-002, CATCHUP-012,"
            " CATCHUP-013, AMB-71, AMB-73). The collector runs twice: before the index is rebuilt it must leave the"
            " generation, after that it takes it. The outcome has to be that a search finds each row at any time."
        ),
        cast=(
            follows("writer-1", "writer", {"open": None}, _rows(k1="v1"), FLUSH, MERGE),
            follows("collector-1", "collector", COLLECT),
            follows("builder", "indexer", {"index": "by_value"}),
            follows("collector-2", "collector", COLLECT),
        ),
        turns=(
            Turn(actor="writer-1", says="Generation 1 is merged", state={"merged": 1, "catch-up": {"by_value": 0}}),
            Turn(
                actor="collector-1",
                says="It stays, since the index lags",
                state={"region": {"flushed": [1]}, "found by index": {"v0": ["base"], "v1": ["k1"]}},
            ),
            Turn(actor="builder", says="The index has caught up", state={"catch-up": {"by_value": 1}}),
            Turn(
                actor="collector-2",
                says="Now it goes",
                state={
                    "region": {"flushed": []},
                    "generation folders": [],
                    "found by index": {"v0": ["base"], "v1": ["k1"]},
                },
            ),
        ),
    )
    yield Example(
        path="collect/entries_of_a_fenced_writer",
        play=COLLECTED,
        title="WAL entries of a fenced writer stay until their rows are merged",
        description=(
            "Appendix 1, third point: WAL files of fenced writers remain on storage and are replayed by the new writer;"
            " they are only collected after being included in a flushed MemTable that has been merged. writer-1 has"
            " stored an entry under epoch 1 when writer-2 claims epoch 2. A collector that took entries of an old epoch"
            " for rubbish would delete an acknowledged row that is nowhere else (FENCE-018, GC-005, GC-007). The"
            " outcome has to be that the entry stays until its rows are in the base table, and goes then."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k1="v1")),
            follows("writer-2", "writer", {"open": None}, FLUSH),
            follows("collector-1", "collector", COLLECT),
            follows("merger", "merger", MERGE),
            follows("collector-2", "collector", COLLECT),
            follows("reader", "reader", READ),
        ),
        turns=(
            Turn(actor="writer-1", says="An entry of epoch 1 is stored", state={"wal": {"0": 1, "1": 1}}),
            Turn(
                actor="writer-2",
                before="put_if_absent gen/@1/bloom_filter.bin",
                says="writer-2 has fenced writer-1, and replayed its entry",
                state={"region": {"epoch": 2}, "wal": {"0": 1, "1": 1, "2": 2}},
            ),
            Turn(
                actor="collector-1",
                says="The entry of the old epoch stays",
                state={"wal": {"0": 1, "1": 1, "2": 2}, "rows": {"k1": "v1"}},
            ),
            Turn(
                actor="writer-2",
                says="Its row is in a flushed generation",
                state={"generations": {"1": {"k1": "v1"}}, "region": {"replay_after": 2}},
            ),
            Turn(actor="merger", says="The generation is merged", state={"merged": 1, "base rows": {"k1": "v1"}}),
            Turn(actor="collector-2", says="Now the entry is gone", state={"wal": {}, "region": {"flushed": []}}),
            Turn(actor="reader", says="The row is there", state={"reads": {"reader/1": {"k1": "v1"}}}),
        ),
    )
    yield Example(
        path="collect/wal_file_of_a_generation",
        play=COLLECTED,
        revision="A",
        title="A WAL file that a generation still refers to is not deleted",
        description=(
            "In revision A a generation has no data files of its own: its fragments are WAL files. Collection must"
            " verify that no flushed MemTable still references a WAL file before deletion (GC-005, GC-006, GC-012,"
            " FENCE-018). Entry 1 is behind the replay pointer, so recovery needs it no more, but generation 1 is not"
            " merged. To delete entry 1 would leave a generation that cannot be opened. The outcome has to be that the"
            " file stays until the generation was merged and collected, and that the row is there at any time."
        ),
        cast=(
            follows("writer-1", "writer", _rows(k1="v1"), FLUSH, _rows(k2="v2")),
            follows("collector-1", "collector", COLLECT),
            follows("merger", "merger", MERGE),
            follows("collector-2", "collector", COLLECT),
            follows("collector-3", "collector", COLLECT),
            follows("reader", "reader", READ),
        ),
        turns=(
            Turn(
                actor="writer-1",
                says="Entry 1 is behind the replay pointer, and part of generation 1",
                state={"region": {"replay_after": 1, "flushed": [1]}, "wal": {"1": 1, "2": 1}},
            ),
            Turn(
                actor="collector-1",
                says="The generation is not merged: its WAL file stays",
                state={"wal": {"1": 1, "2": 1}, "generations": {"1": {"k1": "v1"}}},
            ),
            Turn(actor="merger", says="The generation is merged", state={"merged": 1}),
            Turn(actor="collector-2"),
            Turn(
                actor="collector-3",
                says="Generation and WAL file are gone",
                state={"region": {"flushed": []}, "wal": {"2": 1}, "generation folders": []},
            ),
            Turn(actor="reader", says="Both rows are there", state={"reads": {"reader/1": {"k1": "v1", "k2": "v2"}}}),
        ),
    )
