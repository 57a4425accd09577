"""Random histories of one register: what a real register lets clients see, and the same with something wrong."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from memwal_sim.histories.operations import Operation, Value

CHANCES = 0.35, 0.25
"""That a write is of unknown outcome, and that it is a failure instead."""


def simulated(random: Random, length: int, clients: int) -> list[Operation]:
    """Clients that call a register one after another each; every call takes effect at one moment inside it, or never.

    Writes of unknown outcome may take effect long after the client gave up.
    """
    events: list[tuple[float, int, str]] = []
    drafts: list[dict[str, object]] = []
    free = [random.random() for _ in range(clients)]
    for number in range(length):
        client = random.randrange(clients)
        invoked = free[client] + random.random()
        returned = invoked + random.expovariate(1.0)
        free[client] = returned
        writing = random.random() < 0.5
        outcome = "ok"
        effect: float | None = random.uniform(invoked, returned)
        if writing and random.random() < CHANCES[0]:
            outcome = "failed" if random.random() < CHANCES[1] else "unknown"
            happens = outcome == "unknown" and random.random() < 0.6
            effect = invoked + random.expovariate(0.3) if happens else None
        never = outcome == "unknown" and random.random() < 0.3
        drafts.append(
            {"kind": "write" if writing else "read", "invoked": invoked, "returned": returned, "outcome": outcome,
             "never": never, "value": f"v{number}" if writing else None}
        )  # fmt: skip
        if effect is not None:
            events.append((effect, number, "write" if writing else "read"))
    held: Value = None
    for _, number, kind in sorted(events):
        if kind == "write":
            held = drafts[number]["value"]  # type: ignore[assignment]
        else:
            drafts[number]["value"] = held
    moments = sorted({moment for d in drafts for moment in (d["invoked"], d["returned"])})  # type: ignore[type-var]
    clock = {moment: at for at, moment in enumerate(moments)}
    return [
        Operation(
            key="k",
            kind=d["kind"],  # type: ignore[arg-type]
            value=d["value"],  # type: ignore[arg-type]
            invoked=clock[d["invoked"]],  # type: ignore[index]
            returned=None if d["never"] else clock[d["returned"]],  # type: ignore[index]
            outcome=d["outcome"],  # type: ignore[arg-type]
            name=f"op{number}",
        )
        for number, d in enumerate(drafts)
    ]


def bent(random: Random, history: list[Operation]) -> list[Operation]:
    """``history`` with one thing changed: what a read found, or when something began or ended. Often still possible."""
    at = random.randrange(len(history))
    before = history[at]
    if before.kind == "read" and random.random() < 0.7:
        values = [op.value for op in history if op.kind == "write"]
        after = replace(before, value=random.choice([None, *values]))
    elif before.returned is not None and random.random() < 0.5:
        after = replace(before, returned=random.randint(before.invoked, before.returned))
    else:
        end = before.returned if before.returned is not None else before.invoked + 5
        after = replace(before, invoked=random.randint(before.invoked, end))
    return [*history[:at], after, *history[at + 1 :]]
