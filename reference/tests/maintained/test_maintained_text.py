"""Terms, statistics and scores of MemTables are those of the indexes that pylance builds over the same texts."""

from __future__ import annotations

import string
import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.query import FullTextOperator, MatchQuery
from memwal.codec import token_fst
from memwal.codec.postings import Postings
from memwal.drive import drive
from memwal.effects import Io
from memwal.maintained import build
from memwal.maintained.base_index import MaintainedIndex, load
from memwal.maintained.bm25 import AskedTerms, Corpus, CorpusStatistics
from memwal.maintained.memory import MemTableIndexes
from memwal.maintained.text_index import TextIndex
from memwal.maintained.tokenizer import Tokenizer
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.table.state import latest

from ..kit.maintained_scene import stored_statistics, texts_found

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
TEXTS = [
    "The quick brown fox",
    "fox fox FOX running runs",
    "Straße café naïve",
    None,
    "",
    "the and of",
    "a-b_c x.y 42 3.14",
    "snake_case camelCase HTTPServer2",
    "日本語 テスト",
    "supercalifragilisticexpialidociousandmuchlongerthanfortychars ok",
    "fox quick quick",
    "don't can't",
]
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "whitespace": {"base_tokenizer": "whitespace"},
    "raw": {"base_tokenizer": "raw"},
    "ngram": {"base_tokenizer": "ngram"},
    "prefixes": {"base_tokenizer": "ngram", "prefix_only": True, "min_ngram_length": 2, "max_ngram_length": 4},
    "icu": {"base_tokenizer": "icu"},
    "code": {"base_tokenizer": "code"},
    "plain": {"stem": False, "remove_stop_words": False},
    "case": {"lower_case": False, "stem": False},
    "accents": {"ascii_folding": False},
    "long words": {"max_token_length": None},
    "French": {"language": "French"},
    "own stop words": {"custom_stop_words": ["fox"]},
    "positions": {"with_position": True},
}


class Native:
    """A full-text index that pylance built, and how the engine reads it."""

    def __init__(self, place: Path, texts: Sequence[str | None], **options: Any) -> None:
        column = pa.array(texts, pa.string())
        self.dataset = lance.write_dataset(pa.table({"id": range(len(texts)), "text": column}), str(place))
        self.dataset.create_scalar_index("text", "INVERTED", name="i", **options)
        self.store = LocalStore(place)
        self.state = drive(latest(Io(interpretation=STRICT)), self.store)

    def index(self) -> MaintainedIndex:
        (found,) = drive(load(Io(interpretation=STRICT), self.state, ["i"]), self.store)
        return found

    def statistics(self, terms: Sequence[str] | None = None) -> CorpusStatistics:
        return drive(stored_statistics(Io(interpretation=STRICT), self.state, "i", terms), self.store)


def memory(index: MaintainedIndex, texts: Sequence[str | None], first: int = 0) -> MemTableIndexes:
    """Indexes of a MemTable with one row for each text; keys are unique."""
    held = MemTableIndexes.empty([index], ["id"], SCHEMA)
    held.insert(pa.table([list(range(first, first + len(texts))), pa.array(texts, pa.string())], SCHEMA))
    return held


@pytest.mark.clause("WRITER-026", "WRITER-027")
@pytest.mark.parametrize("which", CONFIGURATIONS)
def test_terms_and_statistics_are_those_that_pylance_stores(tmp_path: Path, which: str) -> None:
    native = Native(tmp_path / "t", TEXTS, **CONFIGURATIONS[which])
    stored = native.statistics()
    assert memory(native.index(), TEXTS).statistics("i") == stored
    assert stored.documents > 8


@pytest.mark.clause("WRITER-026", "FLUSH-023")
@pytest.mark.parametrize("which", CONFIGURATIONS)
def test_the_index_of_a_generation_has_the_configuration_and_the_statistics_of_the_base_index(
    tmp_path: Path, which: str
) -> None:
    native = Native(tmp_path / "t", TEXTS, **CONFIGURATIONS[which])
    texts = pa.table([list(range(len(TEXTS))), pa.array(TEXTS, pa.string())], SCHEMA)
    (built,) = build.build(texts, np.arange(len(TEXTS), dtype=np.uint64), [native.index()])
    (folder,) = (tmp_path / "t" / "_indices").iterdir()
    (entry,) = native.state.manifest.indices
    assert (built.details_type, built.details) == (entry.index_details.type_url, entry.index_details.value)
    assert built.version == entry.index_version
    files = dict(built.files)
    assert sorted(files) == sorted(path.name for path in folder.iterdir())
    for name, data in files.items():
        stored = (folder / name).read_bytes()
        ours, theirs = (memwal.codec.data_file.decode(found, name) for found in (data, stored))
        assert ours.schema.metadata == theirs.schema.metadata
        (folder / name).write_bytes(data)
    assert native.statistics() == memory(native.index(), TEXTS).statistics("i")


