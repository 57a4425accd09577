"""``memwal explore prove`` and ``memwal explore model``: the abstract machine, its proofs and its histories.

Exit codes: 0 proved, 1 an obligation is not, 2 usage.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from memwal.errors import InvalidArgument, check_name
from rich.markup import escape
from rich.table import Table

from .terminal import FOUND, Json, mistakes_are_usage, print_json, stderr, stdout

if TYPE_CHECKING:
    from ..traces.telling import TraceTold


def commands(app: typer.Typer) -> None:
    """Add the commands of this module to ``app``."""
    app.command()(prove)
    app.command()(model)


def prove(
    without: Annotated[list[str] | None, typer.Option(help="Drop this assumption; repeatable.")] = None,
    step: Annotated[list[str] | None, typer.Option(help="Prove only this step; repeatable.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Give up on an obligation after this time.")] = 30,
    every: Annotated[bool, typer.Option("--all", help="Print each obligation, not only totals.")] = False,
    as_json: Json = False,
) -> None:
    """Prove the machine's statements by induction: every step keeps each of them. Needs the extra `proofs`."""
    from memwal_model.machine import ACTIONS, ASSUMPTIONS

    dropped, steps = without or [], step or []
    with mistakes_are_usage():
        for name in dropped:
            check_name("assumption", name, ASSUMPTIONS)
        for name in steps:
            check_name("step", name, ACTIONS)
            only = ACTIONS[name].without
            if only and only not in dropped:
                raise InvalidArgument(f"the step {name!r} happens only --without {only}")
        if importlib.util.find_spec("z3") is None:
            raise InvalidArgument("proofs need the solver z3: pip install 'memwal[proofs]'")
    from memwal_model.logic import obligations

    found = []
    with stderr.status("proving") as status:
        for each in obligations(dropped, steps=steps, seconds=seconds):
            found.append(each)
            status.update(f"{len(found)} obligations, at {each.step}")
    failed = [each for each in found if not each.proved]
    if as_json:
        rows = [{"step": o.step, "statement": o.statement, "answer": o.answer, "seconds": o.seconds} for o in found]
        print_json({"proved": not failed, "obligations": rows})
    else:
        grid = Table("step", "statement", "answer", "ms")
        for each in found if every else failed:
            grid.add_row(each.step, each.statement, each.answer, f"{each.seconds * 1000:.0f}")
        if grid.rows:
            stdout.print(grid)
        slowest = max(found, key=lambda each: each.seconds)
        stdout.print(
            f"{len(found) - len(failed)} of {len(found)} obligations proved, "
            f"the slowest in {slowest.seconds * 1000:.0f} ms: {slowest.step} keeps {slowest.statement}",
            highlight=False,
            soft_wrap=True,
        )
    if failed:
        raise typer.Exit(FOUND)


