"""Error texts of the native package -> kinds of the protocol. The package raises OSError for nearly everything."""

from __future__ import annotations

import re

from memwal_conformance.protocol import ErrorKind

KINDS: tuple[tuple[str, ErrorKind], ...] = (
    (r"writer fenced|is fenced|was fenced|fenced by|failed to claim shard|claimed by another", "fenced"),
    (r"already exists|is already initialized", "already_exists"),
    (r"commit conflict|concurrent|retryable|stale sstable compaction|too much write contention", "conflict"),
    (r"is already closed|writer (is|was|has been) closed|shutting down", "cancelled"),
    (r"generic s3 error|http error|error performing|error sending request|retries|throttl|timed? ?out", "storage"),
    (r"was not found|not found:|does not exist|no such file", "not_found"),
    (r"corrupt|malformed|failed to decode|invalid magic|unexpected end of file|failed to parse", "corrupt"),
    (r"invalid user input|does not match|schema|invalid argument|not initialized|invalid shard_id", "invalid_argument"),
)
"""Pattern, without regard to case, -> kind; the first that is found in a text decides."""

RAISED = (OSError, ValueError, TypeError, KeyError, RuntimeError, NotImplementedError)
"""What the package raises; pyarrow's errors are among them. Anything else ends the process, which is a crash."""


def kind_of(error: Exception) -> ErrorKind:
    """The kind of an error that the package raised; ``internal`` for a text that no pattern is about."""
    text = str(error)
    for pattern, kind in KINDS:
        if re.search(pattern, text, re.IGNORECASE):
            return kind
    return "invalid_argument" if isinstance(error, ValueError | TypeError) else "internal"
