"""How much memory this process can still get, as far as the system says."""

from __future__ import annotations

from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]


SMALL_BYTES = 16 << 20
"""The size of an answer that is not measured: measuring takes longer than many a read."""


def exceeded(most: float | None, size_bytes: int) -> int | None:
    """The bound that ``size_bytes`` exceed, if they do: ``most``, or for None what this process can still get."""
    if most is None and size_bytes > SMALL_BYTES:
        most = available_bytes()
    return int(most) if most is not None and size_bytes > most else None


def available_bytes(root: Path = Path("/")) -> int | None:
    """The least of what machine, control group and address space leave; None where none of them says.

    ``root``: where ``proc`` and ``sys`` are.
    """
    found = [bound for bound in (_machine(root), _group(root), _address_space(root)) if bound is not None]
    return max(0, min(found)) if found else None


def _machine(root: Path) -> int | None:
    return _kib(root / "proc/meminfo", "MemAvailable:")


def _group(root: Path) -> int | None:
    """What the control group leaves: version 2, else version 1. Pages of files count as free."""
    folder = root / "sys/fs/cgroup"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, now = _number(folder / limit), _number(folder / used)
        if most is not None and now is not None:
            cached = _number(folder / Path(limit).parent / "memory.stat", "inactive_file")
            return most - now + (cached or 0)
    return None


def _address_space(root: Path) -> int | None:
    if resource is None:
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _kib(root / "proc/self/status", "VmSize:")
    return None if most == resource.RLIM_INFINITY or used is None else most - used


def _kib(path: Path, name: str) -> int | None:
    found = _number(path, name)
    return None if found is None else found << 10


def _number(path: Path, name: str = "") -> int | None:
    """The number in a file, or behind ``name`` in a line of it; None if there is none, as for a limit of ``max``."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if name and words[:1] == [name]:
            words = words[1:]
        elif name:
            continue  # another line
        return int(words[0]) if words and words[0].isdecimal() else None
    return None
