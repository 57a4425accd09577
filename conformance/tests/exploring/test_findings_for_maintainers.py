"""What a maintainer gets of a finding: decoded bytes, files that run alone, and environments with only the package."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import typer
from memwal_conformance.cli import commands
from memwal_conformance.exploring import decoded, findings, lives, reproducing, showing
from memwal_conformance.exploring.lived import nothing_done
from memwal_conformance.gate import LogEntry, RequestFate
from memwal_conformance.judge.artifacts import name_of
from memwal_conformance.judge.wire import blob_field, uint_field
from typer.testing import CliRunner

REGION = "0a0b0c0d-0000-4000-8000-000000000001"


def manifest(version: int, epoch: int, replay_after: int, *generations: int) -> bytes:
    """A region manifest."""
    region = blob_field(11, blob_field(1, bytes.fromhex(REGION.replace("-", ""))))
    listed = b"".join(
        blob_field(8, uint_field(1, n) + blob_field(2, f"abcd{n:04}_gen_{n}".encode())) for n in generations
    )
    numbers = uint_field(1, version) + uint_field(2, epoch) + uint_field(3, replay_after)
    return numbers + uint_field(6, 1 + len(generations)) + listed + region


def entry(epoch: int, *ids: int) -> bytes:
    """A WAL entry."""
    rows = pa.table({"id": list(ids)}).replace_schema_metadata({"writer_epoch": str(epoch)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return sink.getvalue().to_pybytes()


AT_THE_FLUSH = {"actor": "w", "class": "manifest", "operation": "CREATE", "name": "manifest/@4"}


def objects(manifests: list[bytes], entries: dict[int, bytes]) -> dict[str, bytes]:
    folder = f"t/_mem_wal/{REGION}"
    found = {f"{folder}/manifest/{name_of(n, 'binpb')}": data for n, data in enumerate(manifests, 1)}
    return found | {f"{folder}/wal/{name_of(n, 'arrow')}": data for n, data in entries.items()}


def test_the_newest_manifest_is_decoded_beside_its_bytes_and_so_is_what_would_be_replayed() -> None:
    stored = objects([manifest(1, 1, 0), manifest(2, 3, 300, 1)], {300: entry(3, 1), 301: entry(3, 7, 8)})
    first, listed, behind = decoded.lines_of(stored, "B")
    assert "writer_epoch 3 [10 03], replay_after_wal_entry_position 300 [18 ac 02]" in first
    assert "1 at abcd0001_gen_1 [42 12 08 01 12 0e" in listed
    assert behind.endswith("to be replayed: epoch 3, id 7; id 8")
    assert decoded.lines_of({}, "B") == ("no region manifest is stored",)
    damaged = decoded.lines_of(objects([b"\xff\xff"], {}), "B")
    assert damaged[1] == "  ff ff"
    many = objects([manifest(1, 1, 0)], {n: entry(1, n) for n in range(20)})
    assert len(decoded.lines_of(many, "B")) == decoded.LINES


def test_a_file_that_runs_alone_sees_a_repeated_manifest_and_no_other() -> None:
    alone = pytest.importorskip("memwal_conformance.exploring.alone")
    honest = [manifest(1, 1, 0), manifest(2, 2, 0), manifest(3, 2, 4, 1)]
    assert alone.repeated(objects(honest, {})) == []
    (said,) = alone.repeated(objects([*honest, manifest(4, 2, 4, 1)], {}))
    assert said == "manifest 4 repeats manifest 3: neither a claim nor a flush made it"
    assert alone.manifest(objects(honest, {})) == {
        "version": 3,
        "epoch": 2,
        "replay_after": 4,
        "current": 2,
        "generations": [(1, "abcd0001_gen_1")],
    }


def test_the_log_says_what_the_client_got_where_the_store_said_something_else() -> None:
    def line(status: int, got: int | None) -> str:
        made = LogEntry(
            1, "w", "wal", "wal/@1", "k", (), "PUT", RequestFate.APPLIED, status, 0, "", 0, "", "", 1, "", "a/1"
        )
        made.got = got
        found = finding(1)
        found.log = [made.to_json()]
        return showing.log_of(found)

    assert line(200, 500).endswith("the client got 500  a/1\n")
    assert line(200, 0).endswith("the client got no answer  a/1\n")
    assert "the client" not in line(200, 200) + line(200, None)


@pytest.mark.parametrize(
    ("steps", "rules", "where", "kind"),
    [
        ("a open, b put, a scan", [], "", "answer"),
        ("w put, w flush", [{"at": AT_THE_FLUSH, "do": "apply_then_fail", "status": 500}], "recovered", "rows"),
    ],
)
def test_a_file_that_runs_alone_sees_what_a_replaced_and_what_a_recovering_writer_miss(
    monkeypatch: pytest.MonkeyPatch, steps: str, rules: list[dict[str, Any]], where: str, kind: str
) -> None:
    alone = pytest.importorskip("memwal_conformance.exploring.alone")
    about = {"oracle": kind, "life": {"steps": steps}, "plan": {"rules": rules}, "crash": -1, "where": where}
    monkeypatch.setattr(alone, "FINDING", about | {"storage": {"timeout": "2s"}})
    for name in ("AWS_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ALLOW_HTTP"):
        monkeypatch.setenv(name, "")  # it sets these
    assert any(told == kind and "was acknowledged" in said for told, said in alone.shows(1))


def finding(number: int, alone: str = "") -> findings.ForeignFinding:
    of = {"oracle": "rows", "clauses": ["WAL-001"], "note": None, "sentence": "It is.", "detail": "", "where": ""}
    run = {"life": {"name": "a", "steps": "w put"}, "plan": {"words": "no fault"}, "crash": -1, "told": [], "log": []}
    more = {"words": "a row is missing", "hit": "no fault", "severity": "critical", "versions": ["1.0"]}
    return findings.ForeignFinding(number=number, alone=alone, **of, **run, **more)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three findings: two have a file, of which one shows it under version 2 only."""
    found = [finding(1, "shows it"), finding(2, "does not show it: x"), finding(3, findings.NO_FILE)]
    whole = {"implementation": "pylance", "version": "1.0", "revision": "R", "covered": {}, "findings": found}
    findings.keep({"format": findings.FORMAT, **whole}, tmp_path)
    (tmp_path / "01.py").write_text("raise SystemExit(1)", "utf-8")

    @contextmanager
    def environment(version: str) -> Iterator[str]:
        status = f"int(sys.flags.isolated and {version == '2.0'})"
        (tmp_path / "02.py").write_text(f"import sys\nraise SystemExit({status})", "utf-8")
        yield sys.executable

    monkeypatch.setattr(reproducing, "environment", environment)
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    app = typer.Typer()
    commands(app)
    done = CliRunner().invoke(app, ["findings", *words], env={"COLUMNS": "200", "TERM": "dumb"})
    return done.exit_code, done.output


