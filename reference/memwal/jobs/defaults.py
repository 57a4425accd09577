"""What jobs do where their caller says nothing. Commands show these in their help, so they cost no import of a job."""

from __future__ import annotations

COMMIT_EVERY = 100
"""Most regions that share a commit of a merge, each with its next generation."""
ENTRY_NAMES = "{id}.arrow"
"""Names of the WAL files of revision 0, which no text fixes."""
COMPACT_OVER = 32
"""Small fragments of about one size that a merge leaves; more are rewritten as one."""
RETAIN_MANIFESTS = 10
"""Newest manifest versions of each region that a collection keeps."""