def model(
    history: Annotated[
        str, typer.Argument(help="Show this history, or the trace in this file, step by step. Default: list the names.")
    ] = "",
    tla: Annotated[bool, typer.Option("--tla", help="Print the machine as a TLA+ module.")] = False,
    quint: Annotated[bool, typer.Option("--quint", help="Print the machine as a Quint module.")] = False,
    by_hand: Annotated[
        bool, typer.Option("--run", help="Choose the steps yourself, after those of the history; or pipe them in.")
    ] = False,
    without: Annotated[list[str] | None, typer.Option(help="Drop this assumption in --run; repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Show the abstract machine: its steps, its histories, or one history step by step.

    A trace ends with 1 if it breaks off, or continues under another reading of the texts only.

    `docs/model.md` explains all of it.
    """
    from memwal_model import text
    from memwal_model.invariants import INVARIANTS, RULES
    from memwal_model.machine import ACTIONS, ASSUMPTIONS
    from memwal_model.states import Setting

    from ..traces.telling import tell
    from . import stepping

    if tla or quint:
        typer.echo(text.tla() if tla else text.quint(), nl=False)
        return
    if by_hand:
        with mistakes_are_usage():
            if history:
                check_name("history", history, _histories())
            for name in without or ():
                check_name("assumption", name, ASSUMPTIONS)
        chosen = _histories().get(history)
        setting = Setting() if chosen is None else chosen.setting
        setting = replace(setting, without=setting.without | frozenset(without or ()))
        stepping.run(setting.initial(), [] if chosen is None else list(chosen.steps()), as_json=as_json)
        return
    if history:
        with mistakes_are_usage():
            telling = tell(Path(history)) if Path(history).is_file() else None
            if telling is None:
                check_name("history", history, _histories())
        if telling is not None:
            _tell(telling, as_json=as_json)
            return
        _show(history, as_json=as_json)
        return
    if as_json:
        steps = [{"name": a.name, "words": a.words, "without": a.without or None} for a in ACTIONS.values()]
        said = [{"name": i.name, "words": i.words, "theorem": i.theorem} for i in INVARIANTS.values()]
        rules = [{"name": r.name, "words": r.words} for r in RULES.values()]
        told = [{"name": h.name, "words": h.words, "breaks": h.breaks or None} for h in _histories().values()]
        print_json({"steps": steps, "statements": said, "rules": rules, "histories": told})
        return
    for title, rows in (
        ("step", [(a.name, a.words) for a in ACTIONS.values() if not a.without]),
        ("theorem", [(i.name, i.words) for i in INVARIANTS.values() if i.theorem]),
        ("no step", [(r.name, r.words) for r in RULES.values()]),
        ("history", [(h.name, h.words) for h in _histories().values()]),
    ):
        grid = Table(title, "what it is")
        for name, words in rows:
            grid.add_row(name, words)
        stdout.print(grid)


def _show(name: str, *, as_json: bool) -> None:
    from memwal_model.histories import run

    from .stepping import changes

    history = _histories()[name]
    found = run(history)
    rows: list[tuple[str, dict[str, Any]]] = []
    for (step, parameters), before, after in zip(history.steps(), found.states, found.states[1:], strict=False):
        rows.append((" ".join((step, *map(str, parameters))), changes(before, after)))
    if as_json:
        steps = [{"step": step, "changes": changes} for step, changes in rows]
        print_json({"history": name, "steps": steps, "broken": found.broken or None})
        return
    stdout.print(history.words)
    grid = Table("step", "what changes")
    for step, changed in rows:
        grid.add_row(step, ", ".join(f"{place} = {value}" for place, value in changed.items()))
    stdout.print(grid)
    stdout.print(f"broken: {found.broken}" if found.broken else "every statement holds")


def _tell(found: TraceTold, *, as_json: bool) -> None:
    """Print what the requests of a trace are as steps of the machine; exit with 1 if it is not one of its histories."""
    rows = [(each.change.order, found.requests[each.change.order - 1], each) for each in found.told]
    if as_json:
        steps = [
            {"number": n, "request": request, "steps": str(each), "without": each.without or None}
            for n, request, each in rows
        ]
        stopped = (
            None if found.stopped is None else {"number": found.stopped.change.order, "reason": str(found.stopped)}
        )
        print_json({"title": found.replayed.header.title, "steps": steps, "stopped": stopped})
    else:
        stdout.print(f"[bold]{escape(found.replayed.header.title)}[/]")
        grid = Table("", "request", "steps of the machine")
        for number, request, each in rows:
            other = f" (without {each.without}, {each.note})" if each.without else ""
            grid.add_row(str(number), escape(request), escape(f"{each}{other}"))
        stdout.print(grid)
        end = "a history of the machine, to its end" if found.stopped is None else f"breaks off: {found.stopped}"
        stdout.print(escape(end), highlight=False, soft_wrap=True)
    if found.stopped is not None or found.without:
        raise typer.Exit(FOUND)


def _histories() -> dict[str, Any]:
    """The machine's histories by name: lives first, then hazards."""
    from memwal_model.histories import HAZARDS, LIVES

    return {each.name: each for each in (*LIVES, *HAZARDS)}
