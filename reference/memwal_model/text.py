"""The machine in other notations: plain words for the page, TLA+ and Quint for people who use their own tools.

All three are made from the same terms. The TLA+ module leaves sizes to constants; the Quint module has those of
`memwal_model.states`, so that ``quint run`` can walk through it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from . import state
from .form import Action, Update
from .invariants import INVARIANTS
from .machine import ACTIONS, FIELDS, INITIAL
from .states import SIZES, Setting, Sizes, State, Step, value_of
from .terms import Field, Sort, Term, both

_BINDING = {"implies": 0, "or": 1, "and": 2, "not": 3, "=": 4, "<": 4, "<=": 4, "+": 5, "-": 5}
"""How strongly operations bind what they are applied to."""
_OPPOSITE = {"<": "<=", "<=": "<"}
"""An operation on numbers -> what holds of them, turned round, where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notation:
    """How one language spells what terms are made of; each function gets the parts as text."""

    signs: Mapping[str, str]
    negation: str
    truth: tuple[str, str]
    applied: Callable[[Field, Sequence[str]], str]
    quantified: Callable[[str, Sequence[Term], str], str]
    greatest: Callable[[Term, str], str]
    chosen: Callable[[str, str, str], str]

    sparse: bool = False
    """No brackets but where they are needed."""
    named: Mapping[Term, str] = field(default_factory=dict)
    """Terms that have a name."""

    def of(self, value: Term) -> str:
        """The text of a term; operations are in brackets, unless it is ``sparse``."""
        if value in self.named:
            return self.named[value]
        match value.op:
            case "var":
                return str(value.args[0])
            case "const":
                return self.truth[bool(value.args[0])] if value.sort is Sort.BOOL else str(value.args[0])
            case "field":
                field, *args = value.args
                return self.applied(field, [self.of(each) for each in args])
            case "forall" | "exists":
                bound, body = value.args
                return self.quantified(value.op, bound, self.of(body)) if bound else self.of(body)
            case "greatest":
                return self.greatest(value.args[0], self.of(value.args[1]))
            case "after":
                return f"({self.of(value.args[0])})'"
            case "not" if self.sparse and value.args[0].op in _OPPOSITE:
                left, right = value.args[0].args
                return self.of(Term(_OPPOSITE[value.args[0].op], (right, left), Sort.BOOL))
            case "not":
                return f"{self.negation}{self._inside(value.args[0], 'not')}"
            case "ite":
                return self.chosen(*(self.of(each) for each in value.args))
            case _:
                left, right = (self._inside(each, value.op) for each in value.args)
                written = f"{left} {self.signs[value.op]} {right}"
                return written if self.sparse else f"({written})"

    def _inside(self, value: Term, op: str) -> str:
        """The text of an operand, in brackets where they are needed."""
        text = self.of(value)
        if not self.sparse or value in self.named:
            return f"({text})" if op == "not" else text
        looser = value.op in _BINDING and _BINDING[value.op] <= _BINDING[op] and not value.op == op in ("and", "or")
        return f"({text})" if looser else text


def parts(value: Term) -> tuple[Term, ...]:
    """What a conjunction is made of."""
    if value.op != "and":
        return (value,)
    return (*parts(value.args[0]), *parts(value.args[1]))


def _names(bound: Sequence[Term]) -> str:
    return ", ".join(each.args[0] for each in bound)


PLAIN = Notation(
    signs={"and": "and", "or": "or", "implies": "implies", "=": "=", "<": "<", "<=": "≤", "+": "+", "-": "-"},
    negation="not ",
    truth=("false", "true"),
    applied=lambda field, args: f"{field.name}({', '.join(args)})" if args else field.name,
    quantified=lambda op, bound, body: f"({'for all' if op == 'forall' else 'for some'} {_names(bound)}: {body})",
    greatest=lambda bound, body: f"(the greatest {bound.args[0]} with {body}, else -1)",
    chosen=lambda test, yes, no: f"(if {test} then {yes} else {no})",
    sparse=True,
    named={state.start: "start"},
)


def missing(now: State, step: Step, sizes: Sizes = SIZES) -> Term | None:
    """The first thing that a step needs and that does not hold; None if it can happen."""
    action = ACTIONS[step[0]]
    env = {each.args[0]: value for each, value in zip(action.parameters, step[1], strict=True)}
    failing = (each for each in parts(action.when) if not value_of(each, now, env, sizes=sizes))
    return next(failing, None)


# ---- TLA+


def _domain(sort: Sort) -> str:
    return "".join(word.capitalize() for word in sort.value.split())


def _ranges(bound: Sequence[Term]) -> str:
    return ", ".join(f"{each.args[0]} \\in {_domain(each.sort)}" for each in bound)


