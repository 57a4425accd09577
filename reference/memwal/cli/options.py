"""Options that commands share."""

from __future__ import annotations

from typing import Annotated

import typer

ManifestStore = Annotated[
    str | None,
    typer.Option("--manifest-store", metavar="STORE", help="External manifest store of the table: sqlite:PATH."),
]
"""Where the versions of a table are created that has an external manifest store; as for `memwal.open`."""
