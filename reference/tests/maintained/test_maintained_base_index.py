"""What MemTables and generations inherit from an index of the base table, and which indexes are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.drive import drive
from memwal.effects import Io, Request, StoreRequest, run
from memwal.maintained import base_index
from memwal.maintained.base_index import inherited, load, matches, refreshed, retrained
from memwal.revisions import STRICT
from memwal.table.state import TableState, latest

from ..kit.maintained_scene import CENTROIDS, CODEBOOK, NAMES, Base, create_vectors, rows
from ..kit.tables import flush


def asked(base: Base, work: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Result of a coroutine on the base table, and the objects that it asked for."""
    seen: list[str] = []

    def perform(request: Request[Any]) -> Any:
        if isinstance(request, StoreRequest):
            seen.append(request.path)
            return base.store.perform(request)
        return None

    return run(work(), perform), seen


@pytest.mark.clause("WRITER-025", "WRITER-026", "AMB-48")
def test_kind_column_and_parameters_of_each_index_are_those_that_it_was_built_with(base: Base) -> None:
    found = {index.name: index for index in base.load(*NAMES)}
    assert [(name, index.kind, index.column) for name, index in found.items()] == [
        ("btree", "btree", "price"),
        ("bitmap", "bitmap", "tag"),
        ("inverted", "inverted", "text"),
        ("flat", "IVF_FLAT", "vf"),
        ("pq", "IVF_PQ", "vp"),
        ("sq", "IVF_SQ", "vs"),
    ]
    uuids = {i.name: i.segments[0].uuid for i in base.native().describe_indices()}
    assert {name: index.uuid for name, index in found.items()} == uuids
    for name in ("flat", "pq", "sq"):
        code = found[name].code
        assert code is not None
        assert code.metric == "l2"
        assert np.array_equal(code.centroids, CENTROIDS)
    code = found["pq"].code
    assert code is not None
    assert np.array_equal(code.codebook, CODEBOOK)
    code = found["sq"].code
    assert code is not None
    stated = base.native().stats.index_stats("sq")["indices"][0]["sub_index"]["bounds"]
    assert code.bounds == (np.float32(stated["start"]), np.float32(stated["end"]))
    tokenizer = found["inverted"].tokenizer
    assert tokenizer is not None
    assert dict(tokenizer.settings)["base_tokenizer"] == '"simple"'
    assert tokenizer.terms("The quick FOX, running") == ["quick", "fox", "run"]


@pytest.mark.clause("WRITER-002", "WRITER-023", "AMB-48")
def test_only_the_indexes_that_the_mem_wal_index_names_are_read(base: Base) -> None:
    base.enable(maintained=["pq", "inverted"])
    found, seen = asked(base, lambda: load(Io(interpretation=STRICT), base.state()))
    assert [index.name for index in found] == ["pq", "inverted"]
    folders = {path.split("/")[1] for path in seen}
    assert folders == {index.uuid for index in found}


def test_vectors_of_the_base_are_not_read(base: Base) -> None:
    _, seen = asked(base, lambda: load(Io(interpretation=STRICT), base.state(), ["flat"]))
    stored = sum(path.stat().st_size for path in (base.place / "_indices").rglob("auxiliary.idx"))
    assert stored > 10_000
    assert len(seen) < 12
    requests: list[int] = []

    def perform(request: Request[Any]) -> Any:
        reply = base.store.perform(request)
        requests.append(len(reply) if isinstance(reply, bytes) else 0)
        return reply

    run(load(Io(interpretation=STRICT), base.state(), ["flat"]), perform)
    assert sum(requests) < 2_000


def test_an_index_that_did_not_change_is_not_read_again(base: Base) -> None:
    known = base.load("pq", "inverted")
    found, seen = asked(base, lambda: load(Io(interpretation=STRICT), base.state(), ["inverted", "pq"], known=known))
    assert found == (known[1], known[0])
    assert seen == []


@pytest.mark.clause("AMB-48", "WRITER-002")
def test_a_name_that_does_not_resolve_is_refused_when_a_writer_starts_and_nothing_is_claimed(base: Base) -> None:
    table = base.enable(maintained=["btree"])
    base.native().drop_index("btree")
    region = table.register_region()
    with pytest.raises(memwal.InvalidArgument, match=r"no index 'btree'; .*AMB-48"):
        table.writer(region)
    assert not (base.place / "_mem_wal" / region / "manifest").exists()


def _label_list(base: Base) -> None:
    base.native().add_columns(pa.field("labels", pa.list_(pa.string())))
    base.native().create_scalar_index("labels", "LABEL_LIST", name="odd")


