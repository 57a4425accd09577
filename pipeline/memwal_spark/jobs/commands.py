"""The jobs as commands: ``memwal spark merge TABLE``, and the same words behind ``spark-submit``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from memwal.cli import gc as gc_words
from memwal.cli import gc_options
from memwal.cli import verify as verify_words
from memwal.cli.terminal import Whole
from memwal.errors import InvalidArgument, MemwalError, check_name
from memwal.jobs.defaults import COMMIT_EVERY, COMPACT_OVER, RETAIN_MANIFESTS
from memwal.words import counted, reason
from rich.console import Console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..upserting import Upserted
    from .collecting import Collected
    from .spread import JobDone, Tell
    from .tracing import Traced
    from .verifying import Verified

T = TypeVar("T")

Place = Annotated[str, typer.Argument(metavar="TABLE", help="Folder or URL (s3://, gs://, az://) of the table.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Master = Annotated[
    str | None,
    typer.Option(
        help="Spark's master, as in spark://host:7077. Default: spark-submit's, or all cores of this machine."
    ),
]
Storage = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Option of the object store; repeatable.")
]

HOT_PAGE = "docs/scale.md, Hot regions"
ENDS = "Exit code 0: done; 1: a task or the job failed, and what the others did stays; 2: usage, or no such table."


def commands(app: typer.Typer) -> None:
    """Add the jobs to ``app``."""
    for command in (write, merge, catch_up, snapshot, gc, verify, why):
        app.command(command.__name__.replace("_", "-"), epilog=ENDS)(command)


def write(
    table: Place,
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Files or folders of one format.")],
    sequence_by: Annotated[str, typer.Option(help="Column by which the last row of a key wins.")],
    format_: Annotated[
        str | None, typer.Option("--format", help="parquet, json or csv (with a header); default: by the ending.")
    ] = None,
    late_rows: Annotated[
        str, typer.Option(help="Rows whose sequence is not higher than the stored one: drop, keep or fail.")
    ] = "drop",
    delete_column: Annotated[
        str | None, typer.Option(help="Column that is true where the key is deleted (revision R); not stored.")
    ] = None,
    change_type_column: Annotated[
        str | None,
        typer.Option(
            help="Column with insert, update_postimage, upsert, delete or update_preimage, as change feeds have it."
        ),
    ] = None,
    region_column: Annotated[
        str | None, typer.Option(help="Column with each row's region id, for tables without a region spec; not stored.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column not to store; repeatable.")] = None,
    csv_escape: Annotated[str | None, typer.Option(help='What CSV has before a quote: " (default) or \\.')] = None,
    txn_app_id: Annotated[
        str | None, typer.Option(help="Application whose batches are written once each; with --txn-version.")
    ] = None,
    txn_version: Annotated[int | None, typer.Option(min=0, help="Number of the batch.")] = None,
    flush_every_rows: Annotated[int | None, typer.Option(min=1, help="Flush after this many rows in a task.")] = None,
    master: Master = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Upsert files into a table, each region in a Spark task of its own.

    Columns get the table's types where no value changes; missing and unknown columns are errors.
    """

    def job() -> Upserted:
        from . import loading, sessions

        if (txn_app_id is None) != (txn_version is None):
            raise InvalidArgument("[MEMWAL_OPTION] --txn-app-id and --txn-version are given together or not at all")
        check_name("way with late rows", late_rows, ("drop", "keep", "fail"))
        if format_ is not None:
            check_name("format", format_, ("parquet", "json", "csv"))
        with sessions.started("memwal spark write", master) as spark, _busy("writing"):
            return loading.write(
                spark,
                table,
                sources,
                sequence_by=sequence_by,
                format=format_,  # type: ignore[arg-type] # looked at above
                late_rows=late_rows,  # type: ignore[arg-type] # looked at above
                delete_column=delete_column,
                change_type_column=change_type_column,
                region_column=region_column,
                ignore=ignore or (),
                csv_escape=csv_escape,
                txn=None if txn_app_id is None or txn_version is None else (txn_app_id, txn_version),
                flush_every_rows=flush_every_rows,
                storage=_options(storage),
            )

    done = _attempted(job)
    if as_json:
        told = ("rows", "replaced", "late", "deleted", "generations", "skipped", "finished_before")
        found = {name: getattr(done, name) for name in told} | {"tasks": [dict(task) for task in done.tasks]}
        typer.echo(json.dumps(found, indent=2))
    else:
        typer.echo(repr(done))


