"""The conformance suite's commands of ``memwal``. Each module has `commands`, which adds its own to an app."""

from __future__ import annotations

import typer

from . import clauses, exploring, gate, judging, matrix, mutate, native, notes, planted, vectors


def commands(app: typer.Typer) -> None:
    """Add all of them to ``app``, in the order in which ``memwal --help`` shows them."""
    for module in (clauses, notes, planted, judging, matrix, gate, exploring, vectors, native):
        module.commands(app)
    for older in ("break", "prove"):
        clauses.app.command(older, hidden=True)(planted.break_)
    mutate.commands(clauses.app)
