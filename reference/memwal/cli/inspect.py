"""`memwal table inspect`: a table, or a file of one, as a tree for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from memwal.cli.terminal import out, progress

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from memwal.inspection.node import Node, Value
    from memwal.violations import Violation

_WIDTH = 1 << 16
"""Of a tree that is piped: one line for each thing. A terminal's own width breaks them within the branches."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command()
    def inspect(
        place: Annotated[
            str,
            typer.Argument(metavar="TABLE|FILE", help="Folder or URL (s3://, gs://, az://) of a table, or of a file."),
        ],
        version: Annotated[int | None, typer.Option(min=1, help="Look at this table version.")] = None,
        region: Annotated[str | None, typer.Option(metavar="ID", help="Look at this region only.")] = None,
        limit: Annotated[int, typer.Option(min=1, help="Show at most this many entries of each list.")] = 20,
        json_: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    ) -> None:
        """Show what is in a table or in one of its files. Reads no rows, and does not stop at damage.

        Exit code 0: shown; 1: something is damaged; 2: there is no such table or file, or its kind is not known.
        """
        from memwal.api.inspecting import inspect as run_inspect
        from memwal.inspection.node import as_json

        node = run_inspect(place, version=version, region=region, limit=limit, listener=progress)
        found = [one for each in node.all() for one in each.damage]
        if json_:
            out.print_json(json.dumps({"damaged": len(found), **as_json(node)}))
        else:
            paper = out if out.is_terminal else Console(file=out.file, width=_WIDTH)
            paper.print(_tree(node), highlight=False)
            out.print(f"{len(found)} damaged" if found else "no damage", style="red" if found else "")
        if found:
            raise typer.Exit(1)


def _tree(node: Node) -> Tree:
    from rich.tree import Tree

    tree = Tree(_label(node))
    _fill(tree, node)
    return tree


def _fill(tree: Tree, node: Node) -> None:
    from rich.text import Text

    for key, value in node.fields:
        if isinstance(value, Mapping) and value:
            inner = tree.add(Text(key, "dim"))
            for name, text in value.items():
                inner.add(Text.assemble((f"{name}: ", "dim"), text))
    for damage in node.damage:
        tree.add(Text(_damage(damage), "red"))
    for child in node.children:
        _fill(tree.add(_label(child)), child)
    if node.more:
        tree.add(Text(f"… and {node.more} more", "dim"))


def _label(node: Node) -> Text:
    """Kind, name and the fields that say something."""
    from rich.text import Text

    words = node.kind.replace("_", " ")
    if words.endswith(node.name):
        text = Text(words, "bold")
    elif node.name.endswith(words):
        text = Text(node.name, "bold")
    else:
        text = Text.assemble((words, "bold"), " ", (node.name, "cyan"))
    shown = [f"{key}={_value(value)}" for key, value in node.fields if _says(value)]
    return text.append(f"  {' '.join(shown)}", "default") if shown else text


def _says(value: Value) -> bool:
    return value is not None and value != () and value is not False and not isinstance(value, Mapping)


def _value(value: Value) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def _damage(found: Violation) -> str:
    at = "" if found.offset is None else f" at byte {found.offset}"
    clause = f" [{found.clause}]" if found.clause else ""
    return f"damaged: {found.path}{at}: {found.reason}{clause}"
