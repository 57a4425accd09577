"""What is loaded or made on first use, so that a process costs what it needs: modules, and methods of dataclasses."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader


def loader(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of ``package``; ``homes``: modules below it, each with the names that it defines."""
    module_of = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{module}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def light(*, frames: bool) -> None:
    """Load what is `LATER` when one of its names is used, and compile methods of dataclasses when they are called.

    Without ``frames`` this is a process that uses tables and no more: pandas is never loaded then, of `ROOMS` what is
    used, and NumPy starts no threads for linear algebra. (Bugs are planted in modules that are loaded, so that a
    process which plants some loads all of them.)
    """
    if _compiled is not None:
        dataclasses._create_fn = _compiled_when_called  # type: ignore[attr-defined]
    sys.meta_path[:0] = [_Later(LATER, ())] if frames else [_NoFrames(), _Later(LATER, ROOMS)]
    if not frames:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


LATER = ("lance", "pyarrow.compute")
"""Modules that take long to load, and that a command may do without."""
ROOMS = ("memwal.jobs.", "memwal.maintained.", "memwal.read.", "memwal.region.writer")
"""How the names of modules of the engine begin of which one call needs a few, or none."""


_compiled = getattr(dataclasses, "_create_fn", None)
"""How `dataclasses` makes one method. Python 3.13 makes all methods of a class at once, and nothing changes there."""


def _compiled_when_called(name: str, *source: Any, **names: Any) -> Callable[..., Any]:
    """A method of a dataclass that is compiled at its first call, and then stands in its class.

    Each dataclass has five or six methods, of which a command calls few; compiling those of 200 classes took a quarter
    of the time of a short command.
    """

    def method(self: Any, *args: Any, **options: Any) -> Any:
        assert _compiled is not None
        made = _compiled(name, *source, **names)
        made.__qualname__ = method.__qualname__
        for each in type(self).__mro__:
            if each.__dict__.get(name) is method:
                setattr(each, name, made)
        return made(self, *args, **options)

    method.__name__ = name
    return method


class _NoFrames:
    """Keeps pandas out of a process: PyArrow loads it with its first array, which takes 0.2 s."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("this process makes no frames", name=name)


class _LazyModule(ModuleType):
    """A module whose code runs when one of its names is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        _run(self)
        if type(self) is _LazyModule:  # its code runs now, and what that loads asks for a name that is not there yet
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} yet")
        return getattr(self, name)


def _run(module: ModuleType | None) -> None:
    """Run the code of ``module`` if it waits."""
    loader = module.__spec__.loader if type(module) is _LazyModule and module.__spec__ else None
    if isinstance(loader, _Waiting):
        loader.run(module)


class _Waiting:
    """Runs the code of a module once, at its first use in whichever thread, and that of its package before it."""

    def __init__(self, code: Loader) -> None:
        self._code, self._lock, self._runs = code, RLock(), False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LazyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet."""

    def run(self, module: ModuleType) -> None:
        with self._lock:
            _run(sys.modules.get(module.__name__.rpartition(".")[0]))
            if type(module) is not _LazyModule or self._runs:
                return
            self._runs = True
            try:
                self._code.exec_module(module)
                module.__class__ = ModuleType  # type: ignore[assignment]
            finally:
                self._runs = False


class _Later:
    """Finds ``modules``, and those of ``rooms``, and has them wait: ``lance.file`` then costs no more than itself."""

    def __init__(self, modules: Collection[str], rooms: Collection[str]) -> None:
        self._modules, self._rooms = modules, tuple(rooms)

    def find_spec(self, name: str, path: Sequence[str] | None, *_: object) -> ModuleSpec | None:
        if name not in self._modules and not name.startswith(self._rooms):
            return None
        found = PathFinder.find_spec(name, path)
        if found is not None and found.loader is not None:
            found.loader = _Waiting(found.loader)  # type: ignore[assignment]
        return found
