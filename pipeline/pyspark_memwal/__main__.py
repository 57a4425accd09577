"""The jobs of memwal for ``spark-submit``: ``spark-submit "$(python -m pyspark_memwal file)" merge TABLE``.

It stands here since Spark puts the folder of a job's file on the path of all its programs: this one has nothing else.
"""

from __future__ import annotations

from pathlib import Path

import typer
from memwal_spark.jobs import commands

app = typer.Typer(
    help="Run jobs over a MemWAL table on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
commands.commands(app)


@app.command()
def file() -> None:
    """Print the file that spark-submit takes."""
    typer.echo(Path(__file__).resolve())


if __name__ == "__main__":
    app()
