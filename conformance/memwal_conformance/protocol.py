"""The adapter protocol: JSON lines, one JSON Schema per message, nine kinds of error.

A request is ``{"id", "message", "params"}``; its reply is ``{"id", "result"}``, or ``{"id", "error"}`` with the
members ``kind`` and ``message``. The schemas under ``schema/`` are the definition; this module loads them, checks both
directions against them, and holds what the harness and the Python adapters share. It knows no implementation.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:  # an adapter is checked by the suite, and does not load this
    from jsonschema_rs import Draft202012Validator, Registry

VERSION = "1"
"""Version of the protocol, answered by ``hello``."""

RevisionName = Literal["A", "B", "R"]
REVISIONS: tuple[RevisionName, ...] = get_args(RevisionName)

ErrorKind = Literal[
    "fenced",
    "conflict",
    "not_found",
    "already_exists",
    "invalid_argument",
    "corrupt",
    "storage",
    "cancelled",
    "internal",
]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
TELLING: frozenset[ErrorKind] = frozenset({"fenced", "conflict", "not_found", "already_exists", "corrupt"})
"""Kinds that say which rule of the protocol stopped a message; the others are of the store, the call or the process."""
ROLES = ("writer", "reader", "merger", "index_builder", "collector")
"""Claiming a role in ``hello`` means answering all its messages."""

Part = Literal["params", "result"]
Json = dict[str, Any]
"""One JSON object."""


class ProtocolViolation(Exception):
    """A message that breaks its schema, or bytes that are not a message; the text says whose and where."""


class AdapterError(Exception):
    """An error reply: ``kind`` is one of `ERROR_KINDS`, ``native`` the implementation's own text, word for word."""

    def __init__(self, kind: ErrorKind, native: str) -> None:
        super().__init__(f"{kind}: {native}")
        self.kind: ErrorKind = kind
        self.native = native


def tells(message: str, error: AdapterError) -> bool:
    """Whether an error that was not due says something of what the message is about, and not only that it was refused.

    What ``eval`` messages are about is their argument, so that *not valid* is an answer there.
    """
    return error.kind in TELLING or (error.kind == "invalid_argument" and message.startswith("eval."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of the protocol, as its schema file describes it."""

    name: str
    """Name on the wire, such as ``writer.put``."""
    role: str
    """A member of `ROLES`, ``capability`` (named in ``hello`` by itself), ``all`` (every adapter answers it), or
    ``base_writer`` (the suite plays it, and no adapter is asked)."""
    description: str
    order: int
    """Place in the documentation."""
    schema: Json
    """The whole schema file."""


@functools.cache
def _files() -> dict[str, Json]:
    folder = resources.files(__package__) / "schema"
    loaded = (json.loads(file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".json"))
    return {schema["title"]: schema for schema in loaded}


@functools.cache
def messages() -> dict[str, Message]:
    """All messages by name, in the order of the documentation."""
    found = [
        Message(
            name=name,
            role=schema["x-role"],
            description=schema["description"],
            order=schema["x-order"],
            schema=schema,
        )
        for name, schema in _files().items()
        if "x-role" in schema
    ]
    return {message.name: message for message in sorted(found, key=lambda m: m.order)}


def roles_of(sent: Iterable[str]) -> tuple[str, ...]:
    """Roles whose messages ``sent`` names, in the order of `ROLES`."""
    found = {messages()[message].role for message in sent}
    return tuple(role for role in ROLES if role in found)


@functools.cache
def validator(reference: str) -> Draft202012Validator:
    """Validator of one definition, such as ``urn:memwal:writer.put#/$defs/params``."""
    from jsonschema_rs import Draft202012Validator

    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": reference}
    return Draft202012Validator(schema, registry=_registry())


@functools.cache
def _registry() -> Registry:
    from jsonschema_rs import Registry

    return Registry([(schema["$id"], schema) for schema in _files().values()])


def schema_file(title: str) -> Json:
    """A schema file by its title: a message, ``types``, ``envelope``, ``case`` or ``scenario``."""
    return _files()[title]


def problem(reference: str, value: object) -> str | None:
    """Why ``value`` does not match the definition: the place and the reason, in one line; None if it does."""
    from memwal.codec import json_schema

    found = json_schema.problem(validator(reference), value)
    if found is None:
        return None
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found.path)
    return f"${place}: {found.reason if len(found.reason) <= 300 else found.reason[:300] + '…'}"


def check(message: str, part: Part, value: object) -> None:
    """Hold the parameters or the result of a message against its schema. Raises `ProtocolViolation`."""
    if message not in messages():
        raise ProtocolViolation(f"there is no message {message!r}")
    wrong = problem(f"urn:memwal:{message}#/$defs/{part}", value)
    if wrong is not None:
        raise ProtocolViolation(f"the schema refuses the {part} of {message} at {wrong}")


def request(number: int, message: str, params: Mapping[str, object]) -> bytes:
    """One request line. Raises `ProtocolViolation` if the harness itself would send what the schema forbids."""
    check(message, "params", params)
    line = json.dumps({"id": str(number), "message": message, "params": params}, allow_nan=False)
    return line.encode() + b"\n"


def reply(line: bytes, number: int, message: str) -> Json:
    """The result in one reply line to request ``number``.

    Raises `AdapterError` for an error reply and `ProtocolViolation` for anything that is not a reply to that request.
    """
    try:
        decoded = json.loads(line)
    except (ValueError, RecursionError):
        text = f"the answer to {message} is not JSON: {shown(line)}; standard output is for replies only"
        raise ProtocolViolation(text) from None
    wrong = problem("urn:memwal:envelope#/$defs/reply", decoded)
    if wrong is not None:
        raise ProtocolViolation(f"the answer to {message} is not a reply: {wrong}")
    if decoded["id"] != str(number):
        raise ProtocolViolation(f"the answer to {message} has id {decoded['id']}, expected {number}")
    if "error" in decoded:
        raise AdapterError(decoded["error"]["kind"], decoded["error"]["message"])
    return accepted(message, decoded["result"])


def accepted(message: str, result: Json) -> Json:
    """The result of a message, held against its schema. Raises `ProtocolViolation`.

    A member that is null where its schema has no null is one that is not there: one rule for all answers.
    """
    if problem(f"urn:memwal:{message}#/$defs/result", result) is not None:
        bare: Json = _without_nulls(result)
        if problem(f"urn:memwal:{message}#/$defs/result", bare) is None:
            return bare
    check(message, "result", result)
    return result


def _without_nulls(value: Any) -> Any:
    """``value`` without members that are null; the values of cells stay."""
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if not isinstance(value, dict) or set(value) == {"t", "v"}:
        return value
    return {name: _without_nulls(each) for name, each in value.items() if each is not None}


def event(line: bytes) -> Json | None:
    """The event in one line of an adapter; None if the line is meant as a reply. Raises `ProtocolViolation`."""
    try:
        decoded = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict) or "id" in decoded or "trace" not in decoded:
        return None
    wrong = problem("urn:memwal:envelope#/$defs/event", decoded)
    if wrong is not None:
        raise ProtocolViolation(f"an event breaks its schema: {wrong}")
    found: Json = decoded["trace"]
    return found


