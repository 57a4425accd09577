"""What a suspended coroutine will do next, as a value: two with equal fingerprints continue alike.

A fingerprint holds, for every frame from the protocol's outermost coroutine to the awaited request, the code and the
place in it, all locals, and what is on the frame's stack (iterators of loops, contexts, exceptions being handled), down
to plain values; mutable objects are numbered in the order in which they are met, so that sharing counts. It needs
CPython, whose garbage collector tells what a frame refers to. An object of a kind that is not known here has no
fingerprint, and then neither has the coroutine: nothing is ever taken for equal that may not be.
"""

from __future__ import annotations

import gc
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import PurePath
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
from google.protobuf.message import Message
from memwal.revisions import Interpretation, Revision

from .liveness import live_locals

Fingerprint: TypeAlias = tuple[Any, ...]
"""Nested tuples of plain values, whose text tells all of them."""


class Unknown(Exception):
    """An object of a kind that has no fingerprint."""

    def __init__(self, kind: type) -> None:
        super().__init__(f"{kind.__module__}.{kind.__qualname__}")


def fingerprint(coroutine: Coroutine[Any, Any, Any], *more: object) -> bytes:
    """16 bytes that stand for a suspended coroutine and ``more`` that belongs to it; raises `Unknown`."""
    return blake2b(repr(_Reader().of((coroutine, *more))).encode(), digest_size=16).digest()


