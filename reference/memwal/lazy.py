"""What is loaded on first use, so that a process costs what it needs: names of a package, pylance, pandas."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


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
    """Load all of pylance only when one of its names is used, and pandas never unless this process makes ``frames``."""
    sys.meta_path[:0] = [_LanceLater()] if frames else [_NoFrames(), _LanceLater()]


class _NoFrames:
    """Keeps pandas out of a process: PyArrow loads it with its first array, which takes 0.2 s."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("this process makes no frames", name=name)


class _Lance(ModuleType):
    """Pylance, whose own ``__init__`` runs when one of its names is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]
        whole = PathFinder.find_spec(self.__name__)
        assert whole is not None
        assert whole.loader is not None
        whole.loader.exec_module(self)
        return getattr(self, name)


class _LanceLater(Loader):
    """Lets a process import ``lance.file`` without all of pylance, which takes 0.2 s."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        found = PathFinder.find_spec(name) if name == "lance" else None
        if found is not None:
            found.loader = self
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Lance(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet: see `_Lance`."""
