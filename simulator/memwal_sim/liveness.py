"""Which local variables a suspended frame may still read.

A value that is only ever overwritten or forgotten from here on makes no difference. Found by the classical backward
analysis over the bytecode, whose instructions the standard library's `dis` names; what it does not understand is taken
for a read.
"""

from __future__ import annotations

import dis
from functools import cache
from types import CodeType
from typing import Any

_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS", "JUMP_FORWARD", "JUMP_BACKWARD")


@cache
def live_locals(code: CodeType) -> dict[int, frozenset[str]]:
    """Offset of an instruction -> names of the locals that may be read after it, before they are written."""
    instructions = list(dis.get_instructions(code))
    place = {each.offset: number for number, each in enumerate(instructions)}
    handlers = _handlers(code, instructions, place)
    effects = [_effect(each) for each in instructions]
    before = [frozenset[str]()] * (len(instructions) + 1)
    after = [frozenset[str]()] * len(instructions)
    changed = True
    while changed:
        changed = False
        for number in range(len(instructions) - 1, -1, -1):
            each = instructions[number]
            following = set[str]()
            if not each.opname.startswith(_ENDS):
                following |= before[number + 1]
            if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
                following |= before[place[each.argval]]
            for handler in handlers[number]:
                following |= before[handler]
            read, written = effects[number]
            found = frozenset((following - written) | read)
            if handlers[number]:
                # What a handler reads may be read before this instruction has written.
                found |= frozenset().union(*(before[handler] for handler in handlers[number]))
            after[number] = frozenset(following)
            if found != before[number]:
                before[number] = found
                changed = True
    return {each.offset: after[number] for number, each in enumerate(instructions)}


def _handlers(code: CodeType, instructions: list[dis.Instruction], place: dict[int, int]) -> list[list[int]]:
    """Instruction -> the handlers to which an exception in it may go."""
    found: list[list[int]] = [[] for _ in instructions]
    parse: Any = getattr(dis, "_parse_exception_table")  # noqa: B009 - the only reader of it that Python has
    for entry in parse(code):
        for number, each in enumerate(instructions):
            if entry.start <= each.offset < entry.end:
                found[number].append(place[entry.target])
    return found


def _effect(instruction: dis.Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """Locals that an instruction reads, and those that it writes without having read them."""
    name, value = instruction.opname, instruction.argval
    if "FAST" not in name:
        return frozenset(), frozenset()
    names = value if isinstance(value, tuple) else (value,)
    match name:
        case "STORE_FAST" | "STORE_FAST_STORE_FAST" | "DELETE_FAST":
            return frozenset(), frozenset(names)
        case "STORE_FAST_LOAD_FAST":
            return frozenset(names[1:]) - frozenset(names[:1]), frozenset(names[:1])
    return frozenset(names), frozenset()
