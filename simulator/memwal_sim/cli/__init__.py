"""The simulator's commands of ``memwal``. Each module has `commands`, which adds its own to an app."""

from __future__ import annotations

import typer

from . import evidence, explore, histories, hunt, model, processes, replay, soak, traces


def commands(app: typer.Typer) -> None:
    """Add all of them to ``app``, in the order in which ``memwal --help`` shows them."""
    for module in (explore, replay, evidence, histories, soak, processes, hunt, traces, model):
        module.commands(app)
