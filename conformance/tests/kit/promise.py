"""What version 1 of the adapter protocol promises, and whether the schemas still keep it.

``protocol_1.json`` has the schemas without their descriptions, a message a line. After an addition
``python -m conformance.tests.kit.promise`` writes it again; it refuses where an adapter that is right today would be
wrong then.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memwal_conformance import protocol

FILE = Path(__file__).with_name("protocol_1.json")
OUR_OWN = ("case", "scenario")
"""Schemas of the suite's own files, which no adapter sees."""
WORDS = ("description", "title", "x-order", "$id", "$schema")


def current() -> dict[str, Any]:
    """Role and definitions of each message, and the values that they share."""
    kept: dict[str, Any] = _without_words({n: s for n, s in protocol._files().items() if n not in OUR_OWN})
    return dict(sorted(kept.items()))


def _without_words(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {k: _without_words(v) for k, v in schema.items() if not (k in WORDS and isinstance(v, str | int))}
    return [_without_words(each) for each in schema] if isinstance(schema, list) else schema


def promised() -> dict[str, Any]:
    """The same, as version 1 has it."""
    read: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return read


def broken(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Each promise of ``old`` that ``new`` breaks: place and reason."""
    found = [f"{name} is gone" for name in old if name not in new]
    for name, schema in new.items():
        if name not in old:
            if schema.get("x-role", "capability") not in ("capability", "base_writer"):
                found.append(f"{name}: a new message of a role, which adapters claim as a whole")
            continue
        if schema.get("x-role") != old[name].get("x-role"):
            found.append(f"{name}: has another role")
        for part, was in old[name]["$defs"].items():
            found += _narrowed(was, schema["$defs"].get(part), part == "result", f"{name} {part}")
    return found


def _narrowed(old: Any, new: Any, answered: bool, at: str) -> Iterator[str]:
    """``answered``: adapters write it, so that it may ask for less; what the suite sends has what it had."""
    if new is None:
        yield f"{at} is gone"
        return
    if "oneOf" in old and "properties" not in old:
        for number, was in enumerate(old["oneOf"]):
            if all(any(_narrowed(was, each, answered, at)) for each in new.get("oneOf", [new])):
                yield f"{at}: form {number + 1} is no longer taken"
        return
    for name, was in old.get("properties", {}).items():
        yield from _narrowed(was, new.get("properties", {}).get(name), answered, f"{at} {name}")
    needed, needs = set(old.get("required", ())), set(new.get("required", ()))
    for name in sorted(needs - needed):
        yield f"{at} {name} is required now"
    for name in sorted(needed - needs if not answered else ()):
        yield f"{at} {name} is no longer sent always"
    after = _known(new)
    yield from (f"{at}: {value} is no longer known" for value in _known(old) if value not in after)
    for word in ("items", "additionalProperties"):
        if isinstance(old.get(word), dict):
            yield from _narrowed(old[word], new.get(word), answered, f"{at} {word}")
    for word in ("type", "$ref", "pattern", "minimum", "maximum", "minLength", "minItems", "maxItems"):
        if old.get(word) != new.get(word):
            yield f"{at}: {word} was {old.get(word)}, and is {new.get(word)}"


def _known(schema: Any) -> list[Any]:
    return list(schema.get("enum", [schema["const"]] if "const" in schema else []))


def main() -> int:
    """Entry point; returns the exit status."""
    now = current()
    lines = broken(promised(), now) if FILE.exists() else []
    if not lines:
        rows = (f"{json.dumps(name)}: {json.dumps(schema, sort_keys=True)}" for name, schema in now.items())
        FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
