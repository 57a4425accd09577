"""The requests of each operation are the golden numbers of docs/requests.md."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def requests() -> ModuleType:
    spec = importlib.util.spec_from_file_location("memwal_requests", ROOT / "benchmarks" / "requests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_operation_costs_the_requests_that_the_document_says(requests: ModuleType) -> None:
    text = (ROOT / "docs" / "requests.md").read_text()
    _, _, rest = text.partition(requests.BEGIN)
    assert rest.partition(requests.END)[0].strip() == requests.markdown().strip()


@pytest.mark.parametrize("revision", ["A", "B", "R"])
@pytest.mark.clause("WAL-021")
def test_a_durable_put_is_one_request_and_touches_no_manifest(requests: ModuleType, revision: str) -> None:
    counted = requests.count(revision)
    assert dict(counted["durable put"]) == {"PutIfAbsent": 1}
    assert dict(counted["durable put, collection on"]) == {"PutIfAbsent": 1, "List": 1}
