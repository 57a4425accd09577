"""`memwal verify`: every invariant over a table, read only.

The work is done in a process of its own, since damage inside of a Lance file can end the process of the native reader:
then the file that was read last is a finding, and the run starts again without it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from memwal.drive import Listener
from memwal.errors import EngineBug, InvalidArgument, NotFound
from memwal.invariants import ABOUT, INVARIANTS

CRASHES_MAX = 20
"""Files that may end the process before the run is given up."""

Found = dict[str, Any]
"""A report as JSON: see docs/verify.md."""


def register(app: typer.Typer, out: Console, progress: Listener) -> None:
    """Add the command to ``app``; results go to ``out``, what it is doing to ``progress``."""

    @app.command()
    def verify(
        table: Annotated[
            str, typer.Argument(metavar="TABLE", help="Folder or URL (s3://, gs://, az://) of the table.")
        ] = "",
        revision: Annotated[
            str | None, typer.Option(help="Read regions as of this revision, whatever the table says.")
        ] = None,
        fast: Annotated[bool, typer.Option("--fast", help="Leave out rows, and all but recent history.")] = False,
        listed: Annotated[bool, typer.Option("--list", help="List the invariants, and check nothing.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    ) -> None:
        """Check a table against every invariant, read only. Exit code 0: clean, 1: findings, 2: no such table."""
        if listed:
            _print_list(out, as_json=as_json)
            return
        if not table:
            raise typer.BadParameter("name a table, or use --list", param_hint="TABLE")
        try:
            found = inspect({"url": table, "revision": revision, "fast": fast}, progress)
        except (NotFound, InvalidArgument) as error:
            Console(stderr=True).print(f"error: {error}", soft_wrap=True, highlight=False, markup=False)
            raise typer.Exit(2) from None
        if as_json:
            out.print_json(json.dumps(found))
        else:
            _print(found, out)
        if found["findings"]:
            raise typer.Exit(1)


def inspect(asked: dict[str, Any], progress: Listener) -> Found:
    """Run the inspection in processes of their own until one comes to its end."""
    crashed: list[Found] = []
    while True:
        end = _run({**asked, "skip": [one["full_path"] for one in crashed]}, progress)
        if "report" in end:
            report: Found = end["report"]
            known = {one["path"]: one for one in crashed}
            others = [one for one in report["findings"] if one["path"] not in known]
            found = [{k: v for k, v in one.items() if k != "full_path"} for one in crashed]
            report["findings"] = found + others
            report["clean"] = not report["findings"]
            return {"table": asked["url"], **report}
        if "refused" in end:
            kind = {"NotFound": NotFound, "InvalidArgument": InvalidArgument}.get(end["refused"]["kind"])
            if kind is None:
                raise EngineBug(f"the inspection failed: {end['refused']['text']}")
            raise kind(end["refused"]["text"])
        if not end["reading"] or len(crashed) == CRASHES_MAX:
            raise EngineBug(f"the inspection ended with {end['code']}: {end['said']}")
        reason = f"reading it ends the process of the native reader (exit code {end['code']})"
        crashed.append(
            {
                "invariant": "named_files_are_whole",
                "clause": "FORMAT-024",
                "path": end["reading"]["path"],
                "full_path": end["reading"]["full_path"],
                "reason": reason,
                "severity": "error",
                "offset": None,
            }
        )


def _run(asked: dict[str, Any], progress: Listener) -> dict[str, Any]:
    """One inspection; what came last of report, refusal, and object read when the process ended."""
    command = [sys.executable, "-c", "from memwal.cli.inspector import main; main()"]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(  # noqa: S603 - our own interpreter with our own code
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked))
        process.stdin.close()
        reading: dict[str, str] = {}
        for line in process.stdout:
            said = json.loads(line)
            if "note" in said:
                progress(said["note"], said["fields"])
            elif "reading" in said:
                reading = said["reading"]
            else:
                process.wait()
                end: dict[str, Any] = said
                return end
        code = process.wait()
        errors.seek(0)
        return {"reading": reading, "code": code, "said": errors.read().strip().rpartition("\n")[2]}


def _print(found: Found, out: Console) -> None:
    def line(text: str, style: str = "") -> None:
        out.print(text, style=style, soft_wrap=True, highlight=False, markup=False)

    for one in found["findings"]:
        at = "" if one["offset"] is None else f" at byte {one['offset']}"
        colour = "red" if one["severity"] == "error" else "yellow"
        line(f"{one['severity']} {one['path']}{at}: {one['reason']} [{one['invariant']}, {one['clause']}]", colour)
    for name, more in found["suppressed"].items():
        line(f"… and {more} more of {name}")
    for note in found["notes"]:
        line(f"not checked: {note}", "dim")
    if not found["mem_wal"]:
        line("MemWAL is not enabled on this table, or its index cannot be read: only the table itself was checked")
    if found["moved"]:
        line("the table kept changing while it was looked at: findings may come from two moments", "yellow")
    looked_at = ", ".join(f"{number} {name}" for name, number in found["looked_at"].items())
    version = f"version {found['version']}, " if found["version"] is not None else ""
    line(f"{version}revision {found['revision'] or 'unknown'}: looked at {looked_at or 'nothing'}")
    line("clean" if found["clean"] else f"{len(found['findings'])} findings")


def _print_list(out: Console, *, as_json: bool) -> None:
    every = sorted(INVARIANTS.values(), key=lambda one: ABOUT.index(one.about))
    if as_json:
        out.print_json(json.dumps([asdict(one) for one in every]))
        return
    grid = Grid("about", "invariant", "clauses", "severity", "what holds")
    for one in every:
        says = one.says + (" (reads rows)" if one.rows else "")
        grid.add_row(one.about, one.name, ", ".join(one.clauses), one.severity, says)
    out.print(grid)
