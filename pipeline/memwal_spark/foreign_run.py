"""What a validation does when another implementation writes: it is asked, watched, overtaken and judged.

The judge is the conformance suite's (``memwal conformance judge``), a program of its own: it reads the bytes with code
that shares no line with the engine, and looks after each phase, when no other process works on the table.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import memwal
import pyarrow as pa
import pyarrow.dataset as pads
from memwal.errors import ArtifactError, InvalidArgument, MemwalError
from pyspark.errors import PySparkException

from .change_log import ChangeLog
from .errors import said, sentence
from .folder import Folder
from .foreign import STOPPED, ForeignFailed, ForeignProcess, ForeignWriter, Greeting, rows_of, stream
from .foreign_task import PREPARED, stored_epoch
from .progress import PhaseProgress
from .report import ITS_OWN, JudgedPhase, WriterReport

_JUDGE = "import sys; from memwal.cli.main import main; sys.exit(main())"
_KEYS_ASKED = 100_000
"""Rows of the log whose region the implementation is asked for, at most."""
_CLAUSES = {"bucket": "REGION-031", "multi_bucket": "REGION-032"}
HELPED = (
    "this job creates the table, and claims each region once, so that its manifest says of which region spec it is",
    "where a region was written before, this job leaves out rows that are not newer than what a strong read finds",
    "this job merges, collects and catches the index up",
)
"""What the job does for every writer."""
FENCED, RISES = "FENCE-017, AMB-24", "FENCE-005"


@dataclass(slots=True)
class OwnWriter:
    """The engine as the writer of a validation: nothing of it is judged by others."""

    folder: Folder
    log: ChangeLog
    progress: PhaseProgress

    @property
    def foreign(self) -> ForeignWriter | None:
        """What tasks are told of another implementation."""
        return None

    def prepare(self, values: list[dict[str, Any]]) -> None:
        """Make a new table ready for regions of these ``values``."""

    def ask_regions(self) -> None:
        """Whether the writer finds the regions of the log's keys where the table's spec says they are."""

    def during(self, when: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Run what may fail by the writer's fault: of the engine that is an error."""
        return nullcontext()

    def judge(self, when: str) -> None:
        """Have the suite's judge look at the table and at what was acknowledged."""

    def overtake(self) -> None:
        """Whether a writer whose region another one has claimed stops."""

    def flush(self) -> None:
        """Open each region, recover what is there, and flush it."""
        table = memwal.open(self.folder.table)
        for region in table.regions():
            with table.writer(region.region_id) as writer:
                writer.flush()

    def read(self) -> pa.Table | None:
        """All rows as a reader of the writer's own finds them; None if it has none but the engine's, or it fails."""
        return None

    def report(self) -> WriterReport | None:
        """What was found; None of the engine."""
        return None


def working_writer(
    text: str | None, revision: str, folder: Folder, log: ChangeLog, progress: PhaseProgress
) -> OwnWriter:
    """The engine, or the adapter that ``text`` names, greeted. Raises InvalidArgument if it cannot write here."""
    if text is None:
        return OwnWriter(folder, log, progress)
    with progress.phase("greet the writer"):
        return ForeignRun.begin(ForeignWriter.of(text, revision, str(folder.acknowledged)), folder, log, progress)


