"""Faults of the MemWAL index, reads, and collection."""

from __future__ import annotations

from collections.abc import Iterator

from ..directing import Example, Turn, follows
from .steps import COLLECT, COLLECTED, FLUSH, INDEXED, MERGE, PLAIN, READ, SNAPSHOT, rows


def tell() -> Iterator[Example]:
    """All of them, by area."""
    yield from _of_the_index()
    yield from _of_reads()
    yield from _of_collection()


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
            follows("writer-1", "writer", rows(k="v"), FLUSH),
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
            follows("writer-1", "writer", {"open": None}, rows(k1="v1"), FLUSH, rows(k2="v2"), FLUSH),
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
            follows("writer-1", "writer", rows(k="old"), FLUSH, rows(k="new"), FLUSH),
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
            follows("writer-1", "writer", rows(k="v"), FLUSH, SNAPSHOT, MERGE),
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
            follows("writer-1", "writer", rows(k="old"), FLUSH, SNAPSHOT, rows(k="new"), FLUSH),
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
            follows("writer-1", "writer", rows(k="v"), FLUSH, SNAPSHOT),
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
            follows("writer-1", "writer", {"open": None}, rows(k1="v1"), FLUSH, MERGE),
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
            follows("writer-1", "writer", rows(k1="v1")),
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
            follows("writer-1", "writer", rows(k1="v1"), FLUSH, rows(k2="v2")),
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
