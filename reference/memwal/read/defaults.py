"""What searches do where their caller says nothing. Signatures show these, so they cost no import of a search."""

from __future__ import annotations

NPROBES = 20
"""Partitions of a vector index that are looked at; as many as pylance looks at."""