def _four_bits(base: Base) -> None:
    words = np.stack([np.arange(32, dtype=np.float32).reshape(16, 2)] * 2)
    create_vectors(base.native(), "vp", "IVF_PQ", "odd", num_bits=4, pq_codebook=words)


UNSUPPORTED: dict[str, tuple[Callable[[Base], None], str]] = {
    "labels": (_label_list, "kind LabelListIndexDetails; MemTables carry btree, bitmap, inverted, IVF_FLAT"),
    "zones": (lambda b: b.native().create_scalar_index("price", "ZONEMAP", name="odd"), "kind ZoneMapIndexDetails"),
    "four bits": (_four_bits, "codes of other than 8 bits"),
}


@pytest.mark.parametrize("which", UNSUPPORTED)
@pytest.mark.clause("AMB-48")
def test_an_index_of_a_kind_that_memtables_do_not_carry_is_refused_by_name(base: Base, which: str) -> None:
    create, reason = UNSUPPORTED[which]
    create(base)
    with pytest.raises(memwal.InvalidArgument, match=f"index 'odd' .*{reason}.*AMB-48"):
        base.load("odd")
    with pytest.raises(memwal.InvalidArgument, match="'odd'"):
        base.enable(maintained=["odd"])
    assert base.state().mem_wal_entry is None


def test_an_index_over_a_nested_column_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = pa.table({"id": [1], "s": [{"x": 1}]})
    lance.write_dataset(table, str(place)).create_scalar_index("s.x", "BTREE", name="nested")
    store = memwal.stores.local.LocalStore(place)
    state = drive(latest(Io(interpretation=STRICT)), store)
    with pytest.raises(memwal.InvalidArgument, match="'nested' is not over one top-level column"):
        drive(load(Io(interpretation=STRICT), state, ["nested"]), store)


def renamed(state: TableState, old: str, new: str) -> TableState:
    """``state`` with one index under another name."""
    entries = []
    for entry in state.manifest.indices:
        copy = type(entry)()
        copy.CopyFrom(entry)
        copy.name = new if entry.name == old else entry.name
        entries.append(copy)
    return TableState(replace(state.manifest, indices=tuple(entries)), state.path)


@pytest.mark.clause("AMB-51")
def test_an_index_whose_parts_were_trained_differently_is_refused(base: Base) -> None:
    create_vectors(base.native(), "vf", "IVF_FLAT", "again", CENTROIDS + 1)
    mixed = renamed(base.state(), "again", "flat")
    with pytest.raises(memwal.InvalidArgument, match=r"parts of index 'flat' were trained differently.*AMB-51"):
        drive(load(Io(interpretation=STRICT), mixed, ["flat"]), base.store)


@pytest.mark.clause("WRITER-026")
def test_an_index_whose_parts_cut_text_differently_is_refused(base: Base) -> None:
    base.native().create_scalar_index("text", "INVERTED", name="again", stem=False)
    mixed = renamed(base.state(), "again", "inverted")
    with pytest.raises(memwal.InvalidArgument, match="parts of index 'inverted' cut text differently"):
        drive(load(Io(interpretation=STRICT), mixed, ["inverted"]), base.store)


@pytest.mark.clause("AMB-51", "WRITER-029")
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ"])
def test_new_centroids_under_an_old_name_are_recognised_as_retrained(base: Base, kind: str) -> None:
    name = kind.removeprefix("IVF_").lower()
    column = {"flat": "vf", "pq": "vp", "sq": "vs"}[name]
    before = base.index(name)
    create_vectors(base.native(), column, kind, name, replace=True)
    assert not retrained(before, base.index(name))
    create_vectors(base.native(), column, kind, name, CENTROIDS + np.float32(0.5), replace=True)
    assert retrained(before, base.index(name))


@pytest.mark.clause("AMB-51", "WRITER-029")
def test_a_new_codebook_or_metric_is_recognised_as_retrained(base: Base) -> None:
    before = base.index("pq")
    create_vectors(base.native(), "vp", "IVF_PQ", "pq", replace=True, pq_codebook=CODEBOOK + np.float32(0.5))
    assert retrained(before, base.index("pq"))
    before = base.index("flat")
    create_vectors(base.native(), "vf", "IVF_FLAT", "flat", replace=True, metric="dot")
    assert retrained(before, base.index("flat"))


@pytest.mark.clause("WRITER-026")
def test_another_tokenizer_is_recognised_as_another_index(base: Base) -> None:
    before = base.index("inverted")
    base.native().create_scalar_index("text", "INVERTED", name="inverted", replace=True)
    assert not retrained(before, base.index("inverted"))
    base.native().create_scalar_index("text", "INVERTED", name="inverted", replace=True, stem=False)
    assert retrained(before, base.index("inverted"))


