"""A region and its indexed base table under concurrent jobs."""

from __future__ import annotations

from hypothesis import strategies as st

from ..workloads import merging
from .engine import EngineMachine, Work, weighted
from .region_life import READER, working

WRITING = st.sampled_from(
    ({"put": ["a"]}, {"flush": None}, {"put": ["a", "b"]}, {"merge": None}, {"delete": ["a"]}, {"put": ["b"]})
)
"""Steps of writers that flush often, and merge what they flushed."""
FLUSHING: st.SearchStrategy[Work] = st.just(("writer", {"script": [{"put": ["a"]}, {"flush": None}]}))
JOBS: st.SearchStrategy[Work] = st.sampled_from((("merger", {}), ("indexer", {}), ("snapshotter", {})))


class Merging(EngineMachine):
    """Mergers, index builders and snapshot builders beside writers and strong readers."""

    workload = merging.WORKLOAD
    revisions = ("B", "A", "R")
    works = weighted((2, working("writer", WRITING, 5)), (3, JOBS), (1, READER))
