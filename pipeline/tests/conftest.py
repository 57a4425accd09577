"""One Spark session for all tests: starting one takes longer than any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from memwal_spark import runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with runtime.running("memwal tests", event_log=tmp_path_factory.mktemp("event-log")) as session:
        yield session
