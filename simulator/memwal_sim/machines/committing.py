"""Concurrent transactions of one table."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ..workloads import committing
from .engine import EngineMachine, Work, weighted
from .region_life import READER, working

_ROWS: st.SearchStrategy[Any] = st.sampled_from(
    (
        {"append": ["a"]},
        {"upsert": ["a"]},
        {"update": ["a"]},
        {"delete": ["a"]},
        {"append": ["a", "b"]},
        {"upsert": ["b"]},
    )
)
_WHOLE: st.SearchStrategy[Any] = st.sampled_from(
    (
        {"compact": None},
        {"overwrite": ["a"]},
        {"restore": None},
        {"add_column": "c"},
        {"drop_column": "c"},
        {"configure": None},
        {"clone": False},
    )
)
_OTHERS: st.SearchStrategy[Work] = st.sampled_from((("compactor", {}), ("configurer", {})))


class Committing(EngineMachine):
    """Processes that append, upsert, update, delete, compact, overwrite, restore, clone, change columns and config."""

    workload = committing.WORKLOAD
    works = weighted((4, working("committer", weighted((3, _ROWS), (2, _WHOLE)), 4)), (1, _OTHERS), (1, READER))
