"""``memwal docs certify``, ``coverage`` and ``gallery``: what shows that the exploration can be believed.

Exit codes: 0 nothing wrong, 1 a certificate differs, 2 usage.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer
from memwal.errors import InvalidArgument

from ..parallel import HERE, Workers
from .terminal import FOUND, Jobs, On, counting, exploring_shown, mistakes_are_usage, stderr, stdout


def commands(app: typer.Typer) -> None:
    """Add the commands of this module to ``app``."""
    app.command(rich_help_panel="docs")(certify)
    app.command(rich_help_panel="docs")(coverage)
    app.command("gallery", rich_help_panel="docs")(write_gallery)


def certify(
    names: Annotated[list[str] | None, typer.Argument(help="Names of scenarios. Default: all.")] = None,
    *,
    check: Annotated[
        bool, typer.Option(help="Compare with the file without writing; exit code 1 if a certificate differs.")
    ] = False,
    jobs: Jobs = 1,
    on: On = HERE,
) -> None:
    """Explore scenarios under every revision, and write what was covered to faults/certificates.json.

    Certificates of other scenarios stay; those of scenarios that no longer exist are removed.
    """
    from .. import places
    from ..evidence import certificates
    from ..scenarios import scenario as scenarios

    with mistakes_are_usage():
        folder = places.faults()
        keys = certificates.keys(names or None)
        before = certificates.load(folder)
        kept = {key: each for key, each in before.items() if key[0] in scenarios.known()}
        found = {}
        with counting("exploring", len(keys), quiet=False) as done:
            for key, each in certificates.renewed(keys, Workers(jobs, on)):
                found[key] = each
                if not check:  # at once: stopping this loses nothing that is done
                    (folder / certificates.FILE).write_text(certificates.dumps({**kept, **found}), "utf-8")
                done(key)
    changed = [each for key, each in found.items() if before.get(key) != each]
    for each in changed if check else ():
        stderr.print(f"{each['scenario']} under {each['revision']} differs from the file")
    stdout.print(f"{len(found)} certificates, {len(changed)} of them changed")
    wrong = [each for each in found.values() if not each["complete"]]
    for each in wrong:
        stderr.print(f"[bold red]incomplete:[/] {each['scenario']} under {each['revision']}: {each['violation']}")
    if wrong or (check and changed):
        raise typer.Exit(FOUND)


def coverage(
    out: Annotated[Path, typer.Option(help="Where to write the matrix, as Markdown.")] = Path("coverage.md"),
    jobs: Jobs = 1,
    on: On = HERE,
) -> None:
    """Explore every scenario with one fault, and write which outcomes requests have had at which places."""
    from ..evidence import coverage as covering
    from ..scenarios import scenario as scenarios

    with mistakes_are_usage():
        with counting("exploring", len(scenarios.known()), quiet=False) as done:
            found = covering.matrix(Workers(jobs, on), done)
        out.write_text(covering.render(found), "utf-8")
    for site, fate in found.dark():
        stdout.print(f"dark: {site.function} {site.operation} {fate.label}", markup=False)


def write_gallery(
    check: Annotated[
        bool, typer.Option(help="Compare without writing; exit code 1 if the file is not up to date.")
    ] = False,
    renew: Annotated[bool, typer.Option(help="Record all faults again first, with the engine as it is now.")] = False,
    jobs: Jobs = 1,
    on: On = HERE,
) -> None:
    """Write faults/INDEX.md from the recorded faults and planted bugs, and record bugs that have no history yet."""
    from .. import places
    from ..evidence import recorded
    from ..traces import gallery

    with mistakes_are_usage():
        folder = places.faults()
        if renew:
            _record_all_again(folder, Workers(jobs, on))
        elif not check:
            _record_bugs(
                [name for name, path in recorded.wanted(folder).items() if not path.exists()], Workers(jobs, on)
            )
        text = gallery.render(folder)
        target = folder / gallery.INDEX
        if not check:
            target.write_text(text, "utf-8")
            stdout.print(f"wrote {target.name}", markup=False)
            return
        current = target.read_text("utf-8") if target.exists() else ""
    if current != text:
        stderr.print(f"[bold red]error:[/] {target.name} is not up to date: run `memwal docs gallery`")
        raise typer.Exit(FOUND)


def _record_all_again(folder: Path, workers: Workers) -> None:
    """Record a shortest history of every planted bug, whatever else is recorded, and all that is told."""
    from ..evidence import examples, recorded

    of_bugs = recorded.wanted(folder)
    _record_bugs(of_bugs, workers)
    told = {folder / file for file in examples.written(folder)}
    for path in sorted(set((folder / "recorded").rglob("*.jsonl")) - set(of_bugs.values()) - told):
        _record_again(path)
    examples.write(folder)


def _record_bugs(names: Collection[str], workers: Workers) -> None:
    from .. import parallel
    from ..evidence import recorded

    with counting("recording", len(names), quiet=not names) as done:
        for name, _ in parallel.each(recorded.record_named, sorted(names), workers):
            done(name)


def _record_again(path: Path) -> None:
    from ..traces.study import carry_out, recorded_in
    from ..traces.trace import dumps, load

    header = load(path).header
    study = recorded_in(header)
    with exploring_shown(f"recording {path.name}", quiet=False) as progress:
        found = carry_out(study, progress=progress, title=header.title, description=header.description)
    if found.trace is None:
        raise InvalidArgument(f"{path.name}: the exploration no longer finds a violation")
    path.write_text(dumps(found.trace), "utf-8")
