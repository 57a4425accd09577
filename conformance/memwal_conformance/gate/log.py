"""The request log: what happened, in order of linearization."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from .replies import Answer, Half, Reply, Unanswered
from .requests import GateRequest


class RequestFate(StrEnum):
    """What became of a request. The first five are those of `memwal_sim.outcomes.Fate`."""

    NORMAL = "normal"
    """Carried out and answered, be it with a refusal that the store owes."""
    LOST = "lost"
    """Not carried out; the connection was reset."""
    APPLIED = "applied"
    """Carried out; the client does not learn it."""
    LATE = "late"
    """Carried out after the client had given up."""
    THROTTLED = "throttled"
    """Answered 503 and not carried out."""
    FAILED = "failed"
    """Answered with another 5xx and not carried out."""
    REFUSED = "refused"
    """Answered with an error below 500 that the store does not owe, and not carried out."""
    HALF = "half"
    """Carried out; the client gets half of the reply."""
    DUPLICATE = "duplicate"
    """The second time that one request was carried out."""
    SILENT = "silent"
    """Not carried out and never answered."""
    PENDING = "pending"
    """Carried out, and the answer is still held."""


@dataclass(slots=True)
class LogEntry:
    """One line of the log. Two requests are in the order in which they were carried out."""

    order: int
    """From 1."""
    actor: str
    class_: str
    name: str
    """Symbolic."""
    key: str
    """As it is in the bucket."""
    others: tuple[str, ...]
    """Further keys, of a request for several objects; class, name and key are those of the first."""
    operation: str
    fate: RequestFate
    status: int
    """Of the reply that the store gave, even if the client did not get it; 0 if there was none."""
    request_bytes: int
    request_digest: str
    reply_bytes: int
    reply_digest: str
    store: str
    """Digest of the store afterwards."""
    number: int
    """Of the request's arrival."""
    rule: str = ""
    """Label of the rule that decided."""
    agent: str = ""
    """The User-Agent that the client calls itself."""
    got: int | None = None
    """Status of the reply that the client got, 0 if it got none; None where that is not known, as while it waits."""

    @property
    def told(self) -> str:
        """What the client got, where that is not the reply of the store; empty otherwise."""
        if self.got in (None, self.status):
            return ""
        return f"the client got {self.got}" if self.got else "the client got no answer"

    def to_json(self) -> dict[str, Any]:
        """As saved in a file of JSON lines."""
        found = asdict(self)
        found["class"] = found.pop("class_")
        return found

    @staticmethod
    def from_json(saved: Mapping[str, Any]) -> LogEntry:
        """Inverse of `to_json`."""
        fields = {name: value for name, value in saved.items() if name != "class"}
        return LogEntry(
            **{**fields, "class_": saved["class"], "fate": RequestFate(saved["fate"]), "others": tuple(saved["others"])}
        )


def got(answer: Answer, *, gone: bool) -> int:
    """Status of the reply that a client gets of ``answer``; 0: none."""
    reply = answer.reply if isinstance(answer, Half) else answer
    return reply.status if isinstance(reply, Reply) and not gone else 0


def fate(answer: Answer, applied: Reply | None, *, gone: bool) -> RequestFate:
    """The fate of a request that was carried out with the reply ``applied`` (None: not), and answered ``answer``.

    ``gone``: the client had closed its connection before.
    """
    if applied is None:
        if isinstance(answer, Reply):
            throttled, failed = answer.status == 503, answer.status >= 500
            return RequestFate.THROTTLED if throttled else RequestFate.FAILED if failed else RequestFate.REFUSED
        return RequestFate.SILENT if answer is Unanswered.NEVER else RequestFate.LOST
    if gone:
        return RequestFate.LATE
    if isinstance(answer, Half):
        return RequestFate.HALF
    return RequestFate.NORMAL if answer is applied else RequestFate.APPLIED


def text_of(entries: Iterable[LogEntry]) -> str:
    """The log for people: one line per entry, with what the client got if that is not what the store replied."""
    return "".join(
        f"{e.order:5d}  {e.actor:<12} {e.operation:<11} {e.name:<32} {e.status:3d} {e.fate:<9} "
        f"{e.request_bytes:>8} {e.reply_bytes:>8}  {'  '.join(filter(None, (e.rule, e.told)))}".rstrip()
        + "\n"
        for e in entries
    )


def entry(
    request: GateRequest, order: int, found: RequestFate, status: int, reply: tuple[int, str], store: str
) -> LogEntry:
    """The entry for ``request``; ``reply``: size and digest of the reply's body."""
    return LogEntry(
        order,
        request.actor,
        request.class_,
        request.name,
        request.call.names[0],
        request.call.keys[1:],
        request.operation.value,
        found,
        status,
        request.bytes_,
        request.digest,
        reply[0],
        reply[1],
        store,
        request.number,
        agent=request.agent,
    )
