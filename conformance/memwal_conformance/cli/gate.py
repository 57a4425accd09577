"""The command `memwal conformance gate`: a folder's contents as S3 on loopback, for people to try."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from memwal_sim.cli.terminal import mistakes_are_usage

if TYPE_CHECKING:
    from ..gate.faults import FaultRule
    from ..gate.log import LogEntry
    from ..gate.server import Gate


def commands(app: typer.Typer) -> None:
    """Add the gate's command to ``app``."""
    app.command("gate")(serve)


def serve(
    root: Annotated[
        Path | None, typer.Option(help="Folder whose files are the first objects; it is not changed.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: any free port.")] = 0,
    bucket: Annotated[str, typer.Option(help="Name of the bucket.")] = "memwal",
    actor: Annotated[
        list[str] | None, typer.Option(help="Name of an actor, which gets a key of its own; repeatable.")
    ] = None,
    rules: Annotated[Path | None, typer.Option(help="JSON file with a list of faults.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=86400, help="Stop after this time.")] = 3600.0,
    save: Annotated[Path | None, typer.Option(help="Write the objects to this new folder at the end.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print endpoint, keys and the log as JSON lines.")] = False,
) -> None:
    """Serve a copy of a folder as S3 on loopback, print every request, and stop on Ctrl-C."""
    from memwal_sim.store import Contents, dump

    from ..gate.folder import loaded
    from ..gate.limits import GateLimits
    from ..gate.server import Gate

    with mistakes_are_usage():
        faults = _rules(rules)
        contents = Contents() if root is None else loaded(root)
        with Gate(contents, bucket=bucket, port=port, rules=faults, limits=GateLimits(life_s=seconds + 60)) as gate:
            _say_hello(gate, actor or ["writer-1", "reader-1"], as_json=as_json)
            _follow(gate, seconds, as_json=as_json)
            if save is not None:
                dump(gate.contents, save)
            idle = gate.inconclusive
    if idle:
        typer.echo(f"inconclusive: {idle}", err=True)


def _rules(path: Path | None) -> list[FaultRule]:
    from ..gate.faults import FaultRule

    if path is None:
        return []
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise typer.BadParameter(f"{path.name} is not JSON: {error}") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise typer.BadParameter(f"{path.name} is not a list of faults")
    return [FaultRule.from_json(each) for each in found]


def _say_hello(gate: Gate, actors: list[str], *, as_json: bool) -> None:
    keys = [gate.credentials(name) for name in actors]
    if as_json:
        shown = [{"actor": k.actor, "access_key": k.access_key, "secret_key": k.secret_key} for k in keys]
        typer.echo(json.dumps({"endpoint": gate.endpoint, "bucket": gate.bucket, "region": gate.region, "keys": shown}))
        return
    typer.echo(f"endpoint {gate.endpoint}, bucket {gate.bucket}, region {gate.region}, path style")
    for key in keys:
        typer.echo(f"{key.actor}: access key {key.access_key}, secret key {key.secret_key}")
    typer.echo("Ctrl-C stops it")


def _follow(gate: Gate, seconds: float, *, as_json: bool) -> None:
    """Print what happens until the time is over or Ctrl-C."""
    stopped, news, shown = threading.Event(), threading.Condition(), 0
    with _interrupted(stopped):
        over = threading.Timer(seconds, _stop, (stopped, news))
        over.daemon = True
        over.start()
        gate.watch(lambda: _tell(news))
        while not stopped.is_set() and gate.running:
            fresh = gate.log[shown:]
            shown += len(fresh)
            if fresh:
                _print(fresh, as_json=as_json)
            with news:
                news.wait_for(partial(_is_news, gate, stopped, shown), 1.0)
        over.cancel()
    _print(gate.log[shown:], as_json=as_json)


def _is_news(gate: Gate, stopped: threading.Event, shown: int) -> bool:
    return stopped.is_set() or len(gate.log) > shown


def _print(entries: tuple[LogEntry, ...], *, as_json: bool) -> None:
    from ..gate.log import text_of

    text = "".join(json.dumps(e.to_json()) + "\n" for e in entries) if as_json else text_of(entries)
    typer.echo(text, nl=False)


def _stop(stopped: threading.Event, news: threading.Condition) -> None:
    stopped.set()
    _tell(news)


def _tell(news: threading.Condition) -> None:
    with news:
        news.notify_all()


@contextmanager
def _interrupted(stopped: threading.Event) -> Iterator[None]:
    """Ctrl-C and a request to terminate end the command in good order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
