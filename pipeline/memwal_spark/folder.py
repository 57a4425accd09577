"""The folder of a validation run: what is kept where, and how an earlier run is replaced."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from memwal.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Folder:
    """What the job keeps where."""

    root: Path

    @property
    def table(self) -> Path:
        """The MemWAL table."""
        return self.root / "table"

    @property
    def log(self) -> Path:
        """The change log: a file, or a folder of them."""
        return self.root / "log.parquet"

    @property
    def log_facts(self) -> Path:
        """What the change log is; see `memwal_spark.change_log.ChangeLog`."""
        return self.root / "log.json"

    @property
    def written(self) -> Path:
        """Folder of what the tasks of each write reported."""
        return self.root / "written"

    @property
    def event_log(self) -> Path:
        """Spark's event logs."""
        return self.root / "event-log"

    @property
    def reports(self) -> tuple[Path, ...]:
        """What the tasks of each write reported, in the order of the writes."""
        return tuple(sorted(self.written.glob("job-*.json"), key=lambda file: int(file.stem.removeprefix("job-"))))

    @property
    def watched(self) -> Path:
        """Rows of the keys whose histories are kept; see `memwal_spark.watching`."""
        return self.root / "watched.parquet"

    @property
    def notes(self) -> Path:
        """Folder of what tasks noted of these keys."""
        return self.root / "notes"

    @property
    def acknowledged(self) -> Path:
        """Folder of what another implementation has acknowledged as a writer, claim by claim."""
        return self.root / "acknowledged"

    @property
    def history(self) -> Path:
        """Their histories."""
        return self.root / "history.jsonl"

    @property
    def evidence(self) -> Path:
        """What tasks noted just before they failed as planned."""
        return self.root / "faults"

    @property
    def pieces(self) -> Path:
        """What each job writes, where drivers of their own run them: folders of Parquet files."""
        return self.root / "jobs"

    @property
    def writes(self) -> Path:
        """What these drivers have to know; see `memwal_spark.writing.LogWrites`."""
        return self.pieces / "writes.json"

    @property
    def cluster(self) -> Path:
        """What the processes of the cluster write."""
        return self.root / "cluster"

    @property
    def report_json(self) -> Path:
        """The report as data."""
        return self.root / "report.json"

    @property
    def report_html(self) -> Path:
        """The report as a page."""
        return self.root / "report.html"

    def reading(self, name: str) -> Path:
        """One reading of the table, or the oracle's answer."""
        return self._readings / f"{name.replace(' ', '-').replace(',', '')}.parquet"

    def clear(self) -> None:
        """Remove what an earlier run left; other files stay. Makes the folder if it is missing.

        Raises InvalidArgument, and removes nothing, if something has one of our names and no earlier run is to blame.
        """
        mine: tuple[Path, ...] = (self.table, self.event_log, self.evidence, self._readings, self.written, self.notes)
        mine += (self.acknowledged,)
        mine += (self.pieces, self.cluster)
        mine += (self.log, self.log_facts, self.watched, self.history, self.report_json, self.report_html)
        foreign = [path.name for path in mine if path.exists()]
        if foreign and not self._mark.is_file():
            raise InvalidArgument(
                f"{self.root} holds {', '.join(foreign)}, which is not from an earlier run: choose another folder"
            )
        for path in mine:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for path in (self.evidence, self.written, self.notes, self.acknowledged):
            path.mkdir(parents=True, exist_ok=True)
        self._mark.touch()

    @property
    def _mark(self) -> Path:
        return self.root / ".memwal-validate"

    @property
    def _readings(self) -> Path:
        return self.root / "readings"
