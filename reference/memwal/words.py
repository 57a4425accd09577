"""Numbers, and reasons of errors, as people write them in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def counted(number: object, one: str, many: str = "") -> str:
    """``1 row``, ``2 rows``, ``0 rows``; ``many``: the plural where that is not ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def reason(error: BaseException) -> str:
    """What an error says; of one of the operating system only the words, without their number and the file again."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def size(size_bytes: int | None) -> str:
    """``812 B``, ``1.5 MiB``; None is ``not measured``."""
    if size_bytes is None:
        return "not measured"
    unit = next(((name, of) for name, of in _UNITS if size_bytes >= of), None)
    return f"{size_bytes / unit[1]:.1f} {unit[0]}" if unit is not None else f"{size_bytes:,} B"


def moment(time_ms: int | None) -> str:
    """``2026-11-24 04:05:06``, in UTC, of milliseconds since 1970; None is ``-``."""
    return "-" if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(" ", "seconds")[:19]


def grid(head: Sequence[str], rows: Iterable[Sequence[object]], *, most: int = 20) -> str:
    """A short table in plain text: columns as wide as their widest cell, ``most`` rows, and how many more there are."""
    cells = [[str(cell) for cell in row] for row in rows]
    shown = [list(head), *cells[:most]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    more = [f"… and {len(cells) - most:,} more"] if len(cells) > most else []
    return "\n".join([*lines, *more])
