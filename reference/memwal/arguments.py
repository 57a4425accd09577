"""Arguments of the wrong type are refused with a sentence before a call does anything.

What a parameter takes is its annotation. Annotations that say nothing about a value by itself are not looked into:
``Any``, functions, and Arrow's data, since whatever has Arrow's interface is taken for a table.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from inspect import isfunction, signature
from numbers import Real
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, NewType, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from .errors import InvalidArgument

P = ParamSpec("P")
T = TypeVar("T")

Kind = tuple[str, Callable[[object], bool]]
"""What a value of it is called in a sentence, and whether one is."""

SHOWN_MOST = 60
"""Characters of a refused value that the sentence has."""
_ARROW_DATA = ("RecordBatch", "Schema", "Table")


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, with each argument held to its parameter's annotation: `InvalidArgument` names the first other one.

    Annotations are looked up at the first call, since what they name may be defined below ``function``.
    """
    names = tuple(signature(function).parameters)
    kinds: dict[str, Kind] = {}

    @wraps(function)
    def held(*args: P.args, **kwargs: P.kwargs) -> T:
        if not kinds:
            kinds.update(_kinds(function))
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in kinds and not kinds[name][1](value):
                raise InvalidArgument(f"{name} must be {kinds[name][0]}, not {_shown(value)}")
        return function(*args, **kwargs)

    return held


def checked_methods(cls: type[T]) -> type[T]:
    """``cls`` with its own public methods `checked`."""
    for name, value in vars(cls).copy().items():
        if isfunction(value) and not name.startswith("_"):
            setattr(cls, name, checked(value))
    return cls


def _kinds(function: Callable[..., object]) -> dict[str, Kind]:
    """What each parameter of ``function`` takes, without those that take anything. Never empty."""
    arguments = SimpleNamespace(
        __annotations__={name: hint for name, hint in function.__annotations__.items() if name != "return"}
    )
    hints = get_type_hints(arguments, function.__globals__)
    found = {name: _kind(hint) for name, hint in hints.items()}
    return {name: kind for name, kind in found.items() if kind is not None} | {"return": ("anything", _anything)}


def _kind(hint: Any) -> Kind | None:
    """What ``hint`` admits; None for one that is not looked into."""
    if isinstance(hint, NewType):
        return _kind(hint.__supertype__)
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _either([_kind(each) for each in inside])
    if origin is Literal:
        return " or ".join(map(repr, inside)), lambda value: isinstance(value, str)  # which of them: a check of names
    if origin in (Sequence, Collection, Iterable):
        return _listed(_kind(inside[0]), Iterable if origin is Iterable else Collection)
    if origin is Mapping:
        return _mapped(*map(_kind, inside))
    return _PLAIN.get(hint) or _instance(hint)


def _either(kinds: Sequence[Kind | None]) -> Kind | None:
    known = [kind for kind in kinds if kind is not None]
    words = " or ".join(dict.fromkeys(kind[0] for kind in known))
    return (words, lambda value: any(admits(value) for _, admits in known)) if len(known) == len(kinds) else None


def _listed(each: Kind | None, container: type) -> Kind:
    """Several of ``each``. What an iterator has is not looked at, since that would use it up."""
    words, inside = (f"a list of {_noun(each)}s", each[1]) if each is not None else ("a list", _anything)

    def admits(value: object) -> bool:
        if not isinstance(value, container) or isinstance(value, str | bytes | Mapping):
            return False
        return not isinstance(value, Collection) or all(map(inside, value))

    return words, admits


def _mapped(key: Kind | None, held: Kind | None) -> Kind:
    words = f"a dict by {_noun(key)}" if key is not None else "a dict"
    keys, values = (kind[1] if kind is not None else _anything for kind in (key, held))

    def admits(value: object) -> bool:
        return isinstance(value, Mapping) and all(map(keys, value)) and all(map(values, value.values()))

    return (f"{words} of {_noun(held)}s" if held is not None else words), admits


def _instance(hint: Any) -> Kind | None:
    """A class. A protocol's instance has one of its methods at least: many a store offers what is asked of it alone."""
    if hint in (Any, object) or not isinstance(hint, type) or is_typeddict(hint):
        return None
    if hint.__module__.partition(".")[0] == "pyarrow" and hint.__name__ in _ARROW_DATA:
        return None
    if not getattr(hint, "_is_protocol", False):
        return f"a {hint.__name__}", lambda value: isinstance(value, hint)
    protocols = [base for base in hint.__mro__ if getattr(base, "_is_protocol", False)]
    methods = [name for base in protocols for name in vars(base) if not name.startswith("_")]

    def offers(value: object) -> bool:
        return not isinstance(value, Mapping) and any(hasattr(value, name) for name in methods)  # dicts have a ``get``

    return f"a {hint.__name__}", offers


def _anything(_: object) -> bool:
    return True


def _noun(kind: Kind) -> str:
    """Its words without the article."""
    return kind[0].partition(" ")[2]


def _whole(value: object) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) is not None  # type: ignore[arg-type]
    except TypeError:
        return False


_PLAIN: dict[object, Kind] = {
    NoneType: ("None", lambda value: value is None),
    bool: ("a bool", lambda value: isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, Real) and not isinstance(value, bool)),
    int: ("a whole number", _whole),
    str: ("a text", lambda value: isinstance(value, str)),
}


def _shown(value: object) -> str:
    said = repr(value)
    short = said if len(said) <= SHOWN_MOST else f"{said[: SHOWN_MOST - 1]}…"
    return short if isinstance(value, str | int | float | bool | NoneType) else f"the {type(value).__name__} {short}"
