"""The session of a job: the master that Spark was started with, or all cores of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .. import runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASTER = re.compile(r"^\s*spark\.(master|remote)\b", re.MULTILINE)


@contextmanager
def started(app: str, master: str | None = None) -> Iterator[SparkSession]:
    """The session that is there, which stays; or a new one, which is stopped at the end.

    ``master``: set on the session, where there is none yet. Without it, and unless the caller's environment names one
    (`has_master`), Spark is started on all cores of this machine as `runtime.session` does it. Raises InvalidArgument
    if there is no usable Java.
    """
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None and master is None and not has_master(os.environ):
        with runtime.running(app, os.cpu_count() or 1) as spark:
            yield spark
        return
    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    if not _runs_already(os.environ):
        runtime.set_environment()
    builder = SparkSession.builder.appName(app)
    spark = (builder if master is None else builder.master(master)).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def has_master(environ: Mapping[str, str]) -> bool:
    """Whether Spark itself knows its master: from ``spark-submit``, ``SPARK_REMOTE``, or its file of defaults."""
    if _runs_already(environ):
        return True
    home = environ.get("SPARK_HOME")
    folder = environ.get("SPARK_CONF_DIR") or (str(Path(home, "conf")) if home else None)
    file = Path(folder, "spark-defaults.conf") if folder else None
    return file is not None and file.is_file() and _MASTER.search(file.read_text("utf-8")) is not None


def _runs_already(environ: Mapping[str, str]) -> bool:
    """Whether Spark has started its JVM, so that this process needs no Java: spark-submit's, or a remote one."""
    return "PYSPARK_GATEWAY_PORT" in environ or "SPARK_REMOTE" in environ
