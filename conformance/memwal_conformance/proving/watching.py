"""Which tests look at a line of the engine: a table, recorded once, of the tests that enter each block (`entering`).

A file of tests is recorded when there is no record of it as it is now. A change of the engine makes no record old: the
table chooses what is run, and says nothing about what is noticed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memwal.errors import InvalidArgument

from ..registry.clauses import ROOT
from .entering import record_of
from .trials import copy_of_the_checkout, run

FOLDERS = ("reference/tests", "simulator/tests")
"""Where the tests are."""
TEST_S = 60
"""A single test that takes longer, by the clock, has no end."""
SLOW_S = 1.0
"""Tests that take longer, of CPU, are run last."""
WITHOUT_LONG = ("-m", "not long", f"--time-limit={TEST_S}")
"""Options for pytest."""


@dataclass(frozen=True, slots=True)
class TestsByBlock:
    """What was recorded."""

    seconds: Mapping[str, float]
    """Test -> CPU that it takes."""
    entering: Mapping[str, frozenset[str]]
    """Block, as ``module:name`` -> the tests that enter it."""
    shares: Mapping[tuple[str, str], float]
    """File of tests, module -> which share of the blocks that the file enters is the module's."""

    def entered(self, file: str, block: str) -> frozenset[str]:
        """The tests that enter a block, or its definition where none does. What only an import runs none enters."""
        module, definition = _module(file), block.partition(": ")[0]
        return self.entering.get(f"{module}:{block}") or self.entering.get(f"{module}:{definition}") or frozenset[str]()

    def watchers(self, file: str, block: str, budget_s: float) -> tuple[list[str], bool]:
        """The tests to run for a change in a block: those that enter it, as many as the budget allows.

        With them: whether they are all. Files that go to the module rather than elsewhere come first. For what is in no
        block, or in one that no test is known to enter, those that enter its definition, or its module.
        """
        module = _module(file)
        found = self.entered(file, block) or frozenset[str]().union(
            *(tests for name, tests in self.entering.items() if name.startswith(f"{module}:"))
        )

        def rank(test: str) -> tuple[bool, float]:
            return self.seconds[test] > SLOW_S, -self.shares.get((test.partition("::")[0], module), 0)

        ordered = sorted((each for each in self.seconds if each in found or not found), key=rank)
        chosen, left_s = [], budget_s
        for test in ordered:
            if self.seconds[test] <= left_s:
                left_s -= self.seconds[test]
                chosen.append(test)
        return chosen, len(chosen) == len(ordered)


def _module(file: str) -> str:
    return file.removeprefix("reference/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def table(folder: Path, max_s: float, root: Path = ROOT) -> TestsByBlock:
    """The table of the tests as they are now; what ``folder`` lacks is recorded first, for ``max_s`` at most.

    Raises `InvalidArgument` if nothing can be recorded.
    """
    files = [path for each in FOLDERS for path in sorted((root / each).rglob("test_*.py"))]
    if missing := [str(path.relative_to(root)) for path in files if not record_of(path, folder).exists()]:
        folder.mkdir(parents=True, exist_ok=True)
        on = ("--maxfail=0", "--continue-on-collection-errors")
        plugin = ("-p", f"{__package__}.entering", f"--entered={folder.absolute()}")
        with copy_of_the_checkout(root) as copy:
            ran = run(copy, missing, max_s, *WITHOUT_LONG, *on, *plugin)
        if not any(folder.iterdir()):
            raise InvalidArgument(f"no test file ended within {max_s:.0f} s: {ran.message}")
    return _read(path for path in (record_of(each, folder) for each in files) if path.exists())


def _read(records: Iterable[Path]) -> TestsByBlock:
    seconds: dict[str, float] = {}
    entering: dict[str, set[str]] = {}
    shares: dict[tuple[str, str], float] = {}
    for path in records:
        found = json.loads(path.read_text("utf-8"))
        for test, (took, entered) in found["tests"].items():
            seconds[test] = took
            for number in entered:
                entering.setdefault(found["blocks"][number], set()).add(test)
        blocks = Counter(name.partition(":")[0] for name in found["blocks"])
        for file in {test.partition("::")[0] for test in found["tests"]}:
            shares |= {(file, module): count / blocks.total() for module, count in blocks.items()}
    return TestsByBlock(seconds, {name: frozenset(tests) for name, tests in entering.items()}, shares)
