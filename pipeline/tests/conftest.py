"""One Spark session for all tests: starting one takes longer than any of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from memwal_spark import runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
"""For every JVM that a test starts: none lives long enough for Java's second compiler to be worth its time."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # A task that fails is tried twice and not four times: each attempt is a new process.
    conf = {"spark.master": "local[2,2]"}
    with runtime.running("memwal tests", event_log=tmp_path_factory.mktemp("event-log"), conf=conf) as session:
        yield session
