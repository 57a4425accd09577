"""Errors that say our sentence first: ``[MEMWAL_…] what is wrong and what to do``.

Spark runs a data source in processes of its own, and passes on what they raise as text inside of its own errors. Two
pieces keep the sentence in front. In those processes `sentences` gives every error of the engine a sentence of one line
with its code, and hides the traceback. On the user's side `plain_errors` finds the sentence in what Spark raises, be it
classic or Connect, and raises it alone.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from memwal.errors import MemwalError
from pyspark.errors import AnalysisException, PySparkException

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""Variable of a Spark worker's environment: the process, which ends with an error, reports its text alone."""

_CODE = "[MEMWAL_"
_JAVA = re.compile(r"^(?:: |Caused by: )[\w.$]+: ([^\n]*?)(?: SQLSTATE: \w{5})?$", re.MULTILINE)
"""What an exception of Java's says, which Python has no error of its own for."""
_SENTENCE = re.compile(r"\[MEMWAL_[A-Z_]+\] [^\n]*?(?= SQLSTATE: \w{5}|\n|$)")


def sentence(error: MemwalError) -> str:
    """``error`` in one line that begins with its code: its own, or else the name of its type."""
    text = " ".join(str(error).split())
    start = text.find(_CODE)
    if start >= 0:
        return text[start:]
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()
    return f"{_CODE}{name}] {text}"


@contextmanager
def sentences() -> Iterator[None]:
    """Inside of a data source: what the engine raises leaves as a `PySparkException` with its `sentence`."""
    try:
        yield
    except MemwalError as error:
        if _in_worker():
            os.environ[HIDE_TRACEBACK] = "1"
        raise PySparkException(message=sentence(error)) from error


def _in_worker() -> bool:
    """Whether this is a process of Spark's, which ends when a data source raises; never the user's own."""
    main = sys.modules["__main__"].__spec__
    return main is not None and main.name.startswith("pyspark.")


def said(error: BaseException) -> str:
    """What a person has to know of an error that Spark raised: our sentence in it, else its first line.

    Of an error of Java's, what it says and what its first cause says.
    """
    text = str(error)
    found = _SENTENCE.search(text)
    if found is not None:
        return found[0]
    java = [each.strip() for each in _JAVA.findall(text) if each.strip()]
    if text.startswith("An error occurred while calling ") and java:
        return " ".join(dict.fromkeys([java[0], java[-1]]))
    return text.partition("\n")[0]


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise our sentence alone where Spark's error has one; Spark's error is its ``__context__``.

    For reads, whose errors come when the rows are asked for: ``with memwal_spark.plain_errors(): df.show()``.
    """
    try:
        yield
    except PySparkException as error:
        text = said(error)
        if not text.startswith(_CODE) or str(error) == text:
            raise
        kind = AnalysisException if isinstance(error, AnalysisException) else PySparkException
        raise kind(message=text) from None
