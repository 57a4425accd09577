"""Values of a command line that are read without pydantic are those that Typer reads with it."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from memwal.cli import plain
from typer.testing import CliRunner

Words = list[str]


def answered(words: Words, monkeypatch: pytest.MonkeyPatch, *, by_typer: bool) -> tuple[int, str]:
    """Exit code and output of a command with each kind of value, with and without `plain`."""
    monkeypatch.setattr(typer.core, "build_runtime_param", plain._by_typer if by_typer else plain.PlainValue)
    app = typer.Typer()

    @app.command()
    def show(
        text: str,
        more: Annotated[list[str] | None, typer.Argument()] = None,
        number: Annotated[int, typer.Option(min=2, max=50)] = 20,
        least: Annotated[int | None, typer.Option(min=0)] = None,
        bounded: Annotated[int, typer.Option(min=1, max=9, clamp=True)] = 3,
        names: Annotated[list[str], typer.Option()] = ["a"],  # noqa: B006 - as Typer has it
        numbers: Annotated[list[int] | None, typer.Option()] = None,
        share: float = 0.5,
        flag: bool = False,
        parsed: Annotated[str, typer.Option(parser=str.upper)] = "",
    ) -> None:
        given: list[Any] = [text, more, number, least, bounded, names, numbers, share, flag, parsed]
        typer.echo([(type(each).__name__, each) for each in given])

    done = CliRunner().invoke(app, words)
    return done.exit_code, done.output


NUMBERS = ("2", "50", "07", "1", "51", "-3", " 7", "1_0", "7.0", "x", "", "9" * 30, "٣")


@pytest.mark.parametrize(
    "words",
    [
        ["t"],
        ["", "x", "y"],
        *([["t", "--number", each] for each in NUMBERS]),
        *([["t", "--least", each] for each in ("0", "-1", "9" * 17, "9" * 18, "9" * 5000)]),
        *([["t", "--bounded", each] for each in ("5", "0", "10", "x")]),
        ["t", "--names", "p", "--names", ""],
        ["t", "--numbers", "5", "--numbers", "x"],
        ["t", "--numbers", "5"],
        ["t", "--share", "1e3", "--flag", "--parsed", "up"],
        ["t", "--share", "x"],
        [],
    ],
    ids=str,
)
def test_a_value_is_what_typer_makes_of_it_and_a_wrong_one_has_typers_words(
    words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answered(words, monkeypatch, by_typer=False) == answered(words, monkeypatch, by_typer=True)
