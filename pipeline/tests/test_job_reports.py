"""What jobs return prints as a short table, as the reports of a table do."""

from memwal.api.reports import GcReport
from memwal.jobs.collector import Decision
from memwal_spark.jobs.collecting import Collected
from memwal_spark.jobs.spread import JobDone, TaskDone
from memwal_spark.upserting import Upserted

DONE = TaskDone(item="0e2b", found={"generations": [1, 2], "rows": 54}, error=None)
LOST = TaskDone(item="77aa", found=None, error="ArtifactError: damaged")


def test_a_job_prints_a_row_for_each_task_and_what_failed() -> None:
    assert repr(JobDone(tasks=(DONE, LOST))).splitlines() == [
        "1 task done, 1 failed",
        "task  generations  rows",
        "0e2b  2            54",
        "77aa  -            -",
        "failed: 77aa: ArtifactError: damaged",
    ]
    assert repr(JobDone(tasks=())) == "0 tasks done, 0 failed"


def test_a_collection_prints_its_sums_and_not_every_decision() -> None:
    gone = Decision(kind="wal", name="a.arrow", collected=True, reason="flushed")
    report = GcReport(decisions=(gone,) * 1000, dry_run=False)
    printed = repr(Collected(tasks=(DONE, LOST), report=report))
    assert printed == f"{report!r}\nfailed: 77aa: ArtifactError: damaged"
    assert len(printed) < 400


def test_an_upsert_prints_the_sentence_of_its_command() -> None:
    task = {"region_id": "r", "rows": 10, "replaced": 3, "late": 1, "deleted": 0, "generations": 1, "skipped": False}
    before = {**dict.fromkeys(task, 0), "region_id": None, "skipped": True}
    assert repr(Upserted((task,))) == "10 rows into 1 region: 3 replaced, 1 late, 0 deletes, 1 generation flushed"
    assert repr(Upserted((task, before))).endswith("; 1 of 2 tasks wrote nothing, since they were finished before")
