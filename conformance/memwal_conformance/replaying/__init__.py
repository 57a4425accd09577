"""Recorded faults, translated into messages and played against other implementations."""
