"""Scenarios behind the gate: faults by name, crashes at each change, races in chosen orders, and recorded faults."""
