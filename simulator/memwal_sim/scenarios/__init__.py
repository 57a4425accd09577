"""Scenarios: named worlds of processes that run the engine's own protocol code, and what must hold in them."""
