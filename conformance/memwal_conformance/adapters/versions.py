"""Released versions of the native package, each in a virtual environment of its own below the user's cache folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from memwal.words import reason

NAME = "native"
"""What stands for the adapter of the native package where a command is asked for."""
MODULE = "memwal_conformance.adapters.native"
_VERSION = re.compile(r"[0-9]+(\.[0-9]+){1,3}((a|b|rc)[0-9]+)?")
_LIMIT_S = 900
_MARK = "installed"


class NotInstalled(Exception):
    """A version that there is no environment for; the text ends with what the installer said."""


def cache_folder() -> Path:
    """Where the environments are: ``memwal/native`` below ``XDG_CACHE_HOME``, by default ``.cache`` at home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memwal" / "native"


def command(version: str | None = None) -> tuple[str, ...]:
    """Command of the adapter: under this interpreter, or in the environment of a version. Raises `NotInstalled`."""
    return sys.executable if version is None else str(interpreter(version)), "-m", MODULE


def interpreter(version: str) -> Path:
    """The interpreter that has ``pylance`` of that version; it is installed if it is not there yet.

    Raises `NotInstalled`.
    """
    folder = cache_folder() / _checked(version)
    if not (folder / _MARK).exists():
        install(version, folder)
        (folder / _MARK).touch()  # last: an installation that was cut short is begun again
    return _python(folder)


def install(version: str, folder: Path) -> Path:
    """Make a new environment in ``folder`` that has ``pylance`` of that version; its interpreter.

    Raises `NotInstalled`.
    """
    wanted = f"pylance=={_checked(version)}"
    _run(version, [sys.executable, "-m", "venv", "--clear", str(folder)])
    _run(version, [str(_python(folder)), "-m", "pip", "install", "--quiet", wanted])
    return _python(folder)


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _checked(version: str) -> str:
    if _VERSION.fullmatch(version) is None:
        raise NotInstalled(f"{version!r} is no version")
    return version


def _run(version: str, arguments: list[str]) -> None:
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"pylance {version} cannot be installed: {reason(error)}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotInstalled(f"pylance {version} cannot be installed: {said[-1] if said else done.returncode}")
