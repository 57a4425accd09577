"""What an object store charges: by class of request, and for bytes that are kept. All prices are parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from memwal.errors import InvalidArgument, check_name

CLASSES: dict[str, str] = {
    "Get": "read",
    "GetRanges": "read",
    "Head": "read",
    "List": "list",
    "ListFolders": "list",
    "PutIfAbsent": "write",
    "Put": "write",
    "Copy": "write",
    "RenameIfAbsent": "write",
    "Delete": "delete",
}
"""Price class of each kind of request."""

MONTH_MS = 30 * 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices in one currency. The defaults are round numbers of the usual size, not any other price list."""

    write: float = 5.0
    """Per million puts, copies and renames."""
    list: float = 5.0
    """Per million listings."""
    read: float = 0.4
    """Per million gets and heads."""
    delete: float = 0.0
    """Per million deletes."""
    gb_month: float = 0.023
    """Per 10^9 bytes kept for 30 days."""

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 0:
                raise InvalidArgument(f"price {one.name} is negative")

    def of_requests(self, requests: Mapping[str, float]) -> float:
        """Price of requests by kind."""
        return sum(count * float(getattr(self, CLASSES[kind])) for kind, count in requests.items()) / 1e6

    def of_storage(self, gb_ms: float) -> float:
        """Price of keeping 10^9 bytes for a millisecond, so many times."""
        return gb_ms / MONTH_MS * self.gb_month

    def as_dict(self) -> dict[str, float]:
        """JSON object with all prices."""
        return asdict(self)


def parse_prices(texts: list[str]) -> Prices:
    """Prices from texts such as ``write=5.5``. Raises `InvalidArgument`."""
    known = {one.name for one in fields(Prices)}
    values = {}
    for text in texts:
        name, equals, number = text.partition("=")
        try:
            values[name] = float(number)
        except ValueError:
            raise InvalidArgument(f"{text!r} must be NAME=NUMBER") from None
        check_name("price", name if equals else text, sorted(known))
    return Prices(**values)
