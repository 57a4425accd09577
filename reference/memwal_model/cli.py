"""The commands `memwal explore prove` and `memwal explore model`; the main program loads them by entry point."""

from __future__ import annotations

import difflib
import importlib.util
import json
from collections.abc import Collection
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

PANEL = "explore"
"""The group of ``memwal --help`` in which they are shown."""


def commands(app: typer.Typer) -> None:
    """Add this package's commands to ``app``."""
    app.command("prove", rich_help_panel=PANEL)(prove)
    app.command("model", rich_help_panel=PANEL)(model)


def _known(given: Collection[str], known: Collection[str], what: str) -> None:
    """End with 2 and the nearest name where one that is ``given`` is not ``known``."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"`memwal explore model` lists each {what}"
            typer.echo(f"no {what} is called {name!r}: {hint}", err=True)
            raise typer.Exit(2)


def prove(
    without: Annotated[list[str] | None, typer.Option(help="Drop this assumption; may be given again.")] = None,
    step: Annotated[list[str] | None, typer.Option(help="Only this step; may be given again.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Give up on an obligation after so long.")] = 30,
    every: Annotated[bool, typer.Option("--all", help="Print each obligation, not only the sums.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the obligations as JSON.")] = False,
) -> None:
    """Prove the machine's statements by induction: every step keeps each of them.

    Exits with 1 if one is not proved. Needs z3, the extra `proofs`.
    """
    if importlib.util.find_spec("z3") is None:
        typer.echo("no solver: install the extra with `pip install 'memwal[proofs]'`", err=True)
        raise typer.Exit(2)
    from .logic import obligations
    from .machine import ACTIONS, ASSUMPTIONS

    dropped, steps = without or [], step or []
    _known(dropped, ASSUMPTIONS, "assumption")
    _known(steps, ACTIONS, "step")
    idle = [name for name in steps if (only := ACTIONS[name].without) and only not in dropped]
    if idle:
        typer.echo(f"{idle[0]} happens only --without {ACTIONS[idle[0]].without}", err=True)
        raise typer.Exit(2)
    console, err = Console(), Console(stderr=True)
    found = []
    with err.status("proving") as status:
        for each in obligations(dropped, steps=steps, seconds=seconds):
            found.append(each)
            status.update(f"{len(found)} obligations, at {each.step}")
    failed = [each for each in found if not each.proved]
    if as_json:
        rows = [{"step": o.step, "statement": o.statement, "answer": o.answer, "seconds": o.seconds} for o in found]
        typer.echo(json.dumps({"proved": not failed, "obligations": rows}, indent=2))
    else:
        grid = Table("step", "statement", "answer", "ms")
        for each in found if every else failed:
            grid.add_row(each.step, each.statement, each.answer, f"{each.seconds * 1000:.0f}")
        if grid.rows:
            console.print(grid)
        slowest = max(found, key=lambda each: each.seconds)
        console.print(
            f"{len(found) - len(failed)} of {len(found)} obligations proved, "
            f"the slowest in {slowest.seconds * 1000:.0f} ms: {slowest.step} keeps {slowest.statement}",
            highlight=False,
            soft_wrap=True,
        )
    if failed:
        raise typer.Exit(1)


def model(
    history: Annotated[str, typer.Argument(help="Show this history step by step; all names if absent.")] = "",
    tla: Annotated[bool, typer.Option("--tla", help="Print the machine as a TLA+ module.")] = False,
    quint: Annotated[bool, typer.Option("--quint", help="Print the machine as a Quint module.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print steps and what they change as JSON.")] = False,
) -> None:
    """Show the abstract machine: its steps, its histories, or one history step by step.

    `docs/model.md` explains all of it.
    """
    from . import text
    from .histories import HAZARDS, LIVES

    if tla or quint:
        typer.echo(text.tla() if tla else text.quint(), nl=False)
        return
    histories = {each.name: each for each in (*LIVES, *HAZARDS)}
    if history:
        _known([history], histories, "history")
        _show(history, as_json=as_json)
        return
    from .invariants import INVARIANTS, RULES
    from .machine import ACTIONS

    if as_json:
        steps = [{"name": a.name, "words": a.words, "without": a.without or None} for a in ACTIONS.values()]
        said = [{"name": i.name, "words": i.words, "theorem": i.theorem} for i in INVARIANTS.values()]
        rules = [{"name": r.name, "words": r.words} for r in RULES.values()]
        told = [{"name": h.name, "words": h.words, "breaks": h.breaks or None} for h in histories.values()]
        typer.echo(json.dumps({"steps": steps, "statements": said, "rules": rules, "histories": told}, indent=2))
        return
    console = Console()
    for title, rows in (
        ("step", [(a.name, a.words) for a in ACTIONS.values() if not a.without]),
        ("theorem", [(i.name, i.words) for i in INVARIANTS.values() if i.theorem]),
        ("no step", [(r.name, r.words) for r in RULES.values()]),
        ("history", [(h.name, h.words) for h in histories.values()]),
    ):
        grid = Table(title, "what it is")
        for name, words in rows:
            grid.add_row(name, words)
        console.print(grid)


def _show(name: str, *, as_json: bool) -> None:
    from .histories import HAZARDS, LIVES, run
    from .machine import FIELDS

    history = next(each for each in (*LIVES, *HAZARDS) if each.name == name)
    found = run(history)
    rows: list[tuple[str, dict[str, Any]]] = []
    for (step, parameters), before, after in zip(history.steps(), found.states, found.states[1:], strict=False):
        changes = {
            f"{each.name}({', '.join(map(str, place))})" if place else each.name: value
            for each in FIELDS
            for place, value in after[each.name].items()
            if value != before[each.name].get(place, type(value)())
        }
        rows.append((" ".join((step, *map(str, parameters))), changes))
    if as_json:
        steps = [{"step": step, "changes": changes} for step, changes in rows]
        typer.echo(json.dumps({"history": name, "steps": steps, "broken": found.broken or None}, indent=2))
        return
    console = Console()
    console.print(history.words)
    grid = Table("step", "what changes")
    for step, changes in rows:
        grid.add_row(step, ", ".join(f"{place} = {value}" for place, value in changes.items()))
    console.print(grid)
    console.print(f"broken: {found.broken}" if found.broken else "every statement holds")
