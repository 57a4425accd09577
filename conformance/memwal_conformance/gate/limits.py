"""How much of everything a gate takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLimits:
    """Bounds of one gate. What goes beyond them is refused with an S3 error, and never dropped in silence."""

    connections: int = 256
    """Open connections; one more is answered 503 and closed."""
    head_bytes: int = 16 << 10
    """Request line and headers of one request."""
    headers: int = 64
    """Headers of one request."""
    object_bytes: int = 64 << 20
    """One object, and all parts of one multipart upload."""
    objects: int = 100_000
    """Objects in the store at one time."""
    kept_bytes: int = 1 << 30
    """All objects that were ever written, since crash states keep them."""
    log_entries: int = 1_000_000
    """Requests in the log."""
    uploads: int = 64
    """Multipart uploads under way."""
    parts: int = 1000
    """Parts of one multipart upload."""
    part_bytes_min: int = 5 << 20
    """Every part of a multipart upload but the last has at least so many."""
    life_s: float = 300.0
    """After this time the gate stops by itself."""