_QUANTIFIERS = {"forall": "\\A", "exists": "\\E"}
_TLA_SIGNS = {"and": "/\\", "or": "\\/", "implies": "=>", "=": "=", "<": "<", "<=": "<=", "+": "+", "-": "-"}
TLA = Notation(
    signs=_TLA_SIGNS,
    negation="~",
    truth=("FALSE", "TRUE"),
    applied=lambda field, args: f"{field.name}[{', '.join(args)}]" if args else field.name,
    quantified=lambda op, bound, body: f"({_QUANTIFIERS[op]} {_ranges(bound)} : {body})",
    greatest=lambda bound, body: (
        f"(CHOOSE n \\in {_domain(bound.sort)} \\cup {{-1}} : LET holds_at({bound.args[0]}) == {body} IN "
        f"/\\ n >= 0 => holds_at(n) /\\ \\A {bound.args[0]} \\in {_domain(bound.sort)} : "
        f"holds_at({bound.args[0]}) => {bound.args[0]} <= n)"
    ),
    chosen=lambda test, yes, no: f"(IF {test} THEN {yes} ELSE {no})",
)


def tla() -> str:
    """The machine as a TLA+ module."""
    rigid = [each for each in FIELDS if each.rigid]
    changing = [each for each in FIELDS if not each.rigid]
    sorts = ", ".join(_domain(each) for each in Sort if each is not Sort.BOOL)
    lines = ["---- MODULE MemWAL ----", "EXTENDS Integers", "", f"CONSTANTS {sorts}", ""]
    lines += [f"CONSTANT {each.name}  \\* {each.words}" for each in rigid]
    lines += ["", "VARIABLES", ",\n".join(f"  {each.name}" for each in changing), ""]
    lines += [f"vars == <<{', '.join(each.name for each in changing)}>>", "", "Init =="]
    lines += [f"  /\\ {each.name} = {_tla_function(each, _tla_first(each))}" for each in changing]
    for action in ACTIONS.values():
        lines += ["", f"\\* {action.words}", f"{_head(action)} =="]
        lines += [f"  /\\ {TLA.of(each)}" for each in parts(action.when)]
        lines += [f"  /\\ {each.field.name}' = {_tla_update(each)}" for each in action.updates]
        same = [each.name for each in changing if each not in {update.field for update in action.updates}]
        lines += [f"  /\\ UNCHANGED <<{', '.join(same)}>>"]
    lines += ["", "Next =="]
    for action in ACTIONS.values():
        bound = _ranges(action.parameters)
        chosen = f"\\E {bound} : " if bound else ""
        lines.append(f"  \\/ {chosen}{_head(action)}")
    lines += ["", "Spec == Init /\\ [][Next]_vars"]
    for invariant in INVARIANTS.values():
        name = "".join(word.capitalize() for word in invariant.name.split("_"))
        lines += ["", f"\\* {invariant.words}", f"{name} == {TLA.of(invariant.holds)}"]
    return "\n".join([*lines, "", "====", ""])


def _head(action: Action) -> str:
    name = "".join(word.capitalize() for word in action.name.split("_"))
    return f"{name}({_names(action.parameters)})" if action.parameters else name


def _tla_first(field: Field) -> str:
    if field.name == "bottom":
        return "first"
    if field.name == "retained":
        return "(a1 = 1)"
    return TLA.truth[INITIAL[field]] if field.sort is Sort.BOOL else str(INITIAL[field])


def _tla_function(field: Field, value: str) -> str:
    over = ", ".join(f"a{place} \\in {_domain(sort)}" for place, sort in enumerate(field.over, 1))
    return f"[{over} |-> {value}]" if over else value


def _tla_update(update: Update) -> str:
    names = {each.args[0] for each in update.bound}
    value, same = TLA.of(update.value), []
    if not update.at:
        return value
    lets = []
    for place, at in enumerate(update.at, 1):
        if at.op == "var" and at.args[0] in names:
            lets.append(f"{at.args[0]} == a{place}")
        else:
            same.append(f"a{place} = {TLA.of(at)}")
    if lets:
        value = f"LET {' '.join(lets)} IN {value}"
    old = f"{update.field.name}[{', '.join(f'a{place}' for place in range(1, len(update.at) + 1))}]"
    test = " /\\ ".join(same)
    chosen = f"IF {test} THEN {value} ELSE {old}" if same else value
    return _tla_function(update.field, chosen)


# ---- Quint

_TAKEN = frozenset({"tail", "head", "keys", "fold", "size", "get", "set", "first_"})
"""Names that Quint has for itself."""


def _spelt(name: str) -> str:
    return f"{name}_" if name in _TAKEN else name


def _quint_sort(sort: Sort) -> str:
    return "bool" if sort is Sort.BOOL else "int" if sort.number else "str"


def _key(args: Sequence[str]) -> str:
    return args[0] if len(args) == 1 else f"({', '.join(args)})"


def _quint_applied(field: Field, args: Sequence[str]) -> str:
    if field.rigid:
        return f"{_spelt(field.name)}({', '.join(args)})" if args else _spelt(field.name)
    return f"{_spelt(field.name)}.get({_key(args)})" if args else _spelt(field.name)