@dataclass(slots=True)
class ForeignRun(OwnWriter):
    """Another implementation as the writer of a validation."""

    writer: ForeignWriter
    greeting: Greeting
    judged: list[JudgedPhase] = field(default_factory=list)

    @classmethod
    def begin(cls, writer: ForeignWriter, folder: Folder, log: ChangeLog, progress: PhaseProgress) -> ForeignRun:
        """Greet it. Raises InvalidArgument for an implementation that cannot write here."""
        with ForeignProcess(writer) as process:
            greeting = process.greeting
            if log.delete is not None and not greeting.answers("writer.delete"):
                raise InvalidArgument(
                    f"[MEMWAL_WRITER] {greeting.name} does not claim writer.delete, and the log deletes"
                )
        return cls(folder, log, progress, writer, greeting)

    @property
    def foreign(self) -> ForeignWriter:
        """What tasks are told of it."""
        return self.writer

    def prepare(self, values: list[dict[str, Any]]) -> None:
        """Register the regions of these ``values``, and claim each once: then manifests say of which spec they are."""
        table = memwal.open(self.folder.table)
        for region in table.register_regions(values):
            with table.writer(region):
                pass
            assert stored_epoch(table, str(region)) == PREPARED, "a new region was claimed once"

    @contextmanager
    def during(self, when: str) -> Iterator[None]:
        """What fails in the body is a finding: the job continues, and the judge looks at what there is."""
        try:
            yield
        except ArtifactError as broken:
            self._found(when, f"{broken.clause}: {broken}")
        except InvalidArgument:
            raise
        except MemwalError as failed:
            self._found(when, sentence(failed))
        except PySparkException as failed:
            self._found(when, said(failed))

    def _found(self, when: str, *findings: str, looked_at: int = 1, choices: tuple[str, ...] = ()) -> None:
        self.judged.append(JudgedPhase(when=when, findings=findings, choices=choices, looked_at=looked_at))

    def report(self) -> WriterReport:
        """What was found."""
        helped = (*self.greeting.helped, *HELPED)
        name, command = self.greeting.name, shlex.join(self.writer.command)
        return WriterReport(
            name=name, version=self.greeting.version, command=command, helped=helped, phases=tuple(self.judged)
        )

    def judge(self, when: str) -> None:
        """Have the suite's judge look at the table and at what was acknowledged."""
        with self.progress.phase(f"judge, {when}"):
            self._judge(when)

    def _judge(self, when: str) -> None:
        key = ",".join(self.log.key)
        asked = subprocess.run(
            [sys.executable, "-c", _JUDGE, "conformance", "judge", str(self.folder.table), "--key", key, "--json",
             "--revision", self.writer.revision, "--acknowledged", self.writer.acknowledged],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if asked.returncode not in (0, 1):
            self._found(when, f"the judge cannot read the table: {asked.stderr.strip()}")
            return
        checks = json.loads(asked.stdout)["checks"]
        self._found(
            when,
            *(f"{', '.join(c['blamed'])}: {c['check']}: {_first(c['faults'])}" for c in checks if c["faults"]),
            looked_at=sum(c["looked_at"] for c in checks),
            choices=tuple(
                f"{note}: {c['check']}: {_first([each['what'] for each in c['choices'] if each['ambiguity'] == note])}"
                for c in checks
                for note in dict.fromkeys(each["ambiguity"] for each in c["choices"])
            ),
        )

    def ask_regions(self) -> None:
        """Whether it finds the regions of the log's keys where the table's spec says they are."""
        table = memwal.open(self.folder.table)
        spec = table.spec
        if spec is None or "eval.region" not in self.greeting.capabilities:
            return
        names = {ident: name for name, ident in table._state.field_ids.items()}
        columns = list(dict.fromkeys(names[i] for each in spec.fields for i in each.source_ids))
        keys = pads.dataset(self.folder.log).head(_KEYS_ASKED, columns=list(self.log.key)).group_by(list(self.log.key))
        rows = keys.aggregate([]).cast(pa.schema([self.log.schema.field(name) for name in self.log.key]))
        expected = table.region_values(rows)
        fields = [
            {"field_id": each.field_id, "source_ids": [str(i) for i in each.source_ids], "transform": each.transform,
             "result_type": each.result_type, "parameters": dict(each.parameters)}
            for each in spec.fields
        ]  # fmt: skip
        told = {"spec_id": str(spec.spec_id), "fields": fields}
        ids = [str(table._state.field_ids[name]) for name in columns]
        with (
            self.progress.phase("ask for the regions of keys"),
            self.during("regions of keys"),
            ForeignProcess(self.writer) as process,
        ):
            params = {"spec": told, "field_ids": ids, "rows": stream(rows.select(columns))}
            values = process.call("eval.region", params)["values"]
            wanted = [[None if v is None else str(v) for v in row.values()] for row in expected.to_pylist()]
            found = [[cell["v"] for cell in row] for row in values]
            wrong = [at for at, (ours, theirs) in enumerate(zip(wanted, found, strict=True)) if ours != theirs]
            clauses = ", ".join(dict.fromkeys(_CLAUSES.get(each.transform or "", "REGION-002") for each in spec.fields))
            if wrong:
                (key,) = rows.slice(wrong[0], 1).to_pylist()
                said_of = f"{key} is of {wanted[wrong[0]]}, and {self.greeting.name} says {found[wrong[0]]}"
                text = f"{clauses}: {len(wrong):,} of {len(wanted):,} keys are in another region, first {said_of}"
                self._found("regions of keys", text, looked_at=len(wanted))
            else:
                self._found("regions of keys", looked_at=len(wanted))

    def overtake(self) -> None:
        """Let one writer claim a region and another one behind it: the first one's next put must not be acknowledged.

        The row that both put is the newest of its key, so that nothing changes for readers.
        """
        when = "a writer that is overtaken"
        table = memwal.open(self.folder.table)
        with self.progress.phase("overtake a writer"), self.during(when):
            rows = table.scan(limit=1)
            if not rows.num_rows:
                return
            (values,) = table.region_values(rows).to_pylist()
            region = str(table.register_region(values))
            put = {"rows": stream(rows), "durable": True}
            opened = {"table": str(self.folder.table), "region_id": region}
            with ForeignProcess(self.writer) as one, ForeignProcess(self.writer) as two:
                first = one.call("writer.open", opened)
                before = stored_epoch(table, region)
                second = two.call("writer.open", opened)
                after = stored_epoch(table, region)
                if after <= before:
                    self._found(when, f"{RISES}: {when}: a claim left epoch {before} at {after}")
                try:
                    one.call("writer.put", {"writer": first["writer"], **put})
                except ForeignFailed as refused:
                    if refused.kind not in STOPPED:
                        raise
                else:
                    text = f"a put under epoch {before} was acknowledged when {after} was claimed"
                    self._found(when, f"{FENCED}: {when}: {text}")
                two.call("writer.put", {"writer": second["writer"], **put})
                two.call("writer.close", {"writer": second["writer"]})
                self._found(when)

    def flush(self) -> None:
        """Have it open each region, recover what is there, and flush it."""
        for region in memwal.open(self.folder.table).regions():
            with self.during("the flush of what is left"), ForeignProcess(self.writer) as process:
                opened = {"table": str(self.folder.table), "region_id": str(region.region_id)}
                handle = {"writer": process.call("writer.open", opened)["writer"]}
                process.call("writer.flush_memtable", handle)
                process.call("writer.close", handle)

    def read(self) -> pa.Table | None:
        """All rows as its own reader finds them; None if it claims none, or fails."""
        if not self.greeting.answers("reader.open") or not self.greeting.answers("reader.scan"):
            return None
        with self.progress.phase(ITS_OWN), self.during(ITS_OWN), ForeignProcess(self.writer) as process:
            asked = {"table": str(self.folder.table), "consistency": "strong"}
            reader = process.call("reader.open", asked)["reader"]
            return rows_of(process.call("reader.scan", {"reader": reader})).select(self.log.schema.names)
        return None


def _first(faults: list[str]) -> str:
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return faults[0] + more
