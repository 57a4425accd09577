"""`memwal explore soak` and `memwal explore capacity` as a person and a program use them."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from memwal_sim.cli.soak import commands
from memwal_sim.soak.loads import Load
from memwal_sim.soak.prices import Prices
from memwal_sim.soak.settings import SoakSettings
from typer.testing import CliRunner

app = typer.Typer()
commands(app)
BRIEF = [
    "--set=duration_ms=120000", "--set=put_every_ms=5000", "--set=strong_read_every_ms=30000",
    "--set=merge_every_ms=60000", "--set=flush_entries=5", "--set=sample_every_ms=20000",
]  # fmt: skip


def call(*arguments: str, exits: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == exits, result.output
    return str(result.output)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a soak that holds prints, and its folder."""
    folder = tmp_path_factory.mktemp("held")
    return call("soak", *BRIEF, "--out", str(folder)), folder


def test_a_soak_that_holds_says_so_and_writes_its_report(held: tuple[str, Path]) -> None:
    said, folder = held
    assert "every oracle held" in said
    result = json.loads((folder / "result.json").read_text())
    assert result["violation"] is None
    assert len(result["series"]["hours"]) >= 6
    page = (folder / "report.html").read_text()
    assert not (folder / "failure.json").exists()
    assert "src=" not in page
    assert 'href="http' not in page


def test_the_plots_are_svg_that_takes_the_colour_of_the_page(held: tuple[str, Path]) -> None:
    page = (held[1] / "report.html").read_text()
    drawings = ["<svg" + part.partition("</svg>")[0] + "</svg>" for part in page.split("<svg")[1:]]
    assert len(drawings) >= 12
    for drawing in drawings:
        ElementTree.fromstring(drawing)
        assert "currentColor" in drawing
        assert "#ffffff" not in drawing
        assert 'aria-label="' in drawing
    assert "prefers-color-scheme: dark" in page


def test_a_soak_that_fails_leaves_a_file_that_runs_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("soak", *BRIEF, "--bug", "canary", exits=1)
    (failure,) = tmp_path.glob("soak-failure-*.json")
    assert "strong reads see acknowledged writes" in said
    assert f"memwal explore soak --again {failure.name}" in said
    content = json.loads(failure.read_text())
    assert content["settings"]["bugs"] == ["canary"]
    assert len(content["last_requests"]) > 10
    printed = call("soak", "--again", failure.name, "--json", exits=1)
    again = json.loads(printed.partition("\nrun it")[0])
    assert again["digest"] == content["digest"]
    assert again["violation"] == content["violation"]


def test_a_run_that_is_not_repeated_is_a_failure(held: tuple[str, Path], tmp_path: Path) -> None:
    content = json.loads((held[1] / "result.json").read_text())
    content["digest"] = "0" * 32
    other = tmp_path / "other.json"
    other.write_text(json.dumps(content))
    assert "another run" in call("soak", "--again", str(other), exits=1)
    assert "every oracle held" in call("soak", "--again", str(held[1] / "result.json"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--preset", "year"),
        ("--set", "nothing=1"),
        ("--set", "regions"),
        ("--bug", "none_such"),
        ("--price", "gold=1"),
        ("--again", "missing.json"),
    ],
)
def test_what_cannot_be_soaked_is_a_usage_error_of_one_sentence(arguments: tuple[str, ...]) -> None:
    said = call("soak", *arguments, exits=2)
    assert said.startswith("error:")
    assert "Traceback" not in said


def test_a_file_that_is_no_result_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    assert "is not what `memwal explore soak` writes" in call("soak", "--again", str(tmp_path / "x.json"), exits=2)


@pytest.mark.long
def test_the_capacity_report_has_the_three_scales_and_its_json_has_all_of_it(tmp_path: Path) -> None:
    said = call("capacity", "--out", str(tmp_path))
    found = json.loads((tmp_path / "capacity.json").read_text())
    assert [one["load"]["regions"] for one in found] == [10, 1_000, 100_000]
    assert [one["snapshot"] for one in found] == ["inline", "external", "external"]
    assert "100,000 regions" in said
    (one,) = json.loads(call("capacity", "--regions", "7", "--set", "puts_per_s=2", "--price", "write=0", "--json"))
    assert (one["load"]["regions"], one["load"]["puts_per_s"]) == (7, 2.0)
    assert one["cost_per_day"]["all"] == pytest.approx(sum(v for k, v in one["cost_per_day"].items() if k != "all"))


@pytest.mark.parametrize("kind", [SoakSettings, Load, Prices])
def test_the_document_lists_every_setting_with_its_default(kind: type[Any]) -> None:
    document = (Path(__file__).parents[3] / "docs" / "soak.md").read_text()
    missing = [one.name for one in fields(kind) if f"| `{one.name}` | {one.default} |" not in document]
    assert missing == []


def test_a_load_that_is_not_known_is_a_usage_error() -> None:
    assert call("capacity", "--set", "nothing=1", exits=2).startswith("error:")
    assert call("capacity", "--set", "puts_per_s=x", exits=2).startswith("error:")


def test_plots_without_matplotlib_are_a_usage_error_that_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "pip install 'memwal[plots]'" in call("soak", *BRIEF, "--out", str(tmp_path), exits=2)
