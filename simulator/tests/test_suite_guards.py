"""The guards of the whole suite (``conftest.py`` at the root), each seen in a small suite of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLOSING = re.compile(r"=* ?\d+ (passed|failed).* in [\d.]+s.*")


def run(folder: Path, source: str, *options: str, **environment: str) -> list[str]:
    """What pytest prints for a suite of one file under the root's ``conftest.py``, on standard output and error."""
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "long_tests.txt").write_text("test_small.py::test_costly\ntest_small.py::test_cases[b]\n", "utf-8")
    (folder / "test_small.py").write_text(f"import pytest\n{source}", "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    time_limit(seconds):\n    long:\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={folder / 'cases'}", *options],
        cwd=folder,
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        | {"COLUMNS": "250", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    return done.stdout.splitlines()


ENDLESS = """
from hypothesis import given, strategies as st
import threading, time

def forever():
    while True: pass

def test_that_loops():
    forever()

def test_that_sleeps():
    time.sleep(600)

def test_that_waits():
    threading.Event().wait()

@given(st.integers())
def test_of_a_property(number):
    while True: pass

@pytest.fixture
def scene():
    while True: pass

def test_in_a_scene(scene):
    pass

@pytest.mark.time_limit(100)
def test_of_its_own_limit():
    time.sleep(1.5)

@pytest.mark.long
def test_that_is_long():
    time.sleep(1.5)

def test_that_is_next():
    pass
"""


def test_what_has_no_end_fails_by_name_with_its_stack_and_the_next_test_runs(tmp_path: Path) -> None:
    lines = run(tmp_path, ENDLESS, "-rA", "--time-limit", "1")
    ends = {
        line.split("::")[1].partition(" ")[0]: line.split(" ")[0]
        for line in lines
        if line.startswith(("FAILED ", "ERROR ", "PASSED "))
    }
    assert ends == {
        "test_that_loops": "FAILED",
        "test_that_sleeps": "FAILED",
        "test_that_waits": "FAILED",
        "test_of_a_property": "FAILED",
        "test_in_a_scene": "ERROR",
        "test_of_its_own_limit": "PASSED",
        "test_that_is_long": "PASSED",
        "test_that_is_next": "PASSED",
    }
    said = "test_small.py::test_that_loops: not done after 1 s"
    assert f"FAILED test_small.py::test_that_loops - conftest.TimeLimitError: {said}" in lines
    assert {">       while True: pass", ">       time.sleep(600)", ">       threading.Event().wait()"} <= {
        ">       " + line[1:].strip() for line in lines if line.startswith(">")
    }


SWALLOWING = """
import conftest, time
conftest.MERCY_S = 1.0

def test_a():
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass

def test_b():
    pass
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_a_test_that_swallows_its_end_ends_its_process_with_the_stack(workers: tuple[str, ...], tmp_path: Path) -> None:
    lines = run(tmp_path, SWALLOWING, "-rA", "--time-limit", "1", *workers)
    assert any(line.endswith("Timeout (0:00:02)!") for line in lines), lines
    assert any(re.fullmatch('  File ".*test_small.py", line [0-9]+ in test_a', line) for line in lines), lines
    if workers:
        assert any("crashed while running 'test_small.py::test_a'" in line for line in lines), lines
        assert "PASSED test_small.py::test_b" in lines
        assert "1 failed, 1 passed" in lines[-1]


TRYING = """
from hypothesis import given, settings, strategies as st

@given(st.binary())
def test_a(data):
    print(data)

@settings(max_examples=12)
@given(st.integers())
def test_b(number):
    pass

def test_c():
    test_b()
"""


def tried(folder: Path, profile: str, *options: str) -> tuple[list[str], list[str]]:
    """The cases of the first property, and all lines of the run."""
    lines = [line for line in run(folder, TRYING, "-s", *options, HYPOTHESIS_PROFILE=profile) if line]
    return [data for line in lines if (data := line.removeprefix("test_small.py ")).startswith("b'")], lines


def test_the_short_profile_tries_the_same_cases_each_time_and_the_long_one_does_not(tmp_path: Path) -> None:
    (short, lines), (again, _), (long, others) = (tried(tmp_path, name) for name in ("short", "short", "long"))
    assert len(short) > 80
    assert again == short
    assert long != short
    assert re.fullmatch("Hypothesis, profile short: 1[0-9]+ cases of 3 tests, the same cases each time", lines[-2])
    assert re.fullmatch("Hypothesis, profile long: 1[0-9]+ cases of 3 tests, other cases each time", others[-2])
    assert CLOSING.fullmatch(lines[-1])


def test_what_workers_tried_is_counted_too(tmp_path: Path) -> None:
    lines = run(tmp_path, TRYING, "-n", "1", "-k", "not test_a")
    assert "Hypothesis, profile short: 24 cases of 2 tests, the same cases each time" in lines


def test_there_is_one_profile_and_no_test_has_its_own() -> None:
    named = re.compile(r"\b(deadline|derandomize|database)=|register_profile|load_profile")
    home = {
        "simulator/memwal_sim/profiles.py",
        "simulator/memwal_sim/strategies/by_hypothesis.py",
        "conformance/memwal_conformance/exploring/lives.py",  # drawn, not tested: from a seed that the user gives
        "conformance/memwal_conformance/proving/warm.py",  # the loaded profile without shrinking, in any checkout
    }
    found = {
        str(path.relative_to(ROOT))
        for folder in ("reference", "simulator", "conformance", "pipeline")
        for path in (ROOT / folder).rglob("*.py")
        if "hypothesis" in (text := path.read_text("utf-8")) and named.search(text) and path != Path(__file__)
    }
    assert found == home


LEAVING = """
import tempfile
HELD = None

def test_of_a_folder():
    global HELD
    HELD = tempfile.TemporaryDirectory(prefix="mine-")

def test_of_a_file():
    tempfile.mkstemp(prefix="mine-")

def test_that_is_last():
    pass
"""
TIDY = """
import tempfile

@pytest.fixture(scope="module")
def held():
    with tempfile.TemporaryDirectory() as name:
        yield name

def test_a(held):
    with tempfile.TemporaryDirectory():
        pass
"""


def test_what_is_left_to_the_end_of_the_interpreter_is_an_error_of_its_module(tmp_path: Path) -> None:
    (tmp_path / "test_tidy.py").write_text(f"import pytest\n{TIDY}", "utf-8")
    lines = run(tmp_path, LEAVING, "-rE")
    (said,) = (line for line in lines if line.startswith("ERROR "))
    left = r"ERROR test_small.py::test_that_is_last - Failed: test_small.py leaves temporary files: mine-\w+, mine-\w+"
    assert re.fullmatch(left, said), said
    assert "4 passed, 1 error" in lines[-1]


ADDING = """
import pathlib

def test_of_a_file():
    pathlib.Path("out").mkdir()
    pathlib.Path("strange").mkdir()

def test_that_is_last():
    pass
"""


def test_what_a_test_writes_into_the_checkout_is_an_error_of_its_module(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("out/\n__pycache__/\ncases/\n", "utf-8")
    lines = run(tmp_path, ADDING, "-rE")
    (said,) = (line for line in lines if line.startswith("ERROR "))
    added = "test_small.py, or a module run beside it, adds to the checkout: strange"
    assert said == f"ERROR test_small.py::test_that_is_last - Failed: {added}"
    assert "2 passed, 1 error" in lines[-1]


def test_the_closing_line_of_a_run_of_the_suite_itself_is_its_last_one() -> None:
    """One small file of each folder, with its fixtures and plugins; skips are counted in that line."""
    files = ("reference/tests/codec/test_codec_hint.py", "simulator/tests/test_store.py", "conformance/vectors/B/name")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert CLOSING.fullmatch(lines[-1]), lines[-5:]


COSTLY = """
def test_costly():
    assert False

@pytest.mark.parametrize("case", ["a", "b"])
def test_cases(case):
    assert case == "a"
"""


def test_a_function_or_a_case_that_is_named_as_long_is_left_out(tmp_path: Path) -> None:
    assert "1 passed, 2 deselected" in run(tmp_path, COSTLY, "-m", "not long")[-1]
    assert "2 failed, 1 deselected" in run(tmp_path, COSTLY, "-m", "long")[-1]


def test_each_test_that_is_named_as_long_is_there_and_no_death_is_recorded_by_it() -> None:
    deaths = (ROOT / "conformance" / "deaths.jsonl").read_text("utf-8")
    for line in (ROOT / "long_tests.txt").read_text("utf-8").splitlines():
        file, _, name = line.partition("[")[0].rpartition("::")
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), line
        assert f"{file}::{name}" not in deaths, line
