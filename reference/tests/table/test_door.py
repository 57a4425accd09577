"""What comes in is what every later step can carry: values, names, metadata, keys, wherever they enter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lance
import memwal
import memwal.table.columns
import memwal.table.whole
import memwal.table.write
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal.effects import Io
from memwal.errors import ArtifactError, InvalidArgument
from memwal.revision_0 import writer as writing_0
from memwal.revisions import STRICT
from memwal.table import door, state, write

from ..kit.folder import Folder
from ..kit.tables import flush

# Values


def stored(kind: pa.DataType, *buffers: Any, length: int = 1) -> pa.Array:
    """Values as their bytes say, whether the type has them or not."""
    return pa.Array.from_buffers(kind, length, [None, *map(pa.py_buffer, buffers)])


def listed(item: pa.Field, items: pa.Array) -> pa.Array:
    """One list of all ``items``."""
    offsets = np.array([0, len(items)], np.int32)
    return pa.Array.from_buffers(pa.list_(item), 1, [None, pa.py_buffer(offsets)], children=[items])


def outside() -> pa.Array:
    """Two texts with an offset behind the end of their bytes, as a foreign producer may hand them over."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array(["a", "bcd"])], names=["v"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    offsets, wrong = (np.array(each, np.int32).tobytes() for each in ([0, 1, 4], [0, 400, 4]))
    data = sink.getvalue().to_pybytes()
    assert data.count(offsets) == 1
    return pa.ipc.open_stream(data.replace(offsets, wrong)).read_all().column(0).chunk(0)


NO_TEXT = stored(pa.string(), np.array([0, 2], np.int32), b"\xff\xfe")
NOT_NULL = pa.field("x", pa.int64(), nullable=False)
ITEM = pa.field("item", pa.int64(), nullable=False)
HOLEY = pa.array([1, None], pa.int64())
BAD = {
    "no UTF-8": NO_TEXT,
    "no UTF-8, large": stored(pa.large_string(), np.array([0, 2], np.int64), b"\xff\xfe"),
    "half of a surrogate pair": stored(pa.string(), np.array([0, 3], np.int32), b"\xed\xa0\x80"),
    "date64 within a day": stored(pa.date64(), np.array([5], np.int64)),
    "time32 of a day and more": stored(pa.time32("s"), np.array([86_400], np.int32)),
    "time32 before midnight": stored(pa.time32("ms"), np.array([-1], np.int32)),
    "time64 of a day and more": stored(pa.time64("us"), np.array([86_400_000_000], np.int64)),
    "time64 before midnight": stored(pa.time64("ns"), np.array([-1], np.int64)),
    "decimal128 of too many digits": stored(pa.decimal128(3, 0), np.array([1000, 0], np.int64)),
    "decimal256 of too many digits": stored(pa.decimal256(3, 0), np.array([1000, 0, 0, 0], np.int64)),
    "offsets outside of the bytes": outside(),
    "NULL in a strict part of a struct": pa.StructArray.from_arrays([HOLEY.slice(1)], fields=[NOT_NULL]),
    "NULL in a list of strict items": listed(ITEM, HOLEY),
    "NULL two levels down": listed(
        pa.field("item", pa.struct([NOT_NULL])), pa.StructArray.from_arrays([HOLEY], fields=[NOT_NULL])
    ),
    "no UTF-8 in a list": listed(pa.field("item", pa.string()), NO_TEXT),
    "date64 within a day in a struct": pa.StructArray.from_arrays(
        [stored(pa.date64(), np.array([5], np.int64))], names=["x"]
    ),
}
KEYS = [name for name, values in BAD.items() if not pa.types.is_nested(values.type)]


