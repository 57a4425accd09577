"""Texts and whole numbers of a command line, taken as they are.

Typer has each value checked by pydantic, which takes longer to load than a table to open. A text needs no check, and a
whole number only its bounds. Any other value, and any wrong one, is Typer's as before: it has the words for what is
wrong. Older releases of Typer load no pydantic, and nothing changes for them.
"""

from __future__ import annotations

from typing import Any, get_args, get_origin

import typer.core

_DIGITS_MOST = 18
"""Digits of a whole number that needs no second look."""
_by_typer = getattr(typer.core, "build_runtime_param", None)


def spare_pydantic() -> None:
    """Have the values of all commands of this process read by `PlainValue`."""
    if _by_typer is not None:
        typer.core.build_runtime_param = PlainValue  # type: ignore[assignment, attr-defined]


class PlainValue:
    """What Typer asks for the value of one parameter; ``descriptor`` is Typer's own of it."""

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """``value`` as the parameter's type. Raises Typer's ``BadParameter``."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        kind = self._descriptor.annotation
        if several and get_origin(kind) is list and isinstance(value, tuple | list):
            if all(get_args(kind) == (str,) and isinstance(each, str) for each in value):
                return list(value)
        elif not several and self._is_plain(kind, value):
            return kind(value)
        assert _by_typer is not None
        return _by_typer(self._descriptor).coerce(value, param=param, ctx=ctx)

    def _is_plain(self, kind: object, value: object) -> bool:
        """Whether ``value`` is known without pydantic to be right for a parameter of ``kind``."""
        info = self._descriptor.parameter_info
        if info.parser is not None or info.clamp:
            return False
        if kind is str:
            return isinstance(value, str)
        if kind is not int or isinstance(value, bool):
            return False
        if isinstance(value, str):
            value = int(value) if value.isascii() and value.isdecimal() and len(value) < _DIGITS_MOST else None
        return isinstance(value, int) and (info.min or value) <= value <= (value if info.max is None else info.max)