_OURS = ("memwal", "memwal_sim", "contextlib")
"""Packages whose objects hold their state in slots and dictionaries, as Python's own code does."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, Decimal, UUID, PurePath, range, slice)
_BY_TEXT = (pa.Schema, pa.Field, pa.DataType)
_CONSTANTS = (Interpretation, Revision)
"""Met in every folder and region, with many fields, and the same few values all the time."""
_ITERABLES: tuple[Iterable[object], ...] = (
    [], (), {}, {}.items(), {}.values(), set(), "", b"", range(0), range(1 << 70), reversed([]), reversed({}),
    enumerate(()), zip(), map(str, ()), filter(None, ()),
)  # fmt: skip


async def _nothing() -> AsyncGenerator[None, None]:
    yield


_STEP = type(_nothing().__anext__())
"""What ``async for`` awaits; it has no name in Python."""
_ITERATORS = tuple({type(iter(each)) for each in _ITERABLES})


@lru_cache
def _constant(value: Interpretation | Revision) -> str:
    return blake2b(repr(value).encode(), digest_size=8).hexdigest()


class _Reader:
    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        self._kept: list[object] = []
        """What was met stays alive, so that no number is given twice."""

    def of(self, value: Any) -> Fingerprint:
        kind = type(value)
        if kind in _PLAIN or isinstance(value, PurePath):
            return (kind.__name__, value)
        if isinstance(value, Enum):
            return ("enum", kind.__qualname__, value.name)
        if kind is tuple:
            return ("tuple", *map(self.of, value))
        if kind is frozenset:
            return ("frozenset", *sorted(map(self.of, value), key=repr))
        if isinstance(value, (type, ModuleType, BuiltinFunctionType, MethodDescriptorType)):
            return self._named(value)
        if isinstance(value, _BY_TEXT):
            return (kind.__name__, _schema_text(value))
        if isinstance(value, _CONSTANTS):
            return (kind.__name__, _constant(value))
        if is_dataclass(value) and kind.__dataclass_params__.frozen:
            return self._fields(value)
        return self._once(value)

    def _once(self, value: Any) -> Fingerprint:
        """A value that has an identity: its number if it was met before."""
        met = self._met.get(id(value))
        if met is not None:
            return ("met", met)
        self._met[id(value)] = len(self._met)
        self._kept.append(value)
        return self._fresh(value)

    def _fresh(self, value: Any) -> Fingerprint:
        kind = type(value)
        if kind in _READERS:
            return _READERS[kind](self, value)
        if is_dataclass(value):
            return self._fields(value)
        for base, read in _BASES:
            if isinstance(value, base):
                return read(self, value)
        if kind.__module__.partition(".")[0] in _OURS:
            return self._object(value)
        if isinstance(value, _ITERATORS):
            return ("iterator", kind.__name__, *map(self.of, value.__reduce__()))
        raise Unknown(kind)

    def _named(self, value: Any) -> Fingerprint:
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, ModuleType):
            return ("builtin", value.__name__, self.of(owner))
        return ("named", getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__))

    def _fields(self, value: Any) -> Fingerprint:
        kind = type(value)
        return (kind.__qualname__, *(self.of(getattr(value, field.name, _UNSET)) for field in fields(value)))

    def _object(self, value: Any) -> Fingerprint:
        """An object of a class of ours: what it has in slots and in its dictionary."""
        kind = type(value)
        slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
        held = {**getattr(value, "__dict__", {}), **{name: getattr(value, name, _UNSET) for name in slots}}
        return (kind.__qualname__, *((name, self.of(each)) for name, each in sorted(held.items())))

    def _items(self, value: Any) -> Fingerprint:
        return (type(value).__name__, *map(self.of, value))

    def _set(self, value: Any) -> Fingerprint:
        return ("set", *sorted(map(self.of, value), key=repr))

    def _mapping(self, value: Mapping[Any, Any]) -> Fingerprint:
        return ("mapping", *((self.of(key), self.of(each)) for key, each in value.items()))

    def _function(self, value: FunctionType) -> Fingerprint:
        """A function is its code and what it closes over; a global one is found by its name."""
        closure = value.__closure__ or ()
        return (
            "function",
            value.__module__,
            value.__qualname__,
            value.__code__.co_firstlineno,
            *map(self.of, closure),
            *map(self.of, value.__defaults__ or ()),
            *map(self.of, (value.__kwdefaults__ or {}).values()),
        )

    def _method(self, value: MethodType) -> Fingerprint:
        return ("method", self.of(value.__func__), self.of(value.__self__))

    def _cell(self, value: CellType) -> Fingerprint:
        try:
            return ("cell", self.of(value.cell_contents))
        except ValueError:
            return ("empty cell",)

    def _partial(self, value: partial[Any]) -> Fingerprint:
        return ("partial", self.of(value.func), self.of(value.args), self._mapping(value.keywords))

    def _coroutine(self, value: CoroutineType[Any, Any, Any]) -> Fingerprint:
        return self._frame(value, value.cr_frame, value.cr_code)

    def _generator(self, value: GeneratorType[Any, Any, Any]) -> Fingerprint:
        return self._frame(value, value.gi_frame, value.gi_code)

    def _async_generator(self, value: AsyncGeneratorType[Any, Any]) -> Fingerprint:
        return self._frame(value, value.ag_frame, value.ag_code)

    def _step(self, value: Any) -> Fingerprint:
        """A step of an asynchronous generator, as ``async for`` awaits it: the generator, and what it was sent."""
        return ("step", *(self.of(each) for each in gc.get_referents(value)))

    def _frame(self, value: Any, frame: FrameType | None, code: CodeType) -> Fingerprint:
        if frame is None:
            return ("ended", code.co_qualname)
        bound = frame.f_locals
        needed = live_locals(code)[frame.f_lasti]
        shared = {*code.co_cellvars, *code.co_freevars}
        return (
            code.co_filename,
            code.co_qualname,
            frame.f_lasti,
            tuple((name, self.of(bound[name])) for name in sorted(bound) if name in needed or name in shared),
            tuple(map(self.of, _stack(value, code, bound))),
        )

    def _array(self, value: Any) -> Fingerprint:
        return ("array", value.dtype.str, value.shape, value.tobytes())

    def _scalar(self, value: Any) -> Fingerprint:
        return ("scalar", value.dtype.str, value.tobytes())

    def _table(self, value: Any) -> Fingerprint:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write(value)
        return (type(value).__name__, sink.getvalue().to_pybytes())

    def _column(self, value: Any) -> Fingerprint:
        return self._table(pa.table({"": value}))

    def _arrow_scalar(self, value: Any) -> Fingerprint:
        return ("arrow", str(value.type), self.of(value.as_py()))

    def _message(self, value: Any) -> Fingerprint:
        return (value.DESCRIPTOR.full_name, value.SerializeToString(deterministic=True))

    def _exception(self, value: BaseException) -> Fingerprint:
        return (type(value).__qualname__, self.of(value.args), self._mapping(vars(value)))

    def _pattern(self, value: re.Pattern[Any]) -> Fingerprint:
        return ("pattern", value.pattern, value.flags)


def _stack(value: Any, code: CodeType, bound: Mapping[str, Any]) -> list[Any]:
    """What is on the stack of a suspended frame, and the exception that it is handling.

    The collector visits code, locals, cells and stack in this order; anything else raises `Unknown`.
    """
    held = gc.get_referents(value)
    begin = max((place for place, each in enumerate(held) if each is code), default=-1) + 1
    plain = [bound[name] for name in code.co_varnames if name in bound and name not in code.co_cellvars]
    cells = len({*code.co_cellvars, *code.co_freevars})
    locals_, stack = held[begin : begin + len(plain) + cells], held[begin + len(plain) + cells :]
    others = [each for each in locals_ if not isinstance(each, CellType)]
    if not begin or len(others) != len(plain) or any(a is not b for a, b in zip(others, plain, strict=True)):
        raise Unknown(type(value))
    return stack


_UNSET = "<unset>"

_READERS: dict[type, Callable[[_Reader, Any], Fingerprint]] = {
    list: _Reader._items,
    deque: _Reader._items,
    bytearray: _Reader._items,
    set: _Reader._set,
    dict: _Reader._mapping,
    MappingProxyType: _Reader._mapping,
    FunctionType: _Reader._function,
    MethodType: _Reader._method,
    CellType: _Reader._cell,
    partial: _Reader._partial,
    CoroutineType: _Reader._coroutine,
    GeneratorType: _Reader._generator,
    AsyncGeneratorType: _Reader._async_generator,
    _STEP: _Reader._step,
    re.Pattern: _Reader._pattern,
    pa.Table: _Reader._table,
    pa.RecordBatch: _Reader._table,
    pa.ChunkedArray: _Reader._column,
}
_BASES: tuple[tuple[type, Callable[[_Reader, Any], Fingerprint]], ...] = (
    (np.ndarray, _Reader._array),
    (np.generic, _Reader._scalar),
    (pa.Array, _Reader._column),
    (pa.Scalar, _Reader._arrow_scalar),
    (Message, _Reader._message),
    (BaseException, _Reader._exception),
)


def _schema_text(value: Any) -> str:
    """Arrow's own text, metadata included."""
    return (
        str(value.to_string(show_field_metadata=True, show_schema_metadata=True))
        if isinstance(value, pa.Schema)
        else f"{value} {value.metadata if isinstance(value, pa.Field) else ''}"
    )
