"""Addresses: which requests a rule is about, in words that stay the same from run to run."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from memwal.errors import InvalidArgument, check_name

from .calls import GROUP_OF, S3Operation
from .log import LogEntry
from .requests import CLASSES, GateRequest, class_of, name_of, region_of

ANY = "*"
_GROUPS = frozenset(GROUP_OF.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Requests by actor, kind and place. Every field is a condition; its default is none.

    Raises `InvalidArgument` for an unknown class or operation, so that a slip is no idle rule.
    """

    actor: str = ANY
    class_: str = ANY
    """One of `requests.CLASSES`."""
    operation: str = ANY
    """``GET``, ``HEAD``, ``PUT``, ``LIST`` or ``DELETE``, or one `S3Operation` among them such as ``CREATE``."""
    name: str = "**"
    """Pattern of symbolic names: ``*`` is any part without a slash, ``**`` any part, ``**/`` also none."""
    region: str = ANY
    """A region id."""
    occurrence: int | None = 1
    """Which one of the requests that fit everything else, from 1; None: each of them."""

    def __post_init__(self) -> None:
        if self.class_ != ANY:
            check_name("class", self.class_, CLASSES)
        known = _GROUPS | {str(operation) for operation in S3Operation}
        if self.operation != ANY:
            check_name("operation", self.operation, sorted(known))
        if self.occurrence is not None and self.occurrence < 1:
            raise InvalidArgument("occurrences count from 1")

    def fits(self, request: GateRequest) -> bool:
        """Whether ``request`` is one of these, whichever occurrence it is."""
        if self.actor not in (ANY, request.actor) or self.operation not in (ANY, request.operation, request.group):
            return False
        return any(map(self._is_at, request.call.names))

    def describes(self, entry: LogEntry) -> bool:
        """Whether a line of the log is about one of these."""
        return (
            self.actor in (ANY, entry.actor)
            and self.operation in (ANY, entry.operation, GROUP_OF[S3Operation(entry.operation)])
            and any(map(self._is_at, (entry.key, *entry.others)))
        )

    def _is_at(self, path: str) -> bool:
        return (
            self.class_ in (ANY, class_of(path))
            and self.region in (ANY, region_of(path))
            and _pattern(self.name).fullmatch(name_of(path)) is not None
        )

    def __str__(self) -> str:
        which = "" if self.occurrence == 1 else " (each)" if self.occurrence is None else f" ({self.occurrence}.)"
        class_ = "" if self.class_ == ANY else f" {self.class_}"
        return f"{self.actor} {self.operation}{class_} {self.name}{which}"

    def to_json(self) -> dict[str, Any]:
        """Everything that is not a default, as `from_json` takes it."""
        default = Address()
        found = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        return {name.rstrip("_"): value for name, value in found.items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Address:
        """Inverse of `to_json`; raises `InvalidArgument` for what is none."""
        fields: dict[str, Any] = {("class_" if name == "class" else name): given for name, given in value.items()}
        occurrence = fields.get("occurrence", 1)
        texts = [given for name, given in fields.items() if name != "occurrence"]
        number = occurrence is None or (isinstance(occurrence, int) and not isinstance(occurrence, bool))
        if fields.keys() - set(cls.__slots__) or not all(isinstance(text, str) for text in texts) or not number:
            raise InvalidArgument(f"no address: {value!r}")
        return cls(**fields)


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*)", text)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(known.get(part) or re.escape(part) for part in parts), re.DOTALL)