def test_files_run_in_fresh_environments_and_the_versions_that_show_a_finding_are_kept(folder: Path) -> None:
    status, text = run("reproduce", str(folder))
    assert (status, [line[:8] for line in text.splitlines()]) == (1, ["1.0    1", "1.0    2"])
    status, text = run("reproduce", str(folder), "--native-version", "2.0", "--native-version", "1.0")
    assert (status, len(text.splitlines())) == (0, 4)
    kept = findings.load(folder)["findings"]
    assert [each.versions for each in kept] == [["1.0", "2.0"], ["1.0", "2.0"], ["1.0"]]
    assert kept[1].fresh["1.0"].startswith("does not show it")
    assert set(kept[0].fresh) == {"1.0", "2.0"}
    assert kept[0].fresh["2.0"] == "shows it"
    assert "in a fresh environment with 2.0 and nothing else, the file shows it" in run("show", "1", str(folder))[1]
    assert "pylance 1.0, 2.0; WAL-001" in run("list", str(folder))[1]


def test_what_is_only_observed_need_not_be_shown(folder: Path) -> None:
    whole = findings.load(folder)
    whole["findings"][1].severity = findings.OBSERVED
    findings.keep(whole, folder)
    assert run("reproduce", str(folder))[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--number", "3"), "finding 3 has no file that runs alone; choose one of 1, 2"),
        (("--number", "9"), "finding 9"),
    ],
)
def test_a_finding_without_a_file_is_refused(folder: Path, words: tuple[str, ...], says: str) -> None:
    status, text = run("reproduce", str(folder), *words)
    assert (status, says in text) == (2, True)


def test_a_version_that_is_none_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    found = [finding(1, "shows it")]
    whole = {"implementation": "pylance", "version": "1.0", "revision": "R", "covered": {}, "findings": found}
    findings.keep({"format": findings.FORMAT, **whole}, tmp_path)
    status, text = run("reproduce", str(tmp_path), "--native-version", "newest")
    assert (status, "'newest' is no version" in text) == (2, True)


@pytest.mark.parametrize(
    ("told", "ended", "acknowledged", "why"),
    [
        (["w open: storage: no", "w put: storage: no"], [], [], "w open: storage: no"),
        (["w open: done", "w put: storage: no"], [], ["w"], ""),
        (["w open: no answer in 15 s"], ["hang at open"], [], ""),
        (["w open: done"], [], [""], ""),
    ],
)
def test_a_life_of_which_no_write_succeeds_is_not_explored_and_says_why(
    told: list[str], ended: list[str], acknowledged: list[str], why: str
) -> None:
    calls = [SimpleNamespace(process=name) for name in acknowledged]
    life = lives.ForeignLife(name="a", about="", steps=lives.steps_of("w open, w put", "a"))
    lived = SimpleNamespace(life=life, told=told, ended=ended, history=SimpleNamespace(acknowledged=calls))
    assert nothing_done(lived) == why  # type: ignore[arg-type]
