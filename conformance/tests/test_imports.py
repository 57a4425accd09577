"""Modules import in one direction: none leads back to itself, not even where only types are imported."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def order(imports: dict[str, set[str]]) -> tuple[str, ...]:
    """Modules behind those that they import. Raises `CycleError`."""
    return tuple(TopologicalSorter(imports).static_order())


@pytest.mark.parametrize("package", ["memwal", "memwal_sim", "memwal_conformance", "memwal_spark"])
def test_no_import_leads_back(package: str) -> None:
    graph = grimp.build_graph(package, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(order(imports)) == len(graph.modules) > 20


def test_a_circle_is_named() -> None:
    with pytest.raises(CycleError) as found:
        order({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert set(found.value.args[1]) == {"a", "b", "c"}
