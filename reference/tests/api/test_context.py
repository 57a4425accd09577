"""How the texts are read is said once, by whoever opens a table, and reaches every step below."""

import ast
import inspect
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.effects import Io
from memwal.region.region import Region
from memwal.revisions import STRICT, Interpretation

ENGINE = Path(memwal.__file__).parent
EDGE = {"revisions.py", "api/place.py"}
"""Where readings are defined, and where a caller's profile becomes one."""
OWN = replace(STRICT, list_wal_tail=False)
"""Readings that only who opened the table by them has; they change no answer here."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ENGINE.rglob("*.py")):
        name = path.relative_to(ENGINE).as_posix()
        if name not in EDGE and "/pb/" not in name:
            yield name, ast.parse(path.read_text("utf-8"))


def defaulted(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.arg]:
    """Parameters of ``function`` that have a default."""
    positional = [*function.args.posonlyargs, *function.args.args]
    yield from positional[len(positional) - len(function.args.defaults) :]
    yield from (arg for arg, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if value)


def test_no_step_of_the_engine_has_a_reading_of_its_own_to_fall_back_on() -> None:
    found = []
    for name, module in modules():
        for node in ast.walk(module):
            line = f"{name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                typed = [arg for arg in defaulted(node) if arg.annotation is not None]
                found += [
                    f"{line} {arg.arg}" for arg in typed if "Interpretation" in ast.unparse(arg.annotation or arg)
                ]
            elif isinstance(node, ast.AnnAssign) and "Interpretation" in ast.unparse(node.annotation):
                found += [f"{line} {ast.unparse(node)}"] if node.value is not None else []
            elif isinstance(node, ast.ImportFrom) and (node.module or "").endswith("revisions"):
                found += [
                    f"{line} {each.name}" for each in node.names if each.name in ("STRICT", "LITERAL", "PROFILES")
                ]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Interpretation":
                found.append(f"{line} {ast.unparse(node)}")
    allowed = [f for f in found if f.startswith("effects.py") and f.endswith("field(kw_only=True)")]
    assert [f for f in found if f not in allowed] == []
    assert len(allowed) == 1, "the folder, which every step has, and which is not made without a reading"


def test_a_folder_is_not_made_without_a_reading_and_hands_its_own_on() -> None:
    assert inspect.signature(Io).parameters["interpretation"].default is inspect.Parameter.empty
    io = Io("t", interpretation=OWN)
    assert io.child("below").interpretation is io.child("below").child("..").interpretation is OWN
    assert io.external.interpretation is OWN
    assert "interpretation" not in {field for field in Region.__dataclass_fields__ if field != "io"}


def test_a_profile_has_one_default_which_is_strict() -> None:
    named = {}
    for name in memwal.__all__:
        value = getattr(memwal, name)
        if inspect.isfunction(value) and "profile" in (found := inspect.signature(value).parameters):
            named[name] = found["profile"].default
    assert named == dict.fromkeys(["base_table", "clone", "create", "enable", "migrate", "open", "repair"], "strict")
    for kind in (memwal.Table, memwal.BaseTable, memwal.Writer):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            assert "profile" not in inspect.signature(method).parameters, f"{kind.__name__}.{name}"


SCHEMA = pa.schema([
    pa.field("id", pa.int64(), nullable=False),
    pa.field("v", pa.string()),
    pa.field("text", pa.string()),
    pa.field("at", pa.list_(pa.float32(), 2)),
])  # fmt: skip
SPEC = memwal.bucket("b", "id", 1)


def rows(*ids: int) -> pa.Table:
    columns = [list(ids), ["v"] * len(ids), ["some words"] * len(ids), [[float(i), 0.0] for i in ids]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())}, schema=pa.schema([SCHEMA.field("id")]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a spec, indexes, a merged generation, one that is not, and an entry in the WAL."""
    place = tmp_path_factory.mktemp("made") / "t"
    table = memwal.create(place, rows(1, 2, 3), primary_key=["id"], revision="R", spec=SPEC)
    data = lance.dataset(str(place))
    data.create_scalar_index("v", "BTREE", name="by_v")
    data.create_scalar_index("text", "INVERTED", name="by_text")
    table.refresh().maintain(["by_v"])
    with table.writer(values={"b": 0}, background=False) as writer:
        writer.put(rows(4))
        writer.flush()
        table.merge()
        writer.put(rows(5))
        writer.flush()
        writer.put(rows(6))
    return place


