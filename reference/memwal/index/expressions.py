"""Free region expressions, computed by DataFusion.

Only a small grammar is accepted (AMB-65): references ``col0``, ``col1``, …, literals, ``+ - * %``, parentheses,
``abs``, ``left``, ``date_part``, ``coalesce``, ``cast``, and the two hash functions. Whatever could read a clock, a
random number or a session setting is outside of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..errors import InvalidArgument
from .hashing import Profile, murmur3, murmur3_multi

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[0-9]+(?:\.[0-9]+)?(?![A-Za-z0-9_])|[A-Za-z_][A-Za-z0-9_]*|[-+*%(),])\s*")
_REFERENCE = re.compile(r"col(0|[1-9][0-9]{0,3})")

_HASHES = ("murmur3", "murmur3_multi")
_FUNCTIONS = {"abs", "left", "date_part", "coalesce", "cast"}
_KEYWORDS = {"as", "null", "true", "false"}
_TYPE_NAMES = {"tinyint", "smallint", "int", "integer", "bigint", "unsigned", "boolean", "date", "decimal", "numeric"}
_TEXT_TYPE_NAMES = {"varchar", "char", "text", "string"}
_WORDS = _FUNCTIONS | _KEYWORDS | _TYPE_NAMES | _TEXT_TYPE_NAMES | set(_HASHES)
_OUTSIDE = {
    **dict.fromkeys(("random", "rand", "uuid", "gen_random_uuid"), ("REGION-019", "is not deterministic")),
    **dict.fromkeys(
        (
            "now",
            "today",
            "current_date",
            "current_time",
            "current_timestamp",
            "localtime",
            "localtimestamp",
            "current_user",
            "session_user",
            "version",
        ),
        ("REGION-020", "reads a clock or a session"),
    ),
}

_TYPES_OF_NULL = (pa.null(), pa.int64(), pa.string(), pa.timestamp("us"))
"""Types that a missing source column is tried with: DataFusion computes some functions for typed NULLs only."""


@implements("REGION-018", "REGION-019", "REGION-020", "AMB-65")
def parse(text: str, sources: int) -> tuple[str, ...]:
    """The tokens of an expression over ``sources`` columns, names in lower case.

    Raises `InvalidArgument` for anything outside of the grammar, naming the clause.
    """
    tokens: list[str] = []
    at = 0
    if "--" in re.sub(r"'(?:[^']|'')*'", "''", text):
        raise InvalidArgument(f"a region expression cannot have comments: {text!r}", clause="AMB-65")
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidArgument(f"cannot parse {text!r} at character {at}", clause="AMB-65")
        tokens.append(found[1] if found[1].startswith("'") else found[1].lower())
        at = found.end()
    if not tokens:
        raise InvalidArgument("a region expression must not be empty", clause="REGION-015")
    for token in tokens:
        if re.match(r"[a-z_]", token) and token not in _WORDS:
            _check_name(token, sources, text)
    return tuple(tokens)


def _check_name(token: str, sources: int, text: str) -> None:
    reference = _REFERENCE.fullmatch(token)
    if reference and int(reference[1]) < sources:
        return
    if reference:
        raise InvalidArgument(f"{text!r} refers to {token} and has {sources} sources", clause="REGION-018")
    clause, reason = _OUTSIDE.get(token, ("AMB-65", "is not part of region expressions"))
    raise InvalidArgument(f"{token!r} in {text!r} {reason}", clause=clause)


@implements("REGION-018", "REGION-022", "REGION-039", "AMB-65")
def evaluate(text: str, columns: Sequence[pa.Array], rows: int, profile: Profile) -> pa.Array:
    """The value of ``text`` for each of ``rows`` rows; ``columns[i]`` is ``col{i}``.

    A column of the null type stands for a missing one. Raises `InvalidArgument` if the expression is outside of the
    grammar, if DataFusion refuses it for these columns or values, and if DataFusion is not installed.
    """
    tokens = parse(text, len(columns))
    tries = _TYPES_OF_NULL if any(pa.types.is_null(c.type) for c in columns) else (pa.null(),)
    refusal: InvalidArgument | None = None
    for kind in tries:
        typed = [pa.nulls(rows, kind) if pa.types.is_null(c.type) else c for c in columns]
        try:
            return _Session(typed, rows, profile, text).value(tokens)
        except InvalidArgument as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def result_type(text: str, sources: Sequence[pa.DataType], profile: Profile) -> pa.DataType:
    """Type of the expression's value over sources of these types. Raises as `evaluate` does."""
    kind: pa.DataType = evaluate(text, [pa.nulls(0, s) for s in sources], 0, profile).type
    return kind


