"""The generated protobuf code: in step with ``protos/``, and loses nothing that it does not know."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from ..kit.wire import blob, num

ROOT = Path(__file__).resolve().parents[3]
MODULES = (
    "lance.file_pb2",
    "lance.file2_pb2",
    "lance.index_pb2",
    "lance.rowids_pb2",
    "lance.table_pb2",
    "lance.transaction_pb2",
    "memwal_0.mem_wal_pb2",
    "memwal_ab.mem_wal_pb2",
    "memwal_r.mem_wal_pb2",
)


def load(name: str) -> ModuleType:
    return importlib.import_module(f"memwal.codec.pb.{name}")


def generator() -> ModuleType:
    described = importlib.util.spec_from_file_location("protos_generate", ROOT / "protos" / "generate.py")
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module


def below(descriptor: Descriptor) -> Iterator[Descriptor]:
    if not descriptor.GetOptions().map_entry:
        yield descriptor
        for nested in descriptor.nested_types:
            yield from below(nested)


TOP = [top for name in MODULES for top in load(name).DESCRIPTOR.message_types_by_name.values()]
DESCRIPTORS = [descriptor for top in TOP for descriptor in below(top)]


def test_the_generated_code_is_what_the_proto_files_give() -> None:
    assert generator().drift() == ()


def test_every_generated_module_is_among_those_that_are_tested() -> None:
    found = {p.relative_to(generator().TARGET).as_posix() for p in generator().TARGET.rglob("*_pb2.py")}
    assert found == {name.replace(".", "/") + ".py" for name in MODULES}


def test_a_changed_a_missing_and_a_left_over_file_are_drift(tmp_path: Path) -> None:
    made = generator()
    shutil.copytree(made.TARGET, tmp_path / "pb", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pb" / "lance" / "file_pb2.pyi").unlink()
    (tmp_path / "pb" / "lance" / "old_pb2.py").write_text("")
    with (tmp_path / "pb" / "memwal_r" / "mem_wal_pb2.py").open("a") as file:
        file.write("\n")
    assert made.drift(tmp_path / "pb") == ("lance/file_pb2.pyi", "lance/old_pb2.py", "memwal_r/mem_wal_pb2.py")


def test_the_check_fails_after_a_change_of_a_proto_file_and_writing_mends_it(tmp_path: Path) -> None:
    made = generator()
    shutil.copytree(made.PROTOS, tmp_path / "protos", ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path / "reference" / "memwal" / "codec" / "pb"
    shutil.copytree(made.TARGET, target, ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / "protos" / "lance" / "rowids.proto"
    source.write_text(source.read_text().replace("uint64 version = 2;", "uint64 version = 3;"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(tmp_path / "protos" / "generate.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    before = target.joinpath("lance", "rowids_pb2.py").read_bytes()
    checked = run("--check")
    assert checked.returncode == 1
    assert "memwal/codec/pb/lance/rowids_pb2.py" in checked.stderr
    assert target.joinpath("lance", "rowids_pb2.py").read_bytes() == before
    assert run().returncode == 0
    assert run("--check").returncode == 0
    assert target.joinpath("lance", "rowids_pb2.py").read_bytes() != before


def test_the_generator_states_the_least_runtime_of_its_code() -> None:
    made = generator()
    code = (made.TARGET / "lance" / "table_pb2.py").read_text()
    assert made.minimum_runtime(code) == "7.35.1"
    assert "protobuf 7.35.1 and later" in (made.__doc__ or "")


@pytest.mark.parametrize("name", MODULES)
def test_no_generated_name_is_one_that_another_package_may_register(name: str) -> None:
    described = load(name).DESCRIPTOR
    assert described.package.startswith("memwal_pb.")
    assert described.name.startswith("memwal/codec/pb/")


@pytest.mark.clause("AMB-03")
@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda d: d.full_name)
def test_a_message_keeps_fields_that_it_does_not_know(descriptor: Descriptor) -> None:
    kind = message_factory.GetMessageClass(descriptor)
    later = num(1999, 7) + blob(2000, b"later")
    message = kind()
    message.ParseFromString(later)
    assert message.SerializeToString(deterministic=True) == later


@pytest.mark.clause("AMB-03")
def test_a_table_manifest_keeps_unknown_fields_of_each_level_beside_changed_ones() -> None:
    table_pb2 = load("lance.table_pb2")
    file = blob(1, b"a.lance") + num(501, 1)
    deletions = num(1, 1) + num(502, 2)
    fragment = num(1, 3) + blob(2, file) + blob(3, deletions) + num(4, 9) + num(503, 3)
    data = blob(2, fragment) + num(3, 7) + num(504, 4)
    manifest = table_pb2.Manifest()
    manifest.ParseFromString(data)
    manifest.version = 8
    assert manifest.SerializeToString(deterministic=True) == blob(2, fragment) + num(3, 8) + num(504, 4)


@pytest.mark.clause("AMB-03")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("RegionManifest", "ShardManifest"),
        ("FlushedGeneration", "SsTable"),
        ("MergedGeneration", "CompactedSsTable"),
        ("IndexCatchupProgress", "IndexCatchupProgress"),
        ("MemWalIndexDetails", "MemWalIndexDetails"),
        ("RegionSpec", "ShardingSpec"),
        ("RegionField", "ShardingField"),
    ],
)
def test_revision_r_has_each_field_of_a_and_b_with_the_same_number_and_type(ours: str, theirs: str) -> None:
    def shape(name: str, message: str) -> dict[int, tuple[int, bool, bool]]:
        kind: type[Message] = getattr(load(name), message)
        return {f.number: (f.type, f.is_repeated, f.has_presence) for f in kind.DESCRIPTOR.fields}

    of_a_and_b, of_r = shape("memwal_ab.mem_wal_pb2", ours), shape("memwal_r.mem_wal_pb2", theirs)
    assert of_a_and_b == {number: of_r[number] for number in of_a_and_b}
    assert of_a_and_b
