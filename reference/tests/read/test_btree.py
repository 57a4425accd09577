"""Btrees that pylance writes, read by pages: they name the rows that a look at every row finds, and no others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec import data_file
from memwal.drive import drive
from memwal.effects import Io
from memwal.errors import ArtifactError
from memwal.maintained.scalar import Between, comparable
from memwal.read import btree
from memwal.revisions import STRICT
from memwal.stores.memory import MemoryStore
from memwal.table import stored_file
from memwal.table.coverage import fragment_ids, segments
from memwal.table.state import TableState, latest

from ..kit.ground import Ground
from ..table.legacy.older import make
from ..table.legacy.test_older_tables import unpacked

PAGE = 4096
IO = Io(interpretation=STRICT)
NAN, INF = math.nan, math.inf


def indexed(place: Path, values: pa.Array) -> Ground:
    lance.write_dataset(pa.table({"v": values}), place).create_scalar_index("v", "BTREE", name="i")
    return Ground.of(place)


def opened(ground: Ground) -> btree.Btree:
    (folder,) = {name.rpartition("/")[0] for name in ground.objects if name.endswith(btree.DATA)}
    found = ground.run(btree.open_btree(IO, folder))
    assert found is not None
    return found


def asked(ground: Ground, tree: btree.Btree, wanted: btree.Wanted) -> list[int]:
    return sorted(ground.run(tree.addresses(wanted)).tolist())


def codes(values: Sequence[object], kind: pa.DataType) -> list[Any]:
    return comparable(pa.array(values, kind, from_pandas=False))


def values_of(count: int, made: Callable[[int], object], kind: pa.DataType) -> pa.Array:
    """Each value three times, in no order, and every 100th NULL."""
    return pa.array([None if i % 100 == 7 else made(i * 7919 % count // 3) for i in range(count)], kind)


TYPES: dict[str, tuple[pa.DataType, Callable[[int], object]]] = {
    "integers": (pa.int64(), lambda i: i - 2000),
    "unsigned": (pa.uint64(), lambda i: 2**64 - 1 - i),
    "floats": (pa.float64(), lambda i: (i - 2000) / 8),
    "text": (pa.string(), lambda i: f"{chr(97 + i % 25)}é{i}"),
    "days": (pa.date32(), lambda i: i - 100),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.clause("PLAN-033")
def test_the_rows_of_values_at_the_bounds_of_pages_and_beside_them_are_named(
    tmp_path: Path, name: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not whole:
        monkeypatch.setattr(stored_file, "WHOLE_BYTES", 0)
    kind, made = TYPES[name]
    values = values_of(3 * PAGE + 5, made, kind)
    ground = indexed(tmp_path / "t", values)
    tree, held = opened(ground), comparable(values)
    order = sorted(value for value in held if value is not None)
    nulls = [row for row, value in enumerate(held) if value is None]
    edges = [order[page * PAGE - len(nulls) + by] for page in (1, 2, 3) for by in (-1, 0, 1)]
    for wanted in [*({edge} for edge in edges), set(edges), {None}, {None, edges[3]}, {order[0], order[-1]}, set()]:
        assert asked(ground, tree, wanted) == [row for row, value in enumerate(held) if value in wanted], wanted
    for lower, upper in [(edges[0], edges[4]), (edges[2], edges[2]), (None, edges[0]), (edges[7], None), (None, None)]:
        for ends in range(4):
            between = Between(lower=lower, upper=upper, with_lower=bool(ends & 1), with_upper=bool(ends & 2))
            rows = [row for row, value in enumerate(held) if value is not None and between.holds(value)]
            assert asked(ground, tree, between) == rows, between


@pytest.mark.clause("PLAN-033")
def test_a_value_that_fills_more_than_a_page_is_found_in_each_of_them(tmp_path: Path) -> None:
    values = pa.array([1] * 10 + [5] * (2 * PAGE) + [9] * 10)
    ground = indexed(tmp_path / "t", values)
    tree = opened(ground)
    assert tree.first + len(tree.lower) == 3
    assert asked(ground, tree, [5]) == list(range(10, 10 + 2 * PAGE))
    assert asked(ground, tree, [9, 1]) == [*range(10), *range(10 + 2 * PAGE, 20 + 2 * PAGE)]
    assert asked(ground, tree, [4, 6]) == []


@pytest.mark.clause("PLAN-033")
def test_pages_of_nulls_alone_are_asked_for_null_only(tmp_path: Path) -> None:
    ground = indexed(tmp_path / "t", pa.array([None] * (PAGE + 9) + [3] * 5, pa.int32()))
    tree = opened(ground)
    assert (tree.nulls, tree.first) == (2, 1)
    assert asked(ground, tree, [None]) == list(range(PAGE + 9))
    assert asked(ground, tree, [3]) == asked(ground, tree, Between()) == list(range(PAGE + 9, PAGE + 14))
    ground = indexed(tmp_path / "nothing", pa.nulls(3, pa.int32()))
    assert asked(ground, opened(ground), [None]) == [0, 1, 2]
    assert asked(ground, opened(ground), [0]) == asked(ground, opened(ground), Between(lower=0)) == []


@pytest.mark.clause("PLAN-033", "AMB-48")
def test_zeros_are_one_value_and_nans_are_one_value_whatever_their_sign(tmp_path: Path) -> None:
    negative = np.copysign(NAN, -1)
    special = np.array([0.0, -0.0, NAN, negative, INF, -INF, 1.5], np.float64)
    ground = indexed(tmp_path / "t", pa.array(np.concatenate([special, np.linspace(2, 3, 2 * PAGE)])))
    tree = opened(ground)
    found = {value: asked(ground, tree, codes([value], pa.float64())) for value in (0.0, -0.0, INF, -INF, 1.5)}
    assert found == {0.0: [0, 1], INF: [4], -INF: [5], 1.5: [6]}
    for nan in (NAN, negative):
        assert asked(ground, tree, codes([nan], pa.float64())) == [2, 3]
    (infinite,) = codes([INF], pa.float64())
    assert asked(ground, tree, Between(lower=infinite)) == [2, 3, 4]
    assert asked(ground, tree, Between(upper=codes([0.0], pa.float64())[0], with_upper=False)) == [3, 5]


@pytest.mark.clause("PLAN-033")
def test_of_a_large_index_only_the_parts_with_wanted_pages_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 0)
    generator = np.random.default_rng(0)
    ground = indexed(tmp_path / "t", pa.array(generator.permutation(1_500_000)))
    size = next(len(data) for name, data in ground.objects.items() if name.endswith(btree.DATA))
    tree = opened(ground)
    ground.asked.clear()
    (row,) = asked(ground, tree, [1_400_000])
    assert np.random.default_rng(0).permutation(1_500_000)[row] == 1_400_000
    fetched = sum(request.length or 0 for request in ground.asked if hasattr(request, "length"))
    assert fetched < 0.6 * size


def newest(place: str | Path) -> tuple[MemoryStore, TableState]:
    store = Ground.of(Path(place)).store
    return store, drive(latest(IO), store)


def rows_with(store: Any, state: TableState, index: str, wanted: btree.Wanted) -> tuple[list[int], set[int]]:
    found = drive(btree.find(IO, state, segments(state, index), wanted), store)
    assert found is not None
    return found.addresses.tolist(), set(found.covered)


@pytest.mark.clause("PLAN-033", "AMB-78")
def test_parts_of_an_index_answer_each_for_their_fragments_and_rows_without_a_part_are_not_covered(
    tmp_path: Path,
) -> None:
    place = tmp_path / "t"
    dataset = lance.write_dataset(pa.table({"v": [1, 2, 3]}), place)
    dataset.create_scalar_index("v", "BTREE", name="i")
    lance.write_dataset(pa.table({"v": [3, 4]}), place, mode="append")
    lance.dataset(place).optimize.optimize_indices(num_indices_to_merge=0)
    lance.write_dataset(pa.table({"v": [3]}), place, mode="append")
    store, state = newest(place)
    assert len(segments(state, "i")) == 2
    assert rows_with(store, state, "i", [3]) == ([2, 1 << 32], {0, 1})
    assert fragment_ids(state) == {0, 1, 2}


@pytest.mark.parametrize("version", make.DEFERRED)
@pytest.mark.clause("TXN-054")
def test_rows_that_were_moved_after_the_index_was_built_are_named_where_they_are(tmp_path: Path, version: str) -> None:
    place = unpacked(tmp_path, version, "deferred")
    store, state = newest(place)
    held = lance.dataset(place).to_table(columns=["id"], with_row_address=True)
    at = dict(zip(held.column("id").to_pylist(), held.column("_rowaddr").to_pylist(), strict=True))
    addresses, covered = rows_with(store, state, "by_id", list(at))
    assert covered
    assert set(addresses) >= {address for address in at.values() if address >> 32 in covered} > set()
    for key in sorted(at)[::9]:
        named, covered = rows_with(store, state, "by_id", [key])
        assert named == [at[key]] or at[key] >> 32 not in covered


@pytest.mark.parametrize("version", list(make.VERSIONS)[1:])
@pytest.mark.clause("PLAN-033")
def test_btrees_of_older_versions_are_asked_where_their_files_can_be_read(tmp_path: Path, version: str) -> None:
    place = unpacked(tmp_path, version, "indexed")
    store, state = newest(place)
    found = drive(btree.find(IO, state, segments(state, "by_id"), [5]), store)
    if version in ("0.10.18", "0.20.0"):
        assert found is None
    else:
        held = lance.dataset(place).to_table(columns=["id"], filter="id = 5", with_row_address=True)
        assert found is not None
        assert found.addresses.tolist() == held.column("_rowaddr").to_pylist()


@pytest.mark.clause("PLAN-033")
def test_pages_that_are_not_in_order_or_too_few_are_told_and_not_believed(tmp_path: Path) -> None:
    place = tmp_path / "t"
    lance.write_dataset(pa.table({"v": range(3 * PAGE)}), place).create_scalar_index("v", "BTREE", name="i")
    good = Ground.of(place)
    (lookup,) = (name for name in good.objects if name.endswith(btree.LOOKUP))
    folder = lookup.rpartition("/")[0]
    pages = data_file.decode(good.objects[lookup], lookup)
    turned = pages.set_column(0, pages.schema.field(0), pages.column(0).take(pa.array([2, 1, 0])))
    for damaged in (turned, pages.slice(0, 2)):
        ground = Ground(dict(good.objects) | {lookup: data_file.encode(damaged)})
        with pytest.raises(ArtifactError, match="pages"):
            ground.run(_first_row(folder))
    assert good.run(_first_row(folder)).tolist() == [0]


async def _first_row(folder: str) -> btree.Addresses:
    opened = await btree.open_btree(IO, folder)
    assert opened is not None
    return await opened.addresses([0])
