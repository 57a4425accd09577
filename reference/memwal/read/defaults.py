"""What searches do where their caller says nothing. Signatures show these, so they cost no import of a search."""

from __future__ import annotations

NPROBES = 8
"""Partitions of a vector index that are looked at: pylance 14.0.2 begins with 6, and adds some where distances tell."""
