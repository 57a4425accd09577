"""A mirror is a private folder in which pylance opens one table version, with no more files than are asked for."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pytest
from memwal import paths
from memwal.codec import vector_model
from memwal.codec.pb.lance import index_pb2, table_pb2
from memwal.effects import Get, Io, Request, run
from memwal.errors import ArtifactError, StorageError
from memwal.ids import FragmentId
from memwal.revisions import STRICT
from memwal.table import vector_models
from memwal.table.coverage import fragment_ids, segments
from memwal.table.mirror import Mirror, fill, index_folder
from memwal.table.state import TableState, latest

from ..kit.catch_up_scenes import enabled, native, rows
from ..kit.ground import Ground
from ..kit.tables import flush

IO = Io("t", interpretation=STRICT)


def scratch() -> set[str]:
    """Folders that mirrors left in the scratch place."""
    return {path.name for path in Path(tempfile.gettempdir()).glob("memwal-mirror-*")}


@pytest.fixture(autouse=True)
def own_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))


def loaded(store: Ground, io: Io = IO) -> TableState:
    return store.run(latest(io))


def test_pylance_opens_a_mirror_with_the_rows_and_indexes_of_the_version(tmp_path: Path) -> None:
    native(tmp_path / "t", ["btree", "IVF_PQ"])
    source = lance.dataset(str(tmp_path / "t"))
    source.insert(rows(300, 320))
    source.delete("id < 5 OR id = 310")
    store = Ground.of(tmp_path)
    state = loaded(store)
    with Mirror() as mirror:
        store.run(fill(IO, state, mirror, fragments=fragment_ids(state), indices=segments(state, "btree")))
        opened = lance.dataset(mirror.location)
        assert opened.version == state.version
        assert opened.to_table(with_row_address=True).equals(source.to_table(with_row_address=True))
        assert [i.name for i in opened.describe_indices()] == ["btree"]
        assert opened.to_table(filter="id = 300").num_rows == 1
        assert "ScalarIndexQuery" in opened.scanner(filter="id = 300").explain_plan()
        assert Path(mirror.location).is_relative_to(tmp_path / "scratch")
    assert scratch() == set()
    assert store.objects == Ground.of(tmp_path).objects


@pytest.mark.clause("GEN-011")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_generation_is_mirrored_with_the_files_of_its_base_paths(tmp_path: Path, revision: str) -> None:
    table = memwal.create(tmp_path / "t", rows(0, 0).schema, primary_key=["id"], revision=revision)
    region = flush(table, rows(0, 10))
    (listed,) = table.regions()[0].manifest.flushed
    store = Ground.of(tmp_path)
    io = IO.child(f"_mem_wal/{region}/{listed.path}")
    state = loaded(store, io)
    assert bool(state.manifest.message.base_paths) == (revision == "A")
    with Mirror() as mirror:
        store.run(fill(io, state, mirror, fragments=fragment_ids(state), indices=()))
        for path in (tmp_path / "t").rglob("*"):
            if path.is_file():
                path.unlink()
        assert (
            lance.dataset(mirror.location).to_table().select(["id", "text"]).equals(rows(0, 10).select(["id", "text"]))
        )


def test_only_the_files_that_are_asked_for_are_read_one_after_the_other(tmp_path: Path) -> None:
    native(tmp_path / "t", ["btree", "bitmap"])
    source = lance.dataset(str(tmp_path / "t"))
    source.insert(rows(300, 310))
    source.insert(rows(310, 320))
    source.delete("id = 0 OR id = 315")
    store = Ground.of(tmp_path)
    state = loaded(store)
    (index,) = segments(state, "btree")
    read: list[str] = []

    def perform(request: Request[Any]) -> Any:
        if isinstance(request, Get):
            if read:
                assert mirror.path(read[-1].removeprefix("t/")).is_file()
            read.append(request.path)
        return store.perform(request)

    with Mirror() as mirror:
        run(fill(IO, state, mirror, fragments=[FragmentId(2)], indices=[index]), perform)
        files = {name for folder in ("data", "_deletions", "_indices") for name in mirror.files(folder)}
    wanted = next(f for f in state.fragments if f.id == 2)
    folder = index_folder(index.uuid.uuid)
    assert {name.removeprefix("t/") for name in read} == files
    assert f"data/{wanted.files[0].path}" in files
    assert {name.partition("/")[0] for name in files} == {"data", "_deletions", "_indices"}
    assert len([n for n in files if n.startswith(("data", "_deletions"))]) == 2
    assert {n for n in files if n.startswith("_indices")} == {
        f"{folder}/page_data.lance",
        f"{folder}/page_lookup.lance",
    }


@pytest.mark.parametrize("missing", ["data", "_deletions"])
def test_a_named_file_that_is_gone_is_an_error_and_the_folder_is_removed(tmp_path: Path, missing: str) -> None:
    native(tmp_path / "t", [])
    lance.dataset(str(tmp_path / "t")).delete("id = 0")
    store = Ground.of(tmp_path)
    state = loaded(store)
    for name in [n for n in store.objects if n.startswith(f"t/{missing}/")]:
        del store.objects[name]

    async def job() -> None:
        with Mirror() as mirror:
            await fill(IO, state, mirror, fragments=fragment_ids(state), indices=())

    with pytest.raises(ArtifactError, match=missing):
        store.run(job())
    assert scratch() == set()


def test_the_folder_is_removed_when_the_job_is_dropped_in_the_middle(tmp_path: Path) -> None:
    native(tmp_path / "t", [])
    store = Ground.of(tmp_path)
    state = loaded(store)

    async def job() -> None:
        with Mirror() as mirror:
            await fill(IO, state, mirror, fragments=fragment_ids(state), indices=())

    dropped = job()
    dropped.send(None)
    assert len(scratch()) == 1
    dropped.close()
    assert scratch() == set()


@pytest.mark.parametrize("name", ["../../outside", "/etc/outside", "data/../../../outside"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with Mirror() as mirror:
        with pytest.raises(ArtifactError, match="leads out"):
            mirror.write(name, b"x")
        with pytest.raises(ArtifactError, match="leads out"):
            mirror.path(name)
    assert not (tmp_path / "outside").exists()


def test_a_manifest_whose_data_file_leads_out_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    native(tmp_path / "t", [])
    store = Ground.of(tmp_path)
    state = loaded(store)
    state.manifest.message.fragments[0].files[0].path = "../../../../outside"
    store.objects["t/secret"] = b""

    async def job() -> None:
        with Mirror() as mirror:
            await fill(Io("a/b/c/d/t", interpretation=STRICT), state, mirror, fragments=fragment_ids(state), indices=())

    store.objects["a/b/outside"] = b"from elsewhere"
    with pytest.raises(ArtifactError, match="leads out"):
        store.run(job())
    assert list(tmp_path.rglob("outside")) == []


def test_a_scratch_place_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    with Mirror() as mirror:
        mirror.write("data", b"a file where a folder is wanted")
        with pytest.raises(StorageError, match="scratch"):
            mirror.write(paths.data_file("x.lance"), b"x")


def test_an_index_in_a_base_path_is_refused(tmp_path: Path) -> None:
    native(tmp_path / "t", ["btree"])
    store = Ground.of(tmp_path)
    state = loaded(store)
    (entry,) = segments(state, "btree")
    entry.base_id = 1
    with Mirror() as mirror, pytest.raises(memwal.InvalidArgument, match="base path"):
        store.run(fill(IO, state, mirror, fragments=(), indices=[entry]))


def test_an_index_with_a_damaged_uuid_is_an_error(tmp_path: Path) -> None:
    native(tmp_path / "t", ["btree"])
    store = Ground.of(tmp_path)
    state = loaded(store)
    damaged = table_pb2.IndexMetadata(name="btree")
    damaged.uuid.uuid = b"short"
    with Mirror() as mirror, pytest.raises(ArtifactError, match="UUID of 5 bytes"):
        store.run(fill(IO, state, mirror, fragments=(), indices=[damaged]))


@pytest.mark.clause("AMB-51")
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ"])
def test_parts_that_pylance_adds_have_the_model_of_the_index_and_a_new_index_has_not(tmp_path: Path, kind: str) -> None:
    table = enabled(tmp_path / "t", [kind])
    (before,) = segments(table._state, kind)
    table.base.append(rows(300, 320))
    lance.dataset(str(tmp_path / "t")).optimize.optimize_indices(index_names=[kind], num_indices_to_merge=0)
    store = Ground.of(tmp_path)
    models = [store.run(vector_models.load(IO, entry)) for entry in segments(loaded(store), kind)]
    assert len(models) == 2
    assert models[0] == models[1] == store.run(vector_models.load(IO, before))
    centroids = lance.dataset(str(tmp_path / "t")).stats.index_stats(kind)["indices"][0]["centroids"]
    assert np.array(centroids, np.float32).tobytes() in models[0].centroids
    lance.dataset(str(tmp_path / "t")).optimize.optimize_indices(index_names=[kind], retrain=True)
    again = Ground.of(tmp_path)
    assert again.run(vector_models.load(IO, segments(loaded(again), kind)[0])) != models[0]


def test_models_differ_by_codebook_and_by_bounds_but_not_by_the_last_digit_of_a_float() -> None:
    ivf = index_pb2.IVF(centroids_tensor=index_pb2.Tensor(shape=[1, 2], data=b"12345678")).SerializeToString()

    def model(end: float, codebook: bytes) -> vector_model.VectorModel:
        storage = {"bounds": {"end": end, "start": -1.0}, "num_bits": 8, "codebook_position": 2}
        return vector_model.decode("IVF_SQ", "l2", ivf, storage, {"codebook_position": codebook}, "i")

    assert model(3.9022462368011475, b"a") == model(3.902246236801147, b"a")
    assert model(3.9022462368011475, b"a") != model(3.9022462368011475, b"b")
    assert model(3.9, b"a") != model(3.8, b"a")


@pytest.mark.parametrize("file", ["index.idx", "auxiliary.idx"])
@pytest.mark.parametrize("left", [0, 30, 200])
def test_a_cut_vector_index_has_no_model(tmp_path: Path, file: str, left: int) -> None:
    native(tmp_path / "t", ["IVF_PQ"])
    store = Ground.of(tmp_path)
    (entry,) = segments(loaded(store), "IVF_PQ")
    name = f"t/{index_folder(entry.uuid.uuid)}/{file}"
    whole = store.objects[name]
    for damaged in (whole[:left], whole[:left] + whole[-40:]):
        store.objects[name] = damaged
        with pytest.raises(ArtifactError, match=file):
            store.run(vector_models.load(IO, entry))
    del store.objects[name]
    if file == "index.idx":
        assert store.run(vector_models.load(IO, entry)) is None
    else:
        with pytest.raises(ArtifactError, match="not there"):
            store.run(vector_models.load(IO, entry))
