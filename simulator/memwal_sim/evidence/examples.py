"""All histories that are written: worked examples, faults of the texts' prose, crashes. Writes and checks their traces.

``python -m memwal_sim.evidence.examples`` compares ``faults/recorded`` with them; ``--write`` writes them anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from .. import places
from ..traces.trace import decoded, dumps
from . import crashes, texts
from .schedules import Example, trace_of


def every_example() -> Iterator[Example]:
    """All examples."""
    return chain(texts.worked_examples(), crashes.examples())


def traces() -> Iterator[tuple[Path, str]]:
    """The file of each example below the folder of faults, and what has to be in it."""
    for example in every_example():
        yield example.file, dumps(trace_of(example))


def written(folder: Path) -> set[Path]:
    """Files below ``folder`` that are traces of examples, whether there still is such an example or not."""
    found = (folder / "recorded").rglob("*.jsonl")
    return {path.relative_to(folder) for path in found if _is_written(path)}


def _is_written(path: Path) -> bool:
    """Whether the trace says what has to be so on the way."""
    with path.open("rb") as file:
        return "expected" in decoded(file.readline())


def write(folder: Path) -> int:
    """Write the traces of all examples below ``folder``, and delete those of none; returns how many there are."""
    before, now = written(folder), dict(traces())
    for file, text in now.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, "utf-8")
    for stale in before - now.keys():
        (folder / stale).unlink()
    return len(now)


def different(folder: Path) -> list[str]:
    """Files below ``folder`` that are not what the examples give, digests of the engine aside."""
    wrong = {file.as_posix() for file in written(folder)} - {example.file.as_posix() for example in every_example()}
    for example in every_example():
        path, trace = folder / example.file, trace_of(example)
        if not path.is_file() or _without_digests(path.read_text("utf-8")) != _without_digests(dumps(trace)):
            wrong.add(example.file.as_posix())
    return sorted(wrong)


def _without_digests(text: str) -> str:
    """A trace without the digest of the engine's sources, which every change of the engine changes."""
    head, _, steps = text.partition("\n")
    before, _, after = head.partition('"engine": "')
    return f"{before}{after.partition(chr(34))[2]}\n{steps}"


def main() -> None:
    """The command of the module."""
    parser = argparse.ArgumentParser(description="Compare the traces of all examples with those that are stored.")
    parser.add_argument("--write", action="store_true", help="write them")
    folder = places.faults()
    if parser.parse_args().write:
        sys.stdout.write(f"{write(folder)} traces written\n")
        return
    wrong = different(folder)
    sys.stdout.write("".join(f"{file} is not what its example gives\n" for file in wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
