"""Sentences about what was seen, without what is another in every run: so that equal ones can be told."""

from __future__ import annotations

import re

_PLACE = re.compile(r", /\S+\.rs:[0-9]+:[0-9]+")
"""Where in its own source an implementation raised an error."""
_NAMES = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "REGION"),
    (re.compile(r"[0-9a-fA-F]{8}_gen_[0-9]+"), "GENERATION"),
    (re.compile(r"[01]{64}"), "NAME"),
    (re.compile(r"\{[^{}]*\}"), "…"),
    (re.compile(r"\([^()]*\)"), "…"),
    (re.compile(r"\[[^\[\]]*\]"), "…"),
    (re.compile(r"[0-9]+"), "N"),
)


def without_places(text: str) -> str:
    """A sentence without places in the source of the implementation."""
    return _PLACE.sub("", text)


def without_names(text: str) -> str:
    """A sentence without its numbers, ids and values."""
    text = without_places(text)
    for pattern, word in _NAMES:
        text = pattern.sub(word, text)
    return text
