"""Upserts in Spark: memwal beside Delta Lake, Iceberg, Hudi and lance-spark, in one run.

    python benchmarks/spark_peers.py [--quick] [--work zipf] [--sides memwal,delta,…] [--keep FOLDER] [--json]

Two workloads. *zipf*: 1,000,000 upserts, whose keys follow Zipf's law, into a table of 4,000,000 rows. *flights*: the
change log of `memwal spark validate` into an empty table. Each side gets the same Parquet files, in a process of its
own, with a local Spark of two cores; loading the base is not counted. Counted are CPU seconds of the process tree:

- *durable*: until every upsert survives a crash, in one batch; and in as many batches as there are files (*stream*: a
  streaming query, a file a batch: of the peers with ``foreachBatch``, of memwal `upsert_stream`)
- *merged*: until the base table itself has every upsert: for memwal with its merge, for the others the same as durable
- *read*: all rows and columns of the table as it is then, into Spark's sink ``noop``, for the first time; *read again*:
  for the second time, when Spark's Python programs are there, whose start takes seconds

and the files and commits that are left behind. Every side is asked for the count of its rows and the sum of their
sequences, which have to be those of Spark's own answer. The source of a MERGE may have a key once, so that the peers
keep the last row of each key first, and compare its sequence with the stored one, as their documents say.

The peers are no dependency of memwal: their jars come by Maven's client (``mvn dependency:get``) where a machine has
one. They have no build for the Spark that memwal runs on, so that their Spark is one of its own: ``--python`` names
the Python of an environment with `PEER_SPARK`, which else is made with pip in the folder of the run. memwal runs on the
Spark beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

PEER_SPARK = "3.5.6"
HERE = Path(__file__).resolve().parent
DELTA = ("io.delta:delta-spark_2.12:3.3.2", "io.delta:delta-storage:3.3.2", "org.antlr:antlr4-runtime:4.9.3")
ICEBERG = ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.9.2",)
HUDI = ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.0.2",)
LANCE = (
    *(f"org.lance:{name}:0.4.0" for name in ("lance-spark-3.5_2.12", "lance-spark-base_2.12")),
    *("org.lance:lance-core:4.0.0", "org.questdb:jar-jni:1.1.1"),
    *(f"org.lance:lance-namespace-{name}:0.5.2" for name in ("core", "apache-client")),
    *(f"org.apache.arrow:arrow-{name}:18.3.0" for name in ("c-data", "dataset", "format", "memory-core", "vector")),
    *(f"org.apache.arrow:arrow-memory-netty{name}:18.3.0" for name in ("", "-buffer-patch")),
    *(f"io.netty:netty-{name}:4.1.119.Final" for name in ("buffer", "common")),
    *("com.google.flatbuffers:flatbuffers-java:25.2.10", "org.openapitools:jackson-databind-nullable:0.2.6"),
)
"""The bundle that its documents name is not in Maven; the connector is, with what it needs."""

PEERS: Mapping[str, Sequence[str]] = {
    "delta": DELTA,
    "delta stream": DELTA,
    "iceberg": ICEBERG,
    "hudi": HUDI,
    "lance append": LANCE,
    "lance merge": LANCE,
}
"""Side -> the jars that it needs."""
OURS = ("memwal", "memwal stream")
REGIONS = 8
RATES = ("durable", "merged", "read", "read again")
"""What is measured, in rows per CPU second."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is written; the files lie in ``folder``: ``base`` (none for an empty table), ``upserts``."""

    folder: str
    key: tuple[str, ...]
    upserts: int
    rows: int
    """Of the table in the end."""
    total: int
    """Sum of their sequences."""

    @property
    def base(self) -> str | None:
        """Folder of the rows that are there before."""
        base = Path(self.folder, "base")
        return str(base) if base.exists() else None


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", type=int, default=4_000_000, help="rows of the table of zipf")
    parser.add_argument("--upserts", type=int, default=1_000_000, help="upserts of zipf")
    parser.add_argument("--flights", type=int, default=None, help="flights of the change log; default: all")
    parser.add_argument("--files", type=int, default=10, help="files of the upserts, and batches of a stream")
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything, four files")
    parser.add_argument("--work", default="zipf,flights")
    parser.add_argument("--sides", default=",".join([*OURS, *PEERS]))
    parser.add_argument("--python", help="Python of an environment with the peers' Spark")
    parser.add_argument("--keep", type=Path, help="folder of the run, which is kept")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds for one side")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(run_side(json.loads(chosen.child))))
        return
    if chosen.quick:
        chosen.stored, chosen.upserts, chosen.flights, chosen.files = 200_000, 50_000, 17_000, 4
    with tempfile.TemporaryDirectory(prefix="memwal-peers-") as name:
        folder = (chosen.keep or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        found = compare(chosen, folder)
    print(json.dumps(found, indent=1) if chosen.json else shown(found))


# --- the parent: data, environments, one process a side ------------------------------------------------------------


def compare(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run every side on every workload."""
    wanted = chosen.sides.split(",")
    unknown = [side for side in wanted if side not in (*OURS, *PEERS)]
    if unknown:
        sys.exit(f"no side {unknown}; choose one of {[*OURS, *PEERS]}")
    missing: dict[str, str] = {}
    python = chosen.python or (peer_python(folder, missing) if set(wanted) - set(OURS) else "")
    results = []
    for name in chosen.work.split(","):
        work = WORKS[name](folder / name, chosen)
        for side in wanted:
            jars = [] if side in OURS else found_jars(PEERS[side], missing, side)
            if side in missing or (side not in OURS and not python):
                continue
            print(f"{name}: {side} …", file=sys.stderr, flush=True)
            given = {"side": side, "jars": jars, "work": vars_of(work), "table": str(folder / name / f"table {side}")}
            results.append({"work": name, "side": side, **run_child(side, python, given, chosen.timeout)})
            # A run is long: what is known of it is there when it is ended.
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    return {"works": chosen.work, "files": chosen.files, "missing": missing, "results": results}


def vars_of(work: Work) -> dict[str, Any]:
    return {name: getattr(work, name) for name in Work.__slots__}


def run_child(side: str, python: str, given: dict[str, Any], timeout: int) -> dict[str, Any]:
    """What the process of a side says; its error where it fails."""
    shutil.rmtree(given["table"], ignore_errors=True)
    program = sys.executable if side in OURS else python
    environ = {name: value for name, value in os.environ.items() if side in OURS or name != "PYTHONPATH"}
    command = [program, __file__, "--child", json.dumps(given)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=timeout, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {timeout} s"}
    finally:
        shutil.rmtree(given["table"], ignore_errors=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        told = [line for line in lines if "Error" in line or "Exception" in line]
        return {"error": (told or lines or ["no word"])[-1][:300]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def peer_python(folder: Path, missing: dict[str, str]) -> str:
    """An environment with the peers' Spark; empty, with the reason, where it cannot be made."""
    place = folder / "environment"
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
    packages = [f"pyspark=={PEER_SPARK}", "pyarrow", "pandas<3", "numpy"]
    command = [str(python), "-m", "pip", "install", "-q", *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        missing |= dict.fromkeys(PEERS, f"no environment with pyspark {PEER_SPARK}: {done.stderr[-200:]}")
        return ""
    return str(python)


def found_jars(coordinates: Sequence[str], missing: dict[str, str], side: str) -> list[str]:
    """The files of Maven packages, fetched by its client if they are not there."""
    found = []
    for coordinate in coordinates:
        group, name, version = coordinate.split(":")
        local = Path.home() / ".m2" / "repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
        if not local.exists():
            client = shutil.which("mvn")
            if client is None:
                missing[side] = f"{coordinate}: this machine has no Maven"
                return []
            words = [client, "-B", "-q", "dependency:get", "-Dtransitive=false", f"-Dartifact={coordinate}"]
            subprocess.run(words, capture_output=True, check=False)  # noqa: S603
        if not local.exists():
            missing[side] = f"{coordinate}: Maven does not find it here"
            return []
        found.append(str(local))
    return found


def zipf(folder: Path, chosen: argparse.Namespace) -> Work:
    """Upserts whose keys follow Zipf's law, over a table of `chosen.stored` rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(0)
    keys = draw.permutation(chosen.stored)
    ranks = draw.zipf(1.2, 4 * chosen.upserts)
    ids = keys[ranks[ranks <= chosen.stored][: chosen.upserts] - 1]
    last = dict(zip(ids.tolist(), range(chosen.stored, chosen.stored + len(ids)), strict=True))

    def rows(ids: np.ndarray, first: int) -> pa.Table:
        sequence = np.arange(first, first + len(ids))
        texts = pa.array(ids % 1000).cast(pa.string())
        return pa.table({"id": ids, "seq": sequence, "value": draw.random(len(ids)), "text": texts})

    shutil.rmtree(folder, ignore_errors=True)
    (folder / "base").mkdir(parents=True)
    pq.write_table(rows(keys, 0), folder / "base" / "0.parquet")
    write_files(rows(ids, chosen.stored), folder / "upserts", chosen.files)
    stored = {int(key): number for number, key in enumerate(keys)}
    total = sum((stored | last).values())
    return Work(str(folder), ("id",), len(ids), chosen.stored, total)


def flights(folder: Path, chosen: argparse.Namespace) -> Work:
    """The change log of real flights, into an empty table."""
    import pyarrow.compute as pc
    from memwal_spark import flights as log

    events = log.change_log(chosen.flights)
    shutil.rmtree(folder, ignore_errors=True)
    write_files(events, folder / "upserts", chosen.files)
    newest = events.group_by(list(log.KEY)).aggregate([("seq", "max")])
    return Work(str(folder), log.KEY, events.num_rows, newest.num_rows, pc.sum(newest["seq_max"]).as_py())


WORKS: Mapping[str, Callable[[Path, argparse.Namespace], Work]] = {"zipf": zipf, "flights": flights}


def write_files(rows: Any, folder: Path, files: int) -> None:
    """``rows`` in their order as so many Parquet files, whose times follow that order."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    size = -(-rows.num_rows // files)
    for number in range(files):
        file = folder / f"{number:04d}.parquet"
        pq.write_table(rows.slice(number * size, size), file, coerce_timestamps="us")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def shown(found: dict[str, Any]) -> str:
    """The results as text: a table a workload, and the ratios."""
    lines = []
    for work in found["works"].split(","):
        lines += [f"## {work}", "", "| side | Spark | durable | merged | read | read again | files | commits |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for one in (each for each in found["results"] if each["work"] == work):
            if "error" in one:
                lines.append(f"| {one['side']} | failed: {one['error']} |")
                continue
            rates = " | ".join("–" if one[name] is None else f"{one[name]:,}" for name in RATES)
            wrong = "" if one["right"] else " **wrong rows**"
            lines.append(f"| {one['side']}{wrong} | {one['spark']} | {rates} | {one['files']:,} | {one['commits']:,} |")
        lines.append("")
    lines += [f"- {side}: not run, {reason}" for side, reason in found["missing"].items()]
    return "\n".join(lines)


# --- the child: one side -------------------------------------------------------------------------------------------


def run_side(given: dict[str, Any]) -> dict[str, Any]:
    """Load the base, then measure: durable, merged, read. Rates are rows per CPU second."""
    work = Work(**{**given["work"], "key": tuple(given["work"]["key"])})
    side, table = given["side"], given["table"]
    steps = SIDES[side](given["jars"], table)
    spark = steps.spark
    steps.load(work)
    started, clock = cpu_seconds(), time.monotonic()
    steps.write(work)
    durable = cpu_seconds() - started
    steps.merge(work)
    merged = cpu_seconds() - started
    wall = time.monotonic() - clock
    read, again = (read_once(steps) for _ in range(2))
    rows, total = steps.read().selectExpr("count(*)", "sum(seq)").first()
    files = sum(1 for path in Path(table).rglob("*") if path.is_file())
    told = {
        "spark": spark.version,
        "durable": round(work.upserts / durable),
        "merged": round(work.upserts / merged) if side != "lance append" else None,
        "read": round(rows / read),
        "read again": round(rows / again),
        "cpu_s": {"durable": round(durable, 1), "merged": round(merged, 1), "read": round(read, 1)},
        "wall_s": round(wall, 1),
        "files": files,
        "commits": steps.commits(),
        "right": (rows, total) == (work.rows, work.total) or side == "lance append",
    }
    spark.stop()
    return told


def read_once(steps: Side) -> float:
    """CPU seconds of reading all of the table."""
    before = cpu_seconds()
    steps.read().write.format("noop").mode("overwrite").save()
    return cpu_seconds() - before


def cpu_seconds() -> float:
    """CPU seconds of this process and all below it, those of ended ones included."""
    sys.path.insert(0, str(HERE))
    from process_tree import cpu_seconds as measured

    return measured()


SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": str(REGIONS),
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.ui.showConsoleProgress": "false",
}


class Side:
    """What one side does; ``merge`` does nothing where a write is merged when it returns."""

    settings: ClassVar[Mapping[str, str]] = {}
    stream = False

    def __init__(self, jars: Sequence[str], table: str) -> None:
        self.table = table
        self.spark = self.started(jars)
        self.spark.sparkContext.setLogLevel("ERROR")

    def started(self, jars: Sequence[str]) -> Any:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("peers").config("spark.jars", ",".join(jars))
        said = {"{table}": self.table, "{jars}": ":".join(jars)}
        named = dict(self.settings)
        for word, meant in said.items():
            named = {name: value.replace(word, meant) for name, value in named.items()}
        for name, value in {**SETTINGS, **named}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def load(self, work: Work) -> None:
        """Make the table, with the rows of the base."""
        upserts = self.spark.read.parquet(f"{work.folder}/upserts")
        rows = self.spark.read.parquet(work.base) if work.base else upserts.limit(0)
        self.create(rows, work)

    def create(self, rows: Any, work: Work) -> None:
        raise NotImplementedError

    def write(self, work: Work) -> None:
        """Upsert all files: at once, or each as a batch of a stream."""
        upserts = f"{work.folder}/upserts"
        if not self.stream:
            self.upsert(self.spark.read.parquet(upserts), work)
            return
        schema = self.spark.read.parquet(upserts).schema
        source = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(upserts)
        self.started_stream(source, work).awaitTermination()
        shutil.rmtree(f"{self.table} checkpoint")

    def started_stream(self, source: Any, work: Work) -> Any:
        """A query that upserts what there is, a file a batch."""
        query = source.writeStream.foreachBatch(lambda rows, _: self.upsert(rows, work))
        return query.option("checkpointLocation", f"{self.table} checkpoint").trigger(availableNow=True).start()

    def upsert(self, rows: Any, work: Work) -> None:
        """MERGE of the last row of each key, as SQL."""
        from pyspark.sql import functions as sf

        row = sf.struct(*rows.columns)
        last = rows.groupBy(*work.key).agg(sf.max_by(row, "seq").alias("r")).select("r.*")
        last.createOrReplaceTempView("source")
        same = " AND ".join(f"t.{name} = s.{name}" for name in work.key)
        # A batch of a stream has a session of its own, which knows the view.
        last.sparkSession.sql(
            f"MERGE INTO {self.name()} t USING source s ON {same} "
            "WHEN MATCHED AND s.seq > t.seq THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def name(self) -> str:
        """The table in SQL."""
        return "c.d.t"

    def merge(self, work: Work) -> None:
        """Bring what is durable into the base."""

    def read(self) -> Any:
        return self.spark.table(self.name())

    def commits(self) -> int:
        """Versions that the table has."""
        raise NotImplementedError

    def count(self, pattern: str) -> int:
        return sum(1 for _ in Path(self.table).rglob(pattern))


class Delta(Side):
    settings: ClassVar[Mapping[str, str]] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

    def create(self, rows: Any, work: Work) -> None:  # noqa: ARG002 - as the others
        rows.write.format("delta").save(self.table)

    def name(self) -> str:
        return f"delta.`{self.table}`"

    def commits(self) -> int:
        return self.count("_delta_log/*.json")


class DeltaStream(Delta):
    stream = True


class Iceberg(Side):
    settings: ClassVar[Mapping[str, str]] = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.c": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.c.type": "hadoop",
        "spark.sql.catalog.c.warehouse": "{table}",
    }

    def create(self, rows: Any, work: Work) -> None:  # noqa: ARG002 - as the others
        rows.writeTo("c.d.t").using("iceberg").tableProperty("write.merge.mode", "merge-on-read").create()

    def commits(self) -> int:
        return int(self.spark.table("c.d.t.snapshots").count())


class Hudi(Side):
    settings: ClassVar[Mapping[str, str]] = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }

    def _save(self, rows: Any, work: Work, operation: str) -> None:
        options = {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.recordkey.field": ",".join(work.key),
            "hoodie.datasource.write.precombine.field": "seq",
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.upsert.shuffle.parallelism": str(REGIONS),
            "hoodie.bulkinsert.shuffle.parallelism": str(REGIONS),
        }
        rows.write.format("hudi").options(**options).mode("append").save(self.table)

    def create(self, rows: Any, work: Work) -> None:
        if work.base:
            self._save(rows, work, "bulk_insert")

    def upsert(self, rows: Any, work: Work) -> None:
        self._save(rows, work, "upsert")

    def read(self) -> Any:
        found = self.spark.read.format("hudi").load(self.table)
        return found.select(*[name for name in found.columns if not name.startswith("_hoodie_")])

    def commits(self) -> int:
        return self.count("timeline/*.commit")


class Lance(Side):
    settings: ClassVar[Mapping[str, str]] = {
        "spark.sql.extensions": "org.lance.spark.extensions.LanceSparkSessionExtensions",
        "spark.sql.catalog.c": "org.lance.spark.LanceNamespaceSparkCatalog",
        "spark.sql.catalog.c.impl": "dir",
        "spark.sql.catalog.c.root": "{table}",
        # Ahead of Spark's own Arrow, which is too old for it.
        "spark.driver.extraClassPath": "{jars}",
    }

    def name(self) -> str:
        return "c.default.t"

    def create(self, rows: Any, work: Work) -> None:  # noqa: ARG002 - as the others
        rows.writeTo(self.name()).using("lance").create()

    def commits(self) -> int:
        return self.count("_versions/*.manifest")


class LanceAppend(Lance):
    def upsert(self, rows: Any, work: Work) -> None:  # noqa: ARG002 - as the others
        rows.writeTo(self.name()).append()


class Memwal(Side):
    def started(self, jars: Sequence[str]) -> Any:  # noqa: ARG002 - as the others
        from memwal_spark import runtime

        return runtime.session("peers", 2, memory="4g", conf={"spark.sql.shuffle.partitions": str(REGIONS)})

    def create(self, rows: Any, work: Work) -> None:
        import memwal
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = sorted(Path(work.base or f"{work.folder}/upserts").glob("*.parquet"))
        found = pq.read_schema(files[0]).remove_metadata()
        schema = pa.schema([f.with_nullable(f.name not in (*work.key, "seq")) for f in found])
        spec = memwal.bucket("b", list(work.key), REGIONS)
        table = memwal.create(self.table, schema, primary_key=list(work.key), spec=spec)
        if work.base:
            base = pq.read_table(files[0], schema=schema)
            for number in range(0, base.num_rows, 1_000_000):
                table.base.append(base.slice(number, 1_000_000))
        # The first Python workers of a session: the peers have had theirs in Java.
        rows.limit(1).mapInArrow(lambda batches: batches, rows.schema).count()

    def upsert(self, rows: Any, work: Work) -> None:  # noqa: ARG002 - as the others
        import memwal_spark

        memwal_spark.upsert(rows, self.table, sequence_by="seq")

    def merge(self, work: Work) -> None:  # noqa: ARG002 - as the others
        from memwal_spark import jobs

        done = jobs.merge(self.spark, self.table, drain=True)
        if done.failed:
            raise RuntimeError(str(done.failed))

    def read(self) -> Any:
        return self.spark.read.format("memwal").load(self.table)

    def commits(self) -> int:
        import lance

        return len(lance.dataset(self.table).versions())


class MemwalStream(Memwal):
    stream = True

    def started_stream(self, source: Any, work: Work) -> Any:  # noqa: ARG002 - as the others
        import memwal_spark

        folder, now = f"{self.table} checkpoint", {"availableNow": True}
        return memwal_spark.upsert_stream(source, self.table, sequence_by="seq", checkpoint=folder, trigger=now)


SIDES: Mapping[str, type[Side]] = {
    "memwal": Memwal,
    "memwal stream": MemwalStream,
    "delta": Delta,
    "delta stream": DeltaStream,
    "iceberg": Iceberg,
    "hudi": Hudi,
    "lance append": LanceAppend,
    "lance merge": Lance,
}


if __name__ == "__main__":
    main()
