"""What an exploration did to each life, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.words import counted

from . import orders


@dataclass(slots=True)
class Covered:
    """What was done to one life."""

    missing: str = ""
    """Why it was not run at all."""
    states: int = 0
    faults: int = 0
    faults_done: int = 0
    faults_idle: int = 0
    """Of these, those whose request did not come, or whose run came to a limit."""
    idle: int = 0
    """Plans whose rule never acted, and runs that came to a limit: they show nothing."""
    orders: int = 0
    orders_done: int = 0
    random_done: int = 0
    both: int = 0
    both_done: int = 0
    """Of one fault and one preemption."""
    decisions: int = 0

    def words(self, actors: int) -> str:
        """What was covered, as a sentence says it."""
        if self.missing:
            return f"not run: {self.missing}"
        complete = self.faults and self.faults_done == self.faults
        one = f"complete for one fault ({self.faults})" if complete else f"{self.faults_done} of {self.faults} faults"
        if self.faults_idle:
            one += f", {self.faults_idle} of which did not come about"
        found = [one, f"{self.states} crash states"]
        if actors > 1:
            all_ = self.orders_done == self.orders and self.orders
            found.append(f"all {self.orders} orders" if all_ else f"{self.orders_done} of {self.orders} orders or more")
        if self.both_done:
            found.append(f"{self.both_done} of {self.both} pairs of a fault and a preemption")
        if self.random_done:
            chance = orders.chance_of(actors, self.decisions)
            found.append(f"{self.random_done} random orders, each with a chance of {chance:.2g} at least")
        if self.idle:
            found.append(f"{counted(self.idle, 'run')} showed nothing")
        return ", ".join(found)
