"""What a plan is asked for, and how it is printed with what its nodes spent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import reduce
from operator import sub
from typing import Any

import pyarrow as pa

from ..drive import Meter
from ..errors import InvalidArgument
from ..metrics import Spent
from ..read import nodes
from ..read import text as text_search
from ..read import vector as vector_search


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A lookup, a search or a scan. Raises `InvalidArgument` for two of them, and for what it does not have."""

    keys: pa.Table | None
    vector: Any
    text: str | None
    filtered: bool
    """Whether there is a filter."""
    options: Mapping[str, Any]
    """Those of a search, by the names that it has for them."""
    search: vector_search.Nearest | text_search.Matching | None = field(init=False)

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.keys, self.vector, self.text)) > 1:
            raise InvalidArgument("give only one of keys, vector and text: a plan is for one kind of query")
        if self.keys is not None and self.filtered:
            raise InvalidArgument("a lookup of keys has no filter: give keys or a filter")
        object.__setattr__(self, "search", self._search())

    @property
    def approximate(self) -> bool:
        """As the searches have it."""
        return bool(self.options.get("approximate", False))

    def _search(self) -> vector_search.Nearest | text_search.Matching | None:
        given = {"column": "", "k": 10, **self.options}
        given.pop("approximate", None)
        if self.vector is not None:
            return vector_search.Nearest(vector=self.vector, **_known(vector_search.Nearest, given))
        if self.text is not None:
            return text_search.Matching(query=self.text, **_known(text_search.Matching, given))
        if self.options:
            raise InvalidArgument(f"options {sorted(self.options)} are for searches: give a vector or a text, too")
        return None


def _known(search: type[vector_search.Nearest | text_search.Matching], given: dict[str, Any]) -> dict[str, Any]:
    known = {each.name for each in fields(search)} - {"vector", "query"}
    if unknown := sorted(set(given) - known):
        raise InvalidArgument(
            f"this search has no options {unknown}; its options are {sorted({*known, 'approximate'})}"
        )
    return given


def _text(plan: nodes.PlanNode, meter: Meter | None) -> str:
    if meter is None:
        return nodes.explain(plan)
    return f"{nodes.explain(plan)}\nbeside the nodes: {_beside(plan, meter)}\nin all: {meter.total}"


def _json(plan: nodes.PlanNode, meter: Meter | None) -> str:
    found: dict[str, Any] = {"plan": nodes.as_json(plan)}
    if meter is not None:
        found |= {"beside_the_nodes": asdict(_beside(plan, meter)), "in_all": asdict(meter.total)}
    return json.dumps(found)


FORMS: Mapping[str, Callable[[nodes.PlanNode, Meter | None], str]] = {"text": _text, "json": _json}
"""How a plan is printed; with a meter, what it measured too."""


def _beside(plan: nodes.PlanNode, meter: Meter) -> Spent:
    """What no node of ``plan`` spent: on finding sources, on choosing the plan, on plans that were given up."""
    return reduce(sub, (node.metrics.spent for node in nodes.every(plan)), meter.total)