def number_of(line: bytes) -> int | None:
    """The number of the request that one line of an adapter answers; None if it has none."""
    try:
        return int(json.loads(line)["id"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def shown(line: bytes) -> str:
    """The beginning of a line for an error text."""
    text = line[:120].decode("utf-8", "backslashreplace").rstrip("\r\n")
    return json.dumps(text, ensure_ascii=False) + ("…" if len(line) > 120 else "")


def _is_parameter(named: str) -> bool:
    """Whether ``message word`` names a parameter, or one of the kinds that a parameter may be."""
    message, _, word = named.partition(" ")
    return message in messages() and word in set(_words(messages()[message].schema["$defs"]["params"]))


def _words(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _words(each)
    elif isinstance(schema, dict):
        yield from schema.get("properties", ())
        yield from schema.get("enum", [schema["const"]] if "const" in schema else [])
        yield from _words(list(schema.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What an adapter said about itself."""

    implementation: str
    version: str
    revisions: tuple[RevisionName, ...]
    roles: tuple[str, ...]
    capabilities: frozenset[str]
    partial: tuple[str, ...] = ()
    """Messages that are answered of roles that are not claimed as a whole."""
    without: tuple[str, ...] = ()
    """Parameters that are not taken, each as ``message parameter``."""
    helped: tuple[str, ...] = ()
    """What the adapter does for the implementation, a sentence each."""
    looks_as: str = ""
    """How the User-Agent of the adapter's own requests begins; empty if it makes none."""
    lent: tuple[str, ...] = ()
    """Roles that the run has another play, by ``--roles-by``. No adapter says this."""
    unplayed: tuple[str, ...] = ()
    """Messages of these roles that their player cannot answer under a revision, each as ``message revision``."""
    unknown: tuple[str, ...] = ()
    """What ``partial`` and ``without`` name and this suite does not know."""

    @property
    def claimed(self) -> dict[str, str]:
        """Role -> how it is claimed, in words: as a whole or in part."""
        in_part = {role: f"{role} in part" for role in roles_of(self.partial) if role not in self.roles}
        return {role: role for role in self.roles} | in_part

    @staticmethod
    def of(result: Json) -> Hello:
        """From the result of ``hello``."""
        partial, without = sorted(result.get("partial", ())), sorted(result.get("without", ()))
        unknown = [m for m in partial if m not in messages()] + [each for each in without if not _is_parameter(each)]
        return Hello(
            implementation=result["implementation"],
            version=result["version"],
            revisions=tuple(r for r in REVISIONS if r in result["revisions"]),
            roles=tuple(r for r in ROLES if r in result["roles"]),
            capabilities=frozenset(result["capabilities"]),
            partial=tuple(message for message in messages() if message in partial),
            without=tuple(without),
            helped=tuple(result.get("helped", ())),
            looks_as=result.get("looks_as", ""),
            lent=tuple(result.get("lent", ())),
            unknown=tuple(result.get("unknown", unknown)),
        )

    def answers(self, message: str, revision: str = "") -> bool:
        """Whether the implementation claims to answer ``message``, or another does in its place, under ``revision``."""
        if f"{message} {revision}" in self.unplayed:
            return False
        role = messages()[message].role
        if message in self.partial or role in self.lent:
            return True
        return role == "all" or role in self.roles or (role == "capability" and message in self.capabilities)
