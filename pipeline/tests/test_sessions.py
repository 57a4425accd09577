"""The same program in each kind of session: Spark Connect, and a standalone cluster; `steps` is the program.

All other tests of this folder run with a local master. The cluster takes a minute of CPU: its test is a long one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import steps
from memwal_spark import cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE = {
    "upsert": [100, 2, True],
    "merged": 10,
    "read": [["k7", 97, "v97"], ["k8", 98, "v98"]],
    "streamed": [f"v{number}" for number in range(90, 100)],
    "changes": [["upsert", 100, 2]],
}


def program(folder: Path, environ: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """What the program says, in a process of its own: one process has one kind of session."""
    ran = subprocess.run(
        [sys.executable, steps.__file__, str(folder), *arguments],
        env={name: value for name, value in os.environ.items() if "GATEWAY" not in name} | dict(environ),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=280,
    )
    said: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    assert said.pop("refused").startswith("[MEMWAL_NO_TABLE] there is no table at ")
    return said


@pytest.fixture
def remote(spark: SparkSession) -> Iterator[str]:
    """Address of a Spark Connect server, in the JVM that runs already."""
    context = spark.sparkContext
    jvm = context._jvm
    context._jsc.sc().conf().set("spark.connect.grpc.binding.port", "0")
    service = jvm.org.apache.spark.sql.connect.service.SparkConnectService
    service.start(context._jsc.sc())
    try:
        port = getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$").localPort()
        yield f"sc://127.0.0.1:{port}"
    finally:
        service.stop(jvm.scala.Option.empty(), jvm.scala.Option.empty())


@pytest.mark.long
def test_a_program_runs_under_spark_connect(remote: str, tmp_path: Path) -> None:
    assert program(tmp_path, {"SPARK_REMOTE": remote}) == {"session": "pyspark.sql.connect.session", **DONE}


@pytest.mark.long
def test_a_program_runs_on_a_standalone_cluster(tmp_path: Path) -> None:
    with cluster.standalone(tmp_path / "cluster", ["127.0.0.2"], cores=2) as there:
        conf = {**there.conf, "spark.sql.shuffle.partitions": "2"}
        assert program(tmp_path, {}, json.dumps(conf)) == {"session": "pyspark.sql.session", **DONE}
        assert list((tmp_path / "cluster").glob("work-*/app-*/*/stderr")), "an executor of the cluster has worked"