def test_statistics_of_the_default_configuration_are_these(tmp_path: Path) -> None:
    found = memory(Native(tmp_path / "t", TEXTS).index(), ["fox the FOX", None, "", "a quick fox ran"]).statistics("i")
    assert (found.documents, found.terms) == (2, 5)
    assert dict(found.frequencies) == {"fox": 2, "quick": 1, "ran": 1}


@pytest.mark.clause("WRITER-027", "AMB-110")
def test_scores_of_one_memtable_are_those_that_pylance_gives(tmp_path: Path) -> None:
    texts = [" ".join(f"w{(i * j) % 23}" for j in range(1, 2 + i % 9)) for i in range(200)]
    native = Native(tmp_path / "t", texts)
    held = memory(native.index(), texts)
    for query in ("w3", "w3 w5", "w3 w3 w0", "absent", "absent w4"):
        expected = texts_found(native.dataset, query)
        found = held.matching("i", query)
        assert dict(zip(found.offsets.tolist(), found.values.tolist(), strict=True)) == pytest.approx(expected)
        assert found.values.tolist() == sorted(found.values.tolist(), reverse=True)
    assert held.matching("i", "w3 w5", 7).offsets.tolist() == held.matching("i", "w3 w5").offsets.tolist()[:7]


def test_a_query_for_every_term_finds_what_pylance_finds(tmp_path: Path) -> None:
    texts = [f"w{i % 5} w{i % 7} w{i % 3}" for i in range(60)]
    native = Native(tmp_path / "t", texts)
    expected = texts_found(native.dataset, MatchQuery("w1 w2", "text", operator=FullTextOperator.AND))
    found = memory(native.index(), texts).matching("i", "w1 w2", every_term=True)
    assert set(found.offsets.tolist()) == set(expected)
    assert 0 < len(expected) < 60


@pytest.mark.clause("WRITER-027", "AMB-110")
def test_summed_statistics_of_two_sources_give_the_scores_of_one_corpus(tmp_path: Path) -> None:
    texts = [" ".join(f"w{(i * j) % 11}" for j in range(1, 2 + i % 6)) for i in range(120)]
    whole = Native(tmp_path / "whole", texts)
    older = Native(tmp_path / "older", texts[:70])
    newer = memory(whole.index(), texts[70:], 70)
    expected = texts_found(whole.dataset, "w3 w7")
    total = older.statistics(["w3", "w7"]) + newer.statistics("i", "w3 w7")
    assert total.documents == 120
    found = newer.matching("i", "w3 w7", statistics=total)
    scores = {offset + 70: score for offset, score in zip(found.offsets.tolist(), found.values.tolist(), strict=True)}
    assert scores == pytest.approx({row: score for row, score in expected.items() if row >= 70})
    alone = newer.matching("i", "w3 w7")
    assert alone.values.tolist() != pytest.approx(found.values.tolist())


@pytest.mark.clause("AMB-109")
def test_a_superseded_text_is_not_found(tmp_path: Path) -> None:
    held = memory(Native(tmp_path / "t", ["x"]).index(), ["fox", "fox dog"])
    held.insert(pa.table([[0], ["dog"]], SCHEMA))
    assert held.matching("i", "fox").offsets.tolist() == [1]
    assert held.matching("i", "dog").offsets.tolist() == [2, 1]


def test_documents_that_do_not_count_leave_a_list_with_their_counts_and_positions() -> None:
    held = Postings(documents=np.array([0, 3, 5]), counts=np.array([1, 3, 2]), positions=np.array([4, 0, 2, 9, 1, 7]))
    live = np.array([True, True, True, False, True, True])
    found = held.of(live)
    assert found.positions is not None
    assert (found.documents.tolist(), found.counts.tolist(), found.positions.tolist()) == ([0, 5], [1, 2], [4, 1, 7])
    assert held.of(np.ones(6, np.bool_)).documents.tolist() == [0, 3, 5]


def test_statistics_of_one_query_hold_its_terms_only(tmp_path: Path) -> None:
    native = Native(tmp_path / "t", ["fox dog", "fox cat"])
    assert native.statistics(["fox", "absent"]) == CorpusStatistics(documents=2, terms=4, frequencies={"fox": 2})
    held = memory(native.index(), ["fox dog", "fox cat"])
    assert held.statistics("i", "foxes absent") == CorpusStatistics(documents=2, terms=4, frequencies={"fox": 2})


