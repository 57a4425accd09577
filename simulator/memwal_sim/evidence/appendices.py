"""The worked examples of MemWAL revisions A and B, step by step, with the numbers of their texts.

Each step of a text's table is a turn, and what its columns state has to be so after it. Where a text contradicts its
own rules, the description says so with the number of the note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .directing import Example, Turn, follows


def tell() -> Iterator[Example]:
    """All of them, in the order of the texts."""
    yield _fencing("A")
    yield _fencing("B")
    yield _fencing_with_barriers()
    for revision in "AB":
        yield _racing_mergers(revision)
        yield _crash_after_commit(revision)
    yield _index_catch_up()
    yield _query_setup()
    for revision in "AB":
        yield _bucket_of_123(revision)


_INITIAL_1: Mapping[str, Any] = {
    "version": 1, "epoch": 5, "replay_after": 10, "last_seen": 12, "current_generation": 2,
}  # fmt: skip
"""Region manifest of appendix 1. It names no generation; one is flushed, merged and collected, as a pointer implies."""


def _scribe_1() -> Any:
    entries = [
        {"given_entry": {"position": number, "epoch": 5, "rows": {f"k{number}": f"v{number}"}}} for number in (11, 12)
    ]
    return follows("scribe", "scribe", {"given_progress": 1}, *entries, {"given_manifest": _INITIAL_1})


def _puts(*numbers: int) -> list[dict[str, Any]]:
    return [{"rows": {f"k{number}": f"v{number}"}} for number in numbers]


def _of(*numbers: int) -> dict[str, str]:
    return {f"k{number}": f"v{number}" for number in numbers}


def _fencing(revision: str) -> Example:
    first = "13" if revision == "A" else "11"
    return Example(
        path=f"fencing/appendix_1_{revision.lower()}",
        play="worked_examples",
        revision=revision,
        readings={"claim_barrier": False},
        title=f"Appendix 1 of revision {revision}: writer A is fenced by writer B, and its entries are kept",
        description=(
            "Writer A claims a region with epoch 6 and stores WAL entries 13, 14 and 15. Writer B claims it with epoch"
            " 7, replays what A stored, and stores entries 16 and 17. A tries to flush, sees epoch 7 where it has 6,"
            " and stops; B goes on, and its flush holds the rows of both (FENCE-004 to 013, FENCE-019 to 021). The"
            " text begins with replay pointer 10 and last-seen hint 12, so that entries 11 and 12 exist and are in no"
            f" generation. It says that the scan begins at pointer + 1, which is 11, and calls that entry {first};"
            " its list of found entries begins with 13 in any case. To follow the list would lose two acknowledged"
            " entries, and the engine replays all seven, 11 to 17 (AMB-08). Epoch 5 in manifest version 1 breaks the"
            " text's own rule that each claim adds one to both, and is taken as it is (AMB-35). The text knows no"
            " barrier entries, and positions are its own only without them: so this is played with claim_barrier off,"
            " which is not safe (AMB-24); appendix_1_with_barriers is the same with it."
        ),
        cast=(
            _scribe_1(),
            follows("writer-a", "writer", {"open": None}, *_puts(13, 14, 15), {"flush": None}),
            follows("writer-b", "writer", {"open": None}, *_puts(16, 17), {"flush": None}, *_puts(18)),
            follows("reader", "reader", {"read": None}),
        ),
        turns=(
            Turn(
                actor="scribe",
                says="Initial state: manifest version 1, epoch 5, replay pointer 10, last seen 12",
                state={
                    "region": {"version": 1, "epoch": 5, "replay_after": 10, "last_seen": 12},
                    "wal": {"11": 5, "12": 5},
                },
            ),
            Turn(
                actor="writer-a",
                before="put_if_absent manifest/@2",
                says="Step 1: A has loaded the manifest and sees epoch 5",
                state={"region": {"epoch": 5, "version": 1}},
            ),
            Turn(
                actor="writer-a",
                after="put hint",
                says="Step 2: A has written manifest version 2 with epoch 6",
                state={"region": {"epoch": 6, "version": 2}},
            ),
            Turn(
                actor="writer-a",
                after="put_if_absent wal/@15",
                says="Step 3: A has stored entries 13, 14 and 15 under epoch 6",
                state={"wal": {"11": 5, "12": 5, "13": 6, "14": 6, "15": 6}},
            ),
            Turn(
                actor="writer-b",
                before="put_if_absent manifest/@3",
                says="Step 4: B has loaded manifest version 2 and sees epoch 6",
                state={"region": {"epoch": 6, "version": 2}},
            ),
            Turn(
                actor="writer-b",
                after="put hint",
                says="Step 5: B has written manifest version 3 with epoch 7",
                state={"region": {"epoch": 7, "version": 3}},
            ),
            Turn(
                actor="writer-b",
                after="put_if_absent wal/@17",
                says="Step 6: B has stored entries 16 and 17 under epoch 7",
                state={
                    "wal": {"11": 5, "12": 5, "13": 6, "14": 6, "15": 6, "16": 7, "17": 7},
                    "acknowledged": [
                        "scribe/1", "scribe/2", "writer-a/1", "writer-a/2", "writer-a/3", "writer-b/1", "writer-b/2",
                    ],
                },
            ),
            Turn(
                actor="writer-a",
                says="Steps 7 to 9: A tries to flush, sees epoch 7 where it has 6, and aborts as fenced",
                state={"ended": {"writer-a": "Fenced"}, "region": {"epoch": 7, "version": 3, "flushed": []}},
            ),
            Turn(
                actor="writer-b",
                before="put_if_absent wal/@18",
                says="B's flush includes entries 11 to 17: those of epoch 6 are not discarded",
                state={
                    "region": {"epoch": 7, "version": 4, "replay_after": 17, "flushed": [2]},
                    "generations": {"2": _of(11, 12, 13, 14, 15, 16, 17)},
                },
            ),
            Turn(
                actor="writer-b",
                says="Step 10: B continues writing normally",
                state={"ended": {"writer-b": "done"}, "region": {"epoch": 7, "version": 4}},
            ),
            Turn(
                actor="reader",
                says="No row of either writer is lost",
                state={"reads": {"reader/1": _of(11, 12, 13, 14, 15, 16, 17, 18)}},
            ),
        ),
    )  # fmt: skip


def _fencing_with_barriers() -> Example:
    return Example(
        path="fencing/appendix_1_with_barriers",
        play="worked_examples",
        title="Appendix 1 as the engine plays it: each claim leaves a barrier in the WAL",
        description=(
            "The fencing example of both revisions under the strict profile. Each claim puts an entry without rows"
            " behind the last one before its recovery counts as complete, so that the entries of writer A are 14, 15"
            " and 16 rather than 13 to 15, and those of writer B 18 and 19. What the barrier is for is the last step:"
            " A, which the text lets find out at its next flush only, puts once more. Its position 17 is taken by B's"
            " barrier, and A learns that it is fenced before it acknowledges anything that nobody would replay"
            " (AMB-24, FENCE-014, FENCE-016). All acknowledged rows, 11 and 12 included (AMB-08), are in B's flush."
        ),
        cast=(
            _scribe_1(),
            follows("writer-a", "writer", {"open": None}, *_puts(13, 14, 15, 99)),
            follows("writer-b", "writer", {"open": None}, *_puts(16, 17), {"flush": None}),
            follows("reader", "reader", {"read": None}),
        ),
        turns=(
            Turn(
                actor="scribe",
                says="Initial state: manifest version 1, epoch 5, replay pointer 10, last seen 12",
                state={"region": {"version": 1, "epoch": 5, "replay_after": 10, "last_seen": 12}},
            ),
            Turn(
                actor="writer-a",
                after="put_if_absent wal/@16",
                says="A has claimed with epoch 6, put its barrier at 13, and stored three entries behind it",
                state={
                    "region": {"epoch": 6, "version": 2},
                    "wal": {"11": 5, "12": 5, "13": 6, "14": 6, "15": 6, "16": 6},
                    "wal rows": {
                        "11": {"k11": "v11"}, "12": {"k12": "v12"}, "13": {},
                        "14": {"k13": "v13"}, "15": {"k14": "v14"}, "16": {"k15": "v15"},
                    },
                },
            ),
            Turn(
                actor="writer-b",
                after="put_if_absent wal/@19",
                says="B has claimed with epoch 7, put its barrier at 17, and stored two entries behind it",
                state={
                    "region": {"epoch": 7, "version": 3},
                    "wal": {"11": 5, "12": 5, "13": 6, "14": 6, "15": 6, "16": 6, "17": 7, "18": 7, "19": 7},
                },
            ),
            Turn(
                actor="writer-a",
                says="A puts at 17, collides with the barrier, and is fenced; the write is not acknowledged",
                state={
                    "ended": {"writer-a": "Fenced"},
                    "acknowledged": [
                        "scribe/1", "scribe/2", "writer-a/1", "writer-a/2", "writer-a/3", "writer-b/1", "writer-b/2",
                    ],
                },
            ),
            Turn(
                actor="writer-b",
                says="B's flush includes all entries up to 19",
                state={
                    "region": {"epoch": 7, "version": 4, "replay_after": 19, "flushed": [2]},
                    "generations": {"2": _of(11, 12, 13, 14, 15, 16, 17)},
                },
            ),
            Turn(
                actor="reader",
                says="Every acknowledged row is found, and A's last one, which was refused, is not",
                state={"reads": {"reader/1": _of(11, 12, 13, 14, 15, 16, 17)}},
            ),
        ),
    )  # fmt: skip


def _scribe_2() -> Any:
    return follows(
        "scribe",
        "scribe",
        {"given_base": {"a": "a5", "b": "b5"}},
        {"given_progress": 5},
        {
            "given_generation": {
                "number": 6, "prefix": "abc12300", "position": 6, "epoch": 1, "rows": {"d": "d6"},
            }
        },
        {
            "given_generation": {
                "number": 7, "prefix": "def45600", "position": 7, "epoch": 1, "rows": {"a": "a7", "c": "c7"},
            }
        },
        {
            "given_manifest": {
                "version": 1, "epoch": 1, "replay_after": 7, "last_seen": 7, "current_generation": 8,
                "flushed": [[6, "abc12300_gen_6"], [7, "def45600_gen_7"]],
            }
        },
    )  # fmt: skip


_INITIAL_2 = Turn(
    actor="scribe",
    says="Initial state: generation 5 is merged; 6 and 7 are flushed, and 8 is the next",
    state={
        "merged": 5,
        "region": {
            "version": 1, "current_generation": 8, "flushed": [6, 7], "folders": ["abc12300_gen_6", "def45600_gen_7"],
        },
        "base rows": {"a": "a5", "b": "b5"},
    },
)  # fmt: skip
_NUMBERS_2 = (
    " The text calls the folders abc123_gen_6 and def456_gen_7: six digits, where its own rule says eight, by which the"
    " engine refuses them (MANIFEST-017, AMB-44). Two zeros are added. current_generation 8 in manifest version"
    " 1 is illustrative (AMB-35)."
)


def _racing_mergers(revision: str) -> Example:
    return Example(
        path=f"merge/appendix_2_racing_{revision.lower()}",
        play="worked_examples",
        revision=revision,
        title=f"Appendix 2 of revision {revision}, scenario 1: two mergers race on one generation",
        description=(
            "Mergers A and B both read that generation 5 is the last one merged, and both merge generation 6. A commits"
            " first, data and progress in one table version. B's commit meets that version; B reads there that"
            " generation 6 is merged already, gives up its attempt, reloads, and goes on to generation 7. If B"
            " committed all the same, rows would be there twice, or progress and data would part. The outcome must be:"
            " each generation is merged once, in order, and progress never goes back (MERGE-006 to 013)." + _NUMBERS_2
        ),
        cast=(
            _scribe_2(),
            follows("merger-a", "merger", {"merge": None}),
            follows("merger-b", "merger", {"merge_next": None}),
            follows("reader", "reader", {"read": None}),
        ),
        turns=(
            _INITIAL_2,
            Turn(
                actor="merger-a",
                before="put_if_absent versions/@5",
                says="Steps 1 to 3: A has read progress 5 and the region manifest, and merges generation 6",
                state={"merged": 5},
            ),
            Turn(
                actor="merger-b",
                before="put_if_absent versions/@5",
                says="Steps 4 to 6: B has read the same, and merges generation 6 too",
                state={"merged": 5},
            ),
            Turn(
                actor="merger-a",
                after="put_if_absent versions/@5",
                says="Step 7: A commits; generation 6 is merged",
                state={"merged": 6, "base rows": {"a": "a5", "b": "b5", "d": "d6"}},
            ),
            Turn(
                actor="merger-b",
                after="put_if_absent versions/@5",
                says="Steps 8 and 9: B tries to commit and meets A's version",
                state={"merged": 6, "base rows": {"a": "a5", "b": "b5", "d": "d6"}},
            ),
            Turn(
                actor="merger-b",
                says="Steps 10 and 11: B has seen 6 >= 6, gave up its attempt, reloaded, and merged generation 7",
                state={"merged": 7, "base rows": {"a": "a7", "b": "b5", "c": "c7", "d": "d6"}, "table version": 6},
            ),
            Turn(
                actor="merger-a",
                says="A goes on to generation 7 and finds that it is merged",
                state={"ended": {"merger-a": "done", "merger-b": "done"}, "merged": 7, "table version": 6},
            ),
            Turn(
                actor="reader",
                says="Each key has its newest value, once",
                state={"reads": {"reader/1": {"a": "a7", "b": "b5", "c": "c7", "d": "d6"}}},
            ),
        ),
    )


def _crash_after_commit(revision: str) -> Example:
    return Example(
        path=f"merge/appendix_2_crash_{revision.lower()}",
        play="worked_examples",
        revision=revision,
        title=f"Appendix 2 of revision {revision}, scenario 2: a merger crashes after its table commit",
        description=(
            "Merger A merges generation 6, commits the table version that has both the rows and the progress, and"
            " crashes before it does anything else. Merger B reads progress 6, skips generation 6, and merges 7. Were"
            " progress kept elsewhere and written after the data, B would merge 6 again, on top of what came since. The"
            " outcome has to be: progress 7, and each row once (MERGE-004 to 006, MERGE-014 to 018)." + _NUMBERS_2
        ),
        cast=(
            _scribe_2(),
            follows("merger-a", "merger", {"merge": None}),
            follows("merger-b", "merger", {"merge": None}),
            follows("reader", "reader", {"read": None}),
        ),
        turns=(
            _INITIAL_2,
            Turn(
                actor="merger-a",
                after="put_if_absent versions/@5",
                says="Steps 1 to 3: A has read progress 5, merged generation 6, committed, and crashes",
                state={"merged": 6, "base rows": {"a": "a5", "b": "b5", "d": "d6"}, "table version": 5},
            ),
            Turn(
                actor="merger-b",
                says="Steps 4 to 7: B has read progress 6, skipped generation 6, and merged 7",
                state={
                    "merged": 7,
                    "base rows": {"a": "a7", "b": "b5", "c": "c7", "d": "d6"},
                    "table version": 6,
                    "ended": {"merger-a": "has not ended", "merger-b": "done"},
                },
            ),
            Turn(
                actor="reader",
                says="Each key has its newest value, once",
                state={"reads": {"reader/1": {"a": "a7", "b": "b5", "c": "c7", "d": "d6"}}},
            ),
        ),
    )


def _index_catch_up() -> Example:
    flushes = [step for number in (1, 2, 3) for step in ({"rows": {f"k{number}": f"v{number}"}}, {"flush": None})]
    return Example(
        path="index/appendix_4_catch_up_a",
        play="worked_examples_indexed",
        revision="A",
        title="Appendix 4 of revision A: an index that lags behind the merge, and what stands in for it",
        description=(
            "Generations 1 to 4 are merged, the base index covers 1 to 3 only, generation 5 is flushed, and 6 is in"
            " memory. A search by the index may not miss generation 4, which is in the base table and not in its index,"
            " and need not scan for it: the flushed generation carries the same index, and stands in for the gap"
            " (CATCHUP-001 to 004, CATCHUP-010 to 012, PLAN-010). So generation 4 is still listed. The text has an IVF"
            " index; this one is a btree, for which the plan is the same. What the text does not say is that rows of"
            " the gap may have been overwritten in the base since (AMB-113): here none was."
        ),
        cast=(
            follows(
                "writer",
                "writer",
                {"open": None},
                *flushes,
                {"rows": {"k4": "v4"}},
                {"flush": None},
                {"rows": {"k5": "v5"}},
                {"flush": None},
                {"rows": {"k6": "v6"}},
            ),
            follows("merger", "merger", {"merge": None}, {"merge": None}),
            follows("indexer", "indexer", {"index": "by_value"}),
            follows("reader", "reader", {"read": None}),
        ),
        turns=(
            Turn(actor="writer", before="put_if_absent wal/@4"),
            Turn(actor="merger", after="put_if_absent versions/@8"),
            Turn(
                actor="indexer",
                says="Generations 1 to 3 are merged, and the base index covers them",
                state={"merged": 3, "catch-up": {"by_value": 3}},
            ),
            Turn(actor="writer", before="put_if_absent wal/@5"),
            Turn(actor="merger"),
            Turn(
                actor="writer",
                says="merged_gen = 4, index_gen = 3, generation 5 is flushed, and current_gen = 6 is in memory",
                state={
                    "merged": 4,
                    "catch-up": {"by_value": 3},
                    "region": {"current_generation": 6, "flushed": [1, 2, 3, 4, 5]},
                },
            ),
            Turn(
                actor="reader",
                says="A search by the index finds each row once, whatever source holds it",
                state={
                    "found by index": {f"v{number}": [key] for number, key in _SOURCES},
                    "reads": {"reader/1": {key: f"v{number}" for number, key in _SOURCES}},
                },
            ),
        ),
    )


_SOURCES = ((0, "base"), (1, "k1"), (2, "k2"), (3, "k3"), (4, "k4"), (5, "k5"), (6, "k6"))
"""Number of the generation that a row came with, 0 for the base table, and its key."""


def _query_setup() -> Example:
    return Example(
        path="read/query_plan_setup_a",
        play="worked_examples",
        revision="A",
        title="The setup of revision A's query plans: a base table, and two regions with two and three generations",
        description=(
            "Region A has generation 1 on storage and 2 in memory; region B has 1 and 2 on storage and 3 in memory;"
            " both have rows of the base table underneath. A scan takes all six sources, and of each key the row of"
            " the highest generation, of one generation the last row (READ-001 to 005, PLAN-001 to 003, PLAN-013 to"
            " 014). Key a is in each source of region A, key b in each of region B, twice in its generation 2; one key"
            " is in the base only. Generations of different regions are not compared: region B's 3 is not newer than"
            " region A's 2 (AMB-108). The outcome has to be each key once, with its newest value."
        ),
        cast=(
            follows("scribe", "scribe", {"given_base": {"a": "base", "b": "base", "c": "base"}}),
            follows("writer-a", "writer", {"rows": {"a": "a1"}}, {"flush": None}, {"rows": {"a": "a2"}}),
            follows(
                "writer-b",
                "writer",
                {"rows": {"b": "b1"}},
                {"flush": None},
                {"batch": [["b", "b2 first"], ["b", "b2 last"]]},
                {"flush": None},
                {"read": None},
                {"rows": {"b": "b3"}},
                region=2,
            ),
            follows("reader", "reader", {"read": None}),
        ),
        turns=(
            Turn(actor="scribe", says="The base table", state={"base rows": {"a": "base", "b": "base", "c": "base"}}),
            Turn(
                actor="writer-a",
                says="Region A: generation 1 is flushed, 2 is in memory",
                state={"region": {"current_generation": 2, "flushed": [1]}, "generations": {"1": {"a": "a1"}}},
            ),
            Turn(
                actor="writer-b",
                before="put_if_absent wal/@3",
                says="Region B: a read finds the last row of generation 2, and region A's memory in its WAL",
                state={"reads": {"writer-b/1": {"a": "a2", "b": "b2 last", "c": "base"}}},
            ),
            Turn(
                actor="writer-b",
                says="Region B: generations 1 and 2 are flushed, 3 is in memory",
                state={"region of 2": {"current_generation": 3, "flushed": [1, 2]}},
            ),
            Turn(
                actor="reader",
                says="Of each key the newest row, once",
                state={"reads": {"reader/1": {"a": "a2", "b": "b3", "c": "base"}}},
            ),
        ),
    )


def _bucket_of_123(revision: str) -> Example:
    return Example(
        path=f"region/bucket_of_user_123_{revision.lower()}",
        play="user_buckets",
        revision=revision,
        title=f"Region pruning in revision {revision}: bucket(123, 10) is not 3",
        description=(
            "The text's example of region pruning has the spec bucket(user_id, 10) and the filter user_id = 123,"
            " computes bucket 3, and scans that region only. By the text's own definition, abs(murmur3(col)) % N with"
            " 32-bit Murmur3 of seed 0, the bucket is 4 if the number is taken as 8 bytes, 2 as 4 bytes, and 5 as"
            " text, and nothing gives 3 (AMB-59, REGION-031, REGION-035, PLAN-008). A reader that believed the 3 would"
            " prune the region that has the row. What counts is that all engines take the same bytes: all integers as"
            " 8, so that int32(123) and int64(123) agree (REGION-021). The outcome has to be one region, whose value"
            " is 4, in which another writer finds the row."
        ),
        cast=(follows("writer-1", "writer", {"user": 123}), follows("writer-2", "writer", {"user": 123})),
        turns=(
            Turn(actor="writer-1", says="The row of user 123 is in a region whose bucket is 4", state=_USER_123),
            Turn(actor="writer-2", says="A second engine puts user 123 into the same region", state=_USER_123_AGAIN),
        ),
    )


_USER_123: Mapping[str, Any] = {"region values": [{"user_bucket": 4}], "rows": {"123": "writer-1.1"}}
_USER_123_AGAIN: Mapping[str, Any] = {"region values": [{"user_bucket": 4}], "rows": {"123": "writer-2.1"}}
