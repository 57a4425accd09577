"""Drivers of their own for the jobs of a validation, on a cluster of this machine, for faults that need one.

`run_all` starts the cluster and one driver after another until all jobs are done, as a scheduler would: a driver that
was killed is followed by another one, which begins with the job that was not finished. The drivers are this module as a
program.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memwal.errors import InvalidArgument

from . import cluster, runtime
from .folder import Folder
from .options import TableOption
from .route import route
from .striking import FORMAT, TASKS, SourceWithFaults, Strikes
from .writing import LogWrites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .faults import Fault

CORES = 1
"""Tasks that an executor runs at a time; there is one on each of two hosts, since Spark copies tasks to others only."""
LIFETIME_S = 1800.0
DRIVERS_MOST = 4
AFTER_S = 2.0
SETTINGS = {
    "spark.executor.memory": "1g",
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.6",
    "spark.speculation.multiplier": "2",
    "spark.speculation.minTaskRuntime": "4s",
    "spark.python.task.killTimeout": "200ms",
    "spark.task.maxFailures": str(runtime.FAILURES_MOST),
}


def run_all(writes: LogWrites, tell: Callable[[str], None]) -> None:
    """Run all jobs on a cluster; returns when every row is durable. Raises InvalidArgument with what a driver said."""
    folder = writes.folder
    writes.store()
    with cluster.standalone(folder.cluster, cores=CORES, memory="1g", lifetime_s=LIFETIME_S) as made:
        for number in range(DRIVERS_MOST):
            log = folder.cluster / f"driver-{number}.log"
            tell(f"driver {number} is at work")
            ended = _driver(folder, made, log)
            if ended == 0:
                return
            if ended != -signal.SIGKILL:
                raise InvalidArgument(
                    f"[MEMWAL_DRIVER] a driver failed: {_last_line(log)}; its whole output is in {log}"
                )
    raise InvalidArgument(f"[MEMWAL_DRIVER] {DRIVERS_MOST} drivers did not finish the jobs")


def _driver(folder: Folder, made: cluster.Cluster, log: Path) -> int:
    """Run a driver in a group of processes of its own, which ends when this process does; returns its exit code."""
    conf = json.dumps({**made.conf, **SETTINGS})
    command = [sys.executable, "-m", "memwal_spark.drivers", str(folder.root), conf]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with log.open("wb") as said:
        driver = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, start_new_session=True, env=environ
        )
        try:
            return driver.wait()
        finally:
            assert driver.stdin is not None
            driver.stdin.close()
            driver.wait()


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"


def main() -> None:
    """Run the jobs that are not finished: the program of one driver."""
    folder, conf = Folder(Path(sys.argv[1])), json.loads(sys.argv[2])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    spark = runtime.session("memwal spark validate", event_log=folder.event_log, conf=conf)
    writes = LogWrites.load(spark, folder)
    for number in range(len(writes.jobs)):
        done = folder.pieces / f"{number}.done"
        if done.exists():
            continue  # an earlier driver has finished it
        planned = writes.planned_for(number)
        streams = [fault for fault in planned if fault.kind == "stream-restart"]
        if streams:
            said = _stream(spark, writes, streams[0])
        else:
            shuffled = str(cluster.Cluster(conf["spark.master"], folder.cluster).shuffled)
            said = writes.run(spark, number, Strikes(faults=planned, shuffled=shuffled, driver=os.getpgid(0)))
        done.write_text(said)
    # A copy of a task may end after its job: the event log is to have that too.
    time.sleep(AFTER_S)
    spark.range(1).count()
    spark.stop()


def _end_with_parent() -> None:
    select.select([sys.stdin], [], [], LIFETIME_S)
    os.killpg(0, signal.SIGKILL)


def _stream(spark: SparkSession, writes: LogWrites, fault: Fault) -> str:
    """Write a job as a streaming query of several batches, which is started again from a checkpoint that was cut."""
    folder, number = writes.folder, fault.job
    files, checkpoint = folder.pieces / f"{number}-files", folder.pieces / f"{number}-checkpoint"
    job = writes.jobs[number]
    job.repartitionByRange(fault.rows, f"`{writes.log.sequence}`").write.parquet(str(files))
    spark.dataSource.register(SourceWithFaults)

    def query() -> None:
        read = spark.readStream.schema(job.schema).option("maxFilesPerTrigger", 1).parquet(str(files))
        routed = route(read, TableOption(path=str(folder.table)), sequence_by=writes.log.sequence)
        sink = routed.writeStream.format(FORMAT).options(**writes.options, **{TASKS: str(writes.written(number))})
        sink = sink.queryName(writes.group_of(number)).option("checkpointLocation", str(checkpoint))
        sink.trigger(availableNow=True).start(str(folder.table)).awaitTermination()

    query()
    cut(checkpoint, fault.partition)
    Path(fault.evidence).write_text(json.dumps({"generations": {}}))
    query()
    return ""


def cut(checkpoint: Path, batch: int) -> None:
    """Make a checkpoint what it was when ``batch`` was planned and not finished."""
    for kind, first in (("commits", batch), ("offsets", batch + 1), ("sources/0", batch + 1)):
        for file in (checkpoint / kind).iterdir():
            number = file.name.strip(".").partition(".")[0]
            if number.isdecimal() and int(number) >= first:
                file.unlink()


if __name__ == "__main__":
    main()
