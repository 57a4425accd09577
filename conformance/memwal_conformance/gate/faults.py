"""Faults as data: at which requests, and what happens there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from memwal.errors import InvalidArgument

from .address import Address
from .replies import CODE_OF, Answer, Half, Reply, Unanswered, error_reply
from .requests import GateRequest

Apply = Callable[[], Reply]
"""Carries the request out, in one step, and returns the honest reply. A second call carries it out again."""


class Do(StrEnum):
    """What happens at a request."""

    REFUSE = "refuse"
    """Not carried out; an error below 500 (409 if the rule names no status)."""
    FAIL = "fail"
    """Not carried out; 503, or the status that the rule names."""
    LOSE = "lose"
    """Not carried out; the connection is reset."""
    APPLY_THEN_LOSE = "apply_then_lose"
    """Carried out; the connection is reset."""
    APPLY_THEN_FAIL = "apply_then_fail"
    """Carried out; 500, or the status that the rule names."""
    APPLY_HOLD_LOSE = "apply_hold_lose"
    """Carried out at once; the connection is reset when the rule is released."""
    HALF = "half"
    """Carried out; half of the reply, then the end of the connection."""
    HOLD_BEFORE = "hold_before"
    """Carried out when the rule is released."""
    HOLD_AFTER = "hold_after"
    """Carried out at once, answered when the rule is released."""
    DELAY = "delay"
    """Carried out after the first request that ``until`` fits."""
    DUPLICATE = "duplicate"
    """Carried out twice; answered with the reply to the second."""
    KILL_BEFORE = "kill_before"
    """Not carried out; the actor is killed, and no request of it is answered from then on."""
    KILL_AFTER = "kill_after"
    """The same, but carried out."""
    SILENCE = "silence"
    """Not carried out; neither this request nor any later one of its actor is answered."""


_HELD = frozenset({Do.HOLD_BEFORE, Do.HOLD_AFTER, Do.APPLY_HOLD_LOSE, Do.DELAY})
_STATUS = {Do.REFUSE: 409, Do.FAIL: 503, Do.APPLY_THEN_FAIL: 500}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """What happens at one address. Raises `InvalidArgument` for parts that do not fit together."""

    at: Address
    do: Do
    status: int = 0
    """For the three actions that answer with an error; 0: the one that the action has by itself."""
    until: Address | None = None
    """For `Do.DELAY`, and as another way to release what is held."""
    label: str = ""
    """Name in logs; derived from the address if empty."""

    def __post_init__(self) -> None:
        if self.status and (self.do not in _STATUS or self.status not in CODE_OF):
            raise InvalidArgument(f"{self.do} with status {self.status}: {sorted(CODE_OF)} go with {sorted(_STATUS)}")
        if self.do is Do.REFUSE and self.status >= 500:
            raise InvalidArgument("what the store refuses has a status below 500")
        if (self.do is Do.DELAY and self.until is None) or (self.until is not None and self.do not in _HELD):
            raise InvalidArgument(f"until is for {', '.join(sorted(_HELD))}, and {Do.DELAY} needs it")
        if not self.label:
            object.__setattr__(self, "label", f"{self.do} at {self.at}")

    def to_json(self) -> dict[str, Any]:
        """As `from_json` takes it."""
        found: dict[str, Any] = {"at": self.at.to_json(), "do": str(self.do), "label": self.label}
        if self.status:
            found["status"] = self.status
        if self.until is not None:
            found["until"] = self.until.to_json()
        return found

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> FaultRule:
        """Inverse of `to_json`; raises `InvalidArgument` for what is none."""
        at, do, until = value.get("at"), value.get("do"), value.get("until")
        status, label = value.get("status", 0), value.get("label", "")
        known = isinstance(at, dict) and do in set(Do) and isinstance(status, int) and isinstance(label, str)
        if not known or value.keys() - set(cls.__slots__) or not isinstance(until, dict | None):
            raise InvalidArgument(f"no rule: {value!r}")
        assert isinstance(at, dict)
        assert isinstance(do, str)
        wait = None if until is None else Address.from_json(until)
        return cls(at=Address.from_json(at), do=Do(do), status=status, until=wait, label=label)


class Controls(Protocol):
    """What a rule needs from the gate."""

    def hold(self, rule: FaultRule, request: GateRequest) -> Awaitable[None]:
        """Wait until the rule is released."""

    def kill(self, actor: str) -> None:
        """Kill an actor, and never answer it again."""

    def silence(self, actor: str) -> None:
        """Never answer an actor again."""


async def act(rule: FaultRule, request: GateRequest, apply: Apply, controls: Controls) -> Answer:
    """Do to ``request`` what ``rule`` says."""
    match rule.do:
        case Do.REFUSE | Do.FAIL:
            return _error(rule)
        case Do.LOSE:
            return Unanswered.RESET
        case Do.APPLY_THEN_LOSE:
            apply()
            return Unanswered.RESET
        case Do.APPLY_THEN_FAIL:
            apply()
            return _error(rule)
        case Do.APPLY_HOLD_LOSE:
            apply()
            await controls.hold(rule, request)
            return Unanswered.RESET
        case Do.HALF:
            return Half(apply())
        case Do.HOLD_BEFORE | Do.DELAY:
            await controls.hold(rule, request)
            return apply()
        case Do.HOLD_AFTER:
            reply = apply()
            await controls.hold(rule, request)
            return reply
        case Do.DUPLICATE:
            apply()
            return apply()
        case Do.KILL_BEFORE | Do.KILL_AFTER:
            if rule.do is Do.KILL_AFTER:
                apply()
            controls.kill(request.actor)
            return Unanswered.NEVER
        case Do.SILENCE:
            controls.silence(request.actor)
            return Unanswered.NEVER


def _error(rule: FaultRule) -> Reply:
    status = rule.status or _STATUS[rule.do]
    return error_reply(status, CODE_OF[status], f"a fault of the test: {rule.label}")


class Rules:
    """Rules at work: which request each has met."""

    def __init__(self, rules: tuple[FaultRule, ...], asleep: Iterable[FaultRule] = ()) -> None:
        labels = [rule.label for rule in rules]
        if len(set(labels)) != len(labels):
            raise InvalidArgument(f"two rules of one label among {labels}")
        self.rules = rules
        self.asleep = {rule.label for rule in asleep}
        """Labels of rules that do not count requests yet."""
        self.released: set[str] = set()
        """Labels of rules that hold nothing any more: another one may act in their place."""
        self._fitting = dict.fromkeys(labels, 0)
        self.met: dict[str, list[int]] = {label: [] for label in labels}
        """Label -> numbers of the requests at which the rule acted."""

    def choose(self, request: GateRequest) -> FaultRule | None:
        """The first rule that is about ``request``. Every rule counts it, also those behind the first."""
        chosen: FaultRule | None = None
        for rule in self.rules:
            if rule.label in self.asleep or not rule.at.fits(request):
                continue
            self._fitting[rule.label] += 1
            due = rule.at.occurrence in (None, self._fitting[rule.label])
            if due and (chosen is None or chosen.label in self.released):
                chosen = rule
        if chosen is not None:
            self.met[chosen.label].append(request.number)
        return chosen

    @property
    def unmatched(self) -> tuple[FaultRule, ...]:
        """Rules that never acted: with one of them, a run shows nothing."""
        return tuple(rule for rule in self.rules if not self.met[rule.label])
