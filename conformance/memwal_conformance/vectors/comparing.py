"""How answers are held against expected ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from memwal_conformance.protocol import AdapterError, Json

UNORDERED = (
    "flushed_generations",
    "merged_generations",
    "index_catchup",
    "caught_up_generations",
    "shard_fields",
    "regions",
    "records",
)
"""Lists whose order means nothing."""


def difference(expected: Any, found: Any, place: str = "") -> str | None:
    """The first place where ``found`` lacks or contradicts ``expected``.

    Members that only ``found`` has are its own business, null is the same as absent, and the order of the lists in
    `UNORDERED` means nothing.
    """
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for name, value in expected.items():
            if name not in found:
                if value is None:
                    continue
                return f"{place}{name} is missing"
            ours, theirs = value, found[name]
            if name in UNORDERED:
                ours, theirs = _sorted(ours), _sorted(theirs)
            wrong = difference(ours, theirs, f"{place}{name}.")
            if wrong is not None:
                return wrong
        return None
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        wrongs = (difference(a, b, f"{place}{i}.") for i, (a, b) in enumerate(zip(expected, found, strict=True)))
        return next((wrong for wrong in wrongs if wrong is not None), None)
    return None if expected == found else f"{place.rstrip('.')} is {short(found)}, expected {short(expected)}"


def _sorted(items: list[Any]) -> list[Any]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def rows_by_name(rows: Json, *, typed: bool = True) -> list[str]:
    """Rows without their order and that of their columns, each as text; with ``typed``, each value with its type."""
    names = [column["name"] for column in rows["columns"]]
    shown = ((cell if typed else cell["v"] for cell in row) for row in rows["rows"])
    return sorted(json.dumps(dict(zip(names, row, strict=True)), sort_keys=True) for row in shown)


def rows_differ(found: Iterable[str], expected: Collection[str]) -> str | None:
    """Which rows are missing and which are not expected, in any order; None if there are none."""
    ours, theirs = Counter(expected), Counter(found)
    differing = (("missing", ours - theirs), ("not expected", theirs - ours))
    said = [f"{what}: {', '.join(sorted(rows.elements()))}" for what, rows in differing if rows]
    return f"of {len(expected)} expected rows, {'; '.join(said)}" if said else None


def short(value: object) -> str:
    """``value`` as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + "…"


def refusal(expected: Any) -> tuple[str, ...]:
    """Kinds of error that a case expects; empty if it expects an answer."""
    kinds = expected.get("error", ()) if isinstance(expected, Mapping) else ()
    return (kinds,) if isinstance(kinds, str) else tuple(kinds)


def not_refused(answer: object, kinds: tuple[str, ...]) -> str:
    """What is wrong with an answer where an error of one of ``kinds`` is expected."""
    return f"the answer is {short(answer)}, expected the error {' or '.join(kinds)}"


def refused_as(error: AdapterError, kinds: tuple[str, ...]) -> str | None:
    """What is wrong with a refusal where one of ``kinds`` is expected."""
    return None if error.kind in kinds else f"refused as {error}, expected the kind {' or '.join(kinds)}"
