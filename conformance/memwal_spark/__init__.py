"""PySpark beside the engine: Java and sessions, the data source `memwal`, and the validation job.

- `runtime`: find a Java, start a local session, tell what is missing
- `route`: put each region's rows into one Spark task, in order
- `source`, `write`, `read`, `options`: what the data source ``memwal`` is made of
- `flights`: a change log of real flights; `oracle`: Spark's own last-write-wins answer
- `faults`: planned failures and the proof that they happened
- `validate`: the job that compares all of them; `report`: what it found
"""