def merge(
    table: Place,
    region: Annotated[list[str] | None, typer.Option(help="Merge this region; repeatable. Default: all.")] = None,
    drain: Annotated[bool, typer.Option("--drain", help="Flush the WALs first, which fences open writers.")] = False,
    commit_every: Annotated[
        int,
        typer.Option(min=1, help="Commit at most this many regions at once in a task, each with its next generation."),
    ] = COMMIT_EVERY,
    compact_over: Annotated[
        int,
        typer.Option(min=0, help="Rewrite small fragments of one size as one if there are more than this; 0: never."),
    ] = COMPACT_OVER,
    replace_rows_of_others: Annotated[
        bool, typer.Option(help="Let a manual region replace rows that another manual region merged.")
    ] = False,
    master: Master = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Merge flushed generations into the base table; Spark tasks share the regions."""

    def job(spark: SparkSession, tell: Tell) -> JobDone:
        from . import upkeep

        return upkeep.merge(
            spark,
            table,
            regions=region,
            drain=drain,
            commit_every=commit_every,
            compact_over=compact_over,
            replace_rows_of_others=replace_rows_of_others,
            storage=_options(storage),
            tell=tell,
        )

    def line(item: str, found: dict[str, Any]) -> str:
        merged = f"{counted(len(found['generations']), 'generation')}, {counted(found['rows'], 'row')}"
        return f"{item}: {merged}, {found['deleted']:,} deleted"

    done = _in_session("merge", master, "merging", job)
    nothing = "nothing to merge" if drain else "nothing to merge: --drain flushes rows that are only in the WAL first"
    _show(done, "region", line, as_json=as_json, nothing=nothing)


def catch_up(
    table: Place,
    index: Annotated[list[str] | None, typer.Option(help="Catch up this index; repeatable. Default: all.")] = None,
    master: Master = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Extend indexes of the base table over merged rows, each index in a Spark task of its own."""

    def job(spark: SparkSession, tell: Tell) -> JobDone:
        from . import upkeep

        return upkeep.catch_up(spark, table, indexes=index, storage=_options(storage), tell=tell)

    def line(item: str, found: dict[str, Any]) -> str:
        done = f"{len(found['fragments'])} fragments added" if found["committed"] else "up to date"
        return f"{item}: {done} at version {found['version_indexed']}"

    _show(_in_session("catch-up", master, "catching up", job), "index", line, as_json=as_json)


def snapshot(
    table: Place,
    whole: Whole = False,
    master: Master = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild the region snapshot that eventual reads use; Spark tasks share the regions."""

    def job(spark: SparkSession, tell: Tell) -> JobDone:
        from . import upkeep

        return upkeep.snapshot(spark, table, whole=whole, storage=_options(storage), tell=tell)

    def line(item: str, found: dict[str, Any]) -> str:
        return f"task {item}: {counted(found['regions'], 'region')}"

    _show(_in_session("snapshot", master, "building the snapshot", job), "task", line, as_json=as_json)


def gc(
    table: Place,
    retain_versions: gc_options.RetainVersions = None,
    retain_age: gc_options.RetainAge = None,
    grace: gc_options.Grace = gc_options.GRACE,
    retain_manifests: gc_options.RetainManifests = RETAIN_MANIFESTS,
    orphan_age: gc_options.OrphanAge = gc_options.ORPHAN_AGE,
    time_travel: gc_options.TimeTravelRule = "progress",
    dry_run: gc_options.DryRun = False,
    master: Master = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Delete what no retained table version needs, each region in a Spark task of its own."""
    kept = gc_options.kept(retain_versions, retain_age, grace, retain_manifests, orphan_age, time_travel)

    def job(spark: SparkSession, tell: Tell) -> Collected:
        from . import collecting

        return collecting.gc(spark, table, **kept, dry_run=dry_run, storage=_options(storage), tell=tell)

    done = _in_session("gc", master, "collecting", job)
    if as_json:
        failed = [{"region": task.item, "error": task.error} for task in done.failed]
        typer.echo(json.dumps({**gc_words.as_found(done.report), "failed": failed}, indent=2))
    else:
        gc_words.show(done.report, Console(), every=False)
    _end(done, "region")


def verify(
    table: Place,
    fast: Annotated[bool, typer.Option("--fast", help="Do not check rows and older history.")] = False,
    master: Master = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Check a table against every invariant, in a Spark task for each region. Reads only. Exit code 1: findings."""

    def job(spark: SparkSession, tell: Tell) -> Verified:
        from . import verifying

        return verifying.verify(spark, table, fast=fast, storage=_options(storage), tell=tell)

    done = _in_session("verify", master, "verifying", job)
    found = verify_words.as_found(table, done.report)
    if as_json:
        failed = [{"task": task.item, "error": task.error} for task in done.failed]
        typer.echo(json.dumps({**found, "failed": failed}, indent=2))
    else:
        verify_words.show(found, Console())
    _end(done, "region")
    if found["findings"]:
        raise typer.Exit(1)


def why(
    table: Place,
    key: Annotated[str, typer.Argument(metavar="KEY", help="JSON: an object with the key columns, or a list of them.")],
    written: Annotated[
        list[Path] | None,
        typer.Option(help="Report of a write (option reportPath), in the order of jobs; names who wrote what."),
    ] = None,
    master: Master = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Show where the rows of a key are and were: WAL entries, generations, versions of the base table. Reads only."""

    def job(tell: Tell) -> Traced:
        from memwal.cli.explain import keys_named

        from ..options import TableOption
        from ..place import open_table
        from . import sessions, tracing

        options = _options(storage)
        keys = keys_named(open_table(TableOption(path=table, storage=options)), key)
        with sessions.started("memwal spark why", master) as spark:
            return tracing.why(spark, table, keys, written=_claims(written or ()), storage=options, tell=tell)

    done = _with_progress("looking", job)
    if as_json:
        failed = [{"task": task.item, "error": task.error} for task in done.failed]
        keys = [asdict(history) for history in done.histories]
        typer.echo(json.dumps({"keys": keys, "failed": failed}, indent=2))
    else:
        from . import tracing

        for history in done.histories:
            typer.echo(tracing.told(history))
    _end(done, "region")


def _claims(reports: Sequence[Path]) -> dict[tuple[str, int], str]:
    from . import tracing

    try:
        return tracing.tasks_of([json.loads(file.read_text("utf-8")) for file in reports])
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise InvalidArgument(f"[MEMWAL_OPTION] --written must name a report of a write: {reason(wrong)}") from wrong


def _attempted(job: Callable[[], T]) -> T:
    """What ``job`` returns; an error of the caller ends the command with 2, of the engine or of Spark with 1."""
    from pyspark.errors import PySparkException

    from ..errors import said

    try:
        return job()
    except InvalidArgument as mistake:
        typer.echo(f"error: {mistake}", err=True)
        raise typer.Exit(2) from mistake
    except (MemwalError, PySparkException) as failure:
        typer.echo(f"error: {said(failure)}", err=True)
        raise typer.Exit(1) from failure


def _in_session(name: str, master: str | None, what: str, job: Callable[[SparkSession, Tell], T]) -> T:
    """As `_with_progress`, in the session of the command ``name``."""

    def started(tell: Tell) -> T:
        from . import sessions

        with sessions.started(f"memwal spark {name}", master) as spark:
            return job(spark, tell)

    return _with_progress(what, started)


def _with_progress(what: str, job: Callable[[Tell], T]) -> T:
    with _busy(what) as tell:
        return _attempted(lambda: job(tell))


@contextmanager
def _busy(what: str) -> Iterator[Tell]:
    """Show on standard error, to a person, that work continues and how much of it is done."""
    with Console(stderr=True).status(what) as status:
        yield lambda done, count: status.update(f"{what}: {done} of {count} tasks done")


def _show(
    done: JobDone,
    kind: str,
    line: Callable[[str, dict[str, Any]], str],
    *,
    as_json: bool,
    nothing: str = "nothing to do",
) -> None:
    """Print a line for each task, ``nothing`` if there is none, or JSON; end the command with 1 if one failed."""
    if as_json:
        tasks = [{kind: task.item, **(task.found or {}), "error": task.error} for task in done.tasks]
        hot = {"hot": [asdict(each) for each in done.hot]} if kind == "region" else {}
        typer.echo(json.dumps({"failed": len(done.failed), "tasks": tasks, **hot}, indent=2))
    else:
        for task in done.tasks:
            if task.found is not None:
                typer.echo(line(task.item, task.found))
        if not done.tasks:
            typer.echo(nothing)
        for each in done.hot:
            typer.echo(f"hot: {each.region} had {each.times:.1f} times the rows of the median region ({HOT_PAGE})")
        if done.compacted:
            typer.echo(f"{done.compacted} small fragments of the base rewritten as fewer")
    _end(done, kind)


def _end(done: JobDone, kind: str) -> None:
    """Name the tasks that failed, and end the command with 1 if there are some."""
    from .spread import TABLE

    for task in done.failed:
        name = task.item if task.item == TABLE else f"{kind} {task.item}"
        typer.echo(f"error: {name}: {task.error}", err=True)
    if done.failed:
        raise typer.Exit(1)


def _options(storage: list[str] | None) -> dict[str, str]:
    """``NAME=VALUE`` words as options of the object store."""
    bad = [word for word in storage or () if "=" not in word]
    if bad:
        raise InvalidArgument(f"[MEMWAL_OPTION] --storage takes NAME=VALUE, not {bad[0]!r}")
    return dict(word.split("=", 1) for word in storage or ())
