"""A plugin of pytest that keeps a process warm: tests are collected once, and each changed source is tried in a child.

Run as ``pytest -p memwal_conformance.proving.warm --orders=FD --answers=FD FILES``. Each line that is read from the
one is an order, each that is written to the other its answer, both JSON, after a first one when all is collected. The
child takes the functions of the module as they are in the changed file, and runs the tests until one fails. There is
no answer (``null``) where functions alone do not make the change, or the child came to no end.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import Phase, settings

PATIENCE = 2
"""A child that takes so many times as long as it was told to hangs."""
_FAILED = pytest.StashKey[list[pytest.TestReport]]()


def functions() -> dict[str, list[FunctionType]]:
    """All functions there are, by the file that they were compiled from."""
    found = dict[str, list[FunctionType]]()
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            found.setdefault(each.__code__.co_filename, []).append(each)
    return found


def swap(path: Path, before: str, loaded: Iterable[FunctionType]) -> None:
    """Give each function that is ``loaded`` of a module the code that it has in its file by now.

    ``before``: what the source was. Raises `ValueError` if there are others, or one has another closure.
    """
    old, new = (
        list(_codes(compile(source, str(path), "exec", dont_inherit=True)))
        for source in (before, path.read_text("utf-8"))
    )
    code = dict(zip(old, new, strict=True))
    for each in loaded:
        if each.__code__ in code:
            each.__code__ = code[each.__code__]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """What is defined in it, in the order of its source, and what is in there."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--orders", type=int, required=True, metavar="FD", help="from which orders are read")
    parser.addoption("--answers", type=int, required=True, metavar="FD", help="to which answers are written")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("warm", settings(), phases=(Phase.explicit, Phase.generate))
    settings.load_profile("warm")  # the smallest case that notices a change is not asked for
    config.stash[_FAILED] = failed = list[pytest.TestReport]()
    config.pluginmanager.register(_Failures(failed))


class _Failures:
    def __init__(self, failed: list[pytest.TestReport]) -> None:
        self._failed = failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report)


def pytest_runtestloop(session: pytest.Session) -> bool:
    answers = session.config.getoption("--answers")
    loaded = functions()
    gc.collect()
    gc.freeze()  # so that a child shares the memory of what was collected
    os.write(answers, b"null\n")
    with os.fdopen(session.config.getoption("--orders")) as orders:
        for order in orders:
            wanted = json.loads(order)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Lance warns of forks; it has begun nothing that a child would miss
                child = os.fork()
            if child == 0:
                try:
                    os.write(answers, json.dumps(_answer(session, loaded, **wanted)).encode() + b"\n")
                    os._exit(0)
                finally:
                    os._exit(1)
            if _status(child, PATIENCE * wanted["max_s"]) != 0:
                os.write(answers, b"null\n")
    return True


def _status(child: int, max_s: float) -> int:
    """How ``child`` ended, which is killed if it takes longer."""
    until = time.monotonic() + max_s
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return ended[1]


def _answer(
    session: pytest.Session,
    loaded: Mapping[str, list[FunctionType]],
    *,
    file: str,
    before: str,
    tests: list[str],
    max_s: float,
) -> dict[str, Any]:
    """The first failure: ``test``, ``when`` (setup, call, teardown) and ``message``; or whether all were run."""
    swap(Path(file), before, loaded.get(file, ()))
    found = dict[str, list[pytest.Item]]()
    for item in session.items:
        for name in {item.nodeid, item.nodeid.partition("[")[0]}:
            found.setdefault(name, []).append(item)
    items, until = [item for test in tests for item in found[test]], time.monotonic() + max_s
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        for report in session.config.stash[_FAILED]:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = str(report.longrepr) if crash is None else crash.message
            return {"test": report.nodeid, "when": report.when, "message": message}
        if time.monotonic() > until:
            return {"whole": item is items[-1]}
    return {"whole": True}
