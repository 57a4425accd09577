"""How a full-text index of the base table cuts text into terms; MemTables and generations do the same.

Terms come from the native package's own tokenizer, under the configuration that the base index stores.
Source: MemWAL revision A, "MemTable Indexing".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .. import paths
from ..clauses import implements
from ..codec import data_file
from ..effects import Io, remembered
from ..errors import ArtifactError, InvalidArgument, NotFound

_TOKENIZER_BYTES = 4096
"""About what a tokenizer takes in memory."""
METADATA_FILE = "metadata.lance"
BASES = ("simple", "whitespace", "raw", "ngram", "icu", "icu/split", "code")
"""Base tokenizers that need no language model on the machine."""

_SETTINGS = (
    "base_tokenizer",
    "language",
    "max_token_length",
    "lower_case",
    "stem",
    "remove_stop_words",
    "custom_stop_words",
    "ascii_folding",
    "min_ngram_length",
    "max_ngram_length",
    "prefix_only",
    "split_identifiers",
    "split_on_numerics",
    "preserve_original",
    "index_operators",
)
"""Stored parameters that decide about terms."""
_LAYOUT = ("with_position", "block_size")
"""Stored parameters that decide about files only."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """The configuration of one full-text index."""

    settings: tuple[tuple[str, str], ...]
    """What decides about terms, by name; values as JSON."""
    layout: tuple[tuple[str, str], ...] = ()
    """What decides about the files, by name; values as JSON."""

    def terms(self, text: str) -> list[str]:
        """The terms of ``text`` in order, repeated ones included."""
        return next(self.terms_of([text]))

    def terms_of(self, texts: Iterable[str | None]) -> Iterator[list[str]]:
        """The terms of each of ``texts``; NULL has none."""
        for placed in self.placed_terms_of(texts):
            yield [term for term, _ in placed]

    @implements("WRITER-026")
    def placed_terms_of(self, texts: Iterable[str | None]) -> Iterator[list[tuple[str, int]]]:
        """The terms of each of ``texts`` with their positions, which count what is left out, too; NULL has none."""
        from lance import tokenize

        settings = _values(self.settings)
        for text in texts:
            yield [] if text is None else [(token.text, token.position) for token in tokenize(text, **settings)]

    @property
    def with_positions(self) -> bool:
        """Whether the index keeps the positions of terms, without which no phrase can be searched for."""
        return dict(self.layout).get("with_position") == "true"

    def options(self) -> dict[str, Any]:
        """Arguments that make the native package build an index like the base's."""
        return _values(self.settings) | _values(self.layout)


def _values(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {name: json.loads(value) for name, value in pairs}


@implements("WRITER-026")
async def load(io: Io, name: str, parts: Sequence[str]) -> Tokenizer:
    """The tokenizer of the full-text index ``name`` of the table at ``io``, whose entries are ``parts``.

    Raises `InvalidArgument` for a tokenizer that needs a language model and for parts that differ, `ArtifactError` for
    files that are damaged or not there.
    """
    found = {await _load_part(io, name, part) for part in parts}
    if len({tokenizer.settings for tokenizer in found}) > 1:
        raise InvalidArgument(f"parts of index {name!r} cut text differently", clause="WRITER-026")
    return min(found, key=lambda tokenizer: tokenizer.layout)


async def _load_part(io: Io, name: str, part: str) -> Tokenizer:
    file = f"{paths.INDICES}/{part}/{METADATA_FILE}"
    what = ("tokenizer", io.path(file), name)
    return await remembered(io, what, partial(_read_part, io, name, file), lambda _: _TOKENIZER_BYTES)


async def _read_part(io: Io, name: str, file: str) -> Tokenizer:
    try:
        data = await io.get(file)
    except NotFound:
        raise ArtifactError("WRITER-026", io.path(file), "the index has no such file") from None
    metadata = data_file.decode(data, io.path(file), clause="WRITER-026").schema.metadata or {}
    return decode(metadata, name, io.path(file))


def decode(metadata: Mapping[bytes, bytes], name: str, path: str) -> Tokenizer:
    """The tokenizer in the schema metadata of an index's metadata file."""
    try:
        params = json.loads(metadata.get(b"params", b""))
        version = int(metadata.get(b"format_version", b"1"))
        settings = tuple((key, json.dumps(params[key])) for key in _SETTINGS if key in params)
        base = params["base_tokenizer"]
    except (ValueError, TypeError, LookupError) as error:
        raise ArtifactError("WRITER-026", path, f"it is not the configuration of a tokenizer: {error}") from error
    if base not in BASES:
        reason = f"index {name!r} has the tokenizer {base!r}; MemTables have {', '.join(BASES)}"
        raise InvalidArgument(reason, clause="WRITER-026")
    layout = tuple((key, json.dumps(params[key])) for key in _LAYOUT if key in params)
    return Tokenizer(settings, (*layout, ("format_version", json.dumps(version))))
