"""A skeleton of an adapter in Python, with nothing but the standard library.

    pytest conformance/ --memwal-adapter "python conformance/skeletons/python/adapter.py"

It has tier 0 (names, hashes, region values; manifests, hints and index details both ways) and tier 1 (``inspect``).
Replace the functions by calls of your implementation, add the messages of the next tier, and name them in ``hello``.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any

import objects
import table
from hashing import NoHash, hash_of, hash_of_all
from values import NoTransform, name_of, region_values
from wire import Corrupt

Params = dict[str, Any]
Result = dict[str, Any]

STATE = {"revision": ""}
DECODE = {"manifest": objects.manifest, "hint": objects.hint, "index_details": objects.index_details}
ENCODE = {
    "manifest": objects.encoded_manifest,
    "hint": objects.encoded_hint,
    "index_details": objects.encoded_details,
}


def hello(_: Params) -> Result:
    return {
        "protocol": "1",
        "implementation": "skeleton (Python)",
        "version": "1",
        "revisions": ["A", "B", "R"],
        "roles": [],
        "capabilities": ["eval.name", "eval.hash", "eval.region", "eval.decode", "eval.encode", "inspect"],
        "without": ["eval.decode wal", "eval.encode wal"],  # needs Arrow
    }


def configure(params: Params) -> Result:
    STATE["revision"] = params["revision"]
    return {}


def shutdown(_: Params) -> Result:
    return {}


def eval_name(params: Params) -> Result:
    return {"name": name_of(params["kind"], int(params["number"]), STATE["revision"])}


def eval_hash(params: Params) -> Result:
    if params["function"] == "murmur3":
        return {"hash": hash_of(params["values"][0], STATE["revision"])}
    return {"hash": hash_of_all(params["values"], STATE["revision"])}


def eval_region(params: Params) -> Result:
    return {"values": region_values(params["spec"], params["field_ids"], params["rows"], STATE["revision"])}


def eval_decode(params: Params) -> Result:
    data = base64.b64decode(params["data"])
    return {params["kind"]: DECODE[params["kind"]](data, params.get("path", ""))}


def eval_encode(params: Params) -> Result:
    ((kind, view),) = params.items()
    return {"data": base64.b64encode(ENCODE[kind](view)).decode()}


def inspect(params: Params) -> Result:
    return table.inspect(params["table"])


MESSAGES: dict[str, Callable[[Params], Result]] = {
    "hello": hello,
    "configure": configure,
    "shutdown": shutdown,
    "eval.name": eval_name,
    "eval.hash": eval_hash,
    "eval.region": eval_region,
    "eval.decode": eval_decode,
    "eval.encode": eval_encode,
    "inspect": inspect,
}
KINDS = {Corrupt: "corrupt", NoHash: "invalid_argument", NoTransform: "invalid_argument"}
"""Error of the implementation -> kind of the protocol. Anything else ends the process: the suite calls it a crash."""


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["result"] = MESSAGES[request["message"]](request["params"])
        except tuple(KINDS) as error:
            answer["error"] = {"kind": KINDS[type(error)], "message": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        if request["message"] == "shutdown":
            break


if __name__ == "__main__":
    main()
