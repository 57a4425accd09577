"""The smallest adapter, with nothing but the standard library: a template for any language.

It claims no role and one capability, ``eval.name``. To write an adapter for an implementation, keep the loop, add a
function per message of the roles that the implementation has (``docs/adapter.md`` lists them), and name them in
``hello``. Run it against the suite with

    pytest conformance/ --memwal-adapter "python conformance/memwal_conformance/adapters/skeleton.py"
"""

import json
import sys
from collections.abc import Callable
from typing import Any

Params = dict[str, Any]
Result = dict[str, Any]


class ErrorReply(Exception):
    """An error reply: one of the nine kinds, and the implementation's own text, word for word."""

    def __init__(self, kind: str, native: str) -> None:
        super().__init__(native)
        self.kind = kind
        self.native = native


SETTINGS = {"revision": ""}
SUFFIXES = {"A": "lance", "B": "arrow", "R": "arrow"}


def hello(_: Params) -> Result:
    return {
        "protocol": "1",
        "implementation": "skeleton",
        "version": "1",
        "revisions": ["A", "B", "R"],
        "roles": [],
        "capabilities": ["eval.name"],
    }


def configure(params: Params) -> Result:
    SETTINGS["revision"] = params["revision"]
    return {}


def shutdown(_: Params) -> Result:
    return {}


def eval_name(params: Params) -> Result:
    number = int(params["number"])  # 64-bit numbers are decimal strings
    if number >= 2**64:
        raise ErrorReply("invalid_argument", f"{number} is not an unsigned 64-bit number")
    if params["kind"] == "table_manifest":
        return {"name": f"{2**64 - 1 - number:020d}.manifest"}
    suffix = "binpb" if params["kind"] == "manifest" else SUFFIXES[SETTINGS["revision"]]
    return {"name": f"{number:064b}"[::-1] + "." + suffix}


MESSAGES: dict[str, Callable[[Params], Result]] = {
    "hello": hello,
    "configure": configure,
    "shutdown": shutdown,
    "eval.name": eval_name,
}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["result"] = MESSAGES[request["message"]](request["params"])
        except ErrorReply as refused:
            answer["error"] = {"kind": refused.kind, "message": refused.native}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        if request["message"] == "shutdown":
            break


if __name__ == "__main__":
    main()
