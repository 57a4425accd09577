"""The adapter's side of the protocol for adapters written in Python: a loop over lines, and the map of errors."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import BinaryIO

from memwal_conformance.protocol import AdapterError, ErrorKind, Json

Handler = Callable[[Json], Json]
"""Takes the parameters of a message and returns its result; may raise `AdapterError`."""


def serve(
    handlers: Mapping[str, Handler],
    kinds: Mapping[type[Exception], ErrorKind],
    telling: Callable[[Callable[[Json], None]], None] = lambda tell: None,
) -> None:
    """Answer requests from standard input until ``shutdown`` or the end of input.

    ``telling`` is given, at the beginning, what sends an event of the capability ``trace``. ``kinds`` gives the kind of
    error for each exception type of the implementation; the first entry that fits decides.
    Any other exception ends the process with a traceback, which the harness reports as a crash.
    """
    requests, replies = _pipes()

    def send(line: Json) -> None:
        replies.write(json.dumps(line, allow_nan=False).encode() + b"\n")
        replies.flush()

    telling(lambda event: send({"trace": event}))
    for line in requests:
        request: Json = json.loads(line)
        try:
            answer: Json = {"result": handlers[request["message"]](request["params"])}
        except AdapterError as error:
            answer = {"error": {"kind": error.kind, "message": error.native}}
        except tuple(kinds) as error:
            kind = next(kind for known, kind in kinds.items() if isinstance(error, known))
            answer = {"error": {"kind": kind, "message": str(error)}}
        send({"id": request["id"], **answer})
        if request["message"] == "shutdown":
            return


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input, and a private copy of standard output: whatever a library prints goes to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, replies
