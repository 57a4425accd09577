"""PySpark beside the engine: Java and sessions, the data source `memwal`, and the validation job.

`memwal_spark.upsert` routes and writes in one call, `memwal_spark.upsert_stream` a stream;
`memwal_spark.plain_errors` leaves of Spark's errors our sentence.

- `runtime`, `java`: find a Java, start a local session, tell what is missing
- `route`: put each region's rows into one Spark task, in order; `packing`: their way there, as Arrow bytes
- `upserting`: both in one call; `streaming`: the same for a stream, and the sink beneath it
- `following`: a stream of what changes
- `errors`: sentences of errors, on both sides of Spark
- `source`, `write`, `read`, `options`, `place`: what the data source ``memwal`` is made of
- `settling`: what a Python worker is spared between two tasks
- `jobs`: write, merge, catch-up, gc and verify, as functions, as commands and for ``spark-submit``
- `tables`: regions, generations, WAL entries and marks as tables
- `page`: the tables of options and columns in ``docs/spark.md``
- `flights`: a change log of real flights; `oracle`: Spark's own last-write-wins answer, and the comparison with it
- `faults`: planned failures and the proof that they happened; `merging`: a merger beside the running job
- `validate`: the job that puts all of them together; `folder`, `readings`: what it keeps and compares
- `report`, `html`, `terminal`, `progress`, `memory`: what it found, and how that is shown; `cli`: its commands
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memwal.lazy import loader

if TYPE_CHECKING:
    from .errors import plain_errors
    from .streaming import upsert_stream
    from .upserting import Upserted, upsert

__all__ = ["Upserted", "plain_errors", "upsert", "upsert_stream"]
__getattr__ = loader(
    __name__, {"errors": ("plain_errors",), "streaming": ("upsert_stream",), "upserting": ("Upserted", "upsert")}
)
"""The names of `__all__`; Spark is imported when the first of them is used."""
