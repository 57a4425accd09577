"""Finite state transducers from byte strings to numbers: how full-text indexes store which term has which number.

The layout is that of the ``fst`` crate, versions 1 to 3. A node lies before the byte that its address names and is read
backwards; a transition adds its output to the number of every string that passes it.

Layout: u64 version, u64 type, nodes, u64 number of strings, u64 address of the root, in version 3 a u32 checksum;
numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception class with a lower-case name

from ..errors import ArtifactError

_HEADER = Struct("<QQ")
_FOOTER = Struct("<QQ")
_CHECKSUM_BYTES = {1: 0, 2: 0, 3: 4}
"""By version."""
_COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""Bytes that a node with one transition names by their place here, from 1."""
_INDEXED_FROM = 33
"""From this many transitions on, a node has a table of 256 bytes of where each input is."""
_END = 0
"""Address of the node that only ends strings."""


@dataclass(frozen=True, slots=True)
class _Transition:
    input: int
    output: int
    target: int


@dataclass(frozen=True, slots=True)
class _Node:
    final: bool
    output: int
    """Added where a string ends here."""
    transitions: tuple[_Transition, ...]


def decode(data: bytes, path: str, most: int) -> dict[bytes, int]:
    """Number of each string. Raises `ArtifactError` for bytes that are not such a transducer.

    ``most``: strings that there can be; damaged bytes may otherwise stand for more than memory holds.
    """
    try:
        version, _ = _HEADER.unpack_from(data)
        end = len(data) - _CHECKSUM_BYTES[version] - _FOOTER.size
        count, root = _FOOTER.unpack_from(data, end)
        if count > most:
            raise ValueError(f"it says that it has {count} terms, of at most {most}")
        found = dict(islice(_strings(data[:end], version, root), count + 1))
        if len(found) != count:
            raise ValueError(f"it says that it has {count} terms, and has {len(found)}")
    except (LookupError, ValueError, StructError) as error:
        raise ArtifactError("WRITER-027", path, f"the list of terms is damaged: {error}") from error
    return found


def find(data: bytes, terms: Iterable[bytes], path: str) -> dict[bytes, int]:
    """Numbers of those of ``terms`` that are there; only their nodes are looked at. Raises as `decode` does."""
    try:
        version, _ = _HEADER.unpack_from(data)
        end = len(data) - _CHECKSUM_BYTES[version] - _FOOTER.size
        root = _FOOTER.unpack_from(data, end)[1]
        numbers = {term: _number_of(data[:end], version, root, term) for term in terms}
    except (LookupError, ValueError, StructError) as error:
        raise ArtifactError("WRITER-027", path, f"the list of terms is damaged: {error}") from error
    return {term: number for term, number in numbers.items() if number is not None}


def _number_of(data: bytes, version: int, address: int, term: bytes) -> int | None:
    total = 0
    node = _node(data, version, address)
    for byte in term:
        step = next((each for each in node.transitions if each.input == byte), None)
        if step is None:
            return None
        total += step.output
        node = _node(data, version, step.target)
    return total + node.output if node.final else None


def _strings(data: bytes, version: int, root: int) -> Iterator[tuple[bytes, int]]:
    waiting = [(root, b"", 0)]
    while waiting:
        address, prefix, total = waiting.pop()
        node = _node(data, version, address)
        if not node.final and not node.transitions:
            raise ValueError(f"the node at {address} leads nowhere")
        if node.final:
            yield prefix, total + node.output
        for step in node.transitions:
            if step.target >= address:
                raise ValueError(f"a node at {address} leads to {step.target}")
            waiting.append((step.target, prefix + bytes([step.input]), total + step.output))


def _node(data: bytes, version: int, address: int) -> _Node:
    if address == _END:
        return _Node(True, 0, ())
    state = data[address]
    if state < 0b1000_0000:
        return _many(data, version, address)
    at = address
    if state & 0b11_1111:
        read = _COMMON[(state & 0b11_1111) - 1]
    else:
        at -= 1
        read = data[at]
    if state >= 0b1100_0000:
        return _Node(False, 0, (_Transition(read, 0, at - 1),))
    at -= 1
    target_bytes, output_bytes = data[at] >> 4, data[at] & 15
    end = at - target_bytes - output_bytes
    output = _number(data, end, output_bytes)
    return _Node(False, 0, (_Transition(read, output, _target(data, at - target_bytes, target_bytes, end)),))


def _many(data: bytes, version: int, address: int) -> _Node:
    state, at = data[address], address
    count, final = state & 0b11_1111, bool(state & 0b100_0000)
    if not count:
        at -= 1
        count = 256 if data[at] == 1 else data[at]
    at -= 1
    target_bytes, output_bytes = data[at] >> 4, data[at] & 15
    inputs = at - (256 if version > 1 and count >= _INDEXED_FROM else 0)
    targets = inputs - count
    outputs = targets - count * target_bytes
    last = outputs - count * output_bytes
    end = last - (output_bytes if final else 0)
    steps = tuple(
        _Transition(
            data[inputs - number],
            _number(data, outputs - number * output_bytes, output_bytes),
            _target(data, targets - number * target_bytes, target_bytes, end),
        )
        for number in range(1, count + 1)
    )
    return _Node(final, _number(data, end, output_bytes) if final else 0, steps)


def _number(data: bytes, start: int, size: int) -> int:
    if start < 0:
        raise ValueError("a node begins before the data")
    return int.from_bytes(data[start : start + size], "little")


def _target(data: bytes, start: int, size: int, end: int) -> int:
    """Address of a node, which is stored as the distance to it from the end of this one; 0 is the last node."""
    distance = _number(data, start, size)
    return end - distance if distance else _END
