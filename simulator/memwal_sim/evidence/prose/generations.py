"""Faults of flushes and merges."""

from __future__ import annotations

from collections.abc import Iterator

from ..directing import Example, Turn, follows
from .steps import COLLECT, FLUSH, MERGE, PLAIN, READ, rows


def tell() -> Iterator[Example]:
    """All of them, by area."""
    yield from _of_flushes()
    yield from _of_merges()


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
            follows("writer-1", "writer", rows(k1="v1"), rows(k2="v2"), FLUSH),
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
            follows("writer-1", "writer", rows(k1="v1"), FLUSH),
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
            follows("writer-1", "writer", rows(k="old", l="old"), FLUSH, rows(k="new"), FLUSH),
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