def test_an_index_over_texts_without_terms_has_empty_statistics(tmp_path: Path) -> None:
    assert Native(tmp_path / "t", [None, None]).statistics() == CorpusStatistics()
    empty = memory(Native(tmp_path / "u", ["x"]).index(), [None, "", "the"])
    assert empty.statistics("i") == CorpusStatistics()
    assert empty.matching("i", "fox").offsets.tolist() == []


EXACT = {"base_tokenizer": "whitespace", "lower_case": False, "stem": False, "remove_stop_words": False}


@pytest.mark.clause("WRITER-027")
def test_the_stored_list_of_terms_is_read_whatever_bytes_the_terms_have(tmp_path: Path) -> None:
    letters = string.ascii_letters + string.digits + string.punctuation
    texts = [
        *letters,
        *(a + b for a in letters for b in letters[::7]),
        *(letter * 39 for letter in letters),
        *("é日本Ω" * n for n in range(1, 4)),
        *(f"prefix{letter}suffix" for letter in letters),
    ]
    expected = Counter(text for text in texts)
    native = Native(tmp_path / "t", texts, ascii_folding=False, **EXACT)
    assert dict(native.statistics().frequencies) == dict(expected)


@pytest.fixture(scope="module")
def stored_terms(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    native = Native(tmp_path_factory.mktemp("terms") / "t", ["alpha beta gamma", "alphabet betamax", "delta"])
    (file,) = (Path(native.dataset.uri) / "_indices").rglob("part_0_tokens.lance")
    table = memwal.codec.data_file.decode(file.read_bytes(), "x")
    data: bytes = table.column("_token_fst_bytes")[0].as_py()
    return data


def test_a_list_of_terms_numbers_them_from_0(stored_terms: bytes) -> None:
    found = token_fst.decode(stored_terms, "x", 6)
    assert sorted(found) == [b"alpha", b"alphabet", b"beta", b"betamax", b"delta", b"gamma"]
    assert sorted(found.values()) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(memwal.ArtifactError, match="says that it has 6 terms, of at most 5"):
        token_fst.decode(stored_terms, "x", 5)


def test_a_list_of_the_empty_term_only_has_no_node() -> None:
    bare = struct.pack("<4Q", 2, 0, 1, 0)  # version and type; one string, from the root that only ends it
    assert token_fst.decode(bare, "x", 1) == {b"": 0}


@given(data=st.data())
@settings(max_examples=200)
def test_a_damaged_list_of_terms_is_an_error_in_the_file_or_another_list(
    stored_terms: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(stored_terms)
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(damaged)))
    for changed in (bytes(damaged), bytes(damaged[:end])):
        with suppress(memwal.ArtifactError):
            assert len(token_fst.decode(changed, "x", 100)) <= 100


def test_terms_may_be_listed_as_a_table_too(tmp_path: Path) -> None:
    native = Native(tmp_path / "t", ["alpha beta gamma", "alpha", "beta alpha"])
    before = native.statistics()
    (file,) = (tmp_path / "t" / "_indices").rglob("part_0_tokens.lance")
    fst = memwal.codec.data_file.decode(file.read_bytes(), "x").column("_token_fst_bytes")[0].as_py()
    numbers = token_fst.decode(fst, "x", 3)
    listed = pa.table({"_token": [term.decode() for term in numbers], "_token_id": list(numbers.values())})
    file.write_bytes(memwal.codec.data_file.encode(listed))
    assert native.statistics() == before
    assert dict(before.frequencies) == {"alpha": 3, "beta": 2, "gamma": 1}


def test_statistics_are_summed_over_all_parts_of_an_index(tmp_path: Path) -> None:
    native = Native(tmp_path / "t", ["fox dog", "fox"])
    lance.write_dataset(pa.table({"id": [2, 3], "text": ["fox cat", None]}), native.dataset.uri, mode="append")
    lance.dataset(native.dataset.uri).optimize.optimize_indices(num_indices_to_merge=0)
    native.state = drive(latest(Io(interpretation=STRICT)), native.store)
    assert len(native.state.manifest.indices) == 2
    assert native.statistics() == CorpusStatistics(documents=3, terms=5, frequencies={"fox": 3, "dog": 1, "cat": 1})
    assert native.statistics(["cat"]) == CorpusStatistics(documents=3, terms=5, frequencies={"cat": 1})


