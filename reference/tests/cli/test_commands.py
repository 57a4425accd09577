"""The commands that strangers meet first: a table from a file, rows from a pipe, what waits, and how mistakes end."""

from __future__ import annotations

import io
import json
import random
import string
from pathlib import Path

import memwal
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from memwal.cli import endings
from memwal.cli.main import app
from memwal.errors import (
    AlreadyExists,
    ArtifactError,
    Conflict,
    InvalidArgument,
    MemwalError,
    NotFound,
    Throttled,
    Unreachable,
)
from memwal.ids import TableVersion
from typer.testing import CliRunner, Result

ROWS = {"id": [1, 2, 3], "name": ["Ada", "Grace", "Edsger"]}


def run(*words: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, env={"COLUMNS": "80"})


def said(*words: str, stdin: bytes | None = None) -> str:
    done = run(*words, stdin=stdin)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of two regions with three rows, in a folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(ROWS), "first.parquet")
    assert said("create", "people", "first.parquet", "--key", "id", "--buckets", "2") == (
        "created people: revision B, 2 regions, 3 rows\n"
    )
    return tmp_path / "people"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("more.csv", b"name,id\nLin,4\n"),
        ("more.jsonl", b'{"id": 4, "name": "Lin"}\n'),
        ("-", b"id,name\n4,Lin\n"),
        ("-", b'\n{"id": 4, "name": "Lin"}\n'),
    ],
)
def test_rows_come_from_files_and_pipes_and_wait_in_the_wal(people: Path, name: str, rows: bytes) -> None:
    if name != "-":
        Path(name).write_bytes(rows)

    assert said("upsert", "people", name, stdin=rows) == "upserted 1 row\n"

    assert said("count", "people") == "4 rows\n"
    assert said("count", "people", "--where", "id = 4") == "1 row\n"
    assert "1 row is only in the WAL" in said("info", "people")
    merged = said("merge", "people")
    assert merged == (
        "nothing to merge\n1 row is only in the WAL: `memwal table drain people` brings it into the base\n"
    )
    (region,) = [each["values"]["bucket"] for each in json.loads(said("info", "people", "--json"))["regions"]]
    drained = said("drain", "people", f"bucket={region}")
    assert drained == "merged 1 generation in 1 commit: 1 row upserted, 0 keys deleted\n"
    assert "nothing is waiting: all rows are in the base table" in said("watch", "people", "--once")
    assert "nothing to catch up: the table has no index over a column" in said("catch-up", "people")
    assert memwal.base_table(people).scan().num_rows == 4


def test_many_rows_are_written_in_parts_and_formats_carry_them_on(people: Path) -> None:
    pq.write_table(pa.table({"id": range(10, 17), "name": ["x"] * 7}), "more.parquet", row_group_size=2)
    assert said("upsert", "people", "more.parquet", "first.parquet", "--batch-rows", "3") == "upserted 10 rows\n"
    assert sum(each.wal_entries for each in memwal.open(people).backlog()) >= 4

    done = run("scan", "people", "--format", "arrow")
    carried = pa.ipc.open_stream(io.BytesIO(done.stdout_bytes)).read_all()
    assert sorted(carried["id"].to_pylist()) == [1, 2, 3, *range(10, 17)]
    assert said("scan", "people", "--format", "json", "--where", "id = 1") == '{"id": 1, "name": "Ada"}\n'
    assert said("scan", "people", "--format", "csv", "--columns", "id", "--where", "id = 1") == '"id"\n1\n'
    assert said("scan", "people", "--format", "parquet", "--out", "all.parquet") == "10 rows written to all.parquet\n"
    assert pq.read_table("all.parquet").num_rows == 10


def test_a_value_is_printed_as_it_is(people: Path) -> None:
    assert said("upsert", "people", "-", stdin=b"id,name\n9,:smile: [red]\n") == "upserted 1 row\n"
    assert ":smile: [red]" in said("scan", "people", "--where", "id = 9")


def test_the_history_names_operations_and_rows(people: Path) -> None:
    told = json.loads(said("history", "people", "--json"))
    assert [each["version"] for each in told] == [2, 1]
    assert [(each["operation"], each["rows"]) for each in told] == [("create index", 3), ("overwrite", 3)]
    assert told[0]["committed"] >= told[1]["committed"] >= "2020"
    assert len(json.loads(said("history", "people", "--json", "--limit", "1"))) == 1


def test_a_region_is_named_by_how_its_id_begins_or_by_its_values(people: Path) -> None:
    said("upsert", "people", "first.parquet")
    regions = {each.region_id: each.values["bucket"] for each in memwal.open(people).regions()}
    assert len(regions) == 2
    id_, value = next(iter(regions.items()))
    assert "merged 1 generation" in said("drain", "people", id_[:7])
    assert "nothing to merge" in said("drain", "people", f"bucket={value}")
    refused = run("drain", "people", f"{'f' if id_[0] != 'f' else 'e'}ffffff0")
    assert (refused.exit_code, "error: people: there is no region " in refused.output) == (2, True)
    assert "Did you mean 'bucket=" in run("drain", "people", "bucket=7").output