class Scene:
    """A copy of that table, and how it is opened."""

    def __init__(self, made: Path, place: Path) -> None:
        self.place = Path(shutil.copytree(made, place))
        (self.region,) = (found.region_id for found in memwal.open(place).regions())

    def table(self) -> memwal.Table:
        return memwal.open(self.place, profile=OWN)

    def base(self) -> memwal.BaseTable:
        return memwal.base_table(self.place, profile=OWN)

    def writing(self, use: Callable[[memwal.Writer], Any], **options: Any) -> None:
        with self.table().writer(self.region, **{"background": False, **options}) as writer:
            writer.put(rows(7))
            use(writer)


def _drained(scene: Scene) -> memwal.BaseTable:
    scene.table().drain(scene.region)
    return scene.base()


TABLE: dict[str, Callable[[Scene], Any]] = {
    "backlog": lambda s: s.table().backlog(),
    "history": lambda s: s.table().history(),
    "refresh": lambda s: s.table().refresh(),
    "regions": lambda s: s.table().regions(),
    "done": lambda s: s.table().done(s.region),
    "register_region": lambda s: s.table().register_region({"b": 0}),
    "register_regions": lambda s: s.table().register_regions([{"b": 0}]),
    "add_spec": lambda s: s.table().add_spec(memwal.bucket("c", "id", 2), drain=True),
    "remove_spec": lambda s: _refused(lambda: s.table().remove_spec(1)),
    "drain": lambda s: s.table().drain(s.region),
    "region_values": lambda s: s.table().region_values(rows(1)),
    "writer": lambda s: s.writing(lambda w: None, background=True),
    "scan": lambda s: s.table().scan(filter="v = 'v'"),
    "batches": lambda s: list(s.table().batches()),
    "plan_read": lambda s: s.table().plan_read(),
    "plan_read_again": lambda s: s.table().plan_read_again(s.table().plan_read()[0].cut.named()),
    "log_ends": lambda s: s.table().log_ends(),
    "log_starts": lambda s: s.table().log_starts(),
    "log_entries": lambda s: list(
        s.table().log_entries(s.region, s.table().log_starts()[s.region], s.table().log_ends()[s.region])
    ),
    "batches_of": lambda s: [list(s.table().batches_of(split)) for split in s.table().plan_read()],
    "get": lambda s: s.table().get(keys(4, 5, 6)),
    "search": lambda s: s.table().search([0.0, 0.0], "at", 2),
    "search_text": lambda s: s.table().search_text("words", "text", 2),
    "explain": lambda s: s.table().explain(analyse=True),
    "merge": lambda s: s.table().merge(),
    "catch_up": lambda s: s.table().catch_up(),
    "maintain": lambda s: s.table().maintain([]),
    "snapshot": lambda s: s.table().snapshot(),
    "gc": lambda s: s.table().gc(retain_versions=1, sizes=True),
    "verify": lambda s: s.table().verify(),
    "repair": lambda s: s.table().repair(),
    "upsert": lambda s: s.table().upsert(rows(9)),
    "delete": lambda s: s.table().delete(keys(8)),
    "close": lambda s: s.table().close(),
    "to_lance": lambda s: s.table().refresh().to_lance(),
}
BASE: dict[str, Callable[[Scene], Any]] = {
    "refresh": lambda s: s.base().refresh(),
    "scan": lambda s: s.base().scan(),
    "append": lambda s: s.base().append(rows(9)),
    "delete": lambda s: s.base().delete("id = 1"),
    "update": lambda s: s.base().update("id = 1", lambda found: found),
    "overwrite": lambda s: _refused(lambda: s.base().overwrite(rows(1))),
    "upgrade": lambda s: s.base().upgrade(),
    "restore": lambda s: s.base().restore(2),
    "compact": lambda s: s.base().compact(),
    "add_columns": lambda s: s.base().add_columns(pa.schema([pa.field("more", pa.int64())])),
    "drop_columns": lambda s: _drained(s).drop_columns(["at"]),
    "recompute": lambda s: s.base().recompute(["at"], lambda found: found.select(["at"])),
    "replace_data": lambda s: _refused(lambda: s.base().replace_data({99: rows(1).select(["at"])})),
    "update_metadata": lambda s: s.base().update_metadata(config={"k": "v"}),
    "drop_index": lambda s: s.base().drop_index("by_text"),
    "add_bases": lambda s: s.base().add_bases({"other": str(s.place)}),
    "tag": lambda s: s.base().tag("one"),
    "untag": lambda s: _refused(lambda: s.base().untag("one")),
}
WRITER: dict[str, Callable[[Scene], Any]] = {
    "put": lambda s: s.writing(lambda w: w.put(rows(8))),
    "delete": lambda s: s.writing(lambda w: w.delete(keys(8))),
    "flush_wal": lambda s: s.writing(lambda w: w.flush_wal()),
    "refresh_indexes": lambda s: s.writing(lambda w: w.refresh_indexes()),
    "flush": lambda s: s.writing(lambda w: w.flush()),
    "memory": lambda s: s.writing(lambda w: s.table().scan(writers=[w])),
    "finish": lambda s: s.writing(lambda w: w.finish("job", 1, 0)),
    "done": lambda s: s.writing(lambda w: w.done()),
    "close": lambda s: s.writing(lambda w: w.close(flush=True)),
}
PLACES: dict[str, Callable[[Scene], Any]] = {
    "open": lambda s: memwal.open(s.place, profile=OWN),
    "base_table": lambda s: memwal.base_table(s.place, profile=OWN),
    "clone": lambda s: memwal.clone(s.place, s.place.with_name("copy"), shallow=True, profile=OWN),
    "create": lambda s: memwal.create(s.place.with_name("new"), rows(1), primary_key=["id"], profile=OWN),
    "enable": lambda s: _refused(lambda: memwal.enable(s.place, profile=OWN)),
    "migrate": lambda s: _refused(lambda: memwal.migrate(s.place, profile=OWN)),
    "repair": lambda s: memwal.repair(s.place, profile=OWN),
}
CALLS = {
    f"{kind}.{name}": call
    for kind, calls in {"Table": TABLE, "BaseTable": BASE, "Writer": WRITER, "memwal": PLACES}.items()
    for name, call in calls.items()
}


def _refused(call: Callable[[], Any]) -> None:
    """A call that the scene refuses, after it has looked."""
    with pytest.raises(memwal.MemwalError):
        call()


def test_no_public_call_is_left_out() -> None:
    for kind, calls in ((memwal.Table, TABLE), (memwal.BaseTable, BASE), (memwal.Writer, WRITER)):
        methods = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
        assert methods == calls.keys()


@pytest.mark.parametrize("name", CALLS)
def test_every_step_of_a_public_call_reads_the_texts_as_who_opened_the_table(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(made, tmp_path / "t")
    seen: dict[Interpretation, set[str]] = {}
    path = Io.path

    def watched(io: Io, asked: str) -> str:
        seen.setdefault(io.interpretation, set()).add(asked)
        return path(io, asked)

    monkeypatch.setattr(Io, "path", watched)
    CALLS[name](scene)
    assert seen.keys() == {OWN}, {asked for reading in seen.keys() - {OWN} for asked in seen[reading]}
