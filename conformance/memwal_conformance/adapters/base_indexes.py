"""Indexes of a base table as `table.create` describes them, built by pylance: for adapters of tables that it opens."""

from __future__ import annotations

from typing import Any

from memwal_conformance.protocol import Json


def build(dataset: Any, index: Json) -> None:
    """Build one index of ``dataset``, a Lance dataset; each finds every row of a small table."""
    column, name = index["column"], index["name"]
    if index["kind"] == "vector":
        dataset.create_index(column, "IVF_FLAT", name=name, metric="L2", num_partitions=1)
    elif index["kind"] == "btree":
        dataset.create_scalar_index(column, "BTREE", name=name)
    else:
        dataset.create_scalar_index(column, "INVERTED", name=name, stem=False, remove_stop_words=False)
