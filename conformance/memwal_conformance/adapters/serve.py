"""The adapter's side of the protocol for adapters written in Python: a loop over lines, and the map of errors."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from memwal_conformance.protocol import AdapterError, ErrorKind, Json

AT_ONCE = 16
"""Requests that a concurrent adapter answers at the same time; later ones wait."""

Handler = Callable[[Json], Json]
"""Takes the parameters of a message and returns its result; may raise `AdapterError`."""


def serve(
    handlers: Mapping[str, Handler],
    kinds: Mapping[type[Exception], ErrorKind],
    telling: Callable[[Callable[[Json], None]], None] = lambda tell: None,
    *,
    concurrent: bool = False,
) -> None:
    """Answer requests from standard input until ``shutdown`` or the end of input.

    ``telling`` is given, at the beginning, what sends an event of the capability ``trace``. ``kinds`` gives the kind of
    error for each exception type of the implementation; the first entry that fits decides.
    Any other exception ends the process with a traceback, which the harness reports as a crash.
    ``concurrent``: each request is answered in a thread, so that none waits for another one.
    """
    requests, replies = _pipes()
    sending = threading.Lock()

    def send(line: Json) -> None:
        with sending:
            replies.write(json.dumps(line, allow_nan=False).encode() + b"\n")
            replies.flush()

    def answer(request: Json) -> None:
        try:
            outcome: Json = {"result": handlers[request["message"]](request["params"])}
        except AdapterError as error:
            outcome = {"error": {"kind": error.kind, "message": error.native}}
        except tuple(kinds) as error:
            kind = next(kind for known, kind in kinds.items() if isinstance(error, known))
            outcome = {"error": {"kind": kind, "message": str(error)}}
        send({"id": request["id"], **outcome})

    def in_thread(request: Json) -> None:
        try:
            answer(request)
        except BaseException:  # noqa: BLE001 - the process ends with it
            traceback.print_exc()
            os._exit(1)  # as an exception of the only thread would

    telling(lambda event: send({"trace": event}))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for line in requests:
            request: Json = json.loads(line)
            if request["message"] == "shutdown" or not concurrent:
                answer(request)
            else:
                threads.submit(in_thread, request)
            if request["message"] == "shutdown":
                return


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input, and a private copy of standard output: whatever a library prints goes to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, replies