@pytest.mark.clause("AMB-51")
def test_a_generation_answers_for_a_base_index_only_if_it_inherited_from_it(base: Base) -> None:
    table = base.enable()
    flush(table, rows(range(20)))
    store = memwal.stores.local.LocalStore(base.generation(table))
    generation = drive(latest(Io(interpretation=STRICT)), store)
    assert inherited(generation) == {index.name: index.uuid for index in base.load(*NAMES)}
    assert all(matches(index, generation) for index in base.load(*NAMES))
    create_vectors(base.native(), "vf", "IVF_FLAT", "flat", CENTROIDS + 1, replace=True)
    base.native().create_scalar_index("text", "INVERTED", name="inverted", replace=True, stem=False)
    base.native().create_scalar_index("price", "BTREE", name="btree", replace=True)
    assert [index.name for index in base.load(*NAMES) if not matches(index, generation)] == ["inverted", "flat"]
    create_vectors(base.native(), "vf", "IVF_FLAT", "other")
    assert not matches(base.index("other"), generation)


@pytest.mark.clause("WRITER-028")
def test_a_vector_index_without_centroids_is_left_out_until_it_has_some(tmp_path: Path) -> None:
    place = tmp_path / "t"
    empty = lance.write_dataset(rows([]), str(place))
    empty.create_index("vf", "IVF_FLAT", name="flat", num_partitions=1)
    notes: list[tuple[str, dict[str, object]]] = []
    table = memwal.enable(place, maintained_indexes=["flat"], listener=lambda *note: notes.append(note))
    with table.writer(background=False) as writer:
        assert writer._writer.memtable.indexes.maintained == ()
    assert ("index_not_maintained", {"index": "flat", "reason": "it has no centroids yet"}) in notes


@pytest.mark.clause("AMB-142")
def test_a_configuration_that_cannot_be_had_leaves_the_last_one_in_force(base: Base) -> None:
    base.enable(maintained=["pq"])
    known = base.load("pq")
    assert drive(refreshed(Io(interpretation=STRICT), known), base.store) == known
    base.native().drop_index("pq")
    assert drive(refreshed(Io(interpretation=STRICT), known), base.store) == known
    assert drive(refreshed(Io("nowhere", interpretation=STRICT), known), base.store) == known


def test_where_every_index_is_maintained_those_that_memtables_do_not_carry_are_left_out(base: Base) -> None:
    base.enable("R", maintained=[])
    base.native().create_scalar_index("price", "ZONEMAP", name="zones")
    state = base.state()
    details = replace(state.mem_wal, maintain_all=True)
    entries = []
    for entry in state.manifest.indices:
        copy = type(entry)()
        copy.CopyFrom(entry)
        if entry.uuid.uuid == state.mem_wal_entry.uuid.uuid:
            copy.index_details.value = memwal.codec.index_details.encode(details, memwal.revisions.R)
        entries.append(copy)
    everything = TableState(replace(state.manifest, indices=tuple(entries)), state.path)
    found = drive(load(Io(interpretation=STRICT), everything), base.store)
    assert sorted(index.name for index in found) == sorted(NAMES)


@pytest.mark.parametrize(
    ("name", "file"), [("pq", "index.idx"), ("pq", "auxiliary.idx"), ("inverted", "metadata.lance")]
)
def test_damaged_files_of_an_index_are_named(base: Base, name: str, file: str) -> None:
    path = base.place / "_indices" / base.index(name).uuid / file
    data = path.read_bytes()
    for damaged in (data[:-20], data[:10], b"", bytes(len(data))):
        path.write_bytes(damaged)
        with pytest.raises(memwal.ArtifactError, match=file):
            base.load(name)
    path.unlink()
    if file == "index.idx":
        assert base.load(name) == ()
        return
    with pytest.raises((memwal.ArtifactError, memwal.NotFound), match=file):
        base.load(name)


@pytest.mark.parametrize("params", ["", "[]", "{}", '{"language": "English"}', "no json"])
def test_a_tokenizer_that_is_not_described_is_an_error_in_the_file(params: str) -> None:
    with pytest.raises(memwal.ArtifactError, match=r"metadata\.lance: it is not the configuration of a tokenizer"):
        base_index.tokenizers.decode({b"params": params.encode()}, "i", "x/metadata.lance")


@pytest.mark.parametrize("tokenizer", ["jieba/default", "lindera/ipadic", "made up"])
@pytest.mark.clause("WRITER-026")
def test_a_tokenizer_that_needs_a_language_model_is_refused(tokenizer: str) -> None:
    params = json.dumps({"base_tokenizer": tokenizer, "language": "English"}).encode()
    with pytest.raises(memwal.InvalidArgument, match=f"index 'i' has the tokenizer '{tokenizer}'"):
        base_index.tokenizers.decode({b"params": params}, "i", "x")