def test_a_missing_or_damaged_part_of_an_index_is_named(tmp_path: Path) -> None:
    native = Native(tmp_path / "t", ["fox"])
    for name in ("metadata.lance", "part_0_docs.lance", "part_0_invert.lance", "part_0_tokens.lance"):
        (file,) = (tmp_path / "t" / "_indices").rglob(name)
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2])
        with pytest.raises(memwal.ArtifactError, match=name):
            native.statistics()
        file.unlink()
        with pytest.raises(memwal.ArtifactError, match=f"{name}: the index has no such file"):
            native.statistics()
        file.write_bytes(data)
    assert native.statistics().documents == 1


@pytest.mark.clause("WRITER-027", "AMB-110")
@given(
    st.lists(st.lists(st.text("ab ", max_size=6), max_size=4), max_size=4),
    st.text("ab ", min_size=1, max_size=5),
    st.sampled_from([{}, {"every_term": True}, {"phrase": True}]),
    st.randoms(use_true_random=False),
)
def test_sources_that_are_joined_give_the_documents_and_scores_of_each_of_them(
    sources: list[list[str]], query: str, how: dict[str, bool], draw: Random
) -> None:
    tokenizer = Tokenizer(settings=(("base_tokenizer", '"whitespace"'), ("stem", "false")))
    asked = TextIndex(tokenizer).asked(query, **{"every_term": False, "phrase": False, **how})
    corpora = []
    for texts in sources:
        index = TextIndex(tokenizer)
        index.insert(pa.chunked_array([texts], pa.string()))
        corpora.append(index.corpus(np.array([draw.random() < 0.7 for _ in texts], np.bool_), asked.terms))
    every = Corpus.joined(corpora)
    statistics = sum((corpus.statistics() for corpus in corpora), CorpusStatistics())
    assert (every.statistics().documents, every.statistics().terms) == (statistics.documents, statistics.terms)
    assert every.statistics().frequencies == statistics.frequencies
    first, documents, scores = 0, list[int](), list[float]()
    for corpus in corpora:
        found, values = corpus.scores(asked, statistics)
        documents += (found + first).tolist()
        scores += values.tolist()
        first += len(corpus.lengths)
    found, values = every.scores(asked, statistics)
    assert (found.tolist(), values.tolist()) == (documents, scores)


@pytest.mark.clause("PLAN-023")
@pytest.mark.parametrize("lengths", [1, 40])
def test_the_best_documents_of_a_frequent_term_are_those_with_the_highest_scores(lengths: int) -> None:
    draw, count = np.random.default_rng(lengths), 20_000
    held = Postings(documents=np.arange(0, 2 * count, 2), counts=draw.integers(1, 9, count))
    corpus = Corpus(
        lengths=draw.integers(9, 9 + lengths, 2 * count).astype(np.uint32),
        live=np.ones(2 * count, np.bool_),
        postings={"w": held},
    )
    asked = AskedTerms(placed=(("w", 0), ("w", 1)))
    for documents in (2 * count, 3 * count):  # of all sources, which changes how long they are on average
        statistics = CorpusStatistics(documents=documents, terms=20 * 2 * count, frequencies={"w": count})
        found, scores = corpus.scores(asked, statistics)
        best = corpus.best(asked, statistics)
        assert best is not None
        chosen, values, floor = best
        better = scores > np.float32(floor)
        assert (chosen.tolist(), values.tolist()) == (found[better].tolist(), scores[better].tolist())
        assert len(chosen) == 0 if lengths == 1 else 0 < len(chosen) <= 1024  # many are equally good
    assert corpus.best(replace(asked, phrase=True), statistics) is None
    assert corpus.with_lists({}).best(asked, statistics) is None


@pytest.mark.clause("PLAN-023")
def test_a_search_that_wants_more_than_the_best_of_a_frequent_term_gets_them_all(tmp_path: Path) -> None:
    count = 6_000
    texts = ["fox " * (1 + number % 7) + "dog " * (number % 90) for number in range(count)]
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    rows = pa.table([pa.array(range(count)), texts], schema=pa.schema([key, pa.field("text", pa.string())]))
    lance.write_dataset(rows, str(tmp_path / "t")).create_scalar_index("text", "INVERTED", name="i")
    table = memwal.enable(str(tmp_path / "t"), revision="R", maintained_indexes=["i"])
    every = table.search_text("fox", "text", count)
    assert every.num_rows == count
    for k in (10, 1_000, 1_500):
        assert table.search_text("fox", "text", k) == every.slice(0, k)
    assert (
        table.search_text("fox", "text", 10, filter="id > 5900").column("id").to_pylist()
        == [each for each in every.column("id").to_pylist() if each > 5900][:10]
    )
