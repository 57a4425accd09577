"""A standalone Spark cluster on loopback: a Master on 127.0.0.1, and Workers on addresses of their own.

Spark starts a speculative copy of a task on another host only; to it 127.0.0.2 and 127.0.0.3 are two.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from . import java as javas

HOSTS = ("127.0.0.2", "127.0.0.3")
LIFETIME_S = 900.0
"""A cluster that is not stopped ends by itself."""
START_S = 120.0

_GUARD = """
import os, select, signal, subprocess, sys
subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
select.select([sys.stdin], [], [], float(sys.argv[1]))
os.killpg(0, signal.SIGKILL)
"""
"""Ends its group of processes when its input ends, which is when its parent does, or when its time is over."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that runs."""

    master: str
    """Its address: ``spark://127.0.0.1:…``."""
    folder: Path
    """What its processes write: ``master.log``, ``worker-….log``, folders of the executors."""

    @property
    def shuffled(self) -> Path:
        """Folder of what tasks hand to each other, of all executors."""
        return self.folder / "local"

    @property
    def conf(self) -> Mapping[str, str]:
        """Settings for `memwal_spark.runtime.session` to run on it."""
        return {
            "spark.master": self.master,
            "spark.executor.memory": "512m",
            "spark.dynamicAllocation.enabled": "false",
        }


@contextmanager
def standalone(
    folder: Path, hosts: Sequence[str] = HOSTS, *, cores: int = 1, memory: str = "1g", lifetime_s: float = LIFETIME_S
) -> Iterator[Cluster]:
    """A cluster with a Worker of ``cores`` and ``memory`` on each of ``hosts``; all of it is gone at the end.

    It ends as well when this process does, or after ``lifetime_s``. Its executors find Python's modules where this
    process does. A process that has a session already cannot have a second one: let a program of its own be the driver.
    Raises RuntimeError with the log of what does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        at = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = stack.enter_context(_daemon("master.Master", at, folder / "master.log", "127.0.0.1", lifetime_s))
        master = _said(log, r"Starting Spark master at (spark://\S+)")
        logs = []
        for host in hosts:
            at = ["--host", host, "--cores", str(cores), "--memory", memory, "--webui-port", "0"]
            at += ["--work-dir", str(folder / f"work-{host}"), master]
            log = folder / f"worker-{host}.log"
            logs.append(stack.enter_context(_daemon("worker.Worker", at, log, host, lifetime_s)))
        for log in logs:
            _said(log, r"(Successfully registered with master)")
        yield Cluster(master, folder)


@contextmanager
def _daemon(name: str, arguments: Sequence[str], log: Path, host: str, lifetime_s: float) -> Iterator[Path]:
    home = Path(pyspark.__file__).parent
    environ = os.environ | {
        "JAVA_HOME": str(javas.home_for_spark(javas.find(os.environ), os.environ)),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOCAL_DIRS": str(log.parent / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as written:
        guard = subprocess.Popen(
            [sys.executable, "-c", _GUARD, str(lifetime_s), *command],
            stdin=subprocess.PIPE,
            stdout=written,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait(60)


def _said(log: Path, pattern: str) -> str:
    """What the first group of ``pattern`` is in the log, once it is there."""
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        if found := re.search(pattern, log.read_text("utf-8", "replace")):
            return found[1]
        time.sleep(0.1)
    raise RuntimeError(f"{log.stem} did not start within {START_S:g} s:\n{log.read_text('utf-8', 'replace')[-2000:]}")
