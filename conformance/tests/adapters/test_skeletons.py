"""The skeletons for authors of adapters: they pass what they claim, and a fault in one of them is found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit.runs import Run, run_suite
from memwal_conformance.adapters import process as processes
from memwal_conformance.adapters.process import AdapterProcess
from memwal_conformance.cli.vectors import app
from typer.testing import CliRunner

HERE = Path(__file__).resolve().parents[2]
SKELETONS = HERE / "skeletons"
NODE = shutil.which("node")

LANGUAGES = [
    pytest.param("python", (sys.executable, "adapter.py"), id="Python"),
    pytest.param(
        "node",
        (NODE or "node", "adapter.mjs"),
        id="Node.js",
        marks=pytest.mark.skipif(NODE is None, reason="there is no node on this machine"),
    ),
]


def command(folder: Path, program: tuple[str, str]) -> str:
    return f"{program[0]} {folder / program[1]}"


def checked(adapter: str, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", "--adapter", adapter, *arguments])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def node_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    if NODE is None:
        pytest.skip("there is no node on this machine")
    adapter = ("--memwal-adapter", command(SKELETONS / "node", (NODE, "adapter.mjs")))
    places = [f"conformance/vectors/{place}" for place in ("A/name", "A/manifest", "B/state", "R/region")]
    return run_suite(tmp_path_factory.mktemp("node"), *places, *adapter, limit_s=300)


@pytest.mark.long
def test_the_skeleton_in_node_passes_in_a_run_of_the_suite(node_run: Run) -> None:
    assert node_run.status == 0, node_run.text
    verdicts = {revision: node_run.summary["revisions"][revision]["verdicts"] for revision in "ABR"}
    assert all(told["PASS"] > 0 and set(told) <= {"PASS", "OBSERVED", "UNSUPPORTED"} for told in verdicts.values()), (
        verdicts
    )
    assert "skeleton (Node.js)" in node_run.text


@pytest.mark.parametrize(("language", "program"), LANGUAGES)
def test_a_skeleton_answers_all_that_it_claims(language: str, program: tuple[str, str]) -> None:
    status, text = checked(command(SKELETONS / language, program))
    assert status == 0, text
    assert text.splitlines()[-1].startswith("218 PASS, 3 OBSERVED, "), text


@pytest.mark.parametrize(("language", "program"), LANGUAGES)
def test_a_skeleton_exits_by_itself_when_it_is_told_to(language: str, program: tuple[str, str]) -> None:
    with AdapterProcess(command(SKELETONS / language, program).split()) as process:
        process.greet()
        process.call("shutdown", {})
        assert process._ends_within(processes.LEAVE_S)
    assert process.status == 0


FAULTS = [
    ("python", "hashing.py", "0xCC9E2D51", "0xCC9E2D52", "FAIL A/hash/text eval [REGION-035]"),
    (
        "python",
        "objects.py",
        'message.uint(2)),\n        "replay',
        'message.uint(9)),\n        "replay',
        "FAIL A/manifest/first decode",
    ),
    (
        "python",
        "table.py",
        "while (root / path(version + 1)).exists():",
        "while False:",
        "FAIL A/state/hint_behind inspect",
    ),
    ("node", "hash.mjs", "0xcc9e2d51", "0xcc9e2d52", "FAIL A/hash/text eval [REGION-035]"),
    ("node", "values.mjs", ".reverse().join", ".join", "FAIL A/name/region_manifests eval [MANIFEST-024]"),
    ("node", "table.mjs", "while (there(version + 1n))", "while (false)", "FAIL A/state/hint_behind inspect"),
]


@pytest.mark.parametrize(("language", "file", "good", "bad", "said"), FAULTS)
@pytest.mark.long
def test_a_fault_in_a_skeleton_fails_the_vector_about_it(
    language: str, file: str, good: str, bad: str, said: str, tmp_path: Path
) -> None:
    if language == "node" and NODE is None:
        pytest.skip("there is no node on this machine")
    copy = tmp_path / "copy"
    shutil.copytree(SKELETONS / language, copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / file).read_text("utf-8")
    assert good in text
    (copy / file).write_text(text.replace(good, bad), encoding="utf-8")
    program = (sys.executable, "adapter.py") if language == "python" else (str(NODE), "adapter.mjs")
    status, told = checked(command(copy, program), "--revision", "A")
    assert status == 1, told
    assert any(line.startswith(said) for line in told.splitlines()), told


def test_the_python_skeleton_needs_nothing_but_the_standard_library() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import adapter; print(adapter.hello({})['implementation'])"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code, str(SKELETONS / "python")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "skeleton (Python)\n"


def test_the_node_skeleton_imports_only_what_node_brings() -> None:
    for file in sorted((SKELETONS / "node").glob("*.mjs")):
        for line in file.read_text("utf-8").splitlines():
            if line.startswith("import "):
                assert 'from "node:' in line or 'from "./' in line, f"{file.name}: {line}"
