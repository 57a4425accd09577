"""JSON held against a JSON Schema: whether it matches, and the one thing to tell the person who wrote it.

Of a value that may have several shapes, what is wrong is told of the shape that it comes closest to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from jsonschema_rs import Draft202012Validator, ValidationError, ValidationErrorKind


class Problem(NamedTuple):
    """What is wrong with a value."""

    path: tuple[str | int, ...]
    """Where: keys and positions, from the outermost."""
    reason: str
    """What is wrong there, in a sentence that may be as long as the value."""


def problem(validator: Draft202012Validator, value: object) -> Problem | None:
    """Why ``value``, made of what `json.loads` returns, does not match; None if it does."""
    try:
        if validator.is_valid(value):
            return None
        found = list(validator.iter_errors(value))
    except UnicodeEncodeError:
        return Problem((), "half of a surrogate pair")
    except ValueError:  # over 255 levels, of which no error can be told
        return Problem((), "nested too deep")
    error = _plainest(found)
    while isinstance(error.kind, ValidationErrorKind.OneOfNotValid | ValidationErrorKind.AnyOf):
        whole, shapes = error, error.kind.context
        other = [shape for shape in shapes if not any(_is_of_type(each, whole) for each in shape)]
        if not other and all(len(shape) == 1 for shape in shapes):  # none is closer than another
            kinds = [shape[0].kind for shape in shapes]
            types = [name for kind in kinds if isinstance(kind, ValidationErrorKind.Type) for name in kind.types]
            wanted = " or ".join(map(json.dumps, types))
            return Problem(tuple(whole.instance_path), f"{json.dumps(whole.instance)} is not of type {wanted}")
        error = _plainest(min(other or shapes, key=lambda shape: _distance(shape, whole)))
    return Problem(tuple(error.instance_path), _reason(error))


def _is_of_type(error: ValidationError, whole: ValidationError) -> bool:
    """Whether it says that all of the value has another type."""
    return isinstance(error.kind, ValidationErrorKind.Type) and error.instance_path == whole.instance_path


def _reason(error: ValidationError) -> str:
    if isinstance(error.kind, ValidationErrorKind.Enum):  # the library names two of them
        return f"{json.dumps(error.instance)} is not one of {', '.join(map(json.dumps, error.kind.options))}"
    return error.message


def _plainest(errors: Iterable[ValidationError]) -> ValidationError:
    """The outermost: what is further inside may follow from it."""
    return min(errors, key=lambda error: len(error.instance_path))


def _distance(errors: Iterable[ValidationError], whole: ValidationError) -> tuple[int, int]:
    """How far a value is from a shape: what is wrong with its fields' names, then with their content."""
    outside = inside = 0
    for error in errors:
        if error.instance_path != whole.instance_path:
            inside += 1
        elif isinstance(error.kind, ValidationErrorKind.AdditionalProperties):
            outside += len(error.kind.unexpected)
        else:
            outside += 1
    return outside, inside
