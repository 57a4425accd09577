"""Keys that have come: compared with a set of Python's, whatever they are kept in."""

from __future__ import annotations

import random

import memwal.seen
import pyarrow as pa
import pytest
from memwal.seen import Seen

LOWS = (0, 0, 1000, -500, 2**62, -(2**63), 2**63 - 1000)
SPANS = (10, 300, 900)


def drawn(draw: random.Random, kind: pa.DataType) -> pa.Table:
    low = draw.choice(LOWS) if kind == pa.int64() else 0
    numbers = [low + draw.randrange(draw.choice(SPANS)) for _ in range(draw.randrange(20))]
    values = numbers if pa.types.is_integer(kind) else [str(number) for number in numbers]
    chunks = [values[:7], values[7:]]
    return pa.table({"k": pa.chunked_array([pa.array(chunk, kind) for chunk in chunks], kind)})


@pytest.mark.parametrize("table_bytes", [memwal.seen.TABLE_BYTES, 1000, 5])
@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_what_has_come_one_by_one_or_by_joining_is_what_a_set_has(
    kind: pa.DataType, table_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memwal.seen, "TABLE_BYTES", table_bytes)
    draw = random.Random(1)
    for _ in range(100):
        pool: list[tuple[Seen, set[object]]] = [(Seen(), set()) for _ in range(3)]
        for _ in range(draw.randrange(1, 9)):
            (seen, truth), (other, others) = draw.sample(pool, 2)
            rows = drawn(draw, kind)
            keys = rows.column("k").to_pylist()
            step = draw.choice(["add", "join", "newest"])
            if step == "add":
                seen.add(rows)
                truth |= set(keys)
            elif step == "join":
                seen.join(other)
                truth |= others
            else:
                last = [key not in truth and key not in keys[at + 1 :] for at, key in enumerate(keys)]
                assert seen.newest(rows).tolist() == last
                truth |= set(keys)
        for seen, truth in pool:
            rows = pa.concat_tables([drawn(draw, kind), pa.table({"k": pa.array(sorted(truth), kind)})])
            assert seen.mask(rows).tolist() == [key in truth for key in rows.column("k").to_pylist()]
