"""Recorded faults, translated into messages and run against other implementations."""