def schema_of(kind: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", kind)])


def rows_of(values: pa.Array, first: int = 1) -> pa.Table:
    ids = pa.array(range(first, first + len(values)), pa.int64())
    return pa.table([ids, values], schema=schema_of(values.type))


class Place:
    """A table of one row, whose column ``v`` is NULL or 0, and a bad row for it."""

    def __init__(self, folder: Path, bad: pa.Array, revision: str = "B") -> None:
        self.url = folder / "t"
        self.bad = rows_of(bad, first=2)
        zero = pa.array([{"x": 0}], bad.type) if pa.types.is_struct(bad.type) else pa.nulls(1, bad.type)
        self.good = rows_of(zero)
        self.table = memwal.create(self.url, self.good, primary_key=["id"], revision=revision)

    def base(self) -> memwal.BaseTable:
        return memwal.base_table(self.url)

    def computed(self, name: str = "v") -> Callable[[pa.Table], pa.Table]:
        return lambda rows: pa.table(
            [self.bad.column("v")], schema=pa.schema([self.bad.schema.field("v").with_name(name)])
        )


def put(place: Place) -> None:
    with place.table.writer() as writer:
        writer.put(place.bad)


def put_a_batch(place: Place) -> None:
    with place.table.writer() as writer:
        writer.put(place.bad.to_batches()[0], durable=False)


def update(place: Place) -> None:
    place.base().update(pc.field("id") == 1, lambda _: place.bad)


def overwrite_of_a_plain_table(place: Place) -> None:
    plain = place.url.with_name("plain")
    lance.write_dataset(place.good, str(plain))
    try:
        memwal.base_table(plain).overwrite(place.bad)
    finally:
        assert lance.dataset(str(plain)).version == 1


def create(place: Place) -> None:
    other = place.url.with_name("other")
    try:
        memwal.create(other, place.bad, primary_key=["id"])
    finally:
        assert not other.exists()


def create_below(place: Place) -> None:
    write_io, folder = Io("below", interpretation=STRICT), Folder(place.url.parent)
    folder.run(write.create(write_io, place.bad.schema, place.bad))


ENTRANCES: dict[str, Callable[[Place], object]] = {
    "create": create,
    "write.create": create_below,
    "put": put,
    "put of a batch that is not durable": put_a_batch,
    "append": lambda place: place.table.base.append(place.bad),
    "append to the base": lambda place: place.base().append(place.bad),
    "update": update,
    "overwrite": lambda place: place.base().overwrite(place.bad),
    "overwrite of a plain table": overwrite_of_a_plain_table,
    "add_columns": lambda place: place.base().add_columns(
        pa.schema([place.bad.schema.field("v").with_name("w")]), place.computed("w")
    ),
    "recompute": lambda place: place.base().recompute(["v"], place.computed()),
    "replace_data": lambda place: place.base().replace_data({0: place.bad.select(["v"])}),
}


@pytest.mark.clause("WRITER-015", "AMB-136")
@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_value_that_its_type_does_not_have_comes_in_nowhere(entrance: str, value: str, tmp_path: Path) -> None:
    place = Place(tmp_path, BAD[value])
    with pytest.raises(InvalidArgument, match=r"'[vw]'"):
        ENTRANCES[entrance](place)
    assert place.table.scan().to_pylist() == place.good.to_pylist()
    assert place.base().schema.names == ["id", "v"]
    with place.table.writer() as writer:
        writer.put(place.good)
    assert place.table.verify().clean


@pytest.mark.clause("WRITER-015", "AMB-136")
@pytest.mark.parametrize("value", KEYS)
def test_a_key_that_its_type_does_not_have_comes_in_nowhere(value: str, tmp_path: Path) -> None:
    bad = BAD[value]
    schema = pa.schema([pa.field("k", bad.type, nullable=False), pa.field("v", pa.int64())])
    keys = pa.table([bad], schema=pa.schema([schema.field("k")]))
    with pytest.raises(InvalidArgument, match="'k'"):
        memwal.create(tmp_path / "t", keys.append_column("v", pa.array(range(len(keys)))), primary_key=["k"])
    table = memwal.create(tmp_path / "t", schema, primary_key=["k"], revision="R")
    with table.writer() as writer:
        with pytest.raises(InvalidArgument, match="'k'"):
            writer.put(keys.append_column(schema.field("v"), pa.array(range(len(keys)))))
        with pytest.raises(InvalidArgument, match="'k'"):
            writer.delete(keys)
    with pytest.raises(InvalidArgument, match="'k'"):
        table.get(keys)
    assert table.scan().num_rows == 0


@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_value_is_refused_before_anything_is_stored_in_every_revision(revision: str, tmp_path: Path) -> None:
    place = Place(tmp_path, NO_TEXT, revision)
    with place.table.writer() as writer:
        before = writer.position_next
        with pytest.raises(InvalidArgument, match="UTF8"):
            writer.put(place.bad)
        assert (writer.rows, writer.position_next) == (0, before)
        writer.put(rows_of(pa.array(["ä"]), first=2))
    assert place.table.scan().sort_by("id")["v"].to_pylist() == [None, "ä"]


def test_a_writer_of_revision_0_checks_values_too(tmp_path: Path) -> None:
    io, folder = Io("t", interpretation=STRICT), Folder(tmp_path)
    schema = door_key(schema_of(pa.string()))
    folder.run(write.create(io, schema))
    opened = folder.run(writing_0.open_writer(io, "r"))
    with pytest.raises(InvalidArgument, match="UTF8"):
        folder.run(opened.put(rows_of(NO_TEXT)))


def door_key(schema: pa.Schema) -> pa.Schema:
    from memwal.table.schema import with_primary_key

    return with_primary_key(schema, ["id"])


def test_what_lies_behind_null_or_outside_of_a_slice_is_nobodys_value(tmp_path: Path) -> None:
    sliced = rows_of(pa.concat_arrays([NO_TEXT, pa.array(["fine"])])).slice(1)
    table = memwal.create(tmp_path / "s", schema_of(pa.string()), primary_key=["id"])
    flush(table, sliced)
    table.merge()
    assert table.scan()["v"].to_pylist() == ["fine"]
    hidden = pa.StructArray.from_arrays([HOLEY], fields=[NOT_NULL], mask=pa.array([False, True]))
    assert door.admitted(rows_of(hidden), schema_of(hidden.type))["v"].to_pylist() == [{"x": 1}, None]


# Names


def unreachable(*_: object, **__: object) -> None:
    """In the place of the door, where a test shows what it is for."""


@pytest.fixture
def no_door(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (door, memwal.table.write, memwal.table.columns, memwal.table.whole):
        monkeypatch.setattr(module, "check_schema", unreachable)


NAMES = [*door.RESERVED, "", "a.b", ".", "a`b", "a\0b"]
INSIDE = ["", "a.b", "a`b", "a\0b"]


def named(name: str) -> pa.Schema:
    return pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field(name, pa.int64())])


