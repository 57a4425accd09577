"""``memwal explore model --run``: the abstract machine stepped through, by hand or by the lines of a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import typer
from memwal.cli.terminal import tell
from memwal.errors import InvalidArgument, check_name
from memwal.words import counted
from memwal_model.histories import SPANS, steps_of
from memwal_model.machine import ACTIONS, FIELDS, INITIAL
from memwal_model.states import SIZES, State, Step, after, broken, inside
from memwal_model.states import steps as steps_in
from memwal_model.text import PLAIN, missing
from rich.markup import escape
from rich.table import Table

from .terminal import FOUND, USAGE, print_json, stdout

_CHOICES = 6
_ALL = tuple(ACTIONS.values())
_HELP = "a step with its parameters; ? for what can happen, back, or quit (the end of the input)"


def run(begin: State, told: Sequence[Step], *, as_json: bool) -> None:
    """Take ``told``, then a step for each line of the input, until its end or until a statement is broken.

    At a terminal a line that is no possible step is said, and asked again; of a pipe it ends the command as a mistake.
    """
    states, steps, found = [begin], list[Step](), ""
    for line in _lines(told):
        if line == "back":
            states, steps = states[: max(1, len(steps))], steps[:-1]
        elif line not in ("?", ""):
            try:
                taken = list(_taken(states[-1], line))
            except InvalidArgument as error:
                tell(f"error: {error}")
                if not sys.stdin.isatty():
                    raise typer.Exit(USAGE) from error
                continue
            for step, state in taken:
                if not as_json:
                    stdout.print(_row(step, changes(states[-1], state)), highlight=False, soft_wrap=True)
                found = found or broken(states[-1], step, state, theorems=True)
                states.append(state)
                steps.append(step)
            if found:
                break
        if not as_json and (line in ("?", "back") or sys.stdin.isatty()):
            stdout.print(_possible(states[-1]))
    if as_json:
        made = zip(steps, states, states[1:], strict=False)
        rows = [{"step": _words(step), "changes": changes(before, then)} for step, before, then in made]
        choices = [_words(step) for step in steps_in(states[-1], _ALL)]
        print_json({"steps": rows, "possible": choices, "broken": found or None})
    else:
        stdout.print(f"broken: {found}" if found else "every statement holds")
    if found:
        raise typer.Exit(FOUND)


def changes(before: State, then: State) -> dict[str, Any]:
    """Field with its arguments -> its value after a step, where that is another one."""
    return {
        f"{each.name}({', '.join(map(str, place))})" if place else each.name: value
        for each in FIELDS
        for place, value in then[each.name].items()
        if value != before[each.name].get(place, INITIAL[each])
    }


def _lines(told: Sequence[Step]) -> Iterator[str]:
    yield from map(_words, told)
    if sys.stdin.isatty():
        tell(_HELP)
        yield "?"
    while line := sys.stdin.readline():
        if line.strip() == "quit":
            return
        yield line.strip()


def _taken(state: State, line: str) -> Iterator[tuple[Step, State]]:
    """The steps that a line tells, each with the state after it."""
    name = line.split()[0]
    check_name("step", name, (*ACTIONS, *SPANS))
    try:
        steps = list(steps_of(line))
    except IndexError as error:
        raise InvalidArgument(f"{name} means several steps here: give more parameters") from error
    for step in steps:
        parameters = ACTIONS[step[0]].parameters
        names = [each.args[0] for each in parameters]
        if len(names) != len(step[1]):
            raise InvalidArgument(
                f"{step[0]} takes {counted(len(names), 'parameter')} ({' '.join(names)}), not {len(step[1])}"
            )
        for each, given in zip(parameters, step[1], strict=True):
            if given not in SIZES[each.sort]:
                known = ", ".join(map(str, SIZES[each.sort]))
                raise InvalidArgument(f"{step[0]}: {given} is no {each.sort.value}; there are {known}")
        if (needed := missing(state, step)) is not None:
            raise InvalidArgument(f"{_words(step)} cannot happen: {PLAIN.of(needed)} does not hold")
        state = after(state, step)
        if not inside(state):
            raise InvalidArgument(f"{_words(step)}: the numbers of this small machine end here")
        yield step, state


def _possible(state: State) -> Table:
    found: dict[str, list[str]] = {}
    for name, parameters in steps_in(state, _ALL):
        found.setdefault(name, []).append(" ".join(map(str, parameters)))
    grid = Table("step", "of", "what it is")
    for name, choices in found.items():
        more = f" … {len(choices) - _CHOICES} more" if len(choices) > _CHOICES else ""
        grid.add_row(name, ", ".join(islice(choices, _CHOICES)) + more, ACTIONS[name].words)
    return grid


def _words(step: Step) -> str:
    return " ".join(map(str, (step[0], *step[1])))


def _row(step: Step, changed: dict[str, Any]) -> str:
    told = ", ".join(f"{place} = {value}" for place, value in changed.items())
    return f"[bold]{_words(step)}[/]: {escape(told) or 'nothing changes'}"