MISTAKES = {
    "info nowhere": "there is no table at ",
    "scan people --version 99": "has no version 99: it has 2 versions, from 1 to 2",
    "scan people --columns nmae": "people: there is no column 'nmae'; choose one of id, name. Did you mean 'name'?",
    "upsert people nothing.csv": "error: nothing.csv: no such file or directory",
    "upsert people first.parquet --format csv": "first.parquet cannot be read as csv: ",
    "create people first.parquet --key id": "error: there is already a table at people: `memwal table upsert people",
    "create other --column id=nothing --key id": "write NAME=TYPE with a type of Arrow",
    "create other first.parquet": "name the column or columns of the primary key",
    "scna people": "Did you mean `memwal table scan`?",
    "migrate people": "there is nothing to migrate",
}


@pytest.mark.parametrize("command", ["", "'"])
@pytest.mark.parametrize("words", ["vectors matrix", "explore --against"])
def test_an_adapter_that_is_no_command_is_refused_in_a_sentence(words: str, command: str) -> None:
    done = run("conformance", *words.split(), command)
    assert (done.exit_code, "error: the " in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    ("cited", "says"),
    [
        ("WAL-001", "WAL-001: see `memwal conformance clauses show WAL-001`"),
        ("AMB-15", "AMB-15: see `memwal conformance notes show AMB-15`"),
    ],
)
def test_what_a_message_cites_is_told_where_to_read_and_once(cited: str, says: str) -> None:
    ended = endings.ending(ArtifactError(cited, "w", f"bad [{cited}]"), "people")
    assert ended is not None
    assert ended[1].splitlines()[1:] == [says]


@pytest.mark.parametrize("words", MISTAKES)
def test_a_wrong_call_ends_with_2_and_says_what_to_do(people: Path, words: str) -> None:
    done = run(*words.split())
    assert done.exit_code == 2, done.output
    assert MISTAKES[words] in " ".join(done.output.replace("│", " ").split())
    for never in ("Traceback", "Errno", "path=", "18446744"):
        assert never not in done.output
    assert memwal.open(people).scan().num_rows == 3


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (InvalidArgument("no"), 2, "error: people: no"),
        (NotFound("x", "there is no table at people"), 2, "error: there is no table at people"),
        (NotFound("x"), 1, "error: people: x was not found; `memwal table verify people` says what else is missing"),
        (AlreadyExists("x"), 2, "error: there is already a table at people: `memwal table upsert people FILE`"),
        (
            ArtifactError("WAL-001", "w", "bad"),
            1,
            "damaged: people: w: bad [WAL-001]; `memwal table verify people` lists",
        ),
        (
            Conflict(TableVersion(2), "append", "merge", retryable=True, reason="new columns"),
            1,
            "error: people: this append was not committed, since version 2 came first: new columns; try again on ",
        ),
        (Throttled("x"), 1, "error: people: the store was too busy for x and changed nothing: try again later"),
        (Unreachable("x"), 1, "check that the store can be reached, and run the command again"),
        (MemwalError("x"), 1, "error: people: x"),
        (FileNotFoundError(2, "No such file or directory", "f"), 2, "error: f: no such file or directory"),
    ],
)
def test_one_kind_of_mistake_has_one_exit_code_and_a_remedy(error: Exception, code: int, sentence: str) -> None:
    ended = endings.ending(error, "people")
    assert ended is not None
    assert ended[0] == code
    assert sentence in ended[1]


def test_a_bug_of_ours_has_its_traceback() -> None:
    assert endings.ending(AssertionError("ours")) is None
    assert endings.ending(BrokenPipeError(32, "Broken pipe")) is None  # whose reader wants no more


def words_of(group: typer.core.TyperGroup, before: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], list[str]]]:
    """Each command, with its options."""
    found = []
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, typer.core.TyperGroup):
            found += words_of(command, (*before, name))
        else:
            found.append(((*before, name), [option for each in command.params for option in each.opts]))
    return found


SLOW = frozenset(
    [
        "gate",
        "soak-processes",
        "mutate",
        "kill",
        "watch",
        "certify",
        "coverage",
        "gallery",
        "hunt",
        "soak",
        "prove",
        "draw",
    ]
)
"""Commands that serve, work for minutes, or write into the clone (`docs gallery`), when they are called rightly."""


def fuzzed(count: int, seed: int) -> list[list[str]]:
    """Argument lists that nobody would mean: commands and options that there are, in any order, with rubbish."""
    draw = random.Random(seed)
    known = [each for each in words_of(typer.main.get_command(app)) if not SLOW & {*each[0]} and each[0][0] != "spark"]  # type: ignore[arg-type]
    rubbish = ["", "-", "--", "-1", "0", "1e9", "x=y", "[red]", "*", "\x00", "ä", "{", "nowhere", "people", "--json"]
    found = []
    for _ in range(count):
        words, options = draw.choice(known)
        pool = [*options, *rubbish, "".join(draw.choices(string.printable[:94], k=draw.randint(1, 12)))]
        arguments = [draw.choice(pool) for _ in range(draw.randint(0, 5))]
        if draw.random() < 0.2:
            words = (*words[:-1], words[-1][:-1])
        found.append([*words, *arguments, "--no-such-option" if draw.random() < 0.7 else draw.choice(pool)])
    return found


def no_traceback(count: int, seed: int) -> None:
    for words in fuzzed(count, seed):
        done = run(*words)
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
        assert done.exit_code in (0, 1, 2), words


def test_no_argument_list_has_a_traceback(people: Path) -> None:
    no_traceback(60, seed=1)


@pytest.mark.long
@pytest.mark.time_limit(1200)
def test_no_argument_list_of_a_thousand_has_a_traceback(people: Path) -> None:
    no_traceback(1000, seed=2)