def nested(name: str) -> pa.Schema:
    return pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.struct([(name, pa.int64())]))])


def enable(folder: Path, schema: pa.Schema) -> None:
    """On a table that was made by somebody without a door."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "check_schema", unreachable)
        Folder(folder).run(write.create(Io("made", interpretation=STRICT), door_key(schema)))
    memwal.enable(folder / "made")


def add(folder: Path, schema: pa.Schema) -> None:
    table = memwal.create(folder / "t", pa.schema([schema.field(0)]), primary_key=["id"])
    memwal.base_table(folder / "t").add_columns(pa.schema([schema.field(1)]))
    assert table.version == 2


def overwrite(folder: Path, schema: pa.Schema) -> None:
    lance.write_dataset(pa.table({"id": [1]}), str(folder / "t"))
    memwal.base_table(folder / "t").overwrite(schema.empty_table())


GATES: dict[str, Callable[[Path, pa.Schema], object]] = {
    "create": lambda folder, schema: memwal.create(folder / "t", schema, primary_key=["id"]),
    "create with rows": lambda folder, schema: memwal.create(
        folder / "t", schema.empty_table(), primary_key=["id"], revision="A"
    ),
    "write.create": lambda folder, schema: Folder(folder).run(write.create(Io("t", interpretation=STRICT), schema)),
    "enable": enable,
    "add_columns": add,
    "overwrite": overwrite,
}


@pytest.mark.clause("AMB-136")
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("schema", [*map(named, NAMES), *map(nested, INSIDE)], ids=lambda s: ascii(str(s.field(1))))
def test_a_name_that_some_step_cannot_carry_comes_in_nowhere(gate: str, schema: pa.Schema, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="name"):
        GATES[gate](tmp_path, schema)


def test_other_names_are_carried_by_every_step(tmp_path: Path) -> None:
    names = ["a b", 'a"b', "a'b", "a\\b", "a/b", "a[0]", "a:b", "a,b", "ID", "select", "é", "\u202e", "a\nb", "x" * 300,
             "rows", "count", "%", "1", "null", "item", "_gen"]  # fmt: skip
    schema = pa.schema([NOT_NULL.with_name("id"), *(pa.field(name, pa.int64()) for name in names)])
    made = pa.table([pa.array([1, 2])] * len(schema), schema=schema)
    table = memwal.create(tmp_path / "t", schema, primary_key=["id"])
    flush(table, made)
    table.merge()
    for name in names:
        quoted = '"' + name.replace('"', '""') + '"'
        assert table.scan(columns=[name], filter=f"{quoted} = 2")[name].to_pylist() == [2]
        assert table.scan(columns=[name], filter=pc.field(name) == 2)[name].to_pylist() == [2]
        read = lance.dataset(str(tmp_path / "t"))
        assert read.to_table(columns=[name], filter=pc.field(name) == 2)[name].to_pylist() == [2]
    assert table.verify().clean


# Why each name is refused: what happens without a door


def made(folder: Path, name: str, kind: pa.DataType | None = None) -> memwal.Table:
    """A table with a row in its base and one in a generation, whose column ``name`` is a number."""
    schema = pa.schema([NOT_NULL.with_name("id"), pa.field(name, kind or pa.int64()), pa.field("t", pa.string()),
                        pa.field("e", pa.list_(pa.float32(), 2))])  # fmt: skip

    def rows(number: int) -> pa.Table:
        columns = [[number], [number], ["word"], [[1.0, 2.0]]]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    table = memwal.create(folder / "t", rows(1), primary_key=["id"])
    flush(table, rows(2))
    return table


def native(table: memwal.Table, folder: Path) -> None:
    table.merge()
    lance.dataset(str(folder / "t")).to_table()


def starred(table: memwal.Table, folder: Path) -> None:
    found = lance.dataset(str(folder / "t")).to_table(columns=["*"])
    assert found.schema.names == ["*"]


STEPS: dict[str, tuple[Callable[[memwal.Table, Path], object], type[BaseException]]] = {
    "_tombstone": (lambda table, folder: table.scan(), ArtifactError),
    "_distance": (lambda table, folder: table.search([1.0, 2.0], "e", 1), KeyError),
    "_rowid": (native, RuntimeError),
    "_rowaddr": (native, RuntimeError),
    "_rowoffset": (native, ValueError),
    "_row_created_at_version": (native, RuntimeError),
    "_row_last_updated_at_version": (native, RuntimeError),
    "__memwal_position": (lambda table, folder: table.scan(filter="id % 10 = 7"), Exception),
    "*": (starred, AssertionError),
    "": (lambda table, folder: table.scan(), ArtifactError),
    "a`b": (lambda table, folder: table.scan(), ArtifactError),
}


@pytest.mark.usefixtures("no_door")
@pytest.mark.parametrize("name", STEPS)
def test_without_the_door_a_step_fails(name: str, tmp_path: Path) -> None:
    step, failure = STEPS[name]
    with pytest.raises(failure):
        step(made(tmp_path, name), tmp_path)


@pytest.mark.usefixtures("no_door")
def test_without_the_door_a_text_search_cannot_answer(tmp_path: Path) -> None:
    table = made(tmp_path, "_score")
    index = partial(lance.dataset(str(tmp_path / "t")).create_scalar_index, "t", "INVERTED")
    with pytest.raises(KeyError, match="_score"):
        _ = index(), table.search_text("word", "t", 1)


@pytest.mark.usefixtures("no_door")
def test_without_the_door_a_name_with_a_dot_fails_in_the_native_writer(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cannot contain"):
        made(tmp_path, "a.b")


@pytest.mark.usefixtures("no_door")
def test_without_the_door_a_name_with_nul_ends_the_process_that_reads_the_table(tmp_path: Path) -> None:
    made(tmp_path, "a\0b")
    script = f"import lance; lance.dataset({str(tmp_path / 't')!r}).to_table()"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert ended.returncode < 0


# Metadata, types and keys


METADATA: dict[str, tuple[dict[bytes, bytes], pa.DataType]] = {
    "a key that is not UTF-8": ({b"\xff": b"x"}, pa.int64()),
    "a value that is not UTF-8": ({b"k": b"\xff"}, pa.int64()),
    "the key of field ids": ({b"lance:field_id": b"7"}, pa.int64()),
    "an encoding that is none": ({b"lance-encoding:compression": b"nonsense"}, pa.string()),
    "a structure that is none": ({b"lance-encoding:structural-encoding": b"nonsense"}, pa.int64()),
    "an extension type": (
        {
            b"ARROW:extension:name": b"arrow.opaque",
            b"ARROW:extension:metadata": b'{"type_name": "x", "vendor_name": "y"}',
        },
        pa.string(),
    ),
    "values without bytes": ({}, pa.binary(0)),
    "a list of values without bytes": ({}, pa.list_(pa.binary(0))),
    "a fixed-size list of strict items": ({}, pa.list_(ITEM, 2)),
    "the time zone that stands for none": ({}, pa.timestamp("us", "-")),
}


UNMADE = ("a key that is not UTF-8", "a fixed-size list of strict items", "the time zone that stands for none")
"""What no table that is there already can have: manifests have no place for it."""


@pytest.mark.clause("AMB-136")
@pytest.mark.parametrize(
    ("gate", "case"), [(g, c) for g in GATES for c in METADATA if g != "enable" or c not in UNMADE]
)
def test_metadata_and_types_that_some_step_cannot_carry_come_in_nowhere(gate: str, case: str, tmp_path: Path) -> None:
    metadata, kind = METADATA[case]
    with pytest.raises(InvalidArgument, match="AMB-136"):
        GATES[gate](tmp_path, pa.schema([NOT_NULL.with_name("id"), pa.field("v", kind, metadata=metadata)]))


def test_metadata_of_the_schema_and_below_a_column_are_looked_at_too(tmp_path: Path) -> None:
    below = pa.struct([pa.field("x", pa.int64(), metadata={b"k": b"\xff"})])
    for schema in (named("v").with_metadata({b"k": b"\xff"}), schema_of(below)):
        with pytest.raises(InvalidArgument, match="not UTF-8"):
            memwal.create(tmp_path / "t", schema, primary_key=["id"])


@pytest.mark.parametrize("mark", [b"", b":position"])
def test_a_column_beside_the_key_is_not_marked_as_one(mark: bytes, tmp_path: Path) -> None:
    marks = {b"lance-schema:unenforced-primary-key" + mark: b"1"}
    schema = pa.schema([NOT_NULL.with_name("id"), pa.field("v", pa.int64(), metadata=marks)])
    assert memwal.create(tmp_path / "made", schema, primary_key=["id"]).primary_key == ("id",)
    with pytest.raises(InvalidArgument, match="marked as a part of the primary key"):
        add(tmp_path, schema)


@pytest.mark.clause("AMB-59", "AMB-136")
@pytest.mark.parametrize("revision", ["A", "B"])
def test_a_key_that_no_filter_can_be_made_of_is_refused_at_once(revision: str, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.duration("s"), nullable=False)])
    with pytest.raises(InvalidArgument, match="duration"):
        memwal.create(tmp_path / "t", schema, primary_key=["id"], revision=revision)
    lance.write_dataset(door_key(schema).empty_table(), str(tmp_path / "l"))
    with pytest.raises(InvalidArgument, match="duration"):
        memwal.enable(tmp_path / "l", revision=revision)


FAR = [
    pa.array([2**31 - 1, 0], pa.int32()).view(pa.date32()),
    pa.array([2**62, 0], pa.int64()).view(pa.timestamp("s")),
    pa.array([2**63 - 1, 0], pa.int64()).view(pa.timestamp("us")),
    pa.array([1, 0], pa.int64()).view(pa.timestamp("us", "No/Where")),
]


@pytest.mark.parametrize("keys", FAR, ids=lambda keys: str(keys.type))
def test_days_and_times_that_python_does_not_have_are_keys_like_others(keys: pa.Array, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", keys.type, nullable=False), pa.field("v", pa.int64())])
    table = memwal.create(tmp_path / "t", schema, primary_key=["k"])
    with table.writer() as writer:
        writer.put(pa.table([keys, pa.array([1, 2])], schema=schema))
        writer.flush()
        writer.put(pa.table([keys, pa.array([3, 4])], schema=schema))
        for _ in range(2):
            found = table.get(pa.table([keys.slice(0, 1)], schema=pa.schema([schema.field("k")])))
            assert found["v"].to_pylist() == [3]
            assert table.verify().clean
            writer.flush()
            table.merge()


# What is no rows and no schema at all


WRONG: list[Any] = [None, 7, "rows", [1], object()]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_rows_or_schema_is_refused_by_its_type(wrong: Any, tmp_path: Path) -> None:
    place = Place(tmp_path, pa.array([1]), revision="R")
    base = place.base()
    kind = type(wrong).__name__
    with place.table.writer() as writer:
        calls: list[Callable[[], object]] = [
            lambda: memwal.create(tmp_path / "o", wrong, primary_key=["id"]),
            lambda: writer.put(wrong),
            lambda: writer.delete(wrong),
            lambda: place.table.base.append(wrong),
            lambda: place.table.get(wrong),
            lambda: base.append(wrong),
            lambda: base.overwrite(wrong),
            lambda: base.add_columns(wrong),
            lambda: base.add_columns(pa.schema([("w", pa.int64())]), lambda rows: wrong),
            lambda: base.recompute(["v"], lambda rows: wrong),
            lambda: base.update(pc.field("id") == 1, lambda rows: wrong),
            lambda: base.replace_data({0: wrong}),
        ]
        for call in calls:
            with pytest.raises(InvalidArgument, match=f"not (as|of) {kind}"):
                call()
    assert place.table.scan().num_rows == 1


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    data = pa.schema([("id", pa.int64()), ("vwxyz", pa.int64())]).serialize().to_pybytes()
    schema = pa.ipc.read_schema(pa.py_buffer(data.replace(b"vwxyz", b"v\xffxyz")))
    with pytest.raises(InvalidArgument, match="UTF-8"):
        memwal.create(tmp_path / "t", schema, primary_key=["id"])
    table = memwal.create(tmp_path / "t", named("v"), primary_key=["id"])
    rows = pa.Table.from_batches([], schema)
    with table.writer() as writer, pytest.raises(InvalidArgument, match="UTF-8"):
        writer.put(rows)


def test_the_state_of_a_table_is_not_touched_by_what_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, NO_TEXT)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    for entrance in ("append", "overwrite", "recompute", "replace_data", "update"):
        with pytest.raises(InvalidArgument):
            ENTRANCES[entrance](place)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert Folder(tmp_path).run(state.latest(Io("t", interpretation=STRICT))).version == place.table.version