class _Session:
    """One fresh DataFusion session over one table: no state survives an expression."""

    def __init__(self, columns: Sequence[pa.Array], rows: int, profile: Profile, text: str) -> None:
        try:
            import datafusion
        except ImportError as error:
            reason = "region expressions need the package datafusion, a dependency of memwal"
            raise InvalidArgument(reason, clause="AMB-65") from error
        self._datafusion = datafusion
        # One partition: rows come out in the order in which they went in.
        self._context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
        self._text, self._profile, self._functions = text, profile, 0
        # A table needs a column even if the expression has no source; no name in the grammar can refer to this one.
        names = ["row", *(f"col{i}" for i in range(len(columns)))]
        self._table = pa.table([pa.array(np.zeros(rows, np.int8)), *columns], names=names)

    def value(self, tokens: Sequence[str]) -> pa.Array:
        """Value of the expression, one per row, in the layout that tables store."""
        found = self._computed(self._with_functions(tokens), self._table)
        if pa.types.is_string_view(found.type):
            found = found.cast(pa.string())
        elif pa.types.is_binary_view(found.type):
            found = found.cast(pa.binary())
        return found

    def _computed(self, sql: str, table: pa.Table) -> pa.Array:
        with _refusals(self._text):
            frame = self._context.from_arrow(table)
            value = frame.parse_sql_expr(sql).alias("value")
            return frame.select(value).to_arrow_table().column(0).combine_chunks()

    def _with_functions(self, tokens: Sequence[str]) -> str:
        """SQL with each hash call replaced by a function registered for the types of its arguments."""
        sql: list[str] = []
        at = 0
        while at < len(tokens):
            if tokens[at] not in _HASHES:
                sql.append(tokens[at])
                at += 1
                continue
            arguments, end = _arguments(tokens, at + 1, self._text)
            texts = [self._with_functions(argument) for argument in arguments]
            types = [self._computed(text, self._table.slice(0, 0)).type for text in texts]
            sql.append(f"{self._register(tokens[at], types)} ( {' , '.join(texts)} )")
            at = end
        return " ".join(sql)

    def _register(self, name: str, types: Sequence[pa.DataType]) -> str:
        if name == "murmur3" and len(types) != 1:
            raise InvalidArgument(f"murmur3 takes one argument: {self._text!r}", clause="REGION-035")
        self._functions += 1
        unique = f"{name}_{self._functions}"
        function = _function(name, self._profile)
        udf = self._datafusion.udf(function, list(types), pa.int32(), "immutable", unique)
        self._context.register_udf(udf)
        return unique


def _function(name: str, profile: Profile) -> Callable[..., pa.Array]:
    def call(*columns: pa.Array) -> pa.Array:
        # DataFusion passes a constant as one value beside whole columns.
        rows = max(len(column) for column in columns)
        whole = [c if len(c) == rows else c.take(pa.array(np.zeros(rows, np.int64))) for c in columns]
        return murmur3(whole[0], profile) if name == "murmur3" else murmur3_multi(whole, profile)

    return call


def _arguments(tokens: Sequence[str], opening: int, text: str) -> tuple[list[Sequence[str]], int]:
    """The arguments of the call whose parenthesis is at ``opening``, and the position after its end."""
    depth, start = 0, opening + 1
    found: list[Sequence[str]] = []
    for at in range(opening, len(tokens)):
        if tokens[at] == "(":
            depth += 1
        elif tokens[at] == ")":
            depth -= 1
        elif depth == 0:
            break
        if depth == 0 or (depth == 1 and tokens[at] == ","):
            found.append(tokens[start:at])
            start = at + 1
        if depth == 0:
            return found, at + 1
    raise InvalidArgument(f"the hash function in {text!r} needs its arguments in brackets", clause="AMB-65")


@contextmanager
def _refusals(text: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # DataFusion raises the bare class for everything that it refuses, and nothing else does.
        if type(error) is not Exception:
            raise
        reason = str(error).splitlines()[0]
        raise InvalidArgument(f"DataFusion refuses {text!r}: {reason}", clause="REGION-039") from error
