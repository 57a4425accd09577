"""PySpark beside the engine: Java and sessions, the data source `memwal`, and the validation job.

- `runtime`, `java`: find a Java, start a local session, tell what is missing
- `route`: put each region's rows into one Spark task, in order
- `source`, `write`, `read`, `options`, `place`: what the data source ``memwal`` is made of
- `page`: the tables of options in ``docs/spark.md``
- `flights`: a change log of real flights; `oracle`: Spark's own last-write-wins answer, and the comparison with it
- `faults`: planned failures and the proof that they happened; `merging`: a merger beside the running job
- `validate`: the job that puts all of them together; `folder`, `readings`: what it keeps and compares
- `report`, `html`, `terminal`, `progress`, `memory`: what it found, and how that is shown; `cli`: its commands
"""
