"""The state that the specification's plans are drawn for: two regions of one table, in generations and in memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import memwal
import pyarrow as pa
from memwal.effects import Get
from memwal.ids import RegionId
from memwal.index import transforms

from .ground import SCHEMA, Ground
from .tables import keys_of


@dataclass(frozen=True)
class Scene:
    """Base (-1); region A with generation 1 flushed and 2 in memory; region B with 1 and 2 flushed and 3 in memory."""

    ground: Ground
    table: memwal.Table
    a: memwal.Writer
    b: memwal.Writer
    keys_a: list[int]
    keys_b: list[int]
    """Keys of each region. The first is in the base, in every generation and in memory; the second in the base and the
    first generation; the third in the base only; the fourth nowhere."""

    @property
    def writers(self) -> tuple[memwal.Writer, memwal.Writer]:
        return self.a, self.b

    def get(self, key: int) -> list[Any]:
        """The values of a key."""
        return self.table.get(one(key), ["v"], writers=self.writers).column("v").to_pylist()

    def lookup(self, key: int) -> str:
        """The plan of a lookup as it ran."""
        return self.named(unmeasured(self.table.explain(keys=one(key), analyse=True, writers=self.writers)))

    def named(self, plan: str) -> str:
        """A plan with the regions called A and B."""
        for writer, name in ((self.a, "A"), (self.b, "B")):
            plan = plan.replace(f"region {writer.region_id[:8]}", name)
        return plan

    def read_of(self, folder: str, key: int) -> list[str]:
        """What a lookup gets below a folder."""
        before = len(self.ground.asked)
        self.get(key)
        asked = [each.path for each in self.ground.asked[before:] if isinstance(each, Get)]
        return [path for path in asked if path.startswith(folder)]

    def generation(self, region: RegionId, number: int) -> str:
        """Folder of a generation in the store."""
        info = next(info for info in self.table.regions() if info.region_id == region)
        assert info.manifest is not None
        (listed,) = (each for each in info.manifest.flushed if each.generation == number)
        return f"t/_mem_wal/{region}/{listed.path}"


def row(*keys: int, v: str = "x") -> pa.Table:
    return pa.table([pa.array(keys, pa.int64()), pa.array([v] * len(keys))], schema=SCHEMA)


def one(*keys: int) -> pa.Table:
    return pa.table({"id": pa.array(keys, pa.int64())})


def scene(revision: str = "A") -> Scene:
    """The reference state, on a store in memory."""
    ground = Ground()
    table = memwal.create(
        "t", SCHEMA, primary_key=["id"], revision=revision, store=ground, spec=transforms.bucket("b", "id", 2)
    )
    keys = [keys_of(table, value, 4) for value in (0, 1)]
    table.base.append(pa.concat_tables([row(*own[:3], v="base") for own in keys]))
    a, b = (table.writer(values={"b": value}, background=False) for value in (0, 1))
    for writer, (first, second, *_), name in ((a, keys[0], "a"), (b, keys[1], "b")):
        writer.put(row(first, second, v=f"{name} old"))
        writer.put(row(first, v=f"{name}1"))
        writer.flush()
    b.put(row(keys[1][0], v="b2"))
    b.flush()
    a.put(row(keys[0][0], v="a2"))
    b.put(row(keys[1][0], v="b3"))
    return Scene(ground, table, a, b, *keys)


def unmeasured(plan: str) -> str:
    """An analysed plan without what its nodes spent, and without the two lines of sums."""
    *nodes, beside, total = re.sub(r"  metrics=\[[^]]*\]", "", plan).splitlines()
    assert beside.startswith("beside the nodes: ")
    assert total.startswith("in all: ")
    return "\n".join(nodes)


def sources(plan: str, node: str) -> list[str]:
    """The sources of a node's lines, in order."""
    return re.findall(rf"^ *{node}: (\S+\])", plan, re.MULTILINE)
