from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest
from kit.toys import IO, increment
from memwal.effects import Note, Put
from memwal.errors import NotFound
from memwal.ids import Milliseconds
from memwal.stores.memory import Raised, Returned
from memwal_sim.book import Book
from memwal_sim.process import EPOCH_MS, Ended, Process, Running, run_alone
from memwal_sim.store import Contents
from memwal_sim.trie import AT_END, ROOT, Trie


def grown(*, keep: int = 10) -> tuple[Trie, Book, int]:
    """A trie of `increment` in which both ends of a history with reads 0 and 1 are known; the number of its nodes."""
    book = Book()
    trie = Trie(Process("p", increment), book, keep=keep)
    done = book.reply_id(Returned(None))
    for value in (b"0", b"1"):
        trie.child(trie.child(ROOT, book.reply_id(Returned(value))), done)
    return trie, book, len(trie)


def test_a_node_holds_the_next_request_or_the_end_and_the_notes() -> None:
    trie, book, nodes = grown()
    assert nodes == 5
    read = trie.child(ROOT, book.reply_id(Returned(b"1")))
    assert book.requests[trie.requests[read]] == Put("n", b"2")
    end = trie.child(read, book.reply_id(Returned(None)))
    assert trie.requests[end] == AT_END
    assert trie.notes[end] == (Note("counted"),)
    assert trie.ends[end] == Ended(None)


def test_an_old_edge_runs_no_engine_code() -> None:
    trie, book, nodes = grown()
    fed = trie.fed
    assert trie.child(ROOT, book.reply_id(Returned(b"0"))) == 1
    assert (trie.fed, len(trie)) == (fed, nodes)


def test_a_new_edge_resumes_the_coroutine_that_stands_there() -> None:
    trie, _, _ = grown()
    assert trie.fed == 4


def test_a_coroutine_that_was_let_go_is_fed_its_history_again() -> None:
    trie, book, nodes = grown(keep=1)
    another = trie.child(ROOT, book.reply_id(Returned(b"7")))
    assert nodes == 5
    assert book.requests[trie.requests[another]] == Put("n", b"8")


def test_a_history_is_the_replies_that_lead_to_a_node() -> None:
    trie, book, _ = grown()
    read = trie.child(ROOT, book.reply_id(Returned(b"1")))
    end = trie.child(read, book.reply_id(Returned(None)))
    assert [book.replies[reply] for reply in trie.history(end)] == [Returned(b"1"), Returned(None)]


def test_equal_requests_and_replies_have_one_number() -> None:
    book = Book()
    assert book.request_id(Put("a", b"x")) == book.request_id(Put("a", bytes([120]))) == 0
    assert book.request_id(Put("a", b"y")) == 1
    assert book.reply_id(Raised(NotFound, "a")) == book.reply_id(Raised(NotFound, "a")) == 0
    assert book.reply_id(Raised(NotFound, "b")) == 1


@dataclass(frozen=True)
class Looked:
    """What a process got that asked for everything twice."""

    times: tuple[int, int]
    randoms: tuple[str, str]


async def _look(digits: int) -> Looked:
    times = await IO.now(), await IO.now()
    await IO.sleep(Milliseconds(1000))
    return Looked(times, (await IO.random_hex(digits), await IO.random_hex(digits)))


def looked(name: str, digits: int) -> Looked:
    ended = Running(Process(name, partial(_look, digits))).pause
    assert isinstance(ended, Ended)
    assert isinstance(ended.result, Looked)
    return ended.result


def test_time_and_randomness_are_functions_of_the_name_and_of_how_often_they_were_asked_for() -> None:
    first, other = looked("p", 8), looked("q", 8)
    assert first == looked("p", 8)
    assert first.times == (EPOCH_MS, EPOCH_MS + 1)
    randoms = {*first.randoms, *other.randoms}
    assert len(randoms) == 4
    assert all(len(each) == 8 and int(each, 16) >= 0 for each in randoms)


def test_randomness_has_as_many_digits_as_were_asked_for() -> None:
    assert [len(each) for each in looked("p", 300).randoms] == [300, 300]


def test_a_process_that_never_asks_the_store_is_an_endless_loop() -> None:
    async def spin() -> None:
        while True:
            await IO.sleep(Milliseconds(1))

    ended = Running(Process("p", spin)).pause
    assert isinstance(ended, Ended)
    assert ended.failure is not None
    assert (ended.failure.kind, ended.failure.expected) == ("EndlessLoop", False)


def test_a_process_alone_runs_to_its_end() -> None:
    alone = run_alone(Process("p", increment), Contents({"n": b"41"}))
    assert alone.contents == Contents({"n": b"42"})
    assert alone.end == Ended(None)
    assert alone.notes == (Note("counted"),)


def test_a_process_alone_that_does_not_end_is_stopped() -> None:
    async def for_ever() -> None:
        while True:
            await IO.list("")

    with pytest.raises(AssertionError, match="did not end within 10000"):
        run_alone(Process("p", for_ever), Contents())


def test_a_site_is_the_protocol_function_that_waits() -> None:
    running = Running(Process("p", increment))
    assert running.site() == "kit.toys.increment"
    running.resume(Raised(NotFound, "n"))
    assert running.site() == ""
    assert isinstance(running.pause, Ended)
    assert running.pause.failure is not None
    assert (running.pause.failure.kind, running.pause.failure.expected) == ("NotFound", True)