def _quint_quantified(op: str, bound: Sequence[Term], body: str) -> str:
    for each in reversed(bound):
        body = f"{each.sort.name}.{op}({each.args[0]} => {body})"
    return body


QUINT = Notation(
    signs={"and": "and", "or": "or", "implies": "implies", "=": "==", "<": "<", "<=": "<=", "+": "+", "-": "-"},
    negation="not",
    truth=("false", "true"),
    applied=_quint_applied,
    quantified=_quint_quantified,
    greatest=lambda bound, body: (
        f"{bound.sort.name}.filter({bound.args[0]} => {body}).fold(-1, (top, each) => if (each > top) each else top)"
    ),
    chosen=lambda test, yes, no: f"(if ({test}) {yes} else {no})",
)


def quint() -> str:
    """The machine as a Quint module, with few processes and small numbers."""
    changing = [each for each in FIELDS if not each.rigid]
    setting = Setting().initial()
    lines = ["module memwal {"]
    for sort, values in SIZES.items():
        listing = ", ".join(str(each) if sort.number else f'"{each}"' for each in values)
        lines.append(f"  pure val {sort.name}: Set[{_quint_sort(sort)}] = Set({listing})")
    for each in FIELDS:
        if each.rigid and not each.over:
            value = QUINT.truth[setting[each.name][()]] if each.sort is Sort.BOOL else str(setting[each.name][()])
            lines += [f"  /// {each.words}", f"  pure val {each.name}: {_quint_sort(each.sort)} = {value}"]
    lines += ['  pure def has(p: int, x: int, k: str): bool = or { k == "k", p % 2 == 1 }']
    for each in changing:
        over = [_quint_sort(sort) for sort in each.over]
        kind = f"{_key(over)} -> {_quint_sort(each.sort)}" if over else _quint_sort(each.sort)
        lines += [f"  /// {each.words}", f"  var {_spelt(each.name)}: {kind}"]
    lines += ["", "  action init = all {"]
    lines += [f"    {_spelt(each.name)}' = {_quint_function(each, _quint_first(each))}," for each in changing]
    lines += ["  }"]
    for action in ACTIONS.values():
        given = ", ".join(f"{each.args[0]}: {_quint_sort(each.sort)}" for each in action.parameters)
        lines += [
            "",
            f"  /// {action.words}",
            f"  action do_{action.name}{f'({given}): bool' if given else ''} = all {{",
        ]
        lines += [f"    {QUINT.of(each)}," for each in parts(action.when)]
        updates = {update.field: update for update in action.updates}
        for each in changing:
            value = _quint_update(updates[each]) if each in updates else _spelt(each.name)
            lines.append(f"    {_spelt(each.name)}' = {value},")
        lines += ["  }"]
    lines += ["", "  action step = any {"]
    for action in ACTIONS.values():
        chosen = "".join(f"nondet {each.args[0]} = {each.sort.name}.oneOf() " for each in action.parameters)
        given = f"({_names(action.parameters)})" if action.parameters else ""
        lines.append(f"    {{ {chosen}do_{action.name}{given} }}," if chosen else f"    do_{action.name},")
    lines += ["  }"]
    for invariant in INVARIANTS.values():
        lines += ["", f"  /// {invariant.words}", f"  val inv_{invariant.name} = {QUINT.of(invariant.holds)}"]
    theorems = both([each.holds for each in INVARIANTS.values() if each.theorem])
    lines += ["", f"  val theorems = {QUINT.of(theorems)}", "}", ""]
    return "\n".join(lines)


def _quint_first(field: Field) -> str:
    if field.name == "bottom":
        return "first"
    if field.name == "retained":
        return "(a1 == 1)"
    return QUINT.truth[INITIAL[field]] if field.sort is Sort.BOOL else str(INITIAL[field])


def _quint_function(field: Field, value: str) -> str:
    if not field.over:
        return value
    if len(field.over) == 1:
        return f"{field.over[0].name}.mapBy(a1 => {value})"
    names = ", ".join(f"a{place}" for place in range(1, len(field.over) + 1))
    return f"tuples({', '.join(sort.name for sort in field.over)}).mapBy((({names})) => {value})"


def _quint_update(update: Update) -> str:
    names = {each.args[0] for each in update.bound}
    value, same, lets = QUINT.of(update.value), [], []
    if not update.at:
        return value
    for place, at in enumerate(update.at, 1):
        if at.op == "var" and at.args[0] in names:
            lets.append(f"val {at.args[0]} = a{place} ")
        else:
            same.append(f"a{place} == {QUINT.of(at)}")
    body = f"{{ {''.join(lets)}{value} }}" if lets else value
    old = f"{_spelt(update.field.name)}.get({_key([f'a{place}' for place in range(1, len(update.at) + 1)])})"
    chosen = f"(if ({' and '.join(same)}) {body} else {old})" if same else body
    return _quint_function(update.field, chosen)
